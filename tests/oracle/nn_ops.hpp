// The row-wise ops of a Transformer as their formulas read, in long double, one entry at a time.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace oracle {

/// A row-major matrix (rows, cols).
struct real_matrix {
  std::size_t rows = 0, cols = 0;
  std::vector<long double> values = {};

  real_matrix(std::size_t r, std::size_t c) : rows(r), cols(c), values(r * c) {}
  long double& operator()(std::size_t r, std::size_t c) { return values[r * cols + c]; }
  long double operator()(std::size_t r, std::size_t c) const { return values[r * cols + c]; }
};

template <class F>
real_matrix map(const real_matrix& x, const F& f) {
  real_matrix y = x;
  for (long double& v : y.values) v = f(v);
  return y;
}

inline long double relu(long double x) { return x > 0 ? x : 0; }
inline long double gelu_erf(long double x) { return x * std::erfc(-x / std::sqrt(2.L)) / 2; }
inline long double silu(long double x) { return x / (1 + std::exp(-x)); }
inline long double gelu_tanh(long double x) {
  const long double pi = std::acos(-1.L);
  return x / 2 * (1 + std::tanh(std::sqrt(2 / pi) * (x + .044715L * x * x * x)));
}

/// ln sum_j e^x_rj; -infinity for a row of -infinity.
inline long double log_sum(const real_matrix& x, std::size_t r) {
  long double most = -std::numeric_limits<long double>::infinity(), sum = 0;
  for (std::size_t c = 0; c < x.cols; ++c) most = std::max(most, x(r, c));
  if (std::isinf(most)) return most;
  for (std::size_t c = 0; c < x.cols; ++c) sum += std::exp(x(r, c) - most);
  return most + std::log(sum);
}

inline real_matrix softmax(const real_matrix& x) {
  real_matrix y = x;
  for (std::size_t r = 0; r < x.rows; ++r) {
    const long double all = log_sum(x, r);
    for (std::size_t c = 0; c < x.cols; ++c) y(r, c) = std::isinf(all) ? 0 : std::exp(x(r, c) - all);
  }
  return y;
}

/// Row r's cross-entropy in nats with (1-e) on the target and e/V on every class; 0 for target -1.
inline long double cross_entropy(const real_matrix& x, std::size_t r, std::int32_t target, long double e) {
  if (target < 0) return 0;
  const long double all = log_sum(x, r);
  long double loss = 0;
  for (std::size_t c = 0; c < x.cols; ++c) {
    const long double weight =
        e / static_cast<long double>(x.cols) + (c == static_cast<std::size_t>(target) ? 1 - e : 0.L);
    if (weight > 0) loss += weight * (all - x(r, c));
  }
  return loss;
}

inline real_matrix layer_norm(const real_matrix& x, const std::vector<long double>& scale,
                              const std::vector<long double>& shift, long double epsilon) {
  real_matrix y = x;
  const auto n = static_cast<long double>(x.cols);
  for (std::size_t r = 0; r < x.rows; ++r) {
    long double mean = 0, variance = 0;
    for (std::size_t c = 0; c < x.cols; ++c) mean += x(r, c) / n;
    for (std::size_t c = 0; c < x.cols; ++c) variance += (x(r, c) - mean) * (x(r, c) - mean) / n;
    for (std::size_t c = 0; c < x.cols; ++c)
      y(r, c) = (x(r, c) - mean) / std::sqrt(variance + epsilon) * scale[c] + shift[c];
  }
  return y;
}

}  // namespace oracle
