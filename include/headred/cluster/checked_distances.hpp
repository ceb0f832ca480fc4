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
  double largest = 0;
  for (index_t i = 0; i < n; ++i) {
    for (index_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const double x = static_cast<double>(m(i, j));
      if (!(x >= 0 && x <= 1e100))  // the bound keeps sums and squares finite
        throw argument_error(entry_text(who, what, i, j, x) + ", expected in [0,1e100]");
      copy(i, j) = x;
      largest = std::max(largest, x);
    }
  }
  for (index_t i = 0; i < n; ++i) {
    for (index_t j = 0; j < i; ++j) {
      if (std::abs(copy(i, j) - copy(j, i)) > 1e-6 * largest)
        throw argument_error(entry_text(who, what, i, j, copy(i, j)) + " but " + std::string("its mirror image is ") +
                             number_text(copy(j, i)) + ", expected a symmetric matrix");
      copy(i, j) = copy(j, i) = 0.5 * (copy(i, j) + copy(j, i));
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
