// redundancy_report: what is known about the redundancy of a model's heads, as plain values, ready for a page.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <headred/core/as_view.hpp>
#include <headred/core/error.hpp>
#include <headred/core/head.hpp>
#include <headred/core/head_layout.hpp>
#include <headred/core/matrix.hpp>

namespace headred {

/// The content of a report on the N heads of one attention kind. Only `layout` is required; what is left empty does
/// not appear on the page. NaN means unknown everywhere. Heads are flat layer-major numbers 0..N-1. Strings are UTF-8
/// of any content.
struct redundancy_report {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  /// A redundancy matrix by its name.
  struct distance {
    std::string name;
    matrix values;  ///< (N,N), symmetric, in [0,1], 0 = the heads behave alike
  };
  /// The silhouette for one number of clusters.
  struct curve_point {
    index_t k = 0;  ///< number of clusters
    double mean_silhouette = unknown;
  };
  /// The mean distance of heads so many layers apart.
  struct gap_point {
    index_t gap = 0;  ///< layers between the two heads
    double mean = unknown;
    double low = unknown, high = unknown;  ///< bootstrap interval of the mean
  };
  /// Mean distances by difference of layers, of one distance.
  struct gap_curve {
    std::string name;
    std::vector<gap_point> points;
  };
  /// How alike M redundancy matrices are; each matrix is (M,M) or empty.
  struct comparison_table {
    std::vector<std::string> names;
    matrix correlation;      ///< Pearson, in [-1,1]
    matrix p_value;          ///< Mantel permutation test, one-sided, in [0,1]
    matrix mean_difference;  ///< mean absolute difference, at least 0
  };
  /// A line of the settings.
  struct entry {
    std::string key, value;
  };

  std::string title = "Redundancy of attention heads";
  std::string subtitle;  ///< model, data, number of sentences
  attention_kind kind = attention_kind::encoder_self;
  head_layout layout;

  std::vector<distance> distances;
  /// (N) heads in display order, see cluster_order; empty: by cluster, then head. The page frames the runs of one label.
  std::vector<index_t> order;
  std::vector<index_t> labels;               ///< (N) cluster of each head, in [0,N)
  std::vector<double> silhouettes;           ///< (N) in [-1,1]
  std::optional<std::vector<index_t>> kept;  ///< heads of the plan, in any order; none: there is no plan
  std::string clustered_on;  ///< name of the distance the clusters come from; shown first if it is there
  index_t chosen_k = 0;      ///< number of clusters asked for; 0: not stated
  double mean_silhouette = unknown;
  std::string chosen_by;           ///< how k was chosen, for people
  std::vector<curve_point> curve;  ///< k ascending
  comparison_table comparison;
  std::vector<gap_curve> gaps;
  std::vector<entry> settings;     ///< shown in this order
  std::vector<std::string> notes;  ///< warnings, shown at the top

  /// Adds a copy of a redundancy matrix: headred::matrix, a view, Eigen, xtensor; floating point of any width.
  template <viewable_as<2> Values>
  void add_distance(std::string name, const Values& values) {
    const auto v = as_view(values);
    matrix copy(v.extent(0), v.extent(1));
    for (index_t i = 0; i < copy.rows(); ++i)
      for (index_t j = 0; j < copy.cols(); ++j) copy(i, j) = static_cast<double>(v(i, j));
    distances.push_back({std::move(name), std::move(copy)});
  }
};

}  // namespace headred
