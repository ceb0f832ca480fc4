// auto_clusters: the number of clusters with the largest mean silhouette.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <headred/cluster/silhouette.hpp>
#include <headred/cluster/spectral.hpp>

namespace headred {

/// Which numbers of clusters are tried, and how labels are made of the spectral vectors.
struct auto_options {
  index_t min = 2;                           ///< least number of clusters tried, at least 1
  index_t max = 0;                           ///< largest number tried, at most N; 0 stands for N - 1
  labelling method = labelling::cluster_qr;  ///< this and the rest as in spectral_options
  std::uint64_t seed = 0;
  int restarts = 10;
  int max_iterations = 300;
};

/// One point of the silhouette curve.
struct silhouette_point {
  index_t k = 0;               ///< clusters asked for
  index_t found = 0;           ///< clusters that were not empty
  double mean_silhouette = 0;  ///< 0 where undefined
  headred::status status =
      headred::status::converged;  ///< undefined where there is no silhouette, else the clustering's
};

namespace detail {

/// Index of the first point whose mean silhouette is within 1e-12 of the largest; curve.size() when none is defined.
inline std::size_t best_point(const std::vector<silhouette_point>& curve) {
  double highest = -2;
  for (const silhouette_point& p : curve)
    if (p.status != status::undefined) highest = std::max(highest, p.mean_silhouette);
  const auto best = std::find_if(curve.begin(), curve.end(), [&](const silhouette_point& p) {
    return p.status != status::undefined && p.mean_silhouette >= highest - 1e-12;
  });
  return static_cast<std::size_t>(best - curve.begin());
}

}  // namespace detail

/// The best number of clusters and the whole curve. `undefined`: no number in the range has a silhouette.
struct auto_clusters_result {
  index_t k = 0;                        ///< the best number of clusters
  std::vector<silhouette_point> curve;  ///< every k tried, ascending
  clustering clusters;                  ///< for the best k
  silhouettes scores;                   ///< for the best k
  headred::status status = headred::status::converged;
};

/// Clusters for every k in [min,max] and the k with the largest mean silhouette; means within 1e-12 of it count as equal,
/// and of equals the smallest k is taken. Points without a silhouette (one cluster, or N) are in the curve but not chosen.
/// Status undefined when no k has one: k = min then. On real models the best k is small (3 for BERT-base), far below the
/// counts that pruning asks for.
/// Throws argument_error unless 1 <= min <= max <= N. Cost: a labelling and O(N^2) a k, in parallel over k.
template <host_backend Backend>
auto_clusters_result auto_clusters(Backend& be, const spectral_embedding<Backend>& embedding,
                                   const auto_options& options = {}) {
  const index_t n = embedding.heads();
  const index_t first = options.min, last = options.max != 0 ? options.max : std::max(first, n - 1);
  if (first < 1 || last < first || last > n)
    throw argument_error("auto_clusters: range is " + std::to_string(first) + " to " + std::to_string(last) +
                         ", expected within 1 to " + std::to_string(n));
  const auto count = static_cast<std::size_t>(last - first + 1);
  std::vector<clustering> clusters(count);
  std::vector<silhouettes> scores(count);
  be.for_each(static_cast<index_t>(count), [&](index_t i) {
    const auto at = static_cast<std::size_t>(i);
    clusters[at] = embedding.clusters(spectral_options{.count = first + i,
                                                       .method = options.method,
                                                       .seed = options.seed,
                                                       .restarts = options.restarts,
                                                       .max_iterations = options.max_iterations});
    scores[at] = detail::silhouettes_of(be, embedding.distances(), clusters[at]);
  });

  auto_clusters_result result;
  for (std::size_t i = 0; i < count; ++i)
    result.curve.push_back({.k = first + static_cast<index_t>(i),
                            .found = clusters[i].found,
                            .mean_silhouette = scores[i].mean,
                            .status = scores[i].status == status::undefined ? status::undefined : clusters[i].status});
  std::size_t best = detail::best_point(result.curve);
  if (best == count) {
    best = 0;
    result.status = status::undefined;
  }
  result.k = result.curve[best].k;
  result.clusters = std::move(clusters[best]);
  result.scores = std::move(scores[best]);
  return result;
}

/// The same from distances (N,N), by way of a spectral_embedding with the affinity given.
template <host_backend Backend, class Distances, affinity_policy Affinity = one_minus>
  requires viewable_as<const Distances&, 2>
auto_clusters_result auto_clusters(Backend& be, const Distances& distances, const auto_options& options = {},
                                   const Affinity& affinity = {}) {
  return auto_clusters(be, spectral_embedding<Backend>(be, distances, affinity), options);
}

}  // namespace headred
