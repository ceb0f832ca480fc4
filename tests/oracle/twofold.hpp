// Numbers of 32 digits as the sum of two doubles.
#pragma once

#include <cmath>

namespace headred_test::oracle {

// high + low. Written down apart from the library's own, with fma.
struct twofold {
  double high = 0, low = 0;
  twofold() = default;
  twofold(double value) : high(value) {}  // NOLINT: numbers convert
  twofold(double a, double b) : high(a + b) {
    const double part = high - a;
    low = (a - (high - part)) + (b - part);
  }
};

inline twofold operator+(const twofold& a, const twofold& b) {
  const twofold sum(a.high, b.high), rest(a.low, b.low), first(sum.high, sum.low + rest.high);
  return {first.high, first.low + rest.low};
}
inline twofold operator-(const twofold& a) {
  twofold minus;
  minus.high = -a.high;
  minus.low = -a.low;
  return minus;
}
inline twofold operator-(const twofold& a, const twofold& b) { return a + -b; }
inline twofold operator*(const twofold& a, const twofold& b) {
  const double product = a.high * b.high;
  return {product, std::fma(a.high, b.high, -product) + (a.high * b.low + a.low * b.high)};
}
inline twofold operator/(const twofold& a, const twofold& b) {
  const twofold first(a.high / b.high), rest = a - first * b, second(rest.high / b.high), last = rest - second * b;
  return first + second + twofold(last.high / b.high);
}
inline twofold root(const twofold& a) {
  if (!(a.high > 0)) return {};
  const twofold guess(std::sqrt(a.high));
  return guess + (a - guess * guess) / (twofold(2) * guess);
}

}  // namespace headred_test::oracle
