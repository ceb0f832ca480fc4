// Eigenvalues and eigenvectors of a small symmetric matrix in place: no allocation and no Eigen, for the inner loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include <headred/numeric/vector_loops.hpp>

namespace headred::detail {

/// Householder reduction of symmetric a (n,n) to tridiagonal form: diagonal d, off-diagonal e[0..n-1); a becomes Q^T of
/// A = Q T Q^T, so that its rows are what a rotation of the tridiagonal's axes acts on. scratch: n.
inline void tridiagonalise(double* a, index_t n, double* d, double* e, double* scratch) {
  // row k keeps the reflector I - e[k] v v^T with v in its columns above k, until Q is formed; d[k] keeps a_kk, and the
  // off-diagonal goes to the row's diagonal place meanwhile
  for (index_t k = 0; k + 1 < n; ++k) {
    double* v = a + k * n + k + 1;  // row k above the diagonal: symmetric to the column below it
    const index_t m = n - k - 1;
    d[k] = a[k * n + k];
    const double tail = dot(v + 1, v + 1, m - 1);
    if (tail == 0) {
      a[k * n + k] = v[0];
      e[k] = 0;
      continue;
    }
    const double norm = std::sqrt(v[0] * v[0] + tail), changed = v[0] > 0 ? v[0] + norm : v[0] - norm;
    a[k * n + k] = v[0] > 0 ? -norm : norm;
    v[0] = changed;
    const double c = 2 / (changed * changed + tail);
    e[k] = c;
    double* block = a + (k + 1) * n + k + 1;
    double* w = scratch;
    for (index_t i = 0; i < m; ++i) w[i] = c * dot(block + i * n, v, m);
    add_scaled(w, -.5 * c * dot(w, v, m), v, m);
    for (index_t i = 0; i < m; ++i) {
      add_scaled(block + i * n, -v[i], w, m);
      add_scaled(block + i * n, -w[i], v, m);
    }
  }
  d[n - 1] = a[n * n - 1];
  a[n * n - 1] = 1;
  for (index_t k = n - 1; k-- > 0;) {
    double* v = a + k * n + k + 1;
    const index_t m = n - k - 1;
    const double c = e[k];
    e[k] = a[k * n + k];
    double* block = a + (k + 1) * n + k + 1;
    if (c != 0)
      for (index_t i = 0; i < m; ++i) add_scaled(block + i * n, -c * dot(block + i * n, v, m), v, m);
    a[k * n + k] = 1;
    for (index_t i = 0; i < m; ++i) v[i] = block[i * n - 1] = 0;
  }
}

/// Symmetric a (n,n) becomes its orthonormal eigenvectors, row j that of values[j]; values in no order. scratch: 2 n.
/// Householder tridiagonalisation and implicit QL (Golub and Van Loan, section 8.3). Backward stable: errors of a few eps
/// |A|. About 9 n^3 operations. False if an eigenvalue takes more than 50 steps (not seen).
inline bool symmetric_factors(double* a, index_t n, double* values, double* scratch) {
  double* d = values;
  double* e = scratch;
  if (n < 1) return true;
  tridiagonalise(a, n, d, e, scratch + n);
  e[n - 1] = 0;
  double size = 0;
  for (index_t i = 0; i < n; ++i) size = std::max(size, std::abs(d[i]) + std::abs(e[i]));
  const double negligible = .5 * std::numeric_limits<double>::epsilon() * size;
  for (index_t first = 0; first < n; ++first) {
    for (int step = 0;; ++step) {
      index_t last = first;
      while (last + 1 < n && std::abs(e[last]) > negligible) ++last;
      if (last == first) break;
      if (step == 50) return false;
      // shift by the eigenvalue of the leading 2 x 2 block that is nearer to d[first]; chase the bulge upwards
      const double half = (d[first + 1] - d[first]) / (2 * e[first]);
      double g = d[last] - d[first] + e[first] / (half + std::copysign(std::hypot(half, 1.0), half));
      double s = 1, c = 1, p = 0;
      index_t i = last;
      while (i > first) {
        --i;
        const double f = s * e[i], b = c * e[i], r = std::hypot(f, g);
        e[i + 1] = r;
        if (r == 0) {  // the block splits here
          d[i + 1] -= p;
          break;
        }
        s = f / r;
        c = g / r;
        const double x = d[i + 1] - p, y = (d[i] - x) * s + 2 * c * b;
        p = s * y;
        d[i + 1] = x + p;
        g = c * y - b;
        rotate(a + i * n, a + (i + 1) * n, c, s, n);
        if (i == first) {
          d[first] -= p;
          e[first] = g;
        }
      }
      e[last] = 0;
    }
  }
  return true;
}

}  // namespace headred::detail
