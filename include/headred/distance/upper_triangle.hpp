// The pairs of heads of a redundancy matrix, each once.
#pragma once

#include <cmath>
#include <concepts>
#include <string>
#include <vector>

#include <headred/core/as_view.hpp>
#include <headred/core/error.hpp>

namespace headred {

/// Whether as_view makes a rank-2 view in host memory of it: headred::matrix, tensor, Eigen, xtensor, mdspan.
template <class A>
concept host_matrix =
    viewable_as<A, 2> &&
    std::same_as<typename decltype(as_view(std::declval<std::remove_reference_t<A>&>()))::space, host_space>;

namespace detail {

inline std::string extents_text(index_t rows, index_t cols) {
  return "(" + std::to_string(rows) + "," + std::to_string(cols) + ")";
}

// The entry as double; refuses NaN and infinity, which would pass silently through every sum.
template <class View>
double finite_entry(const View& a, index_t i, index_t j, const char* name) {
  const auto value = static_cast<double>(a(i, j));
  if (!std::isfinite(value))
    throw argument_error(std::string(name) + extents_text(i, j) + " is " + std::to_string(value) +
                         ", expected a finite number");
  return value;
}

// upper_triangle for an argument that messages call `name`, "correlation: a".
template <class View>
std::vector<double> named_upper_triangle(const View& a, const char* name) {
  const index_t n = a.extent(0);
  if (a.extent(1) != n)
    throw shape_error(std::string(name) + " is " + extents_text(n, a.extent(1)) + ", expected a square matrix");
  std::vector<double> pairs;
  pairs.reserve(n < 2 ? 0 : static_cast<std::size_t>(n) * static_cast<std::size_t>(n - 1) / 2);
  for (index_t i = 0; i < n; ++i)
    for (index_t j = i + 1; j < n; ++j) pairs.push_back(finite_entry(a, i, j, name));
  return pairs;
}

inline void require_same_size(index_t found, index_t expected, const char* name) {
  if (found != expected)
    throw shape_error(std::string(name) + " is " + extents_text(found, found) + ", expected " +
                      extents_text(expected, expected));
}

}  // namespace detail

/// The entries above the diagonal, row by row: (0,1), (0,2), ..., (N-2,N-1); diagonal and lower half are not read.
///   a : (N,N) -> N (N-1) / 2 numbers, none for N < 2
/// Throws shape_error for a matrix that is not square, argument_error for an entry that is not finite. Cost O(N^2).
template <host_matrix Matrix>
std::vector<double> upper_triangle(const Matrix& a) {
  return detail::named_upper_triangle(as_view(a), "upper_triangle: a");
}

}  // namespace headred
