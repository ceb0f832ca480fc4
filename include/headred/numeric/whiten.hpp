// Regularised whitening of a matrix of observations.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include <headred/core/grow_buffer.hpp>
#include <headred/numeric/symmetric_factors.hpp>

namespace headred {

/// How the covariance is kept from being singular when attention is whitened.
enum class whitening {
  ridge,      ///< (C + lambda tr(C)/S I)^(-1/2)
  half_dof,   ///< the same with lambda such that tr C (C + lambda I)^-1 is half the rank
  truncated,  ///< only the leading principal components that carry a share of the variance
};

namespace detail {

/// lambda > 0 with sum_i e_i / (e_i + lambda) = rank / 2 for eigenvalues e.
inline double half_dof_ridge(std::span<const double> values, double largest) {
  double rank = 0;
  for (const double e : values) rank += e > largest * 1e-12 ? 1 : 0;
  double low = std::log(largest) - 40, high = std::log(largest) + 40;
  for (int i = 0; i < 100; ++i) {  // the sum falls with lambda: bisection on its logarithm
    const double middle = (low + high) / 2, lambda = std::exp(middle);
    double degrees = 0;
    for (const double e : values) degrees += e > 0 ? e / (e + lambda) : 0;
    (degrees > rank / 2 ? low : high) = middle;
  }
  return std::exp((low + high) / 2);
}

/// Eigenvalues e of C become what whitening multiplies each principal axis by.
inline void whitening_factors(std::span<double> e, whitening kind, double amount) {
  double sum = 0, largest = 0;
  for (double& value : e) {
    value = std::max(value, 0.0);
    sum += value;
    largest = std::max(largest, value);
  }
  if (kind != whitening::truncated) {
    const double ridge =
        kind == whitening::ridge ? amount * sum / static_cast<double>(e.size()) : half_dof_ridge(e, largest);
    for (double& value : e) value = 1 / std::sqrt(value + ridge);
    return;
  }
  // from the largest on; factors are stored negative until all are done
  double carried = 0;
  for (std::size_t taken = 0; taken < e.size(); ++taken) {
    double& value = *std::max_element(e.begin(), e.end());
    const bool keep = carried < amount * sum && value > largest * 1e-12;
    carried += value;
    value = keep ? -1 / std::sqrt(value) : -0.0;
    if (!keep) break;
  }
  for (double& value : e) value = value < 0 ? -value : 0;
}

/// x (tokens, n), columns centred, becomes x (C + ...)^(-1/2) with C = x^T x / tokens; `amount` is lambda for ridge, the
/// share of variance for truncated. x must not be zero. Cost O(tokens n^2 + 9 n^3).
inline void whiten(double* x, index_t tokens, index_t n, whitening kind, double amount, grow_buffer<double>& scratch) {
  double* axes = scratch.get(n * n + 4 * n);
  double* values = axes + n * n;
  double* line = values + n;
  std::fill(axes, axes + n * n, 0.0);
  for (index_t t = 0; t < tokens; ++t)
    for (index_t i = 0; i < n; ++i) add_scaled(axes + i * n, x[t * n + i], x + t * n, n);
  for (index_t i = 0; i < n * n; ++i) axes[i] /= static_cast<double>(tokens);
  symmetric_factors(axes, n, values, line);
  whitening_factors({values, static_cast<std::size_t>(n)}, kind, amount);
  for (index_t t = 0; t < tokens; ++t) {
    std::fill(line, line + n, 0.0);
    for (index_t i = 0; i < n; ++i) add_scaled(line, values[i] * dot(x + t * n, axes + i * n, n), axes + i * n, n);
    std::copy(line, line + n, x + t * n);
  }
}

}  // namespace detail
}  // namespace headred
