// What a report must satisfy before a page is made of it.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <headred/core/number_text.hpp>
#include <headred/report/redundancy_report.hpp>
#include <headred/report/safe_text.hpp>

namespace headred {
namespace detail {

/// Rounding that values may carry, single precision included: slack for symmetry and range.
inline constexpr double report_slack = 1e-6;

inline std::string head_text(const head_layout& layout, index_t flat) {
  const head_id id = layout.id(flat);
  return "(" + std::to_string(id.layer) + "," + std::to_string(id.head) + ")";
}

inline void check_square(const matrix& m, index_t n, const std::string& what) {
  if (m.rows() != n || m.cols() != n)
    throw shape_error("redundancy_report: " + what + " is (" + std::to_string(m.rows()) + "," +
                      std::to_string(m.cols()) + "), expected (" + std::to_string(n) + "," + std::to_string(n) + ")");
}

inline void check_length(std::size_t found, index_t expected, const std::string& what) {
  if (found != static_cast<std::size_t>(expected))
    throw shape_error("redundancy_report: " + what + " has " + std::to_string(found) + " entries, expected " +
                      std::to_string(expected) + ", one for each head");
}

/// Throws unless the value is NaN or in [low, high], give or take rounding.
inline void check_range(double x, double low, double high, const std::string& what) {
  if (x < low - report_slack || x > high + report_slack)
    throw argument_error("redundancy_report: " + what + " is " + number_text(x) + ", expected " + number_text(low) +
                         " to " + number_text(high));
}

inline void check_symmetric(const redundancy_report::distance& d, const head_layout& layout) {
  for (index_t i = 0; i < d.values.rows(); ++i)
    for (index_t j = i; j < d.values.rows(); ++j) {
      const double a = d.values(i, j), b = d.values(j, i);
      const bool in_range = std::isnan(a) || (a >= -report_slack && a <= 1 + report_slack);
      const bool symmetric = std::isnan(a) ? std::isnan(b) : std::abs(a - b) <= report_slack;
      if (in_range && symmetric) continue;
      const std::string what =
          "distance " + json_text(d.name) + " of heads " + head_text(layout, i) + " and " + head_text(layout, j);
      check_range(a, 0, 1, what);
      throw argument_error("redundancy_report: " + what + " is " + number_text(a) + " in one triangle and " +
                           number_text(b) + " in the other, expected a symmetric matrix");
    }
}

/// Throws unless `numbers` are heads of the layout, each at most once.
inline void check_heads(const std::vector<index_t>& numbers, index_t n, const std::string& what) {
  std::vector<bool> seen(static_cast<std::size_t>(n));
  for (const index_t head : numbers) {
    if (head < 0 || head >= n)
      throw argument_error("redundancy_report: " + what + " names head " + std::to_string(head) +
                           ", expected numbers in [0," + std::to_string(n) + ")");
    if (seen[static_cast<std::size_t>(head)])
      throw argument_error("redundancy_report: " + what + " names head " + std::to_string(head) + " twice");
    seen[static_cast<std::size_t>(head)] = true;
  }
}

inline void check_clusters(const redundancy_report& r) {
  const index_t n = r.layout.size();
  if (!r.order.empty()) {
    check_length(r.order.size(), n, "order");
    check_heads(r.order, n, "order");
  }
  if (!r.labels.empty()) check_length(r.labels.size(), n, "labels");
  for (std::size_t i = 0; i < r.labels.size(); ++i)
    if (r.labels[i] < 0 || r.labels[i] >= n)
      throw argument_error("redundancy_report: the label of head " + head_text(r.layout, static_cast<index_t>(i)) +
                           " is " + std::to_string(r.labels[i]) + ", expected [0," + std::to_string(n) + ")");
  if (!r.silhouettes.empty()) check_length(r.silhouettes.size(), n, "silhouettes");
  for (std::size_t i = 0; i < r.silhouettes.size(); ++i)
    check_range(r.silhouettes[i], -1, 1, "the silhouette of head " + head_text(r.layout, static_cast<index_t>(i)));
  if (r.kept) check_heads(*r.kept, n, "kept");
  if (r.chosen_k < 0 || r.chosen_k > n)
    throw argument_error("redundancy_report: chosen_k is " + std::to_string(r.chosen_k) + ", expected [0," +
                         std::to_string(n) + "]");
  check_range(r.mean_silhouette, -1, 1, "mean_silhouette");
  index_t before = 0;
  for (const auto& point : r.curve) {
    if (point.k <= before || point.k > n)
      throw argument_error("redundancy_report: curve has k = " + std::to_string(point.k) + " after " +
                           std::to_string(before) + ", expected ascending k in [1," + std::to_string(n) + "]");
    before = point.k;
    check_range(point.mean_silhouette, -1, 1, "the mean silhouette for k = " + std::to_string(point.k));
  }
}

inline void check_comparison(const redundancy_report::comparison_table& c) {
  const auto m = static_cast<index_t>(c.names.size());
  const auto check = [&](const matrix& values, double low, double high, const std::string& what) {
    if (values.rows() == 0 && values.cols() == 0) return;
    check_square(values, m, what);
    for (index_t i = 0; i < m; ++i)
      for (index_t j = 0; j < m; ++j)
        check_range(values(i, j), low, high,
                    what + " of " + json_text(c.names[static_cast<std::size_t>(i)]) + " and " +
                        json_text(c.names[static_cast<std::size_t>(j)]));
  };
  check(c.correlation, -1, 1, "comparison.correlation");
  check(c.p_value, 0, 1, "comparison.p_value");
  check(c.mean_difference, 0, 1, "comparison.mean_difference");
}

inline void check_gaps(const redundancy_report& r) {
  for (const auto& curve : r.gaps) {
    index_t before = -1;
    for (const auto& point : curve.points) {
      const std::string what = "gap " + std::to_string(point.gap) + " of " + json_text(curve.name);
      if (point.gap <= before || point.gap >= r.layout.layers())
        throw argument_error("redundancy_report: " + what + " follows gap " + std::to_string(before) +
                             ", expected ascending gaps in [0," + std::to_string(r.layout.layers()) + ")");
      before = point.gap;
      for (const double x : {point.mean, point.low, point.high}) check_range(x, 0, 1, what);
    }
  }
}

}  // namespace detail

/// Checks a report; everything that makes a page of it does so first.
/// Throws shape_error for a matrix or list whose size does not fit the layout, argument_error for a value out of range,
/// an asymmetric matrix, an order that is no permutation, or more than 4096 heads; the text names the entry.
/// Cost: O(matrices N^2).
inline void check_report(const redundancy_report& report) {
  constexpr index_t most_heads = 4096;  // a browser's drawing surface ends not far above
  const index_t n = report.layout.size();
  if (n < 1 || n > most_heads)
    throw argument_error("redundancy_report: the layout has " + std::to_string(n) + " heads, expected 1 to " +
                         std::to_string(most_heads));
  for (const auto& d : report.distances) {
    detail::check_square(d.values, n, "distance " + detail::json_text(d.name));
    detail::check_symmetric(d, report.layout);
  }
  detail::check_clusters(report);
  detail::check_comparison(report.comparison);
  detail::check_gaps(report);
}

}  // namespace headred
