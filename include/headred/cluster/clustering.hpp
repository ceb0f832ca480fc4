// clustering: which cluster each head belongs to.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <headred/core/error.hpp>
#include <headred/core/status.hpp>

namespace headred {

/// A partition of N heads. Ids are 0..found-1 in order of first appearance, so equal partitions compare equal.
struct clustering {
  std::vector<index_t> labels;  ///< (N), cluster id of each head
  index_t requested = 0;        ///< number of clusters asked for
  index_t found = 0;            ///< number of non-empty clusters
  headred::status status = headred::status::converged;

  friend bool operator==(const clustering&, const clustering&) = default;
};

/// The clustering that given labels describe: any non-negative ids, renumbered in order of first appearance.
/// labels : (N); requested = 0 stands for "as many as there are". Status fewer_clusters when found < requested.
/// Throws argument_error for a negative label or request. Cost O(N log N).
inline clustering make_clustering(std::span<const index_t> labels, index_t requested = 0) {
  if (requested < 0)
    throw argument_error("make_clustering: requested is " + std::to_string(requested) + ", expected at least 0");
  std::vector<index_t> ids(labels.begin(), labels.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());

  clustering result{.labels = {}, .requested = requested, .found = 0, .status = status::converged};
  result.labels.reserve(labels.size());
  std::vector<index_t> renumbered(ids.size(), -1);
  for (const index_t label : labels) {
    if (label < 0)
      throw argument_error("make_clustering: label of head " + std::to_string(result.labels.size()) + " is " +
                           std::to_string(label) + ", expected at least 0");
    index_t& id = renumbered[static_cast<std::size_t>(std::lower_bound(ids.begin(), ids.end(), label) - ids.begin())];
    if (id < 0) id = result.found++;
    result.labels.push_back(id);
  }
  if (requested == 0) result.requested = result.found;
  if (result.found < result.requested) result.status = status::fewer_clusters;
  return result;
}

/// The heads of each cluster, ascending: element c lists the heads whose label is c.
/// Throws argument_error for a label outside [0, found).
inline std::vector<std::vector<index_t>> cluster_members(const clustering& clusters) {
  std::vector<std::vector<index_t>> members(static_cast<std::size_t>(std::max<index_t>(clusters.found, 0)));
  for (std::size_t head = 0; head < clusters.labels.size(); ++head) {
    const index_t label = clusters.labels[head];
    if (label < 0 || label >= clusters.found)
      throw argument_error("cluster_members: label of head " + std::to_string(head) + " is " + std::to_string(label) +
                           ", expected below " + std::to_string(clusters.found));
    members[static_cast<std::size_t>(label)].push_back(static_cast<index_t>(head));
  }
  return members;
}

}  // namespace headred
