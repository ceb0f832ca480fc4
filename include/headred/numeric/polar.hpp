// The orthogonal factor of a polar decomposition.
#pragma once

#include <Eigen/SVD>

#include <headred/core/config.hpp>

namespace headred::detail {

/// |X R - Y|_F^2 / 2 with R the orthogonal matrix that brings X closest to Y (orthogonal Procrustes problem): R = U V^T
/// from X^T Y = U S V^T. x, y: (tokens, n) row-major. For |X|_F = |Y|_F = 1 it equals 1 - |X^T Y|_*, without that
/// form's cancellation when X and Y are close. Cost O(n^3), a Jacobi SVD.
template <class T>
T procrustes_residual(const T* x, const T* y, index_t tokens, index_t n) {
  using dense = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
  using rows = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
  const rows a(x, tokens, n), b(y, tokens, n);
  const dense product = a.transpose() * b;
  const Eigen::JacobiSVD<dense> svd(product, Eigen::ComputeFullU | Eigen::ComputeFullV);
  const dense rotation = svd.matrixU() * svd.matrixV().transpose();
  const dense moved = a * rotation;
  return T(.5) * (moved - b).squaredNorm();
}

}  // namespace headred::detail
