// Double-centred Euclidean distances between the rows of a matrix: what distance correlation is made of.
#pragma once

#include <algorithm>
#include <cmath>

#include <headred/numeric/vector_loops.hpp>

namespace headred::detail {

/// Numbers that represent a centred symmetric (tokens, tokens) matrix: its upper triangle, diagonal included.
constexpr index_t centred_entries(index_t tokens) { return tokens * (tokens + 1) / 2; }

/// a_ij = |x_i - x_j| between rows of map (tokens, keys; keys a whole number of packs, padding zero), double-centred
/// (biased: A_ij = a_ij - rowmean - colmean + mean) or U-centred (unbiased, tokens >= 4: divisors T-2 and (T-1)(T-2),
/// zero diagonal), to a unit vector whose inner products are those of the matrices: entries (i,j), i <= j, row by row,
/// off-diagonal ones times sqrt(2). False, and zeros, if nothing above rounding is left: all rows are equal or, U-centred,
/// all their distances.
/// scratch: tokens^2 + tokens. Cost tokens^2 keys.
inline bool centred_distances(const double* map, index_t tokens, index_t keys, bool unbiased, double epsilon,
                              double* scratch, double* vector) {
  constexpr int lanes = native_lanes<double>;
  using vec = pack<double, lanes>;
  double* distances = scratch;
  double* mean = scratch + tokens * tokens;
  double size = 0, spread = 0;
  std::fill(mean, mean + tokens, 0.0);
  for (index_t i = 0; i < tokens; ++i) {
    const double* x = map + i * keys;
    size += inner_product(x, x, keys);
    distances[i * tokens + i] = 0;
    // several rows at once: their sums do not wait for each other
    const auto rows = [&]<int Count>(index_t j) {
      vec sum[Count]{};
      for (index_t k = 0; k < keys; k += lanes) {
        const vec xk = load<vec>(x + k);
        for (int b = 0; b < Count; ++b) {
          const vec d = xk - load<vec>(map + (j + b) * keys + k);
          sum[b] += d * d;
        }
      }
      for (int b = 0; b < Count; ++b) {
        double squares = 0;
        for (int l = 0; l < lanes; ++l) squares += sum[b][l];
        spread += squares;
        const double d = std::sqrt(squares);
        distances[i * tokens + j + b] = d;  // above the diagonal only
        mean[i] += d;
        mean[j + b] += d;
      }
    };
    constexpr int block = 8;
    index_t j = i + 1;
    for (; j + block <= tokens; j += block) rows.template operator()<block>(j);
    for (; j < tokens; ++j) rows.template operator()<1>(j);
  }
  const double count = static_cast<double>(tokens);
  double whole = 0;
  for (index_t i = 0; i < tokens; ++i) {
    whole += mean[i];
    mean[i] /= unbiased ? count - 2 : count;
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
  // distances that are all equal (each row one-hot on a key of its own) leave nothing after U-centring
  const double norm = std::sqrt(squares);
  if (!(norm > 16 * epsilon * std::sqrt(count * 2 * spread))) {
    std::fill(vector, vector + entries, 0.0);
    return false;
  }
  for (index_t k = 0; k < entries; ++k) vector[k] /= norm;
  return true;
}

/// For two maps that are close: |A^ - B^|^2 / 2 of the unit vectors that centred_distances makes of them, from what the
/// maps differ by, so that its relative error stays a few 1e-15 however close they are (the vectors themselves carry 1e-16
/// of rounding each). difference = X - Y and total = X + Y: (tokens, keys; keys a whole number of packs, padding zero).
///   |u| - |v| = (u - v).(u + v) / (|u| + |v|),  u = x_i - x_j, v = y_i - y_j
/// Neither map may leave nothing. scratch: 2 tokens^2 + 2 tokens. Cost tokens^2 keys.
inline double centred_residual(const double* difference, const double* total, index_t tokens, index_t keys,
                               bool unbiased, double* scratch) {
  constexpr int lanes = native_lanes<double>;
  using vec = pack<double, lanes>;
  double* minus = scratch;                 // |u| - |v|, then A - B
  double* plus = minus + tokens * tokens;  // |u| + |v|, then A + B
  double* mean = plus + tokens * tokens;
  for (index_t i = 0; i < tokens; ++i) {
    minus[i * tokens + i] = plus[i * tokens + i] = 0;
    for (index_t j = i + 1; j < tokens; ++j) {
      vec both{}, u2{}, v2{};
      for (index_t k = 0; k < keys; k += lanes) {
        const vec d = load<vec>(difference + i * keys + k) - load<vec>(difference + j * keys + k);
        const vec t = load<vec>(total + i * keys + k) - load<vec>(total + j * keys + k);
        both += d * t;
        u2 += (t + d) * (t + d);
        v2 += (t - d) * (t - d);
      }
      double sums[3] = {0, 0, 0};
      for (int l = 0; l < lanes; ++l) {
        sums[0] += both[l];
        sums[1] += u2[l];
        sums[2] += v2[l];
      }
      const double size = .5 * (std::sqrt(sums[1]) + std::sqrt(sums[2]));
      plus[i * tokens + j] = plus[j * tokens + i] = size;
      minus[i * tokens + j] = minus[j * tokens + i] = size > 0 ? sums[0] / size : 0;
    }
  }
  const double count = static_cast<double>(tokens);
  for (double* m : {minus, plus}) {
    double whole = 0;
    for (index_t i = 0; i < tokens; ++i) {
      double sum = 0;
      for (index_t j = 0; j < tokens; ++j) sum += m[i * tokens + j];
      whole += sum;
      mean[i] = sum / (unbiased ? count - 2 : count);
    }
    whole /= unbiased ? (count - 1) * (count - 2) : count * count;
    for (index_t i = 0; i < tokens; ++i)
      for (index_t j = 0; j < tokens; ++j)
        m[i * tokens + j] = unbiased && i == j ? 0 : m[i * tokens + j] - mean[i] - mean[j] + whole;
  }
  double minus2 = 0, plus2 = 0, product = 0;
  for (index_t i = 0; i < tokens * tokens; ++i) {
    minus2 += minus[i] * minus[i];
    plus2 += plus[i] * plus[i];
    product += minus[i] * plus[i];
  }
  // 4 |A|^2 = |(A + B) + (A - B)|^2, and |B| - |A| = -(A - B).(A + B) / (|A| + |B|)
  const double a = .5 * std::sqrt(plus2 + 2 * product + minus2), b = .5 * std::sqrt(plus2 - 2 * product + minus2);
  const double shift = -product / (a + b);
  double squares = 0;
  for (index_t i = 0; i < tokens * tokens; ++i) {
    const double d = minus[i] * (a + b) + plus[i] * shift;
    squares += d * d;
  }
  return .5 * squares / (4 * (a * b) * (a * b));
}

}  // namespace headred::detail
