// The functions that gates are made of, for a number and for a pack of numbers alike.
#pragma once

#include <cmath>
#include <concepts>

#include <headred/numeric/exponential.hpp>

namespace headred::detail {

template <class V>
struct gate_lanes {
  static constexpr int count = static_cast<int>(sizeof(V) / sizeof(lane_type<V>));
  using number = lane_type<V>;
};
template <std::floating_point V>
struct gate_lanes<V> {
  static constexpr int count = 1;
  using number = V;
};

/// A constant in every lane.
template <class V>
HEADRED_FUNCTION HEADRED_INLINE V everywhere(typename gate_lanes<V>::number x) {
  if constexpr (std::floating_point<V>)
    return x;
  else
    return broadcast<V>(x);
}
/// a < b ? x : y.
template <class V>
HEADRED_FUNCTION HEADRED_INLINE V where_less(const V& a, const V& b, const V& x, const V& y) {
  if constexpr (std::floating_point<V>)
    return a < b ? x : y;
  else
    return select_less(a, b, x, y);
}
template <class V>
HEADRED_FUNCTION HEADRED_INLINE V exponential(const V& x) {
  if constexpr (std::floating_point<V>)
    return std::exp(x);
  else
    return exp_of<gate_lanes<V>::count>(x);
}
/// ln of positive normal numbers.
template <class V>
HEADRED_FUNCTION HEADRED_INLINE V logarithm(const V& x) {
  using T = typename gate_lanes<V>::number;
  if constexpr (std::floating_point<V>)
    return std::log(x);
  else
    return log2_of<gate_lanes<V>::count>(x) * T(.69314718055994530942);
}

/// e^-|x|.
template <class V>
HEADRED_FUNCTION HEADRED_INLINE V falling_exponential(const V& x) {
  const V zero = everywhere<V>(0);
  return exponential(where_less(x, zero, x, zero - x));
}
/// 1 / (1 + e^-x), to the last digits on both sides.
template <class V>
HEADRED_FUNCTION HEADRED_INLINE V sigmoid(const V& x) {
  const V e = falling_exponential(x), one = everywhere<V>(1);
  return where_less(x, everywhere<V>(0), e, one) / (one + e);
}
/// sigmoid(x) (1 - sigmoid(x)) without cancellation.
template <class V>
HEADRED_FUNCTION HEADRED_INLINE V sigmoid_slope(const V& x) {
  const V e = falling_exponential(x), sum = everywhere<V>(1) + e;
  return e / (sum * sum);
}

}  // namespace headred::detail
