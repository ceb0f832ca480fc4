// The token-level distances of two rows, naively and in long double, in the forms that do not cancel; standard library
// only, so that nvcc can read it too.
#pragma once

#include <cmath>
#include <string>
#include <vector>

namespace headred_test::oracle {

using long_row = std::vector<long double>;

// p/a - q/b without the rounding of either quotient
inline long double exact_difference(long double p, long double a, long double q, long double b) {
  return ((p - q) * (a + b) + (p + q) * (b - a)) / (2 * a * b);
}

inline long double sum(const long_row& x) {
  long double s = 0;
  for (const long double v : x) s += v;
  return s;
}
inline long double length(const long_row& x) {
  long double s = 0;
  for (const long double v : x) s += v * v;
  return std::sqrt(s);
}

// JSD term f(t), t = |p-q|/(p+q)
inline long double divergence(long double t) {
  if (t >= 1) return 2 * std::log(2.0L);
  if (t > .1L) return (1 + t) * std::log1p(t) + (1 - t) * std::log1p(-t);
  long double s = 0, power = 1;
  for (int k = 1; k < 40; ++k) s += (power *= t * t) / static_cast<long double>(k * (2 * k - 1));
  return s;
}

inline long double squared_distance(const long_row& p, const long_row& q) {
  const long double a = length(p), b = length(q);
  long double s = 0;
  for (std::size_t k = 0; k < p.size(); ++k) s += std::pow(exact_difference(p[k], a, q[k], b), 2.0L);
  return s;
}

inline long_row centred(const long_row& x) {
  const long double mean = sum(x) / static_cast<long double>(x.size());
  long_row c = x;
  for (long double& v : c) v -= mean;
  return c;
}

// epsilon: of the type that is tested
inline long double row_distance(const std::string& name, const long_row& p, const long_row& q, long double epsilon) {
  const long double a = sum(p), b = sum(q);
  if (a == 0 || b == 0) return a == b ? 0 : 1;
  if (name == "cosine") return squared_distance(p, q) / 2;
  if (name == "pearson") {
    const long_row x = centred(p), y = centred(q);
    const bool flat_x = length(x) <= 16 * epsilon * length(p), flat_y = length(y) <= 16 * epsilon * length(q);
    if (flat_x || flat_y) return flat_x && flat_y ? 0 : .5L;
    return squared_distance(x, y) / 4;
  }
  long double s = 0;
  for (std::size_t k = 0; k < p.size(); ++k) {
    if (p[k] + q[k] == 0) continue;
    const long double d = exact_difference(p[k], a, q[k], b), both = p[k] / a + q[k] / b;
    s += name == "jensen_shannon" ? both / 4 * divergence(std::fabs(d) / both) / std::log(2.0L)
                                  : d * d / (both + 2 * std::sqrt(p[k] / a * (q[k] / b))) / 2;
  }
  return std::sqrt(s);
}

}  // namespace headred_test::oracle
