// Double-centred Euclidean distances between the rows of a matrix: what distance correlation is made of.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include <headred/core/grow_buffer.hpp>
#include <headred/numeric/pair_tiles.hpp>
#include <headred/numeric/vector_loops.hpp>
#include <headred/simd/lane_total.hpp>
#include <headred/simd/transpose.hpp>

namespace headred::detail {

/// Columns of row i start here in a centred vector: at the pack that holds the diagonal.
inline constexpr index_t centred_unit = 8;
constexpr index_t centred_begin(index_t i) { return i / centred_unit * centred_unit; }

/// Length of the vector that represents a centred symmetric (tokens, tokens) matrix: row i from centred_begin(i) to the
/// end, padded to whole units; entries below the diagonal and of the padding are zero.
constexpr index_t centred_entries(index_t tokens) {
  const index_t padded = (tokens + centred_unit - 1) / centred_unit * centred_unit;
  index_t entries = 0;
  for (index_t i = 0; i < tokens; i += centred_unit)
    entries += (tokens - i < centred_unit ? tokens - i : centred_unit) * (padded - i);
  return entries;
}

/// Scratch of centred_distances.
template <class Real>
struct centred_scratch {
  grow_buffer<Real> slab, distances;
  grow_buffer<double> mean;

  void reserve(index_t tokens, index_t keys) {
    const index_t columns = slab_columns<Real>(tokens);
    slab.get(keys * columns);
    distances.get(columns * columns);
    mean.get(2 * columns);
  }
};

/// Writes the roots of squared distances above the diagonal and zeros elsewhere to out (columns, columns), and adds up the
/// squares.
template <class T, int Lanes>
struct root_values {
  using vec = pack<T, Lanes>;
  T* out;
  index_t columns, tokens;
  vec squares{}, lane{};

