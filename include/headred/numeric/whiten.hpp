// Regularised whitening of a matrix of observations.
#pragma once

#include <algorithm>
#include <cmath>

#include <Eigen/Eigenvalues>

#include <headred/core/config.hpp>

namespace headred {

/// How the covariance is kept from being singular when attention is whitened.
enum class whitening {
  ridge,      ///< (C + lambda tr(C)/S I)^(-1/2)
  half_dof,   ///< the same with lambda such that tr C (C + lambda I)^-1 is half the rank
  truncated,  ///< only the leading principal components that carry a share of the variance
};

namespace detail {

/// lambda > 0 with sum_i e_i / (e_i + lambda) = rank / 2 for eigenvalues e in descending or ascending order.
template <class Values, class T>
T half_dof_ridge(const Values& values, T largest) {
  const T threshold = largest * T(1e-12);
  T rank = 0;
  for (const T e : values) rank += e > threshold ? 1 : 0;
  T low = std::log(largest) - 40, high = std::log(largest) + 40;
  for (int i = 0; i < 100; ++i) {  // the sum falls with lambda: bisection on its logarithm
    const T middle = (low + high) / 2, lambda = std::exp(middle);
    T degrees = 0;
    for (const T e : values) degrees += e > 0 ? e / (e + lambda) : 0;
    (degrees > rank / 2 ? low : high) = middle;
  }
  return std::exp((low + high) / 2);
}

/// x (tokens, n), columns centred, becomes x (C + ...)^(-1/2) with C = x^T x / tokens; `amount` is lambda for ridge, the
/// share of variance for truncated. x must not be zero. Cost O(tokens n^2 + n^3). A template, so that Eigen's solver is
/// compiled by those alone who call it.
template <class T>
void whiten(T* x, index_t tokens, index_t n, whitening kind, T amount) {
  using dense = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
  using column = Eigen::Matrix<T, Eigen::Dynamic, 1>;
  using rows = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
  rows data(x, tokens, n);
  const dense covariance = data.transpose() * data / static_cast<T>(tokens);
  const Eigen::SelfAdjointEigenSolver<dense> eigen(covariance);
  const column values = eigen.eigenvalues().cwiseMax(T(0));  // ascending
  column factor(n);
  if (kind == whitening::truncated) {
    const T enough = amount * values.sum();
    T carried = 0;
    for (index_t i = n; i-- > 0;) {
      const bool keep = carried < enough && values[i] > values[n - 1] * T(1e-12);
      factor[i] = keep ? 1 / std::sqrt(values[i]) : T(0);
      carried += values[i];
    }
  } else {
    const T ridge = kind == whitening::ridge ? amount * covariance.trace() / static_cast<T>(n)
                                             : half_dof_ridge(values, values[n - 1]);
    factor = (values.array() + ridge).rsqrt();
  }
  const dense root = eigen.eigenvectors() * factor.asDiagonal() * eigen.eigenvectors().transpose();
  const dense whitened = data * root;
  data = whitened;
}

}  // namespace detail
}  // namespace headred
