// hierarchical_order: heads in an order in which similar ones are neighbours, for display.
#pragma once

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <headred/cluster/checked_distances.hpp>

namespace headred {

/// One merge of a hierarchical clustering. Heads are nodes 0..N-1, merge number m makes node N + m.
struct cluster_merge {
  index_t left = 0;  ///< the node with the lower number
  index_t right = 0;
  double height = 0;  ///< mean distance between the heads of the two nodes
  index_t size = 0;   ///< heads in the new node

  friend bool operator==(const cluster_merge&, const cluster_merge&) = default;
};

namespace detail {

/// average_linkage on distances that are symmetric; they are spoilt.
inline std::vector<cluster_merge> average_linkage_of(matrix d) {
  const index_t n = d.rows();
  struct raw_merge {
    index_t a, b;  // a head of either side
    double height;
    std::size_t found;
  };
  std::vector<raw_merge> merges;
  std::vector<double> size(static_cast<std::size_t>(n), 1.0), height(static_cast<std::size_t>(n), 0.0);
  std::vector<index_t> active(static_cast<std::size_t>(n)), chain;
  std::iota(active.begin(), active.end(), index_t{0});

  // Nearest-neighbour chain: follow nearest neighbours until two are each other's, and merge them.
  while (active.size() > 1) {
    if (chain.empty()) chain.push_back(active.front());
    for (;;) {
      const index_t here = chain.back(), before = chain.size() > 1 ? chain[chain.size() - 2] : -1;
      const double* const row = d.data() + here * n;
      index_t next = before;  // on ties the one before, else the chain would not end; then the lowest
      double nearest = before >= 0 ? row[before] : std::numeric_limits<double>::infinity();
      for (const index_t other : active) {
        if (other != here && row[other] < nearest) {
          nearest = row[other];
          next = other;
        }
      }
      if (next == before) break;
      chain.push_back(next);
    }
    index_t a = chain.back(), b = chain[chain.size() - 2];
    chain.resize(chain.size() - 2);
    if (a > b) std::swap(a, b);
    const auto at = static_cast<std::size_t>(a), bt = static_cast<std::size_t>(b);
    // Means never fall towards the root; rounding must not make them.
    height[at] = std::max({d(a, b), height[at], height[bt]});
    merges.push_back({a, b, height[at], merges.size()});
    const double total = size[at] + size[bt];
    active.erase(std::lower_bound(active.begin(), active.end(), b));
    for (const index_t other : active) {
      if (other == a) continue;
      d(a, other) = d(other, a) = (size[at] * d(a, other) + size[bt] * d(b, other)) / total;
    }
    size[at] = total;
  }

  // The chain does not find merges in order of height; of equal ones the first found stays before what builds on it.
  std::sort(merges.begin(), merges.end(), [](const raw_merge& a, const raw_merge& b) {
    return a.height != b.height ? a.height < b.height : a.found < b.found;
  });
  std::vector<index_t> parent(static_cast<std::size_t>(2 * n - 1)), sizes(static_cast<std::size_t>(2 * n - 1), 1);
  std::iota(parent.begin(), parent.end(), index_t{0});
  const auto root = [&](index_t node) {
    while (parent[static_cast<std::size_t>(node)] != node) {
      index_t& up = parent[static_cast<std::size_t>(node)];
      up = parent[static_cast<std::size_t>(up)];
      node = up;
    }
    return node;
  };
  std::vector<cluster_merge> tree;
  for (const raw_merge& m : merges) {
    index_t left = root(m.a), right = root(m.b);
    if (left > right) std::swap(left, right);
    const index_t node = n + static_cast<index_t>(tree.size());
    parent[static_cast<std::size_t>(left)] = parent[static_cast<std::size_t>(right)] = node;
    sizes[static_cast<std::size_t>(node)] =
        sizes[static_cast<std::size_t>(left)] + sizes[static_cast<std::size_t>(right)];
    tree.push_back({left, right, m.height, sizes[static_cast<std::size_t>(node)]});
  }
  return tree;
}

/// Leaves of a tree over distances (N,N); where two runs of heads meet, each is turned so that the heads that become
/// neighbours are the nearest of the four pairs of ends.
inline std::vector<index_t> leaf_order(const std::vector<cluster_merge>& tree, const matrix& d) {
  const index_t n = d.rows();
  std::vector<std::vector<index_t>> runs(static_cast<std::size_t>(2 * n - 1));
  for (index_t head = 0; head < n; ++head) runs[static_cast<std::size_t>(head)] = {head};
  for (std::size_t m = 0; m < tree.size(); ++m) {
    auto& left = runs[static_cast<std::size_t>(tree[m].left)];
    auto& right = runs[static_cast<std::size_t>(tree[m].right)];
    const double gaps[4] = {d(left.back(), right.front()), d(left.back(), right.back()), d(left.front(), right.front()),
                            d(left.front(), right.back())};
    const auto nearest = std::min_element(gaps, gaps + 4) - gaps;
    if (nearest >= 2) std::reverse(left.begin(), left.end());
    if (nearest % 2 == 1) std::reverse(right.begin(), right.end());
    left.insert(left.end(), right.begin(), right.end());
    right = {};
    runs[static_cast<std::size_t>(n) + m] = std::move(left);
  }
  std::vector<index_t> order = std::move(runs.back());
  if (order.front() > order.back()) std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace detail

/// The N - 1 merges of average-linkage (UPGMA) clustering, by ascending height.
///   distance of two nodes = mean distance between a head of one and a head of the other
/// distances : (N,N) on the host, see checked_distances for the errors. Ties go to the lowest heads.
/// Cost O(N^2), N^2 doubles. Source: Muellner, arXiv:1109.2378 (2011), section 3.1 (nearest-neighbour chain).
template <class Distances>
  requires viewable_as<const Distances&, 2>
std::vector<cluster_merge> average_linkage(const Distances& distances) {
  return detail::average_linkage_of(checked_distances("average_linkage", distances));
}

/// A permutation of the heads in which similar ones are neighbours: the leaves of the average-linkage tree, each run of
/// heads turned so that the nearest ends meet; the end with the lower head comes first.
/// distances : (N,N) on the host, see checked_distances for the errors. Result: (N), order[p] is the head at place p.
/// Deterministic. Cost O(N^2), 2 N^2 doubles. Leaf ordering ours (greedy, not the optimal one in O(N^3)).
template <class Distances>
  requires viewable_as<const Distances&, 2>
std::vector<index_t> hierarchical_order(const Distances& distances) {
  const matrix d = checked_distances("hierarchical_order", distances);
  return detail::leaf_order(detail::average_linkage_of(d), d);
}

}  // namespace headred
