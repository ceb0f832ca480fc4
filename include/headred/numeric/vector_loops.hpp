// The few loops over contiguous doubles that dense linear algebra is made of, vectorised under any flags.
#pragma once

#include <headred/numeric/simd.hpp>

namespace headred::detail {

/// Sum of products in a fixed order; n a whole number of packs.
inline double inner_product(const double* a, const double* b, index_t n) {
  constexpr int lanes = native_lanes<double>;
  using vec = pack<double, lanes>;
  vec sum{};
  for (index_t k = 0; k < n; k += lanes) sum += load<vec>(a + k) * load<vec>(b + k);
  double total = 0;
  for (int l = 0; l < lanes; ++l) total += sum[l];
  return total;
}

/// Sum of products in a fixed order, any n.
inline double dot(const double* a, const double* b, index_t n) {
  constexpr int lanes = native_lanes<double>;
  const index_t whole = n / lanes * lanes;
  double total = inner_product(a, b, whole);
  for (index_t k = whole; k < n; ++k) total += a[k] * b[k];
  return total;
}

/// |a - b|^2; n a whole number of packs.
inline double squared_distance(const double* a, const double* b, index_t n) {
  constexpr int lanes = native_lanes<double>;
  using vec = pack<double, lanes>;
  vec sum{};
  for (index_t k = 0; k < n; k += lanes) {
    const vec d = load<vec>(a + k) - load<vec>(b + k);
    sum += d * d;
  }
  double total = 0;
  for (int l = 0; l < lanes; ++l) total += sum[l];
  return total;
}

/// y += s x.
inline void add_scaled(double* y, double s, const double* x, index_t n) {
  constexpr int lanes = native_lanes<double>;
  using vec = pack<double, lanes>;
  index_t k = 0;
  for (; k + lanes <= n; k += lanes) store(y + k, load<vec>(y + k) + s * load<vec>(x + k));
  for (; k < n; ++k) y[k] += s * x[k];
}

/// (x, y) <- (c x - s y, s x + c y).
inline void rotate(double* x, double* y, double c, double s, index_t n) {
  constexpr int lanes = native_lanes<double>;
  using vec = pack<double, lanes>;
  index_t k = 0;
  for (; k + lanes <= n; k += lanes) {
    const vec a = load<vec>(x + k), b = load<vec>(y + k);
    store(x + k, c * a - s * b);
    store(y + k, s * a + c * b);
  }
  for (; k < n; ++k) {
    const double a = x[k], b = y[k];
    x[k] = c * a - s * b;
    y[k] = s * a + c * b;
  }
}

}  // namespace headred::detail
