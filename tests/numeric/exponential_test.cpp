#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <headred/numeric/exponential.hpp>

namespace hr = headred;

namespace {

struct exp_function {
  template <class T>
  static T fast(T x) {
    return hr::detail::exp_of<hr::native_lanes<T>>(
        hr::detail::broadcast<hr::detail::pack<T, hr::native_lanes<T>>>(x))[0];
  }
  static long double exact(long double x) { return std::exp(x); }
};
struct tanh_function {
  template <class T>
  static T fast(T x) {
    return hr::detail::tanh_of<hr::native_lanes<T>>(
        hr::detail::broadcast<hr::detail::pack<T, hr::native_lanes<T>>>(x))[0];
  }
  static long double exact(long double x) { return std::tanh(x); }
};
struct erf_function {
  template <class T>
  static T fast(T x) {
    return hr::detail::erf_of<hr::native_lanes<T>>(
        hr::detail::broadcast<hr::detail::pack<T, hr::native_lanes<T>>>(x))[0];
  }
  static long double exact(long double x) { return std::erf(x); }
};
struct one_plus_erf_function {
  template <class T>
  static T fast(T x) {
    return hr::detail::one_plus_erf_of<hr::native_lanes<T>>(
        hr::detail::broadcast<hr::detail::pack<T, hr::native_lanes<T>>>(x))[0];
  }
  static long double exact(long double x) { return std::erfc(-x); }
};

// Greatest error over a grid, relative to max(|exact|, least).
template <class Function, class T>
double worst(T from, T to, long double least = 0, int points = 300000) {
  long double greatest = 0;
  for (int i = 0; i <= points; ++i) {
    const T x = from + (to - from) * (static_cast<T>(i) / static_cast<T>(points));
    const long double exact = Function::exact(static_cast<long double>(x));
    if (exact == 0) continue;
    const long double e =
        std::abs((static_cast<long double>(Function::fast(x)) - exact) / std::max(std::abs(exact), least));
    if (!(e <= greatest)) greatest = std::isnan(e) ? std::numeric_limits<long double>::infinity() : e;
  }
  return static_cast<double>(greatest);
}

}  // namespace

TEST_SUITE("numeric") {
  TEST_CASE("exp, tanh and erf of floats keep the stated errors") {
    CHECK(worst<exp_function>(-87.33654f, 88.72283f) < 9e-8);
    CHECK(worst<exp_function>(-1.f, 1.f) < 9e-8);
    CHECK(worst<exp_function>(-1e-4f, 1e-4f) < 9e-8);
    CHECK(worst<tanh_function>(-11.f, 11.f) < 1.8e-7);
    CHECK(worst<tanh_function>(-1.f, 1.f) < 1.8e-7);
    CHECK(worst<tanh_function>(-1e-5f, 1e-5f) < 1.8e-7);
    CHECK(worst<tanh_function>(1e-37f, 1e-36f) < 1.8e-7);
    CHECK(worst<erf_function>(-5.f, 5.f) < 1.9e-7);
    CHECK(worst<erf_function>(-1.f, 1.f) < 1.9e-7);
    CHECK(worst<erf_function>(-1e-5f, 1e-5f) < 1.9e-7);
    CHECK(worst<one_plus_erf_function>(-1.f, 5.f) < 1e-6);
    CHECK(worst<one_plus_erf_function>(-3.f, -1.f) < 2e-5);
    CHECK(worst<one_plus_erf_function>(-9.1f, -3.f) < 2e-4);
    CHECK(worst<one_plus_erf_function>(-20.f, 10.f, 1) < 1.4e-7);
  }

  TEST_CASE("exp and tanh of doubles keep the stated errors") {
    CHECK(worst<exp_function>(-708.396, 709.78) < 1.6e-16);
    CHECK(worst<exp_function>(-1., 1.) < 1.6e-16);
    CHECK(worst<exp_function>(-1e-4, 1e-4) < 1.6e-16);
    CHECK(worst<tanh_function>(-21., 21.) < 3.6e-16);
    CHECK(worst<tanh_function>(-1., 1.) < 3.6e-16);
    CHECK(worst<tanh_function>(-1e-6, 1e-6) < 3.6e-16);
    CHECK(worst<erf_function>(-6., 6., 0, 10000) < 2.3e-16);
    CHECK(worst<one_plus_erf_function>(-20., 6., 0, 10000) < 1e-15);
  }

  TEST_CASE_TEMPLATE("exp, tanh and erf reach their limits", T, float, double) {
    constexpr T infinity = std::numeric_limits<T>::infinity(), greatest = std::numeric_limits<T>::max(),
                least = std::numeric_limits<T>::denorm_min(), normal = std::numeric_limits<T>::min();
    CHECK(exp_function::fast(T(0)) == T(1));
    CHECK(exp_function::fast(-T(0)) == T(1));
    CHECK(exp_function::fast(least) == T(1));
    for (const T x : {-infinity, -greatest, T(-1e5), std::log(normal) - T(1)}) CHECK(exp_function::fast(x) == T(0));
    for (const T x : {infinity, greatest, T(1e5), std::log(greatest) + T(1e-3)})
      CHECK(exp_function::fast(x) == infinity);
    // the last finite value, the last value above zero
    const T top = std::nextafter(std::log(greatest), T(0)), bottom = std::nextafter(std::log(normal), T(0));
    CHECK(std::isfinite(exp_function::fast(top)));
    CHECK(exp_function::fast(top) == doctest::Approx(std::exp(top)));
    CHECK(exp_function::fast(bottom) >= normal);
    for (const T x : {infinity, greatest, T(20)}) {
      CHECK(tanh_function::fast(x) == T(1));
      CHECK(tanh_function::fast(-x) == T(-1));
      CHECK(erf_function::fast(x) == T(1));
      CHECK(erf_function::fast(-x) == T(-1));
      CHECK(one_plus_erf_function::fast(x) == T(2));
    }
    for (const T x : {infinity, greatest, T(40)}) CHECK(one_plus_erf_function::fast(-x) == T(0));
    CHECK(tanh_function::fast(T(0)) == T(0));
    CHECK(std::signbit(tanh_function::fast(-T(0))));
    CHECK(std::signbit(erf_function::fast(-T(0))));
    CHECK(one_plus_erf_function::fast(T(0)) == T(1));
    const T nan = std::numeric_limits<T>::quiet_NaN();
    CHECK(std::isnan(exp_function::fast(nan)));
    CHECK(std::isnan(tanh_function::fast(nan)));
    CHECK(std::isnan(erf_function::fast(nan)));
    CHECK(std::isnan(one_plus_erf_function::fast(nan)));
  }
}