  root_values(T* out_, index_t columns_, index_t tokens_) : out(out_), columns(columns_), tokens(tokens_) {
    for (int l = 0; l < Lanes; ++l) lane[l] = static_cast<T>(l);
  }
  template <int Rows, int Packs>
  HEADRED_INLINE void take(index_t i, index_t j, index_t, const T* total) {
    const bool partial = j < i + Rows || j + Packs * Lanes > tokens;
    const vec zero{};
    for (int r = 0; r < Rows; ++r)
      for (int c = 0; c < Packs; ++c) {
        vec x = load<vec>(total + (r * Packs + c) * Lanes);
        if (partial) {
          const index_t from = j + c * Lanes;
          const vec diagonal = broadcast<vec>(static_cast<T>(std::clamp<index_t>(i + r - from, -1, Lanes)));
          const vec end = broadcast<vec>(static_cast<T>(std::clamp<index_t>(tokens - from, 0, Lanes)));
          x = select_less(diagonal, lane, select_less(lane, end, x, zero), zero);
        }
        squares += x;
        store(out + (i + r) * columns + j + c * Lanes, sqrt_of<Lanes>(x));
      }
  }
  template <int, int>
  void done(index_t, index_t) const {}
};

/// a_ij = |x_i - x_j| between rows of a map, double-centred (biased: A_ij = a_ij - rowmean - colmean + mean) or U-centred
/// (unbiased, tokens >= 4: divisors T-2 and (T-1)(T-2), zero diagonal), to a unit vector whose inner products are those of the
/// matrices: entries (i,j), i <= j, off-diagonal ones times sqrt(2); layout as centred_entries says. False, and zeros, if
/// nothing above rounding is left: all rows are equal or, U-centred, all their distances.
/// scratch.slab holds the map's transpose (keys, slab_columns(tokens)), zero beyond `tokens`; size = |map|_F^2.
/// Cost tokens^2 keys / 2 differences, squared.
template <class Real>
bool centred_slab(index_t tokens, index_t keys, double size, bool unbiased, centred_scratch<Real>& scratch,
                  Real* vector) {
  constexpr int lanes = native_lanes<double>;  // rows are walked in double, in packs of as many
  static_assert(centred_unit % lanes == 0);
  using doubles = pack<double, lanes>;
  constexpr double epsilon = static_cast<double>(std::numeric_limits<Real>::epsilon());
  const index_t columns = slab_columns<Real>(tokens), end = padded<Real, centred_unit>(tokens);
  Real* distances = scratch.distances.get(columns * columns);
  double* mean = scratch.mean.get(2 * columns);
  double* row_sum = mean + columns;
  root_values<Real, native_lanes<Real>> roots(distances, columns, tokens);
  walk_pair_tiles<difference_terms, Real>(scratch.slab.get(keys * columns), nullptr, 1, keys, columns, tokens, roots);
  const double spread = static_cast<double>(lane_total<Real, native_lanes<Real>>(roots.squares));

  std::fill(mean, mean + columns, 0.0);
  for (index_t i = 0; i < tokens; ++i) {
    Real* row = distances + i * columns;
    if constexpr (native_lanes<Real> < centred_unit) std::fill(row + centred_begin(i), row + i + 1, Real(0));
    doubles sum{};
    for (index_t j = centred_begin(i); j < end; j += lanes) {
      const doubles d = load_converted<doubles>(row + j);
      sum += d;
      store(mean + j, load<doubles>(mean + j) + d);
    }
    row_sum[i] = lane_total<double, lanes>(sum);
  }
  const double count = static_cast<double>(tokens);
  double whole = 0;
  for (index_t i = 0; i < tokens; ++i) {
    mean[i] += row_sum[i];
    whole += mean[i];
    mean[i] /= unbiased ? count - 2 : count;
  }
  whole /= unbiased ? (count - 1) * (count - 2) : count * count;

  const index_t entries = centred_entries(tokens);
  // sum over pairs |x_i - x_j|^2 = T |Xc|_F^2: the rule for "all rows equal" is that of the centred matrix
  if (std::sqrt(spread / count) <= 16 * epsilon * std::sqrt(count * size)) {
    std::fill(vector, vector + entries, Real(0));
    return false;
  }
  const doubles zero{};
  doubles lane{}, length{};
  for (int l = 0; l < lanes; ++l) lane[l] = l;
  Real* to = vector;
  for (index_t i = 0; i < tokens; ++i) {
    const index_t begin = centred_begin(i);
    const Real* row = distances + i * columns;
    const double shift = whole - mean[i];
    const doubles own = broadcast<doubles>(unbiased ? 0 : shift - mean[i]);
    for (index_t j = begin; j < end; j += lanes) {
      doubles x = (load_converted<doubles>(row + j) - load<doubles>(mean + j) + shift) * 1.41421356237309504880;
      if (j < begin + centred_unit) {  // the diagonal, and what is before it
        const doubles at = broadcast<doubles>(static_cast<double>(i - j));
        x = select_less(at, lane, x, select_less(lane, at, zero, own));
      }
      if (j + lanes > tokens) x = select_less(lane, broadcast<doubles>(static_cast<double>(tokens - j)), x, zero);
      store_converted(to + j - begin, x);
      length += x * x;
    }
    to += end - begin;
  }
  // distances that are all equal (each row one-hot on a key of its own) leave nothing after U-centring
  const double norm = std::sqrt(lane_total<double, lanes>(length));
  if (!(norm > 16 * epsilon * std::sqrt(count * 2 * spread))) {
    std::fill(vector, vector + entries, Real(0));
    return false;
  }
  const Real unit = static_cast<Real>(1 / norm);
  for (index_t k = 0; k < entries; ++k) vector[k] *= unit;
  return true;
}

/// The same of a map (tokens, keys).
template <class Real>
bool centred_distances(const Real* map, index_t tokens, index_t keys, bool unbiased, centred_scratch<Real>& scratch,
                       Real* vector) {
  const index_t columns = slab_columns<Real>(tokens);
  transpose(map, keys, tokens, keys, scratch.slab.get(keys * columns), columns);
  return centred_slab(tokens, keys, squared_length(map, tokens * keys), unbiased, scratch, vector);
}

/// A map as it was given: rows (tokens, keys; keys a whole number of packs, padding zero) and their sums, 1 for a row of
/// zeros (whose entries then are what they are). Its normalised rows are x_i = row_i / sum_i.
struct raw_map {
  const double* rows;
  const double* sums;
  bool has_zero_row;

