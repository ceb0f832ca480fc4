// Plans for a model that was pruned before, in its own head numbers or in those of the unpruned model.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <headred/prune/plan_algebra.hpp>

namespace headred {

/// The plan in the numbers of the model that `first` left. By its layout a plan says which model it speaks of:
///   first's own layout : the unpruned model; the result keeps what both plans keep
///   pruned_layout(first) : the pruned model; the result is the plan itself
/// So two plans for the unpruned model can be carried out in either order, with the same heads left.
/// Throws shape_error for a plan of any other model, argument_error for different units. Cost O(heads).
inline prune_plan plan_after(const prune_plan& first, const prune_plan& plan) {
  const plan_layout between = pruned_layout(first);
  if (plan.layout() == between && plan.unit() == first.unit()) return plan;
  if (plan.layout() != first.layout() && plan.layout() != between)
    throw shape_error("plan_after: the plan is for " + to_string(plan.layout()) + ", expected " + to_string(between) +
                      ", or the unpruned " + to_string(first.layout()));
  if (plan.unit() != first.unit())
    throw argument_error("plan_after: the plan has unit " + std::string(to_string(plan.unit())) + ", expected " +
                         std::string(to_string(first.unit())));
  prune_plan result(between, first.unit());
  for (const attention_kind kind : between.kinds()) {
    for (index_t layer = 0; layer < between.heads(kind).layers(); ++layer) {
      const auto& left = first.kept(kind, layer);
      const auto& wanted = plan.kept(kind, layer);
      std::vector<index_t> kept;
      for (std::size_t h = 0; h < left.size(); ++h)
        if (std::binary_search(wanted.begin(), wanted.end(), left[h])) kept.push_back(static_cast<index_t>(h));
      result.set_kept(kind, layer, std::move(kept));
    }
  }
  return result;
}

/// Both rounds of pruning as one plan, in the numbers of the unpruned model; `plan` as in plan_after, which see.
inline prune_plan joint_plan(const prune_plan& first, const prune_plan& plan) {
  return compose(first, plan_after(first, plan));
}

}  // namespace headred
