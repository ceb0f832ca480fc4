// apply: a model without the heads, neurons and layers that a plan removes, smaller in memory and in work.
#pragma once

#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <headred/nn/transformer.hpp>
#include <headred/prune/select_pieces.hpp>

namespace headred {

namespace detail {

template <class T, backend Backend>
std::vector<double> gate_values(Backend& be, const parameter<T, 1, Backend>& gates) {
  std::vector<T> values(static_cast<std::size_t>(gates.value.size()));
  if (!values.empty()) be.download(values.data(), gates.value.data(), gates.value.bytes());
  be.synchronize();
  return {values.begin(), values.end()};
}

/// Throws argument_error where a layer that stays has another gate than 1.
template <class T, backend Backend>
void require_whole_layers(Backend& be, const transformer_config& config, const prune_plan& plan,
                          const model_gates<T, Backend>& gates) {
  for (const attention_kind kind : {attention_kind::encoder_self, attention_kind::decoder_self}) {
    const model_stack stack = stack_of(kind);
    if (find_stack(config, stack) == nullptr || !gates.gates_layers(stack)) continue;
    const std::vector<double> values = gate_values<T>(be, gates.layers(stack));
    for (const index_t layer : plan.kept_layers(kind))
      if (layer >= static_cast<index_t>(values.size()) || values[static_cast<std::size_t>(layer)] != 1)
        throw argument_error("apply: the gate of " + std::string(to_string(stack)) + " layer " + std::to_string(layer) +
                             ", which stays, is not 1, and weights cannot take it up");
  }
}

}  // namespace detail

/// The factors of the heads that gates hold, for a model_selection.
template <class T, backend Backend>
head_factors gate_factors(Backend& be, const transformer_config& config, const model_gates<T, Backend>& gates) {
  head_factors factors;
  for (const attention_kind kind : attention_kinds(config)) {
    const auto layers = static_cast<index_t>(attention_blocks(config, kind).size());
    for (index_t l = 0; l < layers; ++l) {
      factors[kind].push_back(detail::gate_values<T>(be, gates.of(kind, l)));
    }
  }
  return factors;
}
/// The factors of the neurons that gates hold, for a model_selection.
template <class T, backend Backend>
neuron_factors neuron_gate_factors(Backend& be, const transformer_config& config,
                                   const model_gates<T, Backend>& gates) {
  neuron_factors factors;
  for (const model_stack stack : {model_stack::encoder, model_stack::decoder}) {
    const stack_config* const own = find_stack(config, stack);
    if (own == nullptr || !gates.gates_neurons(stack)) continue;
    for (std::size_t l = 0; l < own->layers.size(); ++l)
      factors[stack].push_back(detail::gate_values<T>(be, gates.neurons(stack, static_cast<index_t>(l))));
  }
  return factors;
}

/// The weights that a selection leaves; parameters that collect gradients do so again, from zero.
/// Throws shape_error for weights that are not those of the selection's unpruned model.
template <class T, backend Backend>
transformer_weights<T, Backend> apply(const model_selection& selection, Backend& be,
                                      const transformer_weights<T, Backend>& weights) {
  using source = std::variant<const parameter<T, 1, Backend>*, const parameter<T, 2, Backend>*>;
  std::map<std::string, source> sources;
  visit_parameters(weights, [&](const std::string& name, const auto& p) { sources.emplace(name, &p); });
  transformer_weights<T, Backend> left(be, selection.config());
  visit_parameters(left, [&](const std::string& name, auto& p) {
    const parameter_selection part = selection.of(name);
    using kind = std::remove_reference_t<decltype(p)>;
    const auto found = sources.find(part.from);
    if (found == sources.end() || !std::holds_alternative<const kind*>(found->second))
      throw shape_error("apply: the weights have no " + part.from + ", expected " + shape_text(p.value.shape()) +
                        " for " + name);
    const kind& from = *std::get<const kind*>(found->second);
    auto value = select_pieces(be, from.value.view(), part, true);
    if (value.shape() != p.value.shape())
      throw shape_error("apply: " + part.from + " is " + shape_text(from.value.shape()) + ", expected " +
                        shape_text(p.value.shape()) + " of it for " + name);
    p.value = std::move(value);
    p.train(be, from.trained());
  });
  return left;
}

/// The model without what the plan removes: it computes what the model with gates of 0 on these heads, neurons and
/// layers computes.
///   Plans speak of the model as it is; for one that was pruned before, see plan_after. A plan that removes nothing
/// gives the same model bit by bit. The model itself stays; the result works on its backend.
///   gates, if given : each remaining head's gate is multiplied into O's columns, each neuron's into W2's, so that the
/// result without gates computes what the model with these gates, and 0 on what is removed, does; those of layers must
/// be 1
/// Throws what model_selection throws: shape_error for a plan of another model, argument_error by the options. Cost
/// O(parameters).
template <class T, host_backend Backend>
transformer<T, Backend> apply(const prune_plan& plan, const transformer<T, Backend>& model,
                              const apply_options& options = {},
                              const std::type_identity_t<model_gates<T, Backend>>* gates = nullptr) {
  Backend& be = model.backend();
  head_factors heads;
  neuron_factors neurons;
  if (gates != nullptr) {
    heads = gate_factors(be, model.config(), *gates);
    neurons = neuron_gate_factors(be, model.config(), *gates);
  }
  const model_selection selection(plan, model.config(), options, heads, neurons);
  if (gates != nullptr) detail::require_whole_layers<T>(be, model.config(), plan, *gates);
  return transformer<T, Backend>(be, selection.config(), apply(selection, be, model.weights()));
}

}  // namespace headred
