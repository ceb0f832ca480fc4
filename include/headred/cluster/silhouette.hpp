// silhouette: how well each head lies in its cluster.
#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <headred/backend/concept.hpp>
#include <headred/cluster/checked_distances.hpp>
#include <headred/cluster/clustering.hpp>

namespace headred {

/// How well each head lies in its cluster, and their mean.
struct silhouettes {
  std::vector<double> values;  ///< (N), in [-1,1]; all 0 where undefined
  double mean = 0;             ///< over all heads; 0 where undefined
  headred::status status = headred::status::converged;
};

namespace detail {

/// Silhouettes on distances that are symmetric with zero diagonal, of a canonical clustering of as many heads.
template <host_backend Backend>
silhouettes silhouettes_of(Backend& be, const matrix& distances, const clustering& clusters) {
  const index_t n = distances.rows(), k = clusters.found;
  silhouettes result{.values = std::vector<double>(static_cast<std::size_t>(n), 0.0),
                     .mean = 0,
                     .status = k > 1 && k < n ? status::converged : status::undefined};
  if (result.status == status::undefined) return result;
  const std::vector<index_t>& labels = clusters.labels;
  std::vector<index_t> sizes(static_cast<std::size_t>(k), 0);
  for (const index_t label : labels) ++sizes[static_cast<std::size_t>(label)];

  // Heads are cut into blocks; a block's sums are (k, width), so rows of distances are added without an index.
  constexpr index_t width = 64;
  std::vector<double> memory(static_cast<std::size_t>(k * ((n + width - 1) / width) * width), 0.0);
  be.for_each((n + width - 1) / width, [&](index_t block) {
    const index_t begin = block * width, count = std::min(width, n - begin);
    double* const sums = memory.data() + block * width * k;
    for (index_t j = 0; j < n; ++j) {
      double* const sum = sums + labels[static_cast<std::size_t>(j)] * width;
      const double* const row = distances.data() + j * n + begin;
      for (index_t i = 0; i < count; ++i) sum[i] += row[i];
    }
    for (index_t i = 0; i < count; ++i) {
      const index_t own = labels[static_cast<std::size_t>(begin + i)];
      const index_t others = sizes[static_cast<std::size_t>(own)] - 1;
      if (others == 0) continue;
      const double a = sums[own * width + i] / static_cast<double>(others);
      double b = std::numeric_limits<double>::infinity();
      for (index_t c = 0; c < k; ++c)
        if (c != own) b = std::min(b, sums[c * width + i] / static_cast<double>(sizes[static_cast<std::size_t>(c)]));
      const double larger = std::max(a, b);
      if (larger > 0) result.values[static_cast<std::size_t>(begin + i)] = (b - a) / larger;
    }
  });
  for (const double s : result.values) result.mean += s;
  result.mean /= static_cast<double>(n);
  return result;
}

}  // namespace detail

/// Silhouette of every head, and their mean.
///   s_i = (b_i - a_i) / max(a_i, b_i),  a_i mean distance to the others of i's cluster, b_i least mean distance to another
/// distances : (N,N) on the host, see checked_distances; clusters.labels : (N), any non-negative ids.
/// A head alone in its cluster has 0, and so has one with a = b = 0. One cluster, or N: status undefined, all values 0.
/// Throws what checked_distances throws, shape_error for another number of labels, argument_error for a negative label.
/// Cost O(N^2 + k N). Source: Rousseeuw, J. Comput. Appl. Math. 20 (1987), section 2.
template <host_backend Backend, class Distances>
  requires viewable_as<const Distances&, 2>
silhouettes silhouette(Backend& be, const Distances& distances, const clustering& clusters) {
  const matrix checked = checked_distances("silhouette", distances);
  if (static_cast<index_t>(clusters.labels.size()) != checked.rows())
    throw shape_error("silhouette: " + std::to_string(clusters.labels.size()) + " labels for distances " +
                      shape_text(checked.view().shape()) + ", expected as many as heads");
  return detail::silhouettes_of(be, checked, make_clustering(clusters.labels));
}

}  // namespace headred
