// schedule: from scores to plans: by rank, by layer, or step by step with new scores.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headred/core/number_text.hpp>
#include <headred/importance/head_scores.hpp>
#include <headred/prune/plan_history.hpp>

namespace headred {

struct schedule_options {
  std::vector<attention_kind> kinds = {};  ///< whose heads may go; none named: all that were scored. Others stay whole
  /// Whether every layer that has heads keeps its best one. The plan may then keep more heads than were asked for.
  bool at_least_one = false;
};

namespace detail {

inline std::vector<attention_kind> scheduled_kinds(const char* who, const head_scores& scores,
                                                   const plan_layout& layout, const schedule_options& options) {
  const auto kinds = options.kinds.empty() ? scores.kinds() : options.kinds;
  for (const attention_kind kind : kinds)
    if (scores.layout(kind) != layout.heads(kind))
      throw shape_error(std::string(who) + ": the " + scores.criterion() + " scores of " +
                        std::string(to_string(kind)) + " are for " + std::to_string(scores.layout(kind).size()) +
                        " heads in " + std::to_string(scores.layout(kind).layers()) + " layers, expected " +
                        to_string(layout));
  return kinds;
}

/// A plan of the layout that keeps nothing of these kinds, all of the others.
inline prune_plan plan_without(const plan_layout& layout, std::span<const attention_kind> kinds) {
  prune_plan plan(layout);
  for (const attention_kind kind : kinds) plan.set_kept(kind, std::span<const index_t>());
  return plan;
}

inline void keep_also(prune_plan& plan, const ranked_head& head) {
  std::vector<index_t> kept = plan.kept(head.kind, head.id.layer);
  kept.push_back(head.id.head);
  plan.set_kept(head.kind, head.id.layer, std::move(kept));
}

}  // namespace detail

/// Keeps the `keep` heads with the highest scores of all kinds asked for together; ties as in `ranking`. With at_least_one
/// each layer's best head is kept first. Throws argument_error for a kind that was not scored or keep outside [0, heads],
/// shape_error for scores of another model. Cost O(heads log heads).
inline prune_plan keep_highest(const head_scores& scores, const plan_layout& layout, index_t keep,
                               const schedule_options& options = {}) {
  const auto kinds = detail::scheduled_kinds("keep_highest", scores, layout, options);
  const auto order = ranking(scores, kinds);
  if (keep < 0 || keep > static_cast<index_t>(order.size()))
    throw argument_error("keep_highest: keep is " + std::to_string(keep) + ", expected 0 to " +
                         std::to_string(order.size()));
  prune_plan plan = detail::plan_without(layout, kinds);
  index_t left = keep;
  if (options.at_least_one)
    for (const ranked_head& head : order)
      if (plan.count(head.kind, head.id.layer) == 0) {
        detail::keep_also(plan, head);
        --left;
      }
  for (const ranked_head& head : order) {
    if (left <= 0) break;
    if (plan.is_kept(head.kind, head.id)) continue;
    detail::keep_also(plan, head);
    --left;
  }
  return plan;
}

/// Keeps the best heads of each layer: of n heads ceil(share n), rounding aside (n share is taken down by 1e-9 first, so
/// that .15 of 20 is 3). Throws argument_error for a share outside [0,1], and what keep_highest throws.
inline prune_plan keep_share_per_layer(const head_scores& scores, const plan_layout& layout, double share,
                                       const schedule_options& options = {}) {
  const auto kinds = detail::scheduled_kinds("keep_share_per_layer", scores, layout, options);
  if (!(share >= 0 && share <= 1))
    throw argument_error("keep_share_per_layer: share is " + number_text(share) + ", expected [0,1]");
  prune_plan plan = detail::plan_without(layout, kinds);
  for (const ranked_head& head : ranking(scores, kinds)) {
    const index_t heads = layout.heads(head.kind).heads(head.id.layer);
    const double wanted = std::max(0., std::ceil(share * static_cast<double>(heads) - 1e-9));
    const index_t most = std::max<index_t>(options.at_least_one ? 1 : 0, static_cast<index_t>(wanted));
    if (plan.count(head.kind, head.id.layer) < most) detail::keep_also(plan, head);
  }
  return plan;
}

struct iterative_options {
  schedule_options schedule = {};
  double step = .1;  ///< share of the unpruned heads that goes each time, at least one head; in (0,1]
  /// Called before each scoring with the heads left and the heads to be kept; false ends it with `cancelled`.
  std::function<bool(index_t left, index_t keep)> progress = {};
};

/// Prunes step by step, scoring anew each time:
///   score(plan) -> head_scores of the model that `plan` leaves, in that model's own head numbers (its layout is
///   pruned_layout(plan)); plans, the one returned too, are in the numbers of the unpruned model
/// Ends when `keep` heads of the kinds asked for are left, or with at_least_one when no more may go.
/// Throws argument_error for options out of range, what keep_highest throws, and what `score` throws.
/// Michel et al. 2019, section 4.1 (10 % a step).
template <class Score>
prune_plan prune_iteratively(const plan_layout& layout, index_t keep, Score&& score,
                             const iterative_options& options = {}) {
  if (!(options.step > 0 && options.step <= 1))
    throw argument_error("prune_iteratively: step is " + number_text(options.step) + ", expected (0,1]");
  const auto kinds = options.schedule.kinds.empty() ? layout.kinds() : options.schedule.kinds;
  const auto left_in = [&](const prune_plan& plan) {
    index_t n = 0;
    for (const attention_kind kind : kinds) n += plan.count(kind);
    return n;
  };
  prune_plan plan(layout);
  const index_t all = left_in(plan);
  if (keep < 0 || keep > all)
    throw argument_error("prune_iteratively: keep is " + std::to_string(keep) + ", expected 0 to " +
                         std::to_string(all));
  const index_t at_once =
      std::max<index_t>(1, static_cast<index_t>(std::floor(options.step * static_cast<double>(all) + 1e-9)));
  schedule_options schedule = options.schedule;
  for (index_t left = all; left > keep; left = left_in(plan)) {
    if (options.progress && !options.progress(left, keep)) throw cancelled();
    const plan_layout between = pruned_layout(plan);
    // A kind that has lost all heads has no scores.
    schedule.kinds.clear();
    for (const attention_kind kind : kinds)
      if (between.heads(kind).size() > 0) schedule.kinds.push_back(kind);
    const head_scores scores = score(std::as_const(plan));
    const prune_plan next = compose(plan, keep_highest(scores, between, std::max(keep, left - at_once), schedule));
    if (left_in(next) == left) break;  // at_least_one holds them all
    plan = next;
  }
  return plan;
}

}  // namespace headred
