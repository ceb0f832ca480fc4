// Numbers as the sum of two doubles: about 32 digits where a difference of close matrices takes 16 away.
#pragma once

#include <cmath>

#include <headred/simd/pack.hpp>

namespace headred::detail {

/// high + low, |low| at most half a unit in the last place of high.
struct double_double {
  double high = 0, low = 0;
};

/// a + b without error. Knuth (1969).
HEADRED_INLINE double_double two_sum(double a, double b) {
  const double sum = a + b, part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}

/// a + b without error for |a| >= |b|. Dekker (1971).
HEADRED_INLINE double_double quick_two_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

/// a b without error, unless it underflows.
HEADRED_INLINE double_double two_product(double a, double b) {
  const double product = a * b;
#if defined(__FP_FAST_FMA)
  return {product, std::fma(a, b, -product)};
#else
  // Dekker (1971): halves of 26 bits, whose products are exact, so that fusing any of them changes nothing
  const auto head = [](double x) {
    const double big = 134217729 * x;
    return big - (big - x);
  };
  const double a1 = head(a), a2 = a - a1, b1 = head(b), b2 = b - b1;
  return {product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2};
#endif
}

HEADRED_INLINE double_double operator+(const double_double& a, const double_double& b) {
  const double_double sum = two_sum(a.high, b.high);
  return quick_two_sum(sum.high, sum.low + (a.low + b.low));
}
HEADRED_INLINE double_double operator-(const double_double& a) { return {-a.high, -a.low}; }
HEADRED_INLINE double_double operator-(const double_double& a, const double_double& b) { return a + -b; }

HEADRED_INLINE double_double operator*(const double_double& a, const double_double& b) {
  const double_double product = two_product(a.high, b.high);
  return quick_two_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

HEADRED_INLINE double_double operator/(const double_double& a, const double_double& b) {
  const double quotient = a.high / b.high;
  const double_double rest = a - double_double{quotient} * b;
  return quick_two_sum(quotient, rest.high / b.high);
}

/// 0 for 0; a must not be negative.
inline double_double square_root(const double_double& a) {
  if (!(a.high > 0)) return {};
  const double root = std::sqrt(a.high);
  const double_double rest = a - two_product(root, root);
  return quick_two_sum(root, rest.high / (2 * root));
}

}  // namespace headred::detail
