// Redundancy matrices compared with each other: between distances, inputs, tasks, training phases.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>
#include <string>
#include <vector>

#include <headred/core/matrix.hpp>
#include <headred/core/status.hpp>
#include <headred/distance/upper_triangle.hpp>

namespace headred {

/// A correlation coefficient in [-1,1]; where one side does not vary, `value` is 0 and `status` undefined.
struct correlation_result {
  double value = 0;
  headred::status status = headred::status::undefined;
};

namespace detail {

// Mean, and the sum of squares about it: what one side brings into a correlation.
struct moments {
  long double mean = 0;
  long double centred_square = 0;
  bool constant = true;
};

inline moments moments_of(const std::vector<double>& x) {
  if (x.empty()) return {};
  long double sum = 0, square = 0, centred_square = 0;
  for (const double v : x) sum += v;
  const long double mean = sum / static_cast<long double>(x.size());
  for (const double v : x) {
    square += static_cast<long double>(v) * v;
    centred_square += (v - mean) * (v - mean);
  }
  // the distances' own rule for rows that are constant up to rounding: |xc| <= 16 eps |x|
  constexpr long double limit = 16 * static_cast<long double>(std::numeric_limits<double>::epsilon());
  return {mean, centred_square, centred_square <= limit * limit * square};
}

inline correlation_result correlate(const std::vector<double>& a, const moments& of_a, const std::vector<double>& b,
                                    const moments& of_b) {
  if (of_a.constant || of_b.constant) return {};
  long double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - of_a.mean) * (b[i] - of_b.mean);
  const long double r = sum / std::sqrt(of_a.centred_square * of_b.centred_square);
  return {static_cast<double>(std::clamp(r, -1.0L, 1.0L)), status::converged};
}

}  // namespace detail

/// Pearson correlation of two redundancy matrices over their N (N-1) / 2 pairs of heads, two-pass in long double.
///   r = sum ac bc / sqrt(sum ac^2 sum bc^2),  ac = a - mean(a) above the diagonal
///   a, b : (N,N), symmetric; only the strict upper triangle is read
/// Result in [-1,1]; 1 for equal matrices that vary. Degenerate: 0 with status undefined when a or b is constant up to
/// rounding (|ac| <= 16 eps |a|), which includes N < 3. Throws shape_error for matrices that are not square or differ in
/// size, argument_error for entries that are not finite. Cost O(N^2). Source: Bian et al. 2021, section 5 (Figure 3);
/// the upper triangle is our choice.
template <host_matrix A, host_matrix B>
correlation_result correlation(const A& a, const B& b) {
  const auto x = detail::named_upper_triangle(as_view(a), "correlation: a");
  const auto y = detail::named_upper_triangle(as_view(b), "correlation: b");
  detail::require_same_size(as_view(b).extent(0), as_view(a).extent(0), "correlation: b");
  return detail::correlate(x, detail::moments_of(x), y, detail::moments_of(y));
}

/// Mean of |a - b| over the pairs of heads: how far two redundancy matrices are apart.
///   a, b : (N,N), symmetric; only the strict upper triangle is read
/// Result >= 0, at most 1 for distances in [0,1]; 0 for N < 2. Throws as correlation. Cost O(N^2).
/// Source: Bian et al. 2021, section 6 (0.035 between pre-trained and fine-tuned).
template <host_matrix A, host_matrix B>
double mean_absolute_difference(const A& a, const B& b) {
  const auto x = detail::named_upper_triangle(as_view(a), "mean_absolute_difference: a");
  const auto y = detail::named_upper_triangle(as_view(b), "mean_absolute_difference: b");
  detail::require_same_size(as_view(b).extent(0), as_view(a).extent(0), "mean_absolute_difference: b");
  if (x.empty()) return 0;
  long double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += std::abs(static_cast<long double>(x[i]) - y[i]);
  return static_cast<double>(sum / static_cast<long double>(x.size()));
}

/// Correlation of every matrix with every other: for M matrices an (M,M) table, symmetric, as Bian's Figure 3.
///   matrices : a range of M matrices (N,N), such as std::vector<headred::matrix>
/// The diagonal is 1; entries of a matrix that does not vary are 0, its diagonal included. Throws as correlation, naming
/// the matrix by its number. Cost O(M^2 N^2).
template <std::ranges::input_range Matrices>
  requires host_matrix<std::ranges::range_reference_t<Matrices>>
matrix correlation_table(Matrices&& matrices) {
  std::vector<std::vector<double>> pairs;
  std::vector<detail::moments> moments;
  index_t size = 0;
  for (auto&& m : matrices) {
    const auto view = as_view(m);
    const std::string name = "correlation_table: matrix " + std::to_string(pairs.size());
    if (pairs.empty()) size = view.extent(0);
    pairs.push_back(detail::named_upper_triangle(view, name.c_str()));
    detail::require_same_size(view.extent(0), size, name.c_str());
    moments.push_back(detail::moments_of(pairs.back()));
  }
  const auto count = static_cast<index_t>(pairs.size());
  matrix table(count, count);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (std::size_t j = i; j < pairs.size(); ++j) {
      const double r = detail::correlate(pairs[i], moments[i], pairs[j], moments[j]).value;
      table(static_cast<index_t>(i), static_cast<index_t>(j)) = r;
      table(static_cast<index_t>(j), static_cast<index_t>(i)) = r;
    }
  }
  return table;
}

}  // namespace headred
