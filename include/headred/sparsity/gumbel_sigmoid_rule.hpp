// The Gumbel-sigmoid distribution of one mask entry: its settings and formulas.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <headred/core/number_text.hpp>
#include <headred/sparsity/gate_math.hpp>
#include <headred/sparsity/temperature.hpp>

namespace headred {

namespace detail {

/// gumbel_sigmoid in the type of the masks.
template <class T>
struct gumbel_sigmoid_rule {
  T sharpness;  // 1 / temperature
  bool straight_through;

  /// (a + G1 - G2) / temperature, G = -ln(-ln u): the two logarithms of the difference in one.
  template <class V>
  HEADRED_FUNCTION HEADRED_INLINE V argument(const V& a, const V& u1, const V& u2) const {
    return (a + logarithm(logarithm(u2) / logarithm(u1))) * sharpness;
  }
  /// Hard, [sigmoid(argument) > 1/2], or soft.
  template <class V>
  HEADRED_FUNCTION HEADRED_INLINE V entry(const V& argument) const {
    if (straight_through) return where_less(everywhere<V>(0), argument, everywhere<V>(1), everywhere<V>(0));
    return sigmoid(argument);
  }
};

}  // namespace detail

/// Settings of Gumbel-sigmoid masks (Shi et al. 2021, SparseBERT, section 3.2; Jang et al. 2017, Maddison et al. 2017).
struct gumbel_sigmoid {
  double temperature = 1;         ///< tau, above 0
  bool straight_through = false;  ///< forward [M > 1/2], backward as if it were soft

  /// The entry for noise u1, u2; 0 and 1 are moved to the nearest numbers inside. Throws argument_error for noise
  /// outside [0,1], a NaN, and a temperature that is not above 0.
  double sample(double a, double u1, double u2) const {
    const auto own = rule<double>("gumbel_sigmoid");
    return own.entry(checked_argument(own, a, u1, u2));
  }
  /// dM / da = M (1 - M) / temperature of the soft M, also where the forward value is hard.
  double sample_slope(double a, double u1, double u2) const {
    const auto own = rule<double>("gumbel_sigmoid");
    return detail::sigmoid_slope(checked_argument(own, a, u1, u2)) / temperature;
  }
  /// Without noise: 1 where a > 0, else 0.
  double evaluate(double a) const { return checked(a) > 0 ? 1 : 0; }
  /// P(M > 1/2) = sigmoid(a), whatever the temperature.
  double open(double a) const { return detail::sigmoid(checked(a)); }

  /// The settings in type T. Throws argument_error, with `op` in its text, for a temperature that is not above 0.
  template <class T>
  detail::gumbel_sigmoid_rule<T> rule(const char* op) const {
    return {T(1) / detail::checked_temperature<T>(op, temperature), straight_through};
  }
  friend bool operator==(const gumbel_sigmoid&, const gumbel_sigmoid&) = default;

 private:
  static double checked(double a) {
    if (std::isnan(a)) throw argument_error("gumbel_sigmoid: a is NaN, expected a number");
    return a;
  }
  static double checked_argument(const detail::gumbel_sigmoid_rule<double>& own, double a, double u1, double u2) {
    const auto inside = [](double u) {
      if (!(u >= 0 && u <= 1))
        throw argument_error("gumbel_sigmoid: the noise is " + number_text(u) + ", expected [0,1]");
      return std::clamp(u, std::numeric_limits<double>::min(), 1 - 0x1p-53);
    };
    return own.argument(checked(a), inside(u1), inside(u2));
  }
};

}  // namespace headred
