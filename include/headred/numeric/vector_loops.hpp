// The few loops over contiguous doubles that dense linear algebra is made of, vectorised under any flags.
#pragma once

#include <headred/simd/pack.hpp>

namespace headred::detail {

/// Sum of the lanes, in a fixed order.
template <int Lanes>
HEADRED_INLINE double lane_sum(const pack<double, Lanes>& x) {
  double sum = 0;
  for (int i = 0; i < Lanes; ++i) sum += x[i];
  return sum;
}

/// |x|^2 in double, in an order fixed by n.
template <class T>
double squared_length(const T* x, index_t n) {
  constexpr int lanes = native_lanes<double>;
  using vec = pack<double, lanes>;
  vec sum{};
  index_t k = 0;
  for (; k + lanes <= n; k += lanes) {
    const vec v = load_converted<vec>(x + k);
    sum += v * v;
  }
  double total = lane_sum<lanes>(sum);
  for (; k < n; ++k) total += static_cast<double>(x[k]) * static_cast<double>(x[k]);
  return total;
}

/// Sum of products in a fixed order; n a whole number of packs.
inline double inner_product(const double* a, const double* b, index_t n) {
  constexpr int lanes = native_lanes<double>;
  using vec = pack<double, lanes>;
  vec sum{};
  for (index_t k = 0; k < n; k += lanes) sum += load<vec>(a + k) * load<vec>(b + k);
  return lane_sum<lanes>(sum);
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
  return lane_sum<lanes>(sum);
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
