// Plans combined: union, intersection, complement, and one plan after another.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <headred/prune/plan.hpp>

namespace headred {
namespace detail {

// The layout of both plans; one for heads alone keeps all neurons and layers of the other's.
inline plan_layout common_layout(const char* name, const prune_plan& a, const prune_plan& b) {
  if (a.layout().fits(b.layout())) return b.layout();
  if (b.layout().fits(a.layout())) return a.layout();
  throw shape_error(std::string(name) + ": b is for " + to_string(b.layout()) + ", expected " + to_string(a.layout()));
}

// combine(kept in a, kept in b) for each layer; the two plans must speak of the same model in the same unit.
template <class Combine>
prune_plan combine_plans(const char* name, const prune_plan& first, const prune_plan& second, const Combine& combine) {
  const plan_layout layout = common_layout(name, first, second);
  const prune_plan a = first.with_layout(layout), b = second.with_layout(layout);
  if (a.unit() != b.unit())
    throw argument_error(std::string(name) + ": b has unit " + std::string(to_string(b.unit())) + ", expected " +
                         std::string(to_string(a.unit())));
  prune_plan result = a;
  for (const model_stack stack : layout.stacks()) {
    result.set_kept_layers(stack, combine(a.kept_layers(stack), b.kept_layers(stack)));
    for (index_t layer = 0; layer < layout.layers(stack); ++layer)
      result.set_kept_neurons(stack, layer, combine(a.kept_neurons(stack, layer), b.kept_neurons(stack, layer)));
  }
  for (const attention_kind kind : layout.kinds())
    for (index_t layer = 0; layer < layout.heads(kind).layers(); ++layer)
      result.set_kept(kind, layer, combine(a.kept(kind, layer), b.kept(kind, layer)));
  return result;
}

inline std::vector<index_t> without(const std::vector<index_t>& all, const std::vector<index_t>& some) {
  std::vector<index_t> rest;
  std::set_difference(all.begin(), all.end(), some.begin(), some.end(), std::back_inserter(rest));
  return rest;
}

// Where the kept units of `left` that `wanted` keeps stand among them: both ascending.
inline std::vector<index_t> places_of(const std::vector<index_t>& left, const std::vector<index_t>& wanted) {
  std::vector<index_t> places;
  for (std::size_t i = 0; i < left.size(); ++i)
    if (std::binary_search(wanted.begin(), wanted.end(), left[i])) places.push_back(static_cast<index_t>(i));
  return places;
}

inline std::vector<index_t> numbers_at(const std::vector<index_t>& numbers, const std::vector<index_t>& places) {
  std::vector<index_t> found;
  for (const index_t at : places) found.push_back(numbers[static_cast<std::size_t>(at)]);
  return found;
}

}  // namespace detail

/// Keeps what a or b keeps. A plan for heads alone keeps all neurons and layers.
/// Throws shape_error for plans of different models, argument_error for different units.
inline prune_plan plan_union(const prune_plan& a, const prune_plan& b) {
  return detail::combine_plans("plan_union", a, b, [](const auto& x, const auto& y) {
    std::vector<index_t> either;
    std::set_union(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(either));
    return either;
  });
}

/// Keeps what a and b keep: plans for single attention kinds, each of which leaves the other kinds whole, join this
/// way.
/// Throws shape_error for plans of different models, argument_error for different units.
inline prune_plan plan_intersection(const prune_plan& a, const prune_plan& b) {
  return detail::combine_plans("plan_intersection", a, b, [](const auto& x, const auto& y) {
    std::vector<index_t> both;
    std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(both));
    return both;
  });
}

