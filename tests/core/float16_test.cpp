#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <headred/core/float16.hpp>

namespace hr = headred;

namespace {

// sign * 2^(exponent) * significand, written from the definition of the format
double reference(std::uint32_t bits) {
  const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
  const int exponent = static_cast<int>((bits >> 10) & 31u);
  const double fraction = static_cast<double>(bits & 1023u);
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  return exponent == 0 ? sign * std::ldexp(fraction, -24) : sign * std::ldexp(1024 + fraction, exponent - 25);
}

}  // namespace

TEST_SUITE("core") {
  TEST_CASE("all 65536 values of float16 widen exactly") {
    std::uint32_t wrong = 0;
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const float wide = hr::float16{static_cast<std::uint16_t>(bits)};
      const double expected = reference(bits);
      const bool same =
          std::isnan(expected) ? std::isnan(wide) : wide == expected && std::signbit(wide) == std::signbit(expected);
      wrong += same ? 0 : 1;
    }
    CHECK(wrong == 0);
    static_assert(float(hr::float16{0x3c00}) == 1.f && float(hr::float16{0x3555}) == 0.333251953125f);
    static_assert(float(hr::float16{0x0001}) == 0x1p-24f && float(hr::float16{0x7bff}) == 65504.f);
  }

  TEST_CASE("all 65536 values of bfloat16 are the upper halves of floats") {
    std::uint32_t wrong = 0;
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const float wide = hr::bfloat16{static_cast<std::uint16_t>(bits)};
      wrong += std::bit_cast<std::uint32_t>(wide) == bits << 16 ? 0 : 1;
    }
    CHECK(wrong == 0);
    static_assert(float(hr::bfloat16{0x3f80}) == 1.f && float(hr::bfloat16{0xc040}) == -3.f);
  }
}
