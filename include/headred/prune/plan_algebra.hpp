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

// combine(kept in a, kept in b) for each layer; the two plans must speak of the same model in the same unit.
template <class Combine>
prune_plan combine_plans(const char* name, const prune_plan& a, const prune_plan& b, const Combine& combine) {
  if (a.layout() != b.layout())
    throw shape_error(std::string(name) + ": b is for " + to_string(b.layout()) + ", expected " +
                      to_string(a.layout()));
  if (a.unit() != b.unit())
    throw argument_error(std::string(name) + ": b has unit " + std::string(to_string(b.unit())) + ", expected " +
                         std::string(to_string(a.unit())));
  prune_plan result = a;
  for (const attention_kind kind : a.layout().kinds())
    for (index_t layer = 0; layer < a.layout().heads(kind).layers(); ++layer)
      result.set_kept(kind, layer, combine(a.kept(kind, layer), b.kept(kind, layer)));
  return result;
}

}  // namespace detail

/// Keeps what a or b keeps. Throws shape_error for plans of different layouts, argument_error for different units.
inline prune_plan plan_union(const prune_plan& a, const prune_plan& b) {
  return detail::combine_plans("plan_union", a, b, [](const auto& x, const auto& y) {
    std::vector<index_t> either;
    std::set_union(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(either));
    return either;
  });
}

/// Keeps what a and b keep: plans for single attention kinds, each of which leaves the other kinds whole, join this way.
/// Throws shape_error for plans of different layouts, argument_error for different units.
inline prune_plan plan_intersection(const prune_plan& a, const prune_plan& b) {
  return detail::combine_plans("plan_intersection", a, b, [](const auto& x, const auto& y) {
    std::vector<index_t> both;
    std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(both));
    return both;
  });
}

/// Keeps exactly what the plan removes.
inline prune_plan plan_complement(const prune_plan& plan) {
  const prune_plan all(plan.layout(), plan.unit());
  return detail::combine_plans("plan_complement", all, plan, [](const auto& x, const auto& y) {
    std::vector<index_t> rest;
    std::set_difference(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(rest));
    return rest;
  });
}

/// The layout of the model after the plan: layers keep their place, also those without heads; key/value groups shrink
/// to their kept heads and vanish with the last one.
inline plan_layout pruned_layout(const prune_plan& plan) {
  plan_layout pruned;
  for (const attention_kind kind : plan.layout().kinds()) {
    std::vector<index_t> heads;
    std::vector<std::vector<index_t>> groups;
    for (index_t layer = 0; layer < plan.layout().heads(kind).layers(); ++layer) {
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
  return pruned;
}

/// Two rounds of pruning as one plan: `later` was made on the model that `first` left (its layout must be
/// pruned_layout(first)); the result is in the numbers of the unpruned model, in first's unit.
/// Throws shape_error when `later` is for another model, argument_error for different units.
inline prune_plan compose(const prune_plan& first, const prune_plan& later) {
  const plan_layout between = pruned_layout(first);
  if (later.layout() != between)
    throw shape_error("compose: the later plan is for " + to_string(later.layout()) + ", expected " +
                      to_string(between));
  if (later.unit() != first.unit())
    throw argument_error("compose: the later plan has unit " + std::string(to_string(later.unit())) + ", expected " +
                         std::string(to_string(first.unit())));
  prune_plan result = first;
  for (const attention_kind kind : between.kinds()) {
    for (index_t layer = 0; layer < between.heads(kind).layers(); ++layer) {
      const auto& original = first.kept(kind, layer);
      std::vector<index_t> kept;
      for (const index_t head : later.kept(kind, layer)) kept.push_back(original[static_cast<std::size_t>(head)]);
      result.set_kept(kind, layer, std::move(kept));
    }
  }
  return result;
}

}  // namespace headred
