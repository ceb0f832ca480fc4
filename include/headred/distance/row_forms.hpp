// The stable forms of the token-level distances: sums of terms that cannot cancel, used where two rows are close.
#pragma once

#include <headred/numeric/vector_math.hpp>

namespace headred::detail {

/// Sum of the lanes, in a fixed order.
template <int Lanes>
HEADRED_INLINE double lane_sum(const pack<double, Lanes>& x) {
  double sum = 0;
  for (int i = 0; i < Lanes; ++i) sum += x[i];
  return sum;
}

/// sum_k (a_k - b_k)^2 over n entries, n a whole number of packs.
inline double squared_difference(const double* a, const double* b, index_t n) {
  constexpr int lanes = native_lanes<double>;
  using vec = pack<double, lanes>;
  vec sum{};
  for (index_t k = 0; k < n; k += lanes) {
    const vec d = load<vec>(a + k) - load<vec>(b + k);
    sum += d * d;
  }
  return lane_sum<lanes>(sum);
}

/// sum_k m f(t) in nats, m = (p+q)/2, t = |p-q|/(p+q), f(t) = (1+t) log1p(t) + (1-t) log1p(-t): twice the
/// Jensen-Shannon divergence. Every term is >= 0 and 0 only for p = q. Symmetric bit by bit: it sees only the larger and
/// the smaller of the two. Error a few 1e-16 relative for close rows (failures of the usual forms: docs/numerics.md).
inline double jensen_shannon_terms(const double* p, const double* q, index_t n) {
  constexpr int lanes = native_lanes<double>;
  using vec = pack<double, lanes>;
  const vec zero{}, one = broadcast<vec>(1.), tiny = broadcast<vec>(0x1p-1022), quarter = broadcast<vec>(.25);
  vec sum{};
  for (index_t k = 0; k < n; k += lanes) {
    const vec a = load<vec>(p + k), b = load<vec>(q + k);
    const vec high = select_less(a, b, b, a), low = select_less(a, b, a, b);
    const vec total = high + low, m = .5 * total;
    const vec t = select_less(total, tiny, zero, (high - low) / select_less(total, tiny, one, total));
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
    sum += m * select_less(t, quarter, series, logs);
  }
  return lane_sum<lanes>(sum);
}

}  // namespace headred::detail
