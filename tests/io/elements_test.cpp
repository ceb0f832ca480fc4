// Conversion of stored elements, through the npy reader.
#include <headred/io/elements.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/io/npy.hpp>

#include "io_support.hpp"

using headred::bfloat16;
using headred::float16;
using headred::index_t;
using headred_test::bytes_of;
using headred_test::file_error_text;
using headred_test::little_endian;
using headred_test::raw_bytes;

namespace {

std::string npy(const std::string& descr, const std::string& shape, const std::string& data) {
  const std::string dict = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
  return std::string("\x93NUMPY\1\0", 8) + little_endian(dict.size(), 2) + dict + data;
}

template <class T, class Stored>
T one(const std::string& descr, Stored value, double scale = 1) {
  headred::cpu be{{.threads = 1}};
  return headred::load_npy_as<T, 1>(be, bytes_of(npy(descr, "(1,)", raw_bytes(value))), "x.npy", scale)(0);
}

// binary16 by its definition
long double half_value(unsigned bits) {
  const unsigned exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const long double magnitude =
      exponent == 0 ? std::ldexp(static_cast<long double>(fraction), -24)
                    : std::ldexp(static_cast<long double>(1024 + fraction), static_cast<int>(exponent) - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

}  // namespace

TEST_SUITE("io") {
  TEST_CASE("elements: all 65536 halves widen exactly") {
    headred::cpu be{{.threads = 1}};
    std::string data;
    for (unsigned i = 0; i < 65536; ++i) data += little_endian(i, 2);
    const std::string file = npy("<f2", "(65536,)", data);
    const auto wide = headred::load_npy_as<float, 1>(be, bytes_of(file), "x.npy");
    const auto wider = headred::load_npy_as<double, 1>(be, bytes_of(file), "x.npy");
    unsigned wrong = 0;
    for (unsigned i = 0; i < 65536; ++i) {
      const float value = wide(i);
      const bool special = ((i >> 10) & 31) == 31;
      if (special) {
        wrong += (i & 1023) != 0 ? !std::isnan(value) : value != (i < 0x8000 ? INFINITY : -INFINITY);
      } else {
        wrong += static_cast<long double>(value) != half_value(i) || std::signbit(value) != (i >= 0x8000) ||
                 static_cast<long double>(wider(i)) != half_value(i);
      }
    }
    CHECK(wrong == 0);
    const auto same = headred::load_npy<float16, 1>(be, bytes_of(file), "x.npy");
    CHECK(std::string(reinterpret_cast<const char*>(same.data()), same.bytes()) == data);
  }

  TEST_CASE("elements: integers and floats become float and double, rounded once") {
    CHECK(one<double>("|u1", std::uint8_t{255}) == 255);
    CHECK(one<double>("|i1", std::int8_t{-128}) == -128);
    CHECK(one<float>("<u2", std::uint16_t{65535}) == 65535);
    CHECK(one<float>("<i2", std::int16_t{-32768}) == -32768);
    CHECK(one<double>("<i4", std::numeric_limits<std::int32_t>::min()) == -2147483648.0);
    CHECK(one<double>("<u4", std::numeric_limits<std::uint32_t>::max()) == 4294967295.0);
    CHECK(one<double>("<i8", std::int64_t{(1LL << 53) + 1}) == 9007199254740992.0);
    CHECK(one<double>("<u8", std::numeric_limits<std::uint64_t>::max()) == 18446744073709551616.0);
    CHECK(one<float>("<f8", 0.1) == 0.1f);
    CHECK(one<double>("<f4", 0.1f) == static_cast<double>(0.1f));
    CHECK(std::isnan(one<float>("<f8", std::nan(""))));
    // a 64-bit integer straight to float: by way of double it would round twice, to 2^60 + 2^37
    CHECK(one<float>("<i8", std::int64_t{(1LL << 60) + (1LL << 36) + 1}) == std::ldexp(1.f, 60) + std::ldexp(1.f, 37));
    CHECK(one<double>("|b1", true) == 1);
  }

  TEST_CASE("elements: the scale is applied in double, and rounded once") {
    CHECK(one<double>("<u2", std::uint16_t{166}, 1e-4) == 166 * 1e-4);
    CHECK(one<float>("<u2", std::uint16_t{166}, 1e-4) == static_cast<float>(166 * 1e-4));
    CHECK(one<double>("<f4", 3.f, -2) == -6);
    CHECK_THROWS_WITH_AS(one<float>("<f4", 3.f, std::nan("")), "scale is not finite", headred::argument_error);
    CHECK_THROWS_WITH_AS(one<int>("<i4", 3, 2), "scale is only for loading as float or double",
                         headred::argument_error);
  }

  TEST_CASE("elements: integers into integers, each value checked to fit") {
    CHECK(one<index_t>("|u1", std::uint8_t{200}) == 200);
    CHECK(one<std::uint8_t>("<i8", std::int64_t{255}) == 255);
    CHECK(one<std::int8_t>("<i4", -128) == -128);
    headred::cpu be{{.threads = 1}};
    const std::string file =
        npy("<i2", "(2, 2)", little_endian(1, 2) + little_endian(255, 2) + little_endian(256, 2) + "xx");
    CHECK(file_error_text([&] { headred::load_npy_as<std::uint8_t, 2>(be, bytes_of(file), "x.npy"); }) ==
          "x.npy: npy array: stored element 2 does not fit into uint8");
    CHECK(file_error_text([&] {
            one<std::uint64_t>("|i1", std::int8_t{-1});
          }).find("element 0 does not fit into uint64") != std::string::npos);
    CHECK(file_error_text([&] { one<int>("<f4", 1.f); }) ==
          "x.npy: npy array is float32, which does not convert to int32");
    CHECK(file_error_text([&] { one<bfloat16>("<f2", float16{}); }) ==
          "x.npy: npy array is float16, which does not convert to bfloat16");
  }
}
