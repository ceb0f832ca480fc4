// A plan as a plain set of kept heads, to check the algebra of plans against that of sets.
#pragma once

#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <headred/core/random.hpp>
#include <headred/prune/plan.hpp>

namespace headred_test::oracle {

using kept_head = std::tuple<headred::attention_kind, headred::index_t, headred::index_t>;

inline std::set<kept_head> kept_set(const headred::prune_plan& plan) {
  std::set<kept_head> all;
  for (const auto kind : plan.layout().kinds())
    for (headred::index_t layer = 0; layer < plan.layout().heads(kind).layers(); ++layer)
      for (const auto head : plan.kept(kind, layer)) all.insert({kind, layer, head});
  return all;
}

// Layers of 0 to 7 heads in one to three kinds; with `grouped`, some layers share key/value heads unevenly.
inline headred::plan_layout random_layout(std::uint64_t seed, bool grouped) {
  const headred::random_stream random(seed, 31);
  std::uint64_t draw = 0;
  headred::plan_layout layout;
  for (const auto kind :
       {headred::attention_kind::cross, headred::attention_kind::encoder_self, headred::attention_kind::decoder_self}) {
    if (!layout.kinds().empty() && random.below(draw++, 2) == 0) continue;
    std::vector<headred::index_t> heads;
    std::vector<std::vector<headred::index_t>> groups;
    for (std::uint64_t layers = 1 + random.below(draw++, 5); layers > 0; --layers) {
      heads.push_back(0);
      groups.emplace_back();
      for (std::uint64_t parts = random.below(draw++, 4); parts > 0; --parts) {
        groups.back().push_back(static_cast<headred::index_t>(1 + random.below(draw++, grouped ? 3 : 1)));
        heads.back() += groups.back().back();
      }
    }
    layout.add(kind, headred::head_layout(heads), groups);
  }
  return layout;
}

// Keeps each unit with probability 1/2.
inline headred::prune_plan random_units(const headred::plan_layout& layout, headred::prune_unit unit,
                                        std::uint64_t seed) {
  const headred::random_stream random(seed, 32);
  std::uint64_t draw = 0;
  headred::prune_plan plan(layout, unit);
  for (const auto kind : layout.kinds()) {
    for (headred::index_t layer = 0; layer < layout.heads(kind).layers(); ++layer) {
      const auto all = unit == headred::prune_unit::head ? plan.kept(kind, layer) : plan.kept_groups(kind, layer);
      std::vector<headred::index_t> kept;
      for (const auto number : all)
        if (random.below(draw++, 2) == 0) kept.push_back(number);
      if (unit == headred::prune_unit::head)
        plan.set_kept(kind, layer, kept);
      else
        plan.set_kept_groups(kind, layer, kept);
    }
  }
  return plan;
}

// Every unit that stays, of a plan that names stacks: heads as above, neurons (stack, layer, number), layers (stack,
// layer).
struct whole_set {
  std::set<kept_head> heads;
  std::set<std::tuple<headred::model_stack, headred::index_t, headred::index_t>> neurons;
  std::set<std::pair<headred::model_stack, headred::index_t>> layers;
  friend bool operator==(const whole_set&, const whole_set&) = default;
};
inline whole_set kept_whole_set(const headred::prune_plan& plan) {
  whole_set all{kept_set(plan), {}, {}};
  for (const auto stack : plan.layout().stacks()) {
    for (const auto layer : plan.kept_layers(stack)) all.layers.insert({stack, layer});
    for (headred::index_t layer = 0; layer < plan.layout().layers(stack); ++layer)
      for (const auto neuron : plan.kept_neurons(stack, layer)) all.neurons.insert({stack, layer, neuron});
  }
  return all;
}

// An encoder and a decoder with cross-attention of 1 to 4 layers, 1 to 4 heads and up to 6 neurons in each.
inline headred::plan_layout random_whole_layout(std::uint64_t seed) {
  const headred::random_stream random(seed, 33);
  std::uint64_t draw = 0;
  const auto numbers = [&](std::size_t n, std::uint64_t least, std::uint64_t most) {
    std::vector<headred::index_t> all(n);
    for (auto& x : all) x = static_cast<headred::index_t>(least + random.below(draw++, most - least + 1));
    return all;
  };
  const std::size_t encoder = 1 + random.below(draw++, 4), decoder = 1 + random.below(draw++, 4);
  headred::plan_layout layout;
  layout.add(headred::attention_kind::encoder_self, headred::head_layout(numbers(encoder, 1, 4)));
  layout.add(headred::attention_kind::decoder_self, headred::head_layout(numbers(decoder, 1, 4)));
  layout.add(headred::attention_kind::cross, headred::head_layout(numbers(decoder, 1, 4)));
  layout.add_stack(headred::model_stack::encoder, numbers(encoder, 0, 6));
  layout.add_stack(headred::model_stack::decoder, numbers(decoder, 0, 6));
  return layout;
}

// Keeps each head, neuron and layer with probability 1/2, but at least one layer of each stack.
inline headred::prune_plan random_whole_units(const headred::plan_layout& layout, std::uint64_t seed) {
  headred::prune_plan plan = random_units(layout, headred::prune_unit::head, seed);
  const headred::random_stream random(seed, 34);
  std::uint64_t draw = 0;
  for (const auto stack : layout.stacks()) {
    std::vector<headred::index_t> layers;
    for (headred::index_t layer = 0; layer < layout.layers(stack); ++layer) {
      std::vector<headred::index_t> neurons;
      for (const auto neuron : plan.kept_neurons(stack, layer))
        if (random.below(draw++, 2) == 0) neurons.push_back(neuron);
      plan.set_kept_neurons(stack, layer, neurons);
      if (random.below(draw++, 2) == 0) layers.push_back(layer);
    }
    if (layers.empty()) layers.push_back(0);
    plan.set_kept_layers(stack, layers);
  }
  return plan;
}

}  // namespace headred_test::oracle
