// learning_rate: how large a step is, by its number.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include <headred/core/error.hpp>
#include <headred/core/number_text.hpp>

namespace headred {

/// The shape of a schedule after its warm-up.
enum class decay_kind { constant, noam, linear, cosine };

/// The name of a shape.
constexpr std::string_view to_string(decay_kind kind) noexcept {
  switch (kind) {
    case decay_kind::constant: return "constant";
    case decay_kind::noam: return "noam";
    case decay_kind::linear: return "linear";
    case decay_kind::cosine: return "cosine";
  }
  return "unknown";
}

/// A learning rate schedule as a plain value. Steps are numbered from 1. While s <= warm_up the rate is
/// peak s / warm_up; at s = warm_up it is `peak`, and from there it falls, with p = (s - warm_up) / (total - warm_up)
/// held to [0,1]:
///   constant  peak
///   noam      peak sqrt(warm_up / s), without end (Vaswani et al. 2017, equation 3)
///   linear    peak + (lowest - peak) p
///   cosine    lowest + (peak - lowest) (1 + cos(pi p)) / 2
struct learning_rate {
  decay_kind kind = decay_kind::constant;
  double peak = 1e-3;
  index_t warm_up = 0;
  index_t total = 0;  ///< steps until `lowest` is reached; of linear and cosine
  double lowest = 0;
  friend bool operator==(const learning_rate&, const learning_rate&) = default;

  /// The same rate always, after the warm-up.
  static learning_rate constant(double rate, index_t warm_up = 0) {
    return checked({decay_kind::constant, rate, warm_up, 0, 0});
  }
  /// factor width^-1/2 min(s^-1/2, s warm_up^-3/2).
  static learning_rate noam(index_t width, index_t warm_up, double factor = 1) {
    if (width < 1)
      throw argument_error("learning_rate: the width is " + std::to_string(width) + ", expected at least 1");
    if (warm_up < 1)
      throw argument_error("learning_rate: the warm-up has " + std::to_string(warm_up) + " steps, expected at least 1");
    return checked({decay_kind::noam, factor / std::sqrt(static_cast<double>(width) * static_cast<double>(warm_up)),
                    warm_up, 0, 0});
  }
  /// From `peak` down to `lowest` in a straight line, at step `total`.
  static learning_rate linear(double peak, index_t warm_up, index_t total, double lowest = 0) {
    return checked({decay_kind::linear, peak, warm_up, total, lowest});
  }
  /// From `peak` down to `lowest` along half a cosine, at step `total`.
  static learning_rate cosine(double peak, index_t warm_up, index_t total, double lowest = 0) {
    return checked({decay_kind::cosine, peak, warm_up, total, lowest});
  }

  /// The rate of step s. Throws argument_error for s < 1.
  double at(index_t s) const {
    if (s < 1) throw argument_error("learning_rate: step " + std::to_string(s) + ", expected at least 1");
    const double step = static_cast<double>(s), warm = static_cast<double>(warm_up);
    if (s < warm_up) return peak * (step / warm);
    const double rest = static_cast<double>(std::max<index_t>(1, total - warm_up));
    const double part = std::clamp((step - warm) / rest, 0., 1.);
    switch (kind) {
      case decay_kind::constant: return peak;
      case decay_kind::noam: return peak * std::sqrt(std::max(1., warm) / step);
      case decay_kind::linear: return part == 1 ? lowest : peak + (lowest - peak) * part;
      case decay_kind::cosine: return lowest + (peak - lowest) * .5 * (1 + std::cos(std::acos(-1.) * part));
    }
    return peak;
  }

  /// The schedule itself if it makes sense, argument_error otherwise.
  static learning_rate checked(const learning_rate& r) {
    const auto require = [](bool right, const std::string& what, const char* expected) {
      if (!right) throw argument_error("learning_rate: " + what + ", expected " + expected);
    };
    require(r.peak >= 0 && std::isfinite(r.peak), "the peak is " + number_text(r.peak),
            "a finite number of at least 0");
    require(r.lowest >= 0 && r.lowest <= r.peak, "the lowest is " + number_text(r.lowest), "0 to the peak");
    require(r.warm_up >= 0, "the warm-up has " + std::to_string(r.warm_up) + " steps", "at least 0");
    if (r.kind == decay_kind::linear || r.kind == decay_kind::cosine)
      require(r.total > r.warm_up, "the total is " + std::to_string(r.total) + " steps", "more than the warm-up");
    return r;
  }
};

}  // namespace headred
