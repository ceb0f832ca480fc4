// Affinities: how alike two heads are, from how far apart they are.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <vector>

#include <headred/cluster/checked_distances.hpp>

namespace headred {

/// A rule that turns distances (N,N), symmetric with zero diagonal, into affinities (N,N), symmetric and non-negative.
/// A lambda will do: the result is checked, its diagonal ignored.
template <class Affinity>
concept affinity_policy = requires(const Affinity& affinity, const matrix& distances) {
  { affinity(distances) } -> std::same_as<matrix>;
};

/// S = 1 - R, for distances in [0,1]; up to 1 + 1e-9 is taken for 1.
/// Throws argument_error for a larger distance, whose affinity would be negative.
struct one_minus {
  matrix operator()(const matrix& distances) const {
    const index_t n = distances.rows();
    matrix affinities(n, n);
    for (index_t i = 0; i < n; ++i) {
      for (index_t j = 0; j < n; ++j) {
        if (distances(i, j) > 1 + 1e-9)
          throw argument_error(detail::entry_text("one_minus", "distance", i, j, distances(i, j)) +
                               ", expected at most 1");
        affinities(i, j) = std::max(0.0, 1 - distances(i, j));
      }
    }
    return affinities;
  }
};

/// S = exp(-R^2 / (2 sigma^2)); sigma = 0 takes the median of the distances off the diagonal. Where that is 0 too, the
/// limit holds: 1 for identical heads, 0 for all others. Throws argument_error for a sigma that is negative or not finite.
struct gaussian {
  double sigma = 0;

  matrix operator()(const matrix& distances) const {
    if (!(sigma >= 0 && std::isfinite(sigma)))
      throw argument_error("gaussian: sigma is " + number_text(sigma) + ", expected 0 (median) or more");
    const double width = sigma > 0 ? sigma : median(distances);
    const index_t n = distances.rows();
    matrix affinities(n, n);
    for (index_t i = 0; i < n; ++i) {
      for (index_t j = 0; j < n; ++j) {
        const double r = distances(i, j);
        const double scaled = r > 0 ? r / width : 0;  // r / 0 is infinite, its affinity 0
        affinities(i, j) = std::exp(-0.5 * scaled * scaled);
      }
    }
    return affinities;
  }

  /// Median of the entries above the diagonal, the mean of the two middle ones when their number is even; 0 for none.
  static double median(const matrix& distances) {
    std::vector<double> values;
    for (index_t i = 0; i < distances.rows(); ++i)
      for (index_t j = i + 1; j < distances.cols(); ++j) values.push_back(distances(i, j));
    if (values.empty()) return 0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    if (values.size() % 2 == 1) return *middle;
    return 0.5 * (*middle + *std::max_element(values.begin(), middle));
  }
};

}  // namespace headred
