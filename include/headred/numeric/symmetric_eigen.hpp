// symmetric_eigen: all eigenvalues and eigenvectors of a real symmetric matrix.
#pragma once

#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <concepts>
#include <vector>

#include <headred/core/error.hpp>
#include <headred/core/status.hpp>
#include <headred/core/view.hpp>

namespace headred {

/// All eigenvalues and their vectors.
template <std::floating_point T>
struct symmetric_eigen_result {
  std::vector<T> values;   ///< (N), ascending
  std::vector<T> vectors;  ///< (N,N), row j is the unit eigenvector of values[j]
  headred::status status = headred::status::converged;
};

/// Eigenvalues and orthonormal eigenvectors of a dense symmetric matrix, multiplicities kept; signs and the basis of a
/// multiple eigenvalue's space are the solver's.
///   A v_j = lambda_j v_j,  lambda_0 <= ... <= lambda_{N-1}
/// a : (N,N), only the lower triangle is read, entries finite.
/// Status not_converged when the QR iteration gave up (values and vectors are then empty).
/// Throws shape_error when a is not square. About 9 N^3 operations, 3 N^2 numbers of memory, one thread.
/// A template, so that Eigen's solver (9 s of g++ -O2) is compiled by those alone who call this.
template <std::floating_point T>
symmetric_eigen_result<T> symmetric_eigen(tensor_view<const T, 2> a) {
  using dense = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
  const index_t n = a.extent(0);
  if (n != a.extent(1)) throw shape_error("symmetric_eigen: matrix is " + shape_text(a.shape()) + ", expected (N,N)");
  symmetric_eigen_result<T> result;
  if (n == 0) return result;

  const Eigen::Map<const dense, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>> columns(a.data(), n, n,
                                                                                          {a.stride(1), a.stride(0)});
  const Eigen::SelfAdjointEigenSolver<dense> solver(columns);
  if (solver.info() != Eigen::Success) {
    result.status = status::not_converged;
    return result;
  }
  const T* values = solver.eigenvalues().data();
  const T* vectors = solver.eigenvectors().data();  // column-major: a column of Eigen's is a row of ours
  result.values.assign(values, values + n);
  result.vectors.assign(vectors, vectors + n * n);
  return result;
}

}  // namespace headred
