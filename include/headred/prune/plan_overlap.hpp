// How much two plans agree: between seeds, inputs or distances.
#pragma once

#include <algorithm>
#include <span>
#include <string>

#include <headred/prune/plan.hpp>

namespace headred {

/// Agreement of two plans in what they keep; counts are heads of all kinds (means over pairs for several plans).
struct plan_overlap {
  double common = 0;           ///< heads that both keep
  double jaccard = 1;          ///< common / (heads that either keeps), in [0,1]
  double share = 1;            ///< 2 common / (kept by a + kept by b), in [0,1]; common / k where both keep k
  double expected_common = 0;  ///< mean of `common` for random plans with the same number of heads kept in each kind
};

/// Compares what two plans for one model keep; two plans that keep nothing agree fully (1).
/// Throws shape_error for plans of different layouts. Cost O(heads).
inline plan_overlap overlap(const prune_plan& a, const prune_plan& b) {
  if (a.layout() != b.layout())
    throw shape_error("overlap: b is for " + to_string(b.layout()) + ", expected " + to_string(a.layout()));
  index_t common = 0;
  plan_overlap result;
  for (const attention_kind kind : a.layout().kinds()) {
    const head_layout& heads = a.layout().heads(kind);
    for (index_t layer = 0; layer < heads.layers(); ++layer) {
      const auto& in_b = b.kept(kind, layer);
      const auto& in_a = a.kept(kind, layer);
      common += std::count_if(in_a.begin(), in_a.end(),
                              [&](index_t head) { return std::binary_search(in_b.begin(), in_b.end(), head); });
    }
    if (heads.size() > 0)
      result.expected_common +=
          static_cast<double>(a.count(kind)) * static_cast<double>(b.count(kind)) / static_cast<double>(heads.size());
  }
  const index_t sum = a.count() + b.count();
  result.common = static_cast<double>(common);
  if (sum > 0) {
    result.jaccard = result.common / static_cast<double>(sum - common);
    result.share = 2 * result.common / static_cast<double>(sum);
  }
  return result;
}

/// Means over all pairs of plans, such as those of several seeds. Throws argument_error for fewer than two plans,
/// shape_error for plans of different layouts. Cost O(plans^2 heads).
inline plan_overlap mean_overlap(std::span<const prune_plan> plans) {
  if (plans.size() < 2)
    throw argument_error("mean_overlap: got " + std::to_string(plans.size()) + " plans, expected at least 2");
  plan_overlap mean{.common = 0, .jaccard = 0, .share = 0, .expected_common = 0};
  for (std::size_t i = 0; i < plans.size(); ++i) {
    for (std::size_t j = i + 1; j < plans.size(); ++j) {
      const plan_overlap pair = overlap(plans[i], plans[j]);
      mean.common += pair.common;
      mean.jaccard += pair.jaccard;
      mean.share += pair.share;
      mean.expected_common += pair.expected_common;
    }
  }
  const double pairs = 0.5 * static_cast<double>(plans.size()) * static_cast<double>(plans.size() - 1);
  return {mean.common / pairs, mean.jaccard / pairs, mean.share / pairs, mean.expected_common / pairs};
}

}  // namespace headred
