// How far two matrices are apart when one may be rotated: the orthogonal Procrustes problem.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include <headred/core/grow_buffer.hpp>
#include <headred/numeric/vector_loops.hpp>

namespace headred::detail {

/// One-sided Jacobi: rows a_i (n,n) are rotated among each other until they are orthogonal, rows of v alike.
/// Hestenes (1958); small rows come out with relative accuracy, which Householder methods do not give.
/// squares: n, becomes |a_i|^2. About 40 n^3 operations.
inline void orthogonalise_rows(double* a, double* v, index_t n, double* squares) {
  const double limit = std::sqrt(static_cast<double>(n)) * std::numeric_limits<double>::epsilon();
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < 40; ++sweep) {
    rotated = false;
    for (index_t i = 0; i < n; ++i) squares[i] = dot(a + i * n, a + i * n, n);
    const double largest = *std::max_element(squares, squares + n);
    for (index_t p = 0; p + 1 < n; ++p)
      for (index_t q = p + 1; q < n; ++q) {
        const double least = limit * limit * 1e-4 * largest;  // rounding of the largest row: nothing to orthogonalise
        if (squares[p] <= least || squares[q] <= least) continue;
        const double product = dot(a + p * n, a + q * n, n);
        if (std::abs(product) <= limit * std::sqrt(squares[p] * squares[q])) continue;
        rotated = true;
        const double half = (squares[q] - squares[p]) / (2 * product);
        const double t = 1 / (half + std::copysign(std::hypot(half, 1.0), half));
        const double c = 1 / std::sqrt(1 + t * t), s = c * t;
        rotate(a + p * n, a + q * n, c, s, n);
        rotate(v + p * n, v + q * n, c, s, n);
        squares[p] -= t * product;
        squares[q] += t * product;
      }
  }
  for (index_t i = 0; i < n; ++i) squares[i] = dot(a + i * n, a + i * n, n);
}

/// Rows to unit length; a row without a direction of its own takes that of v's row, or of an axis, as far as that is
/// orthogonal to the others.
inline void complete_rows(double* u, const double* v, index_t n, const double* squares) {
  constexpr double eps = std::numeric_limits<double>::epsilon();
  const double largest = *std::max_element(squares, squares + n);
  const auto regular = [&](index_t i) {
    return std::sqrt(squares[i]) > eps * static_cast<double>(n) * std::sqrt(largest);
  };
  for (index_t i = 0; i < n; ++i)
    if (regular(i))
      for (index_t k = 0; k < n; ++k) u[i * n + k] /= std::sqrt(squares[i]);
  for (index_t i = 0; i < n; ++i) {
    if (regular(i)) continue;
    double* row = u + i * n;
    for (index_t attempt = -1; attempt < n; ++attempt) {
      for (index_t k = 0; k < n; ++k) row[k] = attempt < 0 ? v[i * n + k] : k == attempt ? 1 : 0;
      for (int pass = 0; pass < 2; ++pass)
        for (index_t j = 0; j < n; ++j)
          if (j < i || regular(j)) {
            if (j != i) add_scaled(row, -dot(row, u + j * n, n), u + j * n, n);
          }
      const double norm = std::sqrt(dot(row, row, n));
      if (norm < .5 / std::sqrt(static_cast<double>(n))) continue;
      for (index_t k = 0; k < n; ++k) row[k] /= norm;
      break;
    }
  }
}

/// |X R - Y|_F^2 / 2 with R the orthogonal matrix that brings X closest to Y: R = U V^T from X^T Y = U S V^T.
/// x, y: (tokens, n) row-major. For |X|_F = |Y|_F = 1 it equals 1 - |X^T Y|_*, without that form's cancellation when X and
/// Y are close: absolute error about 1e-15 sqrt(result). Cost about 40 n^3, a Jacobi SVD.
inline double procrustes_residual(const double* x, const double* y, index_t tokens, index_t n,
                                  grow_buffer<double>& scratch) {
  double* u = scratch.get(2 * n * n + 2 * n);
  double* v = u + n * n;
  double* line = v + n * n;
  std::fill(u, v + n * n, 0.0);
  for (index_t i = 0; i < n; ++i) v[i * n + i] = 1;
  for (index_t t = 0; t < tokens; ++t)
    for (index_t i = 0; i < n; ++i) add_scaled(u + i * n, y[t * n + i], x + t * n, n);  // rows of (X^T Y)^T
  orthogonalise_rows(u, v, n, line);
  complete_rows(u, v, n, line);
  double squares = 0;
  for (index_t t = 0; t < tokens; ++t) {
    for (index_t k = 0; k < n; ++k) line[k] = -y[t * n + k];
    for (index_t i = 0; i < n; ++i) add_scaled(line, dot(x + t * n, u + i * n, n), v + i * n, n);
    squares += dot(line, line, n);
  }
  return .5 * squares;
}

}  // namespace headred::detail
