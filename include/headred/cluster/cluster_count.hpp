// cluster_count: how many clusters of heads a pruning ratio leaves.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include <headred/core/error.hpp>
#include <headred/core/number_text.hpp>

namespace headred {

/// Number of clusters, and so of heads kept, when a share of the heads is pruned.
///   k = N - floor(ratio N + 1e-9)      the 1e-9 keeps ceil(20 (1 - .85)) at 3, where floating point gives 4
/// Result in [1,N]; 0 for no heads at all. Throws argument_error for heads < 0 or a ratio outside [0,1).
/// Source: Bian et al., NAACL 2021, section 7.
inline index_t cluster_count(index_t heads, double pruning_ratio) {
  if (heads < 0) throw argument_error("cluster_count: heads is " + std::to_string(heads) + ", expected at least 0");
  if (!(pruning_ratio >= 0 && pruning_ratio < 1))
    throw argument_error("cluster_count: pruning ratio is " + number_text(pruning_ratio) + ", expected in [0,1)");
  if (heads == 0) return 0;
  const auto pruned = static_cast<index_t>(std::floor(pruning_ratio * static_cast<double>(heads) + 1e-9));
  return std::max<index_t>(1, heads - pruned);  // a ratio within 1e-9 of 1 would round to all heads
}

}  // namespace headred
