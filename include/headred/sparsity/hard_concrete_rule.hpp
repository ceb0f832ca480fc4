// The Hard-Concrete distribution of one gate: its settings and formulas.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include <headred/core/number_text.hpp>
#include <headred/sparsity/gate_math.hpp>
#include <headred/sparsity/temperature.hpp>

namespace headred {

namespace detail {

/// hard_concrete in the type of the gates.
template <class T>
struct hard_concrete_rule {
  T sharpness;     // 1 / temperature
  T lower, width;  // of the stretch: s goes to s width + lower
  T open_shift;    // P(g != 0) = sigmoid(log_a - open_shift)
  T full_shift;    // P(g = 1) = sigmoid(log_a - full_shift)
  T epsilon;
  bool threshold;

  /// What the sigmoid is taken of. 1 - u is exact, so that neither end of the noise loses digits.
  template <class V>
  HEADRED_FUNCTION HEADRED_INLINE V argument(const V& log_a, const V& u) const {
    const T inner = T(1) - T(2) * epsilon;
    return (logarithm((u * inner + epsilon) / ((T(1) - u) * inner + epsilon)) + log_a) * sharpness;
  }
  template <class V>
  HEADRED_FUNCTION HEADRED_INLINE V gate(const V& argument) const {
    const V zero = everywhere<V>(0), one = everywhere<V>(1), g = sigmoid(argument) * width + lower;
    return where_less(zero, g, where_less(g, one, g, one), zero);
  }
  /// dg / d argument.
  template <class V>
  HEADRED_FUNCTION HEADRED_INLINE V slope(const V& argument) const {
    const V zero = everywhere<V>(0), one = everywhere<V>(1), e = falling_exponential(argument), sum = one + e;
    const V g = where_less(argument, zero, e, one) / sum * width + lower;
    return where_less(zero, g, where_less(g, one, e / (sum * sum) * width, zero), zero);
  }
  template <class V>
  HEADRED_FUNCTION HEADRED_INLINE V evaluate(const V& log_a) const {
    if (threshold) return where_less(everywhere<V>(0), log_a, everywhere<V>(1), everywhere<V>(0));
    return gate(log_a);
  }
};

}  // namespace detail

/// What a gate is once nothing is sampled any more.
enum class gate_evaluation {
  clipped,    ///< clip(sigmoid(log_a) (upper - lower) + lower, 0, 1): Voita's code
  threshold,  ///< 1 where log_a > 0, else 0: Voita's paper
};

/// Settings of Hard-Concrete gates (Louizos, Welling & Kingma 2018): a sigmoid of noise, stretched beyond [0,1] and
/// clipped. The defaults are those of Voita's code; Louizos et al. take a temperature of 2/3.
struct hard_concrete {
  double temperature = .33;  ///< beta, above 0
  double lower = -.1;        ///< gamma, below 0
  double upper = 1.1;        ///< zeta, above 1
  double epsilon = 1e-6;     ///< the noise u lies in [epsilon, 1 - epsilon]; in (0, 1/2)
  gate_evaluation evaluation = gate_evaluation::clipped;

  /// The gate for noise u; u is moved into [epsilon, 1 - epsilon]. Throws argument_error for u outside [0,1], a NaN,
  /// and settings out of range.
  double sample(double log_a, double u) const {
    const auto own = rule<double>("hard_concrete");
    return own.gate(checked_argument(own, log_a, u));
  }
  /// d sample / d log_a: 0 where the gate is clipped.
  double sample_slope(double log_a, double u) const {
    const auto own = rule<double>("hard_concrete");
    return own.slope(checked_argument(own, log_a, u)) / temperature;
  }
  /// The gate without noise; P(g != 0); P(g = 1).
  double evaluate(double log_a) const { return rule<double>("hard_concrete").evaluate(checked(log_a)); }
  /// P(g != 0).
  double open(double log_a) const { return detail::sigmoid(checked(log_a) - rule<double>("hard_concrete").open_shift); }
  /// P(g = 1).
  double full(double log_a) const { return detail::sigmoid(checked(log_a) - rule<double>("hard_concrete").full_shift); }

  /// The settings as factors in type T. Throws argument_error, with `op` in its text, for a temperature that is not
  /// above 0, a stretch that does not contain [0,1] in its interior, an epsilon outside (0, 1/2).
  template <class T>
  detail::hard_concrete_rule<T> rule(const char* op) const {
    const T beta = detail::checked_temperature<T>(op, temperature);
    if (!(lower < 0 && upper > 1 && std::isfinite(lower) && std::isfinite(upper)))
      throw argument_error(std::string(op) + ": the stretch is (" + number_text(lower) + "," + number_text(upper) +
                           "), expected to contain [0,1] with room on both sides");
    if (!(epsilon > 0 && epsilon < .5 && static_cast<T>(epsilon) > T(0)))
      throw argument_error(std::string(op) + ": epsilon is " + number_text(epsilon) + ", expected (0,1/2)");
    return {T(1) / beta,
            static_cast<T>(lower),
            static_cast<T>(upper - lower),
            static_cast<T>(temperature * std::log(-lower / upper)),
            static_cast<T>(temperature * std::log((1 - lower) / (upper - 1))),
            static_cast<T>(epsilon),
            evaluation == gate_evaluation::threshold};
  }
  friend bool operator==(const hard_concrete&, const hard_concrete&) = default;

 private:
  static double checked(double log_a) {
    if (std::isnan(log_a)) throw argument_error("hard_concrete: log_a is NaN, expected a number");
    return log_a;
  }
  double checked_argument(const detail::hard_concrete_rule<double>& own, double log_a, double u) const {
    if (!(u >= 0 && u <= 1)) throw argument_error("hard_concrete: the noise is " + number_text(u) + ", expected [0,1]");
    const double inside = std::clamp(u, epsilon, 1 - epsilon);
    return (std::log(inside) - std::log1p(-inside) + checked(log_a)) * own.sharpness;
  }
};

}  // namespace headred