  /// sum_j - sum_i, from what the entries differ by.
  double change(index_t i, index_t j, index_t keys) const {
    if (has_zero_row) return sums[j] - sums[i];
    using vec = pack<double, native_lanes<double>>;
    vec sum{};
    for (index_t k = 0; k < keys; k += native_lanes<double>)
      sum += load<vec>(rows + j * keys + k) - load<vec>(rows + i * keys + k);
    return lane_total<double, native_lanes<double>>(sum);
  }
};

/// Double- or U-centres m (tokens, tokens), symmetric with a zero diagonal. mean: tokens.
inline void centre_distances(double* m, index_t tokens, bool unbiased, double* mean) {
  const double count = static_cast<double>(tokens);
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

/// For two maps that are close: |A^ - B^|^2 / 2 of the unit vectors that centred_distances makes of them, from what the
/// maps differ by, so that its relative error stays small however close they are (the vectors themselves carry 1e-16 of
/// rounding each), also where rows of one map hardly differ from each other. difference = X - Y, normalised.
///   |u| - |v| = (u - v).(u + v) / (|u| + |v|),  u = x_i - x_j, v = y_i - y_j
///   x_i - x_j = ((row_i - row_j) + row_j (sum_j - sum_i) / sum_j) / sum_i
/// Maps whose |A| and |B| differ by a third or more are no more alike than their unit vectors: those are subtracted.
/// Neither map may leave nothing. scratch: 2 tokens^2 + 2 tokens. Cost tokens^2 keys.
inline double centred_residual(const double* difference, const raw_map& x, const raw_map& y, index_t tokens,
                               index_t keys, bool unbiased, double* scratch) {
  constexpr int lanes = native_lanes<double>;
  using vec = pack<double, lanes>;
  const index_t squares = tokens * tokens;
  double* const first = scratch;  // |u|, then A;  |u| - |v|, then A - B
  double* const second = first + squares;
  double* const mean = second + squares;
  // to(|u|, |v|, (u - v).(u + v)) for all i < j makes of the first two what is centred
  const auto for_pairs = [&](const auto& to) {
    for (index_t i = 0; i < tokens; ++i) {
      first[i * tokens + i] = second[i * tokens + i] = 0;
      const vec x_unit = broadcast<vec>(1 / x.sums[i]), y_unit = broadcast<vec>(1 / y.sums[i]);
      for (index_t j = i + 1; j < tokens; ++j) {
        const vec x_change = broadcast<vec>(x.change(i, j, keys) / x.sums[j]),
                  y_change = broadcast<vec>(y.change(i, j, keys) / y.sums[j]);
        vec both{}, u2{}, v2{};
        for (index_t k = 0; k < keys; k += lanes) {
          const vec d = load<vec>(difference + i * keys + k) - load<vec>(difference + j * keys + k);
          const vec xj = load<vec>(x.rows + j * keys + k), yj = load<vec>(y.rows + j * keys + k);
          const vec u = ((load<vec>(x.rows + i * keys + k) - xj) + xj * x_change) * x_unit;
          const vec v = ((load<vec>(y.rows + i * keys + k) - yj) + yj * y_change) * y_unit;
          both += d * (u + v);
          u2 += u * u;
          v2 += v * v;
        }
        double p = std::sqrt(lane_total<double, lanes>(u2)), q = std::sqrt(lane_total<double, lanes>(v2));
        to(p, q, lane_total<double, lanes>(both));
        first[i * tokens + j] = first[j * tokens + i] = p;
        second[i * tokens + j] = second[j * tokens + i] = q;
      }
    }
    centre_distances(first, tokens, unbiased, mean);
    centre_distances(second, tokens, unbiased, mean);
  };
  for_pairs([](double&, double&, double) {});
  double a = 0, b = 0;
  for (index_t i = 0; i < squares; ++i) {
    a += first[i] * first[i];
    b += second[i] * second[i];
  }
  a = std::sqrt(a);
  b = std::sqrt(b);
  double sum = 0;
  if (std::abs(a - b) > .15 * (a + b)) {
    for (index_t i = 0; i < squares; ++i) {
      const double d = first[i] / a - second[i] / b;
      sum += d * d;
    }
    return .5 * sum;
  }
  for_pairs([](double& p, double& q, double both) {
    const double size = p + q;
    p = size > 0 ? both / size : 0;
    q = size;
  });
  // |B| - |A| = -(A - B).(A + B) / (|A| + |B|)
  double product = 0;
  for (index_t i = 0; i < squares; ++i) product += first[i] * second[i];
  const double shift = -product / (a + b);
  for (index_t i = 0; i < squares; ++i) {
    const double d = first[i] * (a + b) + second[i] * shift;
    sum += d * d;
  }
  return .5 * sum / (4 * (a * b) * (a * b));
}

}  // namespace headred::detail
