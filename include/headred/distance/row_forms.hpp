// The stable forms of the token-level distances: sums of terms that cannot cancel, used where two rows are close.
#pragma once

#include <cmath>

#include <headred/numeric/vector_loops.hpp>
#include <headred/numeric/vector_math.hpp>

namespace headred::detail {

/// A row as it was given, and what brings it to the scale of its distance: (x - shift) / scale. Close rows are compared in
/// this form: dividing first would round each entry, and for rows that differ by 1e-9 that is 1e-7 of the difference.
struct scaled_row {
  const double* x;  // padded to whole packs with `shift`
  double shift, scale;
};

/// What a row is divided by: its sum, its length, or its length after its mean was taken away.
enum class row_scale { sum, length, centred_length };

/// The same for rows whose scales differ so much that p - q does not gain from the rows' difference: p and q are formed
/// first, their means taken away once more where a mean was.
template <row_scale Scale, class Term>
double apart_sum(const scaled_row& a, const scaled_row& b, index_t keys, const Term& term) {
  constexpr int lanes = native_lanes<double>;
  using vec = pack<double, lanes>;
  double left_shift = 0, right_shift = 0;
  if constexpr (Scale == row_scale::centred_length) {
    vec left{}, right{};
    for (index_t k = 0; k < keys; k += lanes) {
      left += load<vec>(a.x + k) - a.shift;
      right += load<vec>(b.x + k) - b.shift;
    }
    left_shift = lane_sum<lanes>(left) / static_cast<double>(keys);
    right_shift = lane_sum<lanes>(right) / static_cast<double>(keys);
  }
  vec sum{};
  for (index_t k = 0; k < keys; k += lanes) {
    const vec p = ((load<vec>(a.x + k) - a.shift) - left_shift) / a.scale;
    const vec q = ((load<vec>(b.x + k) - b.shift) - right_shift) / b.scale;
    sum += term(p - q, p + q, p * q);
  }
  return lane_sum<lanes>(sum);
}

/// sum_k term(p - q, p + q, p q) for p = (x - shift) / scale of row a and q that of row b (p q for shifts of 0 only). What
/// the rows' shifts and scales differ by is summed from the differences of their entries, so that p - q has their relative
/// accuracy. An exchange of the rows changes the sign of p - q and nothing else, bit by bit; rows with identical bits have
/// p - q = 0.
template <row_scale Scale, class Term>
HEADRED_INLINE double pair_sum(const scaled_row& a, const scaled_row& b, index_t keys, const Term& term) {
  if constexpr (Scale != row_scale::sum)
    if (std::abs(a.scale - b.scale) > .1 * (a.scale + b.scale)) return apart_sum<Scale>(a, b, keys, term);
  constexpr int lanes = native_lanes<double>;
  using vec = pack<double, lanes>;
  double shifts = a.shift - b.shift;
  const double shift_sum = a.shift + b.shift;
  vec change{}, square_change{};
  for (index_t k = 0; k < keys; k += lanes) {
    const vec x = load<vec>(a.x + k), y = load<vec>(b.x + k), u = (x - y) - shifts;
    change += u;
    square_change += u * ((x + y) - shift_sum);
  }
  const double mean = .5 * (a.scale + b.scale), unit = 1 / (a.scale * b.scale);
  double half = 0;  // half of what b's scale exceeds a's by
  if constexpr (Scale == row_scale::sum) {
    half = -.5 * lane_sum<lanes>(change);
  } else {
    half = -.25 * lane_sum<lanes>(square_change) / mean;
  }
  if constexpr (Scale == row_scale::centred_length) shifts += lane_sum<lanes>(change) / static_cast<double>(keys);
  vec sum{};
  for (index_t k = 0; k < keys; k += lanes) {
    const vec x = load<vec>(a.x + k), y = load<vec>(b.x + k);
    const vec u = (x - y) - shifts, v = (x + y) - shift_sum;
    sum += term((u * mean + v * half) * unit, (v * mean + u * half) * unit, x * y * unit);
  }
  return lane_sum<lanes>(sum);
}

/// sum_k (p - q)^2.
template <row_scale Scale>
double squared_difference(const scaled_row& a, const scaled_row& b, index_t keys) {
  using vec = pack<double, native_lanes<double>>;
  return pair_sum<Scale>(a, b, keys,
                         [](const vec& difference, const vec&, const vec&) { return difference * difference; });
}

/// sum_k (sqrt p - sqrt q)^2 as (p - q)^2 / (p + q + 2 sqrt(p q)).
inline double squared_root_difference(const scaled_row& a, const scaled_row& b, index_t keys) {
  constexpr int lanes = native_lanes<double>;
  using vec = pack<double, lanes>;
  const vec zero{}, tiny = broadcast<vec>(0x1p-1022);
  return pair_sum<row_scale::sum>(a, b, keys, [&](const vec& difference, const vec& total, const vec& product) {
    const vec divisor = total + 2. * sqrt_of<lanes>(product);
    // for a tiny total the quotient is discarded, whatever it is
    return select_less(total, tiny, zero, difference * (difference / divisor));
  });
}

/// sum_k m f(t) in nats, m = (p+q)/2, t = |p-q|/(p+q), f(t) = (1+t) log1p(t) + (1-t) log1p(-t): twice the
/// Jensen-Shannon divergence. Every term is >= 0 and 0 only for p = q. Error a few 1e-16 relative for close rows
/// (failures of the usual forms: docs/numerics.md).
inline double jensen_shannon_terms(const scaled_row& a, const scaled_row& b, index_t keys) {
  constexpr int lanes = native_lanes<double>;
  using vec = pack<double, lanes>;
  const vec zero{}, one = broadcast<vec>(1.), tiny = broadcast<vec>(0x1p-1022), quarter = broadcast<vec>(.25);
  return pair_sum<row_scale::sum>(a, b, keys, [&](const vec& difference, const vec& total, const vec&) {
    const vec size = select_less(difference, zero, -difference, difference);
    const vec ratio = select_less(total, tiny, zero, size / select_less(total, tiny, one, total));
    const vec t = select_less(one, ratio, one, ratio);
    // f(t) = sum_k t^2k / (k (2k-1)), to 1e-17 for t < 1/4
    const vec u = t * t;
    vec series = broadcast<vec>(1. / (13 * 25));
    series = series * u + 1. / (12 * 23);
    series = series * u + 1. / (11 * 21);
    series = series * u + 1. / (10 * 19);
    series = series * u + 1. / (9 * 17);
    series = series * u + 1. / (8 * 15);
    series = series * u + 1. / (7 * 13);
    series = series * u + 1. / (6 * 11);
    series = series * u + 1. / (5 * 9);
    series = series * u + 1. / (4 * 7);
    series = series * u + 1. / (3 * 5);
    series = series * u + 1. / (2 * 3);
    series = series * u + 1.;
    series = series * u;
    const vec up = 1. + t, down = 1. - t;
    const vec logs = (up * log2_of<lanes>(up) + down * log2_of<lanes>(down)) * 0.69314718055994530942;
    return .5 * total * select_less(t, quarter, series, logs);
  });
}

}  // namespace headred::detail
