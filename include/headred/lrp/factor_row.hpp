// factor_row: the factors of many outputs at once, by the signs of their contributions or by their sums.
#pragma once

#include <headred/lrp/rule_policies.hpp>
#include <headred/simd/partial_pack.hpp>

namespace headred::detail {

/// f(get, put, i) for i = 0, lanes, ... below n: get(p) is a pack of p's entries from i on, zeros from n on; put(p, pack)
/// writes those below n.
template <class T, class F>
HEADRED_INLINE void in_packs(index_t n, const F& f) {
  constexpr index_t lanes = native_lanes<T>;
  using vec = pack<T, lanes>;
  index_t i = 0;
  for (; i + lanes <= n; i += lanes)
    f([i](const T* p) { return load<vec>(p + i); }, [i](T* p, const vec& v) { store(p + i, v); });
  if (i < n)
    f([i, n](const T* p) { return load_part<vec>(p + i, n - i, T(0)); },
      [i, n](T* p, const vec& v) { store_part(p + i, v, n - i); });
}

/// eps sgn(sum), sgn(0) = 1.
template <class Vec, class T>
HEADRED_INLINE Vec stabiliser_of(T epsilon, const Vec& sum) {
  return select_less(sum, Vec{}, broadcast<Vec>(-epsilon), broadcast<Vec>(epsilon));
}

/// alpha R / (s+ + eps) and beta R / (s- - eps), packs of outputs.
template <class T>
struct factor_packs {
  using vec = pack<T, native_lanes<T>>;
  T alpha, beta, epsilon, rest;
  vec lost{};  ///< R (1 - alpha s+ / (s+ + eps) - beta s- / (s- - eps)) = eps (f+ - f-) + R (1 - alpha - beta)

  template <class Rule>
  explicit factor_packs(const Rule& rule)
      : alpha(static_cast<T>(rule.alpha)),
        beta(static_cast<T>(rule.beta)),
        epsilon(static_cast<T>(rule.epsilon)),
        rest(static_cast<T>(1 - static_cast<double>(alpha) - static_cast<double>(beta))) {}

  HEADRED_INLINE void turn(const vec& relevance, vec& plus, vec& minus) {
    // where the relevance is 0 nobody has looked whether the sums are rounding errors of the other sign
    plus = relevance * alpha / (select_less(plus, vec{}, vec{}, plus) + epsilon);
    minus = relevance * beta / (select_less(vec{}, minus, vec{}, minus) - epsilon);
    lost += (plus - minus) * epsilon + relevance * rest;
  }
  double total() const { return static_cast<double>(lane_total<T, native_lanes<T>>(lost)); }
};

/// Sums by sign become factors, in place. own : contributions that no input made (an absorbed bias) and that have their
/// share, or nullptr. Returns what goes to them (bias) and what is lost (eps).
template <class T, class Rule>
relevance_terms factor_row(const Rule& rule, const T* relevance, const T* own, T* plus, T* minus, index_t n) {
  using vec = pack<T, native_lanes<T>>;
  factor_packs<T> packs(rule);
  vec kept{};
  in_packs<T>(n, [&](const auto& get, const auto& put) {
    const vec apart = own == nullptr ? vec{} : get(own), positive = select_less(vec{}, apart, apart, vec{}),
              negative = apart - positive;
    vec up = get(plus) + positive, down = get(minus) + negative;
    packs.turn(get(relevance), up, down);
    kept += up * positive + down * negative;
    put(plus, up);
    put(minus, down);
  });
  return {static_cast<double>(lane_total<T, native_lanes<T>>(kept)), packs.total()};
}

}  // namespace headred::detail
