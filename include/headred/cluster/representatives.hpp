// representatives: the head that stands for each cluster.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <headred/cluster/clustering.hpp>
#include <headred/cluster/silhouette.hpp>

namespace headred {

/// One head of each cluster, the one with the highest silhouette; values within 1e-12 of it count as equal, and of equals
/// the lowest head is taken, so rounding decides nothing.
/// clusters.labels, scores.values : (N), values finite. Result: flat head numbers, ascending, one a cluster. Undefined
/// silhouettes (all 0) give the lowest head of each cluster: all heads for k = N.
/// Throws shape_error when sizes differ, argument_error for a label outside [0, found) or a value that is not finite.
/// Cost O(N + k log k). Source: Bian et al., NAACL 2021, section 7.
inline std::vector<index_t> representatives(const clustering& clusters, const silhouettes& scores) {
  if (scores.values.size() != clusters.labels.size())
    throw shape_error("representatives: " + std::to_string(scores.values.size()) + " silhouettes for " +
                      std::to_string(clusters.labels.size()) + " labels");
  std::vector<index_t> chosen;
  for (const std::vector<index_t>& members : cluster_members(clusters)) {
    if (members.empty()) continue;
    double highest = -INFINITY;
    for (const index_t head : members) {
      const double s = scores.values[static_cast<std::size_t>(head)];
      if (!std::isfinite(s))
        throw argument_error("representatives: silhouette of head " + std::to_string(head) + " is " +
                             std::to_string(s) + ", expected a finite number");
      highest = std::max(highest, s);
    }
    chosen.push_back(*std::find_if(members.begin(), members.end(), [&](index_t head) {
      return scores.values[static_cast<std::size_t>(head)] >= highest - 1e-12;
    }));
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace headred
