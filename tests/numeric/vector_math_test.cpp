#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <headred/core/random.hpp>
#include <headred/numeric/vector_math.hpp>

namespace hr = headred;

namespace {

template <class T>
T log2_at(T x) {
  constexpr int lanes = hr::native_lanes<T>;
  return hr::detail::log2_of<lanes>(hr::detail::broadcast<hr::detail::pack<T, lanes>>(x))[lanes - 1];
}
template <class T>
T sqrt_at(T x) {
  constexpr int lanes = hr::native_lanes<T>;
  return hr::detail::sqrt_of<lanes>(hr::detail::broadcast<hr::detail::pack<T, lanes>>(x))[0];
}

}  // namespace

TEST_SUITE("numeric") {
  TEST_CASE("log2 of a million floats") {
    const hr::random_stream random(1);
    double worst_near_one = 0, worst = 0;
    for (std::uint64_t i = 0; i < 1000000; ++i) {
      const double u = random.uniform(i);
      const auto near_one = static_cast<float>(std::exp2(u - .5));
      const double exact_near = std::log2(static_cast<double>(near_one));
      worst_near_one =
          std::max(worst_near_one, std::abs(log2_at(near_one) - exact_near) / std::max(std::abs(exact_near), 1e-30));
      const auto any = static_cast<float>(std::exp2(-126 * u));
      const double exact = std::log2(static_cast<double>(any));
      worst = std::max(worst, std::abs(log2_at(any) - exact) / std::max(std::abs(exact), 1.0));
    }
    MESSAGE("log2, float: relative ", worst_near_one, " in [sqrt(1/2), sqrt(2)), ", worst,
            " of max(1, |log2|) elsewhere");
    CHECK(worst_near_one < 2.5e-7);
    CHECK(worst < 1.6e-7);
    CHECK(log2_at(1.f) == 0);
    CHECK(log2_at(.25f) == doctest::Approx(-2).epsilon(1e-7));
    CHECK(std::isfinite(log2_at(0.f)));
    CHECK(0.f * log2_at(0.f) == 0);
    CHECK(std::isfinite(log2_at(std::numeric_limits<float>::denorm_min())));
  }

  TEST_CASE("log2 of a million doubles") {
    const hr::random_stream random(2);
    long double worst_near_one = 0, worst = 0;
    for (std::uint64_t i = 0; i < 1000000; ++i) {
      const double u = random.uniform(i);
      const double near_one = std::exp2(u - .5);
      const long double exact_near = std::log2(static_cast<long double>(near_one));
      if (exact_near != 0)
        worst_near_one = std::max(worst_near_one, std::abs((log2_at(near_one) - exact_near) / exact_near));
      const double any = std::exp2(-1022 * u);
      const long double exact = std::log2(static_cast<long double>(any));
      worst = std::max(worst, std::abs(log2_at(any) - exact) / std::max(std::abs(exact), 1.0L));
    }
    MESSAGE("log2, double: relative ", static_cast<double>(worst_near_one), " near 1, ", static_cast<double>(worst),
            " of max(1, |log2|) elsewhere");
    CHECK(worst_near_one < 6e-16L);
    CHECK(worst < 4e-16L);
    CHECK(log2_at(1.0) == 0);
    for (int e = -1022; e < 1024; ++e) REQUIRE(log2_at(std::ldexp(1.0, e)) == e);
    CHECK(std::isfinite(log2_at(0.0)));
    CHECK(0.0 * log2_at(0.0) == 0);
    CHECK(std::isfinite(log2_at(std::numeric_limits<double>::denorm_min())));
  }

  TEST_CASE("square roots of a million numbers") {
    const hr::random_stream random(3);
    double worst_float = 0;
    long double worst_double = 0;
    for (std::uint64_t i = 0; i < 1000000; ++i) {
      const double u = random.uniform(i);
      const auto f = static_cast<float>(std::exp2(-125 * u));
      const double root = std::sqrt(static_cast<double>(f));
      worst_float = std::max(worst_float, std::abs(sqrt_at(f) - root) / root);
      const double d = std::exp2(-1020 * u);
      const long double exact = std::sqrt(static_cast<long double>(d));
      worst_double = std::max(worst_double, std::abs(sqrt_at(d) - exact) / exact);
    }
    MESSAGE("sqrt, relative: float ", worst_float, ", double ", static_cast<double>(worst_double));
    CHECK(worst_float <= 0x1p-23);
    CHECK(worst_double <= 0x1p-52L);
    CHECK(sqrt_at(0.0) == 0);
    CHECK(sqrt_at(0.f) == 0);
    CHECK(sqrt_at(-0.0) == 0);
    CHECK(sqrt_at(1.0) == 1);
    CHECK(sqrt_at(1.f) == 1);
    CHECK(sqrt_at(std::numeric_limits<double>::denorm_min()) == 0);
    for (int e = -510; e < 500; ++e)
      REQUIRE(sqrt_at(std::ldexp(1.0, 2 * e)) == doctest::Approx(std::ldexp(1.0, e)).epsilon(2.3e-16));
  }

  TEST_CASE("packs: loads, conversions, selection") {
    using namespace hr::detail;
    constexpr int lanes = hr::native_lanes<double>;
    using vec = pack<double, lanes>;
    std::array<float, lanes> narrow{}, back{};
    for (int i = 0; i < lanes; ++i) narrow[static_cast<std::size_t>(i)] = static_cast<float>(i) + .5f;
    const vec x = load_converted<vec>(narrow.data());
    for (int i = 0; i < lanes; ++i) CHECK(x[i] == i + .5);
    store_converted(back.data(), x);
    CHECK(back == narrow);
    const vec chosen = select_less(x, broadcast<vec>(1.0), broadcast<vec>(-1.0), x);
    CHECK(chosen[0] == -1);
    CHECK(chosen[lanes - 1] == lanes - .5);
    static_assert(padded<float, 8>(0) == 0 && padded<float, 8>(1) == 8 && padded<float, 8>(16) == 16);
  }
}
