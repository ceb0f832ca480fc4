// Double-centred Euclidean distances between the rows of a matrix: what distance correlation is made of.
#pragma once

#include <algorithm>
#include <cmath>

#include <headred/numeric/vector_math.hpp>

namespace headred::detail {

/// Numbers that represent a centred symmetric (tokens, tokens) matrix: its upper triangle, diagonal included.
constexpr index_t centred_entries(index_t tokens) { return tokens * (tokens + 1) / 2; }

/// Sum of products in a fixed order; n a whole number of packs.
inline double inner_product(const double* a, const double* b, index_t n) {
  constexpr int lanes = native_lanes<double>;
  using vec = pack<double, lanes>;
  vec sum{};
  for (index_t k = 0; k < n; k += lanes) sum += load<vec>(a + k) * load<vec>(b + k);
  double total = 0;
  for (int l = 0; l < lanes; ++l) total += sum[l];
  return total;
}

/// a_ij = |x_i - x_j| between rows of map (tokens, keys; keys a whole number of packs, padding zero), double-centred
/// (biased: A_ij = a_ij - rowmean - colmean + mean) or U-centred (unbiased, tokens >= 4: divisors T-2 and (T-1)(T-2),
/// zero diagonal), to a unit vector whose inner products are those of the matrices: entries (i,j), i <= j, row by row,
/// off-diagonal ones times sqrt(2). False, and zeros, if all rows are equal: nothing above rounding is left.
/// scratch: tokens^2 + tokens. Cost tokens^2 keys.
inline bool centred_distances(const double* map, index_t tokens, index_t keys, bool unbiased, double epsilon,
                              double* scratch, double* vector) {
  constexpr int lanes = native_lanes<double>;
  using vec = pack<double, lanes>;
  double* distances = scratch;
  double* mean = scratch + tokens * tokens;
  double size = 0, spread = 0;
  for (index_t i = 0; i < tokens; ++i) {
    const double* x = map + i * keys;
    size += inner_product(x, x, keys);
    distances[i * tokens + i] = 0;
    for (index_t j = i + 1; j < tokens; ++j) {
      const double* y = map + j * keys;
      vec sum{};
      for (index_t k = 0; k < keys; k += lanes) {
        const vec d = load<vec>(x + k) - load<vec>(y + k);
        sum += d * d;
      }
      double squares = 0;
      for (int l = 0; l < lanes; ++l) squares += sum[l];
      spread += squares;
      distances[i * tokens + j] = distances[j * tokens + i] = std::sqrt(squares);
    }
  }
  const double count = static_cast<double>(tokens);
  double whole = 0;
  for (index_t i = 0; i < tokens; ++i) {
    double sum = 0;
    for (index_t j = 0; j < tokens; ++j) sum += distances[i * tokens + j];
    whole += sum;
    mean[i] = sum / (unbiased ? count - 2 : count);
  }
  whole /= unbiased ? (count - 1) * (count - 2) : count * count;

  // sum over pairs |x_i - x_j|^2 = T |Xc|_F^2: the rule for "all rows equal" is that of the centred matrix
  const index_t entries = centred_entries(tokens);
  if (std::sqrt(spread / count) <= 16 * epsilon * std::sqrt(count * size)) {
    std::fill(vector, vector + entries, 0.0);
    return false;
  }
  double squares = 0;
  index_t at = 0;
  for (index_t i = 0; i < tokens; ++i) {
    for (index_t j = i; j < tokens; ++j) {
      double value = distances[i * tokens + j] - mean[i] - mean[j] + whole;
      if (i == j) {
        value = unbiased ? 0 : value;
      } else {
        value *= 1.41421356237309504880;
      }
      squares += value * value;
      vector[at++] = value;
    }
  }
  const double norm = std::sqrt(squares);
  if (!(norm > 0)) {
    std::fill(vector, vector + entries, 0.0);
    return false;
  }
  for (index_t k = 0; k < entries; ++k) vector[k] /= norm;
  return true;
}

}  // namespace headred::detail
