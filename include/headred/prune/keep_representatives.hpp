// From representatives of clusters to a plan.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include <headred/cluster/representatives.hpp>
#include <headred/prune/plan.hpp>

namespace headred {

struct keep_options {
  /// Whether a layer that would be left without a head gets back the one with the highest score; scores within 1e-12
  /// of it count as equal, and of equals the lowest head is taken. The plan then keeps more heads than clusters.
  bool at_least_one = false;
  attention_kind kind = attention_kind::encoder_self;  ///< the kind that the head numbers belong to
};

/// Keeps the representatives and removes the kind's other heads; other kinds stay whole.
///   representatives : flat layer-major numbers of heads of options.kind, in any order
///   scores          : one a head (silhouettes), read only with at_least_one
/// Degenerate: without representatives every head of the kind goes (at_least_one keeps one a layer); layers that have no
/// heads stay so. Throws argument_error for an unknown kind, a number out of range or repeated, and with at_least_one
/// for scores that are missing or not finite. Cost O(heads log heads). Source: Bian et al. 2021, section 7.
inline prune_plan keep_representatives(const plan_layout& layout, std::span<const index_t> representatives,
                                       keep_options options = {}, std::span<const double> scores = {}) {
  const head_layout& heads = layout.heads(options.kind);
  prune_plan plan(layout);
  plan.set_kept(options.kind, representatives);
  if (!options.at_least_one) return plan;

  if (static_cast<index_t>(scores.size()) != heads.size())
    throw argument_error("keep_representatives: got " + std::to_string(scores.size()) +
                         " scores for at_least_one, expected " + std::to_string(heads.size()));
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (!std::isfinite(scores[i]))
      throw argument_error("keep_representatives: the score of head " + std::to_string(i) + " is not finite");
  for (index_t layer = 0; layer < heads.layers(); ++layer) {
    if (heads.heads(layer) == 0 || plan.count(options.kind, layer) > 0) continue;
    const auto first = static_cast<std::size_t>(heads.flat({layer, 0}));
    const auto own = scores.subspan(first, static_cast<std::size_t>(heads.heads(layer)));
    const double highest = *std::max_element(own.begin(), own.end());
    const auto best = std::find_if(own.begin(), own.end(), [&](double s) { return s >= highest - 1e-12; });
    plan.set_kept(options.kind, layer, {static_cast<index_t>(best - own.begin())});
  }
  return plan;
}
inline prune_plan keep_representatives(const head_layout& layout, std::span<const index_t> representatives,
                                       keep_options options = {}, std::span<const double> scores = {}) {
  return keep_representatives(plan_layout(layout, options.kind), representatives, options, scores);
}

/// Keeps the representative of each cluster, see representatives: zero-shot pruning once the heads are clustered.
/// clusters, scores : of the N heads of options.kind. Throws shape_error when their number is not the layout's, and
/// what representatives and the overloads above throw.
inline prune_plan keep_representatives(const clustering& clusters, const silhouettes& scores, const plan_layout& layout,
                                       keep_options options = {}) {
  if (static_cast<index_t>(clusters.labels.size()) != layout.heads(options.kind).size())
    throw shape_error("keep_representatives: " + std::to_string(clusters.labels.size()) + " labels, expected " +
                      std::to_string(layout.heads(options.kind).size()) + ", one a head of " + to_string(layout));
  return keep_representatives(layout, representatives(clusters, scores), options, scores.values);
}
inline prune_plan keep_representatives(const clustering& clusters, const silhouettes& scores, const head_layout& layout,
                                       keep_options options = {}) {
  return keep_representatives(clusters, scores, plan_layout(layout, options.kind), options);
}

}  // namespace headred
