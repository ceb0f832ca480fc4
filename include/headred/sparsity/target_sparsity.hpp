// target_sparsity: a price for open gates that moves until as many are open as one wants.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include <headred/core/error.hpp>
#include <headred/core/number_text.hpp>

namespace headred {

/// The Lagrange multiplier of the constraint n = target on the number n of open gates out of N: an open gate costs
///   price(n) = multiplier exp(strength (n - target) / N),  and ends a step with
///   multiplier <- multiplier exp(rate (n - target) / N).
/// By factors, not by sums: the price stays above 0, and what the loss is measured in does not matter. During the first
/// `warm_up` steps the target falls in equal parts from N, so that gates do not close before they are compared.
/// Give `price` to hard_concrete_penalty_gradient as the weight, and as n the gates with log_a > 0: those that are open in
/// the end. Keep |log_a| below 4 or so, or gates that closed too early cannot come back. The state is multiplier and step:
/// what a checkpoint needs.
class target_sparsity {
 public:
  /// Settings, fixed from the start.
  struct options {
    double open = 0;       ///< gates that shall be open in the end, in [0, gates]
    double gates = 1;      ///< all gates, at least 1
    double first = 1e-3;   ///< first multiplier, in units of the loss, above 0
    double strength = 10;  ///< at least 0
    double rate = .01;     ///< a step, above 0
    index_t warm_up = 0;   ///< steps, at least 0
    friend bool operator==(const options&, const options&) = default;
  };

  /// Throws argument_error for an option out of range.
  explicit target_sparsity(const options& o) : options_(o), multiplier_(o.first) {
    require(o.gates >= 1 && std::isfinite(o.gates), "gates", o.gates, "at least 1");
    require(o.open >= 0 && o.open <= o.gates, "open", o.open, "0 to all gates");
    require(o.first > 0 && std::isfinite(o.first), "first", o.first, "above 0");
    require(o.strength >= 0 && o.strength <= 500, "strength", o.strength, "[0,500]");
    require(o.rate > 0 && o.rate <= 1, "rate", o.rate, "(0,1]");
    require(o.warm_up >= 0, "warm_up", static_cast<double>(o.warm_up), "at least 0");
  }

  /// The number of open gates that is aimed at in this step.
  double target() const noexcept {
    if (step_ >= options_.warm_up) return options_.open;
    const double done = static_cast<double>(step_) / static_cast<double>(options_.warm_up);
    return options_.gates + (options_.open - options_.gates) * done;
  }
  /// What an open gate costs while `open` are open, above 0. Throws argument_error for a number outside [0, gates].
  double price(double open) const { return multiplier_ * std::exp(options_.strength * excess(open)); }
  /// Ends a step: raises the multiplier where more gates than wanted are open, lowers it where fewer are, within
  /// [1e-30, 1e30].
  void update(double open) {
    multiplier_ = std::clamp(multiplier_ * std::exp(options_.rate * excess(open)), 1e-30, 1e30);
    ++step_;
  }

  /// The state: what a checkpoint needs.
  double multiplier() const noexcept { return multiplier_; }
  index_t step() const noexcept { return step_; }
  /// Goes on from an earlier state. Throws argument_error for one that cannot be.
  void resume(double multiplier, index_t step) {
    require(multiplier >= std::min(1e-30, options_.first) && multiplier <= std::max(1e30, options_.first), "multiplier",
            multiplier, "[1e-30,1e30]");
    require(step >= 0, "step", static_cast<double>(step), "at least 0");
    multiplier_ = multiplier;
    step_ = step;
  }
  const options& settings() const noexcept { return options_; }

 private:
  static void require(bool right, const char* name, double value, const char* expected) {
    if (!right)
      throw argument_error(std::string("target_sparsity: ") + name + " is " + number_text(value) + ", expected " +
                           expected);
  }
  double excess(double open) const {
    require(open >= 0 && open <= options_.gates, "the number of open gates", open, "0 to all gates");
    return (open - target()) / options_.gates;
  }

  options options_;
  double multiplier_;
  index_t step_ = 0;
};

}  // namespace headred
