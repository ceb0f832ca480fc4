// Temperatures of sampled gates: fixed, falling over the training, or learned.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <headred/core/error.hpp>
#include <headred/core/number_text.hpp>

namespace headred {

namespace detail {

/// Throws argument_error unless the temperature is a positive normal number of type T.
template <class T>
T checked_temperature(const char* op, double temperature) {
  const T rounded = static_cast<T>(temperature);
  if (!(temperature > 0 && rounded >= std::numeric_limits<T>::min() && std::isfinite(rounded)))
    throw argument_error(std::string(op) + ": the temperature is " + number_text(temperature) +
                         ", expected a number above 0");
  return rounded;
}

}  // namespace detail

/// A temperature that goes from `first` to `last` in `steps` steps by equal factors, then stays:
///   tau(t) = first (last / first)^min(1, t / steps).
struct annealed_temperature {
  double first = 1;
  double last = 1;
  index_t steps = 0;

  /// tau(step), for steps from 0 on. Throws argument_error for a temperature that is not above 0 and negative steps.
  double at(index_t step) const {
    detail::checked_temperature<double>("annealed_temperature", first);
    detail::checked_temperature<double>("annealed_temperature", last);
    if (steps < 0 || step < 0)
      throw argument_error("annealed_temperature: step " + std::to_string(step) + " of " + std::to_string(steps) +
                           ", expected at least 0");
    if (step >= steps) return last;
    return first * std::pow(last / first, static_cast<double>(step) / static_cast<double>(steps));
  }
  friend bool operator==(const annealed_temperature&, const annealed_temperature&) = default;
};

/// The temperature that a learned logarithm stands for: exp(log_temperature), kept within [1e-4, 1e4] so that no step of
/// an optimiser leaves the range where gates can be sampled. Throws argument_error for NaN.
inline double learned_temperature(double log_temperature) {
  if (std::isnan(log_temperature)) throw argument_error("learned_temperature: the logarithm is NaN, expected a number");
  return std::exp(std::clamp(log_temperature, std::log(1e-4), std::log(1e4)));
}

}  // namespace headred
