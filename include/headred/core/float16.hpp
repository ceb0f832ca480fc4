// Storage types of 16 bits: attention in half precision is read as it lies in memory and widened element by element.
#pragma once

#include <bit>
#include <cstdint>

#include <headred/core/config.hpp>

namespace headred {

/// IEEE 754 binary16, storage only: every value, subnormals and NaN included, widens exactly to float.
struct float16 {
  std::uint16_t bits = 0;

  HEADRED_FUNCTION constexpr operator float() const noexcept {
    const std::uint32_t sign = std::uint32_t(bits & 0x8000u) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1fu;
    const std::uint32_t fraction = bits & 0x3ffu;
    if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
    const float magnitude = float(fraction) * 0x1p-24f;  // subnormal
    return sign != 0 ? -magnitude : magnitude;
  }
};

/// The upper half of a binary32 (bfloat16), storage only: widens exactly to float.
struct bfloat16 {
  std::uint16_t bits = 0;

  HEADRED_FUNCTION constexpr operator float() const noexcept { return std::bit_cast<float>(std::uint32_t(bits) << 16); }
};

}  // namespace headred
