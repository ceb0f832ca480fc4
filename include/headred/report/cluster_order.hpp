// cluster_order: a display order in which every cluster is one run.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <headred/core/error.hpp>
#include <headred/core/head.hpp>

namespace headred {

/// The heads by cluster: clusters in the order in which `order` meets them first, the heads of each as in `order`.
///   order  : (N) a permutation of the heads, such as hierarchical_order gives, which scatters clusters that are weak
///   labels : (N) cluster of each head, in [0,N)
/// Throws shape_error for two lengths, argument_error for a number out of range. Cost: O(N log N).
inline std::vector<index_t> cluster_order(const std::vector<index_t>& order, const std::vector<index_t>& labels) {
  if (order.size() != labels.size())
    throw shape_error("cluster_order: order has " + std::to_string(order.size()) + " entries, labels " +
                      std::to_string(labels.size()) + ", expected as many");
  const auto n = static_cast<index_t>(order.size());
  const auto check = [n](index_t number, const char* what) {
    if (number < 0 || number >= n)
      throw argument_error(std::string("cluster_order: ") + what + " " + std::to_string(number) + ", expected [0," +
                           std::to_string(n) + ")");
    return static_cast<std::size_t>(number);
  };
  std::vector<std::size_t> met(labels.size(), labels.size());  // by cluster: its first place
  const auto place = [&](index_t head) -> std::size_t& {
    return met[check(labels[check(head, "order names head")], "a label is")];
  };
  for (std::size_t p = 0; p < order.size(); ++p) place(order[p]) = std::min(place(order[p]), p);
  std::vector<std::pair<std::size_t, std::size_t>> places(order.size());  // of the cluster, of the head
  for (std::size_t p = 0; p < order.size(); ++p) places[p] = {place(order[p]), p};
  std::sort(places.begin(), places.end());
  std::vector<index_t> sorted;
  for (const auto& [cluster, p] : places) sorted.push_back(order[p]);
  return sorted;
}

}  // namespace headred
