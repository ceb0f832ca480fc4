// The orthogonal polar factor of a matrix whose rows and columns are of very different sizes.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include <headred/numeric/split_product.hpp>
#include <headred/numeric/vector_loops.hpp>

namespace headred::detail {

/// The same R as graded_rotation for a that is nearly diagonal, with R near I: Newton steps R <- R exp(K) with the skew
/// K_ij = (b_ji - b_ij) / (b_ii + b_jj), b = a R, until rounding is left. False, with a spoilt, where that does not
/// converge at once. R is orthogonal to 1e-6; step, turn and scratch: (n,n). 4 to 6 steps of 6 n^3 operations.
inline bool small_rotation(double* a, index_t n, double* step, double* turn, double* scratch, double* rotation) {
  std::fill(rotation, rotation + n * n, 0.0);
  for (index_t i = 0; i < n; ++i) rotation[i * n + i] = 1;
  double before = 1;
  for (int attempt = 0; attempt < 12; ++attempt) {
    double largest = 0, norm = 0;
    for (index_t i = 0; i < n; ++i) {
      double row = 0;
      for (index_t j = 0; j < n; ++j) {
        const double sum = a[i * n + i] + a[j * n + j];
        if (i != j && !(sum > 0)) return false;
        const double k = i == j ? 0 : (a[j * n + i] - a[i * n + j]) / sum;
        step[i * n + j] = k;
        largest = std::max(largest, std::abs(k));
        row += std::abs(k);
      }
      norm = std::max(norm, row);
    }
    if (!(norm < 3e-2)) return false;
    if (!(largest < .1 * before)) return largest < 1e-14;
    before = largest;
    // exp(K) to K^2: orthogonal to K^4
    multiply(step, n, 1, step, n, n, n, turn, false);
    for (index_t i = 0; i < n * n; ++i) turn[i] = step[i] + .5 * turn[i];
    for (double* const turned : {a, rotation}) {
      multiply(turned, n, 1, turn, n, n, n, scratch, false);
      for (index_t i = 0; i < n * n; ++i) turned[i] += scratch[i];
    }
  }
  return false;
}

/// Orthogonal R = U V^T of a^T = U S V^T: the rotation for which tr(R^T a^T) is largest. a (n,n) is destroyed, `axes`
/// (n,n) and `squares` (n) are scratch. One-sided Jacobi on the rows, which for a = D1 C D2 with graded diagonal D1, D2
/// finds the small directions as accurately as the large ones; there is no threshold against the largest row.
/// Demmel and Veselic (1992). R is orthogonal to about 1e-15 n. About 16 n^3 operations a sweep, 3 to 10 sweeps.
inline void graded_rotation(double* a, index_t n, double* axes, double* squares, double* rotation) {
  std::fill(axes, axes + n * n, 0.0);
  for (index_t i = 0; i < n; ++i) axes[i * n + i] = 1;
  const double limit = std::sqrt(static_cast<double>(n)) * std::numeric_limits<double>::epsilon();
  constexpr double least = 1e-280;  // squares below it have no digits of their own
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < 40; ++sweep) {
    rotated = false;
    for (index_t i = 0; i < n; ++i) squares[i] = dot(a + i * n, a + i * n, n);
    for (index_t p = 0; p + 1 < n; ++p)
      for (index_t q = p + 1; q < n; ++q) {
        if (squares[p] <= least || squares[q] <= least) continue;
        const double product = dot(a + p * n, a + q * n, n);
        if (std::abs(product) <= limit * std::sqrt(squares[p]) * std::sqrt(squares[q])) continue;
        rotated = true;
        const double half = (squares[q] - squares[p]) / (2 * product);
        const double t = 1 / (half + std::copysign(std::sqrt(half * half + 1), half));
        const double c = 1 / std::sqrt(1 + t * t), s = c * t;
        rotate(a + p * n, a + q * n, c, s, n);
        rotate(axes + p * n, axes + q * n, c, s, n);
        squares[p] = std::max(squares[p] - t * product, 0.0);
        squares[q] += t * product;
      }
  }
  for (index_t i = 0; i < n; ++i) squares[i] = dot(a + i * n, a + i * n, n);
  for (index_t i = 0; i < n; ++i)
    if (squares[i] > least)
      for (index_t k = 0; k < n; ++k) a[i * n + k] /= std::sqrt(squares[i]);
  // a row without a direction takes that of its axis, or of a coordinate, as far as the other rows leave it
  for (index_t i = 0; i < n; ++i) {
    if (squares[i] > least) continue;
    double* row = a + i * n;
    for (index_t attempt = -1; attempt < n; ++attempt) {
      for (index_t k = 0; k < n; ++k) row[k] = attempt < 0 ? axes[i * n + k] : k == attempt ? 1 : 0;
      for (int pass = 0; pass < 2; ++pass)
        for (index_t j = 0; j < n; ++j)
          if (j < i || (j > i && squares[j] > least)) add_scaled(row, -dot(row, a + j * n, n), a + j * n, n);
      const double norm = std::sqrt(dot(row, row, n));
      if (norm < .5 / std::sqrt(static_cast<double>(n))) continue;
      for (index_t k = 0; k < n; ++k) row[k] /= norm;
      break;
    }
  }
  std::fill(rotation, rotation + n * n, 0.0);
  for (index_t j = 0; j < n; ++j)
    for (index_t i = 0; i < n; ++i) add_scaled(rotation + i * n, a[j * n + i], axes + j * n, n);
}

}  // namespace headred::detail