/// Keeps exactly the heads and neurons that the plan removes, and the layers that have any; a layer that the plan keeps
/// whole goes.
inline prune_plan plan_complement(const prune_plan& plan) {
  const plan_layout& layout = plan.layout();
  prune_plan result(layout, plan.unit());
  const prune_plan all = result;
  for (const model_stack stack : layout.stacks()) {
    std::vector<index_t> layers;
    for (index_t layer = 0; layer < layout.layers(stack); ++layer) {
      bool whole =
          plan.is_kept(stack, layer) && plan.kept_neurons(stack, layer).size() == all.kept_neurons(stack, layer).size();
      for (const attention_kind kind : layout.kinds())
        if (stack_of(kind) == stack) whole = whole && plan.count(kind, layer) == all.count(kind, layer);
      if (!whole) layers.push_back(layer);
    }
    result.set_kept_layers(stack, std::move(layers));
    for (index_t layer = 0; layer < layout.layers(stack); ++layer)
      result.set_kept_neurons(stack, layer,
                              detail::without(all.kept_neurons(stack, layer), plan.kept_neurons(stack, layer)));
  }
  for (const attention_kind kind : layout.kinds())
    for (index_t layer = 0; layer < layout.heads(kind).layers(); ++layer)
      result.set_kept(kind, layer, detail::without(all.kept(kind, layer), plan.kept(kind, layer)));
  return result;
}

/// The layout of the model after the plan: layers without heads keep their place, layers that go are counted no more;
/// key/value groups shrink to their kept heads and vanish with the last one.
/// Throws argument_error where no layer of a stack is left.
inline plan_layout pruned_layout(const prune_plan& plan) {
  plan_layout pruned;
  for (const attention_kind kind : plan.layout().kinds()) {
    std::vector<index_t> heads;
    std::vector<std::vector<index_t>> groups;
    for (const index_t layer : plan.kept_layers(kind)) {
      const auto& kept = plan.kept(kind, layer);
      heads.push_back(static_cast<index_t>(kept.size()));
      auto& sizes = groups.emplace_back();
      index_t first = 0;
      for (const index_t size : plan.layout().groups(kind, layer)) {
        const index_t left = std::lower_bound(kept.begin(), kept.end(), first + size) -
                             std::lower_bound(kept.begin(), kept.end(), first);
        if (left > 0) sizes.push_back(left);
        first += size;
      }
    }
    pruned.add(kind, head_layout(std::move(heads)), std::move(groups));
  }
  for (const model_stack stack : plan.layout().stacks()) {
    std::vector<index_t> neurons;
    for (const index_t layer : plan.kept_layers(stack))
      neurons.push_back(static_cast<index_t>(plan.kept_neurons(stack, layer).size()));
    pruned.add_stack(stack, std::move(neurons));
  }
  return pruned;
}

/// Two rounds of pruning as one plan: `later` was made on the model that `first` left (its layout must be
/// pruned_layout(first)); the result is in the numbers of the unpruned model, in first's unit. Either may be for heads
/// alone: it keeps all neurons and layers of the other's.
/// Throws shape_error when `later` is for another model, argument_error for different units.
inline prune_plan compose(const prune_plan& first, const prune_plan& later) {
  prune_plan result = first;
  if (first.layout().stacks().empty() && later.layout().heads_alone() == pruned_layout(first))
    result = first.with_layout(plan_layout(first.layout()).add_stacks(later.layout()));
  const plan_layout between = pruned_layout(result);
  if (!later.layout().fits(between))
    throw shape_error("compose: the later plan is for " + to_string(later.layout()) + ", expected " +
                      to_string(between));
  if (later.unit() != first.unit())
    throw argument_error("compose: the later plan has unit " + std::string(to_string(later.unit())) + ", expected " +
                         std::string(to_string(first.unit())));
  const prune_plan second = later.with_layout(between), before = result;
  for (const model_stack stack : between.stacks()) {
    const auto& layers = before.kept_layers(stack);
    result.set_kept_layers(stack, detail::numbers_at(layers, second.kept_layers(stack)));
    for (const index_t layer : second.kept_layers(stack)) {
      const index_t original = layers[static_cast<std::size_t>(layer)];
      result.set_kept_neurons(
          stack, original, detail::numbers_at(before.kept_neurons(stack, original), second.kept_neurons(stack, layer)));
    }
  }
  for (const attention_kind kind : between.kinds()) {
    const auto layers = before.kept_layers(kind);
    for (std::size_t l = 0; l < layers.size(); ++l)
      result.set_kept(kind, layers[l],
                      detail::numbers_at(before.kept(kind, layers[l]), second.kept(kind, static_cast<index_t>(l))));
  }
  return result;
}

}  // namespace headred
