// checked_distances: the border at which every clustering function validates a matrix from outside.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>

#include <headred/core/as_view.hpp>
#include <headred/core/matrix.hpp>
#include <headred/core/number_text.hpp>

namespace headred {
namespace detail {

inline std::string entry_text(const char* who, const char* what, index_t i, index_t j, double x) {
  return std::string(who) + ": " + what + " (" + std::to_string(i) + "," + std::to_string(j) + ") is " + number_text(x);
}

/// A symmetric copy with zero diagonal of a square matrix with entries in [0, 1e100]. Entries (i,j) and (j,i) may differ
/// by 1e-6 of the largest entry and are averaged. The diagonal is not read. `who` and `what` begin the error texts.
template <class Matrix>
matrix checked_symmetric(const char* who, const char* what, const Matrix& input) {
  const auto m = as_view(input);
  static_assert(decltype(m)::rank == 2, "expected a matrix (N,N)");
  static_assert(std::is_same_v<typename decltype(m)::space, host_space>, "expected a matrix in host memory");
  const index_t n = m.extent(0);
  if (n != m.extent(1) || n == 0)
    throw shape_error(std::string(who) + ": matrix is " + shape_text(m.shape()) + ", expected (N,N) with N at least 1");

  matrix copy(n, n);
  for (index_t i = 0; i < n; ++i) {
    double* const row = copy.data() + i * n;
    if (m.stride(1) == 1) {
      const auto* const x = m.data() + i * m.stride(0);
      for (index_t j = 0; j < n; ++j) row[j] = static_cast<double>(x[j]);
    } else {
      for (index_t j = 0; j < n; ++j) row[j] = static_cast<double>(m(i, j));
    }
    row[i] = 0;
    index_t wrong = 0;  // counted, so that the loop vectorises; the bound keeps sums and squares finite
    for (index_t j = 0; j < n; ++j) wrong += row[j] >= 0 && row[j] <= 1e100 ? 0 : 1;
    if (wrong > 0) {
      const auto bad = std::find_if(row, row + n, [](double x) { return !(x >= 0 && x <= 1e100); });
      throw argument_error(entry_text(who, what, i, bad - row, *bad) + ", expected in [0,1e100]");
    }
  }
  double tolerance = -1;         // found when first needed
  constexpr index_t block = 32;  // mirrored blocks of this size stay in the cache
  for (index_t top = 0; top < n; top += block) {
    for (index_t left = 0; left <= top; left += block) {
      for (index_t i = top; i < std::min(top + block, n); ++i) {
        for (index_t j = left; j < std::min(left + block, i); ++j) {
          double &lower = copy(i, j), &upper = copy(j, i);
          if (lower == upper) continue;
          if (tolerance < 0) tolerance = 1e-6 * *std::max_element(copy.data(), copy.data() + n * n);
          if (std::abs(lower - upper) > tolerance)
            throw argument_error(entry_text(who, what, i, j, lower) + " but its mirror image is " + number_text(upper) +
                                 ", expected a symmetric matrix");
          lower = upper = 0.5 * (lower + upper);
        }
      }
    }
  }
  return copy;
}

}  // namespace detail

/// A symmetric copy with zero diagonal of distances (N,N) on the host, N >= 1, entries in [0, 1e100]; entries that mirror
/// each other may differ by 1e-6 of the largest one and are averaged; the diagonal is ignored, whatever it holds.
/// `who` begins the error texts. Throws shape_error for another shape, argument_error for an entry that is negative, not
/// finite, too large or not symmetric. Cost O(N^2).
template <class Distances>
  requires viewable_as<const Distances&, 2>
matrix checked_distances(const char* who, const Distances& distances) {
  return detail::checked_symmetric(who, "distance", distances);
}

}  // namespace headred
