// polar_factor: the orthogonal matrix nearest to a square one.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <headred/core/matrix.hpp>
#include <headred/core/status.hpp>

namespace headred {
namespace detail {

/// Inverts a in place (Gauss-Jordan, rows exchanged for the largest pivot); false, with a spoilt, if it is singular.
inline bool invert(matrix& a) {
  const index_t n = a.rows();
  std::vector<index_t> pivots(static_cast<std::size_t>(n));
  for (index_t step = 0; step < n; ++step) {
    index_t pivot = step;
    for (index_t i = step + 1; i < n; ++i)
      if (std::abs(a(i, step)) > std::abs(a(pivot, step))) pivot = i;
    if (!(std::abs(a(pivot, step)) > 0)) return false;
    pivots[static_cast<std::size_t>(step)] = pivot;
    double* const top = a.data() + step * n;
    if (pivot != step) std::swap_ranges(top, top + n, a.data() + pivot * n);

    const double scale = 1 / top[step];
    top[step] = 1;
    for (index_t j = 0; j < n; ++j) top[j] *= scale;
    for (index_t i = 0; i < n; ++i) {
      if (i == step) continue;
      double* const row = a.data() + i * n;
      const double factor = row[step];
      row[step] = 0;
      for (index_t j = 0; j < n; ++j) row[j] -= factor * top[j];
    }
  }
  for (index_t step = n; step-- > 0;) {
    const index_t pivot = pivots[static_cast<std::size_t>(step)];
    if (pivot == step) continue;
    for (index_t i = 0; i < n; ++i) std::swap(a(i, step), a(i, pivot));
  }
  return true;
}

/// |a|_1 |a|_inf: an upper bound of the square of the largest singular value.
inline double norm_product(const matrix& a) {
  std::vector<double> columns(static_cast<std::size_t>(a.cols()));
  double rows = 0;
  for (index_t i = 0; i < a.rows(); ++i) {
    double sum = 0;
    for (index_t j = 0; j < a.cols(); ++j) {
      sum += std::abs(a(i, j));
      columns[static_cast<std::size_t>(j)] += std::abs(a(i, j));
    }
    rows = std::max(rows, sum);
  }
  return rows * *std::max_element(columns.begin(), columns.end());
}

}  // namespace detail

/// An orthogonal factor and whether it converged.
struct polar_factor_result {
  matrix factor;  ///< (N,N), orthogonal
  int iterations = 0;
  headred::status status = headred::status::converged;
};

/// The orthogonal factor U of A = U H, H symmetric positive definite: the orthogonal matrix nearest to A.
///   X <- (m X + X^-T / m) / 2 from X = A, with the scaling m = (|X^-1|_1 |X^-1|_inf / (|X|_1 |X|_inf))^(1/4)
/// a : (N,N), N >= 1, finite. Status degenerate (factor empty) where A is singular: U is then not unique; not_converged
/// after 40 iterations. Throws shape_error when a is not square or empty. 6 to 10 iterations of 2 N^3 operations.
/// Source: Higham, SIAM J. Sci. Stat. Comput. 7 (1986), section 3.
inline polar_factor_result polar_factor(matrix a) {
  const index_t n = a.rows();
  if (n != a.cols() || n == 0)
    throw shape_error("polar_factor: matrix is (" + std::to_string(n) + "," + std::to_string(a.cols()) +
                      "), expected (N,N) with N at least 1");
  polar_factor_result result{.factor = std::move(a), .iterations = 0, .status = status::not_converged};
  matrix& x = result.factor;
  matrix inverse;
  bool scaled = true;
  while (result.iterations < 40) {
    ++result.iterations;
    inverse = x;
    double m = 1;
    if (!detail::invert(inverse)) m = 0;
    if (m > 0 && scaled) m = std::sqrt(std::sqrt(detail::norm_product(inverse) / detail::norm_product(x)));
    if (!(m > 0 && std::isfinite(m))) return {{}, result.iterations, status::degenerate};

    double change = 0;
    for (index_t i = 0; i < n; ++i) {
      for (index_t j = 0; j < n; ++j) {
        const double next = 0.5 * (m * x(i, j) + inverse(j, i) / m);
        change += (next - x(i, j)) * (next - x(i, j));
        x(i, j) = next;
      }
    }
    // Near the limit each step squares the error, so a step of 1e-9 leaves none; there the scaling only adds rounding.
    change = std::sqrt(change / static_cast<double>(n));
    if (change < 1e-9) {
      result.status = status::converged;
      break;
    }
    if (change < 1e-2) scaled = false;
  }
  return result;
}

}  // namespace headred
