// How distance grows with the number of layers between two heads.
#pragma once

#include <string>
#include <vector>

#include <headred/core/head_layout.hpp>
#include <headred/distance/upper_triangle.hpp>

namespace headred {

/// Entry g is about the pairs of heads whose layers are g apart, g = 0 .. L-1.
struct layer_gap_profile {
  std::vector<double> mean;    ///< mean distance; 0 where there is no pair
  std::vector<index_t> pairs;  ///< number of pairs of heads
};

/// Mean distance between heads by the difference of their layers; gap 0 is about different heads of one layer.
///   mean[g] = mean of a(i,j) over i < j with |layer(i) - layer(j)| = g
///   a : (N,N), symmetric; only the strict upper triangle is read.  layout : N heads in L layers, of any counts
/// Result: L entries, in the unit of a. Linear in a: the profile of a mean of matrices is the mean of their profiles,
/// which is what bootstrap_mean over sentences uses. Throws shape_error for a matrix that is not (N,N), argument_error
/// for entries that are not finite. Cost O(N^2). Source: Bian et al. 2021, section 5 (distance within and between layers).
template <host_matrix Matrix>
layer_gap_profile layer_gap(const Matrix& a, const head_layout& layout) {
  const auto view = as_view(a);
  const index_t n = layout.size();
  if (view.extent(0) != n || view.extent(1) != n)
    throw shape_error("layer_gap: a is " + detail::extents_text(view.extent(0), view.extent(1)) + ", expected " +
                      detail::extents_text(n, n));
  std::vector<index_t> layer;  // [head]
  layer.reserve(static_cast<std::size_t>(n));
  for (index_t l = 0; l < layout.layers(); ++l) layer.insert(layer.end(), std::size_t(layout.heads(l)), l);

  std::vector<long double> sum(static_cast<std::size_t>(layout.layers()));
  layer_gap_profile profile{std::vector<double>(sum.size()), std::vector<index_t>(sum.size())};
  for (index_t i = 0; i < n; ++i) {
    for (index_t j = i + 1; j < n; ++j) {
      const auto gap =
          static_cast<std::size_t>(layer[static_cast<std::size_t>(j)] - layer[static_cast<std::size_t>(i)]);
      sum[gap] += detail::finite_entry(view, i, j, "layer_gap: a");
      ++profile.pairs[gap];
    }
  }
  for (std::size_t g = 0; g < sum.size(); ++g)
    if (profile.pairs[g] > 0)
      profile.mean[g] = static_cast<double>(sum[g] / static_cast<long double>(profile.pairs[g]));
  return profile;
}

}  // namespace headred
