// Plans for a model that was pruned before, in its own head numbers or in those of the unpruned model.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <headred/prune/plan_algebra.hpp>

namespace headred {

/// The plan in the numbers of the model that `first` left. By its layout a plan says which model it speaks of:
///   first's own layout : the unpruned model; the result keeps what both plans keep
///   pruned_layout(first) : the pruned model; the result is the plan itself
/// So two plans for the unpruned model can be carried out in either order, with the same heads left. A plan for heads
/// alone keeps all neurons and layers of the other's.
/// Throws shape_error for a plan of any other model, argument_error for different units. Cost O(units).
inline prune_plan plan_after(const prune_plan& first, const prune_plan& plan) {
  const plan_layout between = pruned_layout(first);
  const bool of_left = plan.layout().fits(between) || between.fits(plan.layout());
  if (of_left && plan.unit() == first.unit()) return plan.layout().fits(between) ? plan.with_layout(between) : plan;
  const bool of_first = plan.layout().fits(first.layout()) || first.layout().fits(plan.layout());
  if (!of_first && !of_left)
    throw shape_error("plan_after: the plan is for " + to_string(plan.layout()) + ", expected " + to_string(between) +
                      ", or the unpruned " + to_string(first.layout()));
  if (plan.unit() != first.unit())
    throw argument_error("plan_after: the plan has unit " + std::string(to_string(plan.unit())) + ", expected " +
                         std::string(to_string(first.unit())));
  const plan_layout whole = detail::common_layout("plan_after", first, plan);
  const prune_plan left = first.with_layout(whole), wanted = plan.with_layout(whole);
  prune_plan result(pruned_layout(left), first.unit());
  for (const model_stack stack : whole.stacks()) {
    const auto& layers = left.kept_layers(stack);
    result.set_kept_layers(stack, detail::places_of(layers, wanted.kept_layers(stack)));
    for (const index_t layer : result.kept_layers(stack)) {
      const index_t original = layers[static_cast<std::size_t>(layer)];
      result.set_kept_neurons(
          stack, layer, detail::places_of(left.kept_neurons(stack, original), wanted.kept_neurons(stack, original)));
    }
  }
  for (const attention_kind kind : whole.kinds()) {
    const auto layers = left.kept_layers(kind);
    for (std::size_t l = 0; l < layers.size(); ++l)
      result.set_kept(kind, static_cast<index_t>(l),
                      detail::places_of(left.kept(kind, layers[l]), wanted.kept(kind, layers[l])));
  }
  return result;
}

/// Both rounds of pruning as one plan, in the numbers of the unpruned model; `plan` as in plan_after, which see.
inline prune_plan joint_plan(const prune_plan& first, const prune_plan& plan) {
  return compose(first, plan_after(first, plan));
}

}  // namespace headred
