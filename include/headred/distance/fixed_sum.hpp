#pragma once

#include <cstdint>

#include <headred/core/error.hpp>

namespace headred {

/// Exact sum of numbers in [0,1]: a 128-bit fixed-point number with 96 bits after the point, so that sums do not depend on
/// their order or on how they were split and merged. A term is cut to a multiple of 2^-96; up to 2^32 terms fit.
class fixed_sum {
 public:
  constexpr fixed_sum() = default;
  /// From the two words of a stored sum.
  constexpr fixed_sum(std::uint64_t high, std::uint64_t low) : high_(high), low_(low) {}

  /// x in [0,1], to which rounding beyond it is cut. Throws argument_error for NaN and what is further out.
  constexpr fixed_sum& operator+=(double x) {
    if (!(x >= 0 && x <= 1)) {
      if (!(x >= -1e-9 && x <= 1 + 1e-9)) throw argument_error("fixed_sum: a term is not in [0,1]");
      x = x < 0 ? 0 : 1;
    }
    const double shifted = x * 0x1p32;
    const auto whole = static_cast<std::uint64_t>(shifted);
    const auto rest = static_cast<std::uint64_t>((shifted - static_cast<double>(whole)) * 0x1p64);
    return *this += fixed_sum(whole, rest);
  }
  constexpr fixed_sum& operator+=(fixed_sum other) {  // by value: a sum may be added to itself
    low_ += other.low_;
    high_ += other.high_ + (low_ < other.low_ ? 1 : 0);
    return *this;
  }

  constexpr double value() const { return static_cast<double>(high_) * 0x1p-32 + static_cast<double>(low_) * 0x1p-96; }
  constexpr std::uint64_t high() const { return high_; }
  constexpr std::uint64_t low() const { return low_; }

  friend constexpr bool operator==(const fixed_sum&, const fixed_sum&) = default;

 private:
  std::uint64_t high_ = 0;  // 32 bits before the point, 32 behind it
  std::uint64_t low_ = 0;   // 64 bits more
};

}  // namespace headred
