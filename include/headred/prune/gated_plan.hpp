// gated_plan: the heads, neurons and layers whose gates are open.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <headred/prune/apply.hpp>
#include <headred/prune/model_layout.hpp>

namespace headred {

namespace detail {

/// The numbers of the gates that are not 0. Throws argument_error for another number of gates and one that is not
/// finite.
inline std::vector<index_t> open_gates(const std::string& what, const std::string& where,
                                       const std::vector<double>& gates, index_t expected) {
  if (static_cast<index_t>(gates.size()) != expected)
    throw argument_error("gated_plan: " + where + " has " + std::to_string(gates.size()) + " gates, expected " +
                         std::to_string(expected));
  std::vector<index_t> open;
  for (std::size_t i = 0; i < gates.size(); ++i) {
    if (!std::isfinite(gates[i]))
      throw argument_error("gated_plan: the gate of " + what + " " + std::to_string(i) + " in " + where +
                           " is not finite");
    if (gates[i] != 0) open.push_back(static_cast<index_t>(i));
  }
  return open;
}

}  // namespace detail

/// Keeps the heads, neurons and layers of a model whose gate is not 0; what has no learned gates has gates of 1 and
/// stays whole. After gate_training::finalize, `apply(plan, model)` is the gated model, physically smaller; where gates
/// are between 0 and 1, give them to `apply` as well, which multiplies them into the weights.
/// The plan names stacks where neurons or layers have gates. Throws argument_error for a gate that is not finite and
/// for gates of another model. Cost O(gates).
template <class T, backend Backend>
prune_plan gated_plan(Backend& be, const transformer_config& config, const model_gates<T, Backend>& gates) {
  bool heads_alone = true;
  for (const model_stack stack : {model_stack::encoder, model_stack::decoder})
    heads_alone = heads_alone && !gates.gates_neurons(stack) && !gates.gates_layers(stack);
  prune_plan plan(heads_alone ? model_layout(config) : whole_layout(config));
  const plan_layout layout = plan.layout();
  for (const model_stack stack : layout.stacks()) {
    const std::string name(to_string(stack));
    if (gates.gates_layers(stack))
      plan.set_kept_layers(stack, detail::open_gates("layer", name, detail::gate_values<T>(be, gates.layers(stack)),
                                                     layout.layers(stack)));
    if (gates.gates_neurons(stack))
      for (const index_t layer : plan.kept_layers(stack))
        plan.set_kept_neurons(stack, layer,
                              detail::open_gates("neuron", "layer " + std::to_string(layer) + " of the " + name,
                                                 detail::gate_values<T>(be, gates.neurons(stack, layer)),
                                                 layout.neurons(stack)[static_cast<std::size_t>(layer)]));
  }
  for (const attention_kind kind : layout.kinds())
    for (const index_t layer : plan.kept_layers(kind))
      plan.set_kept(
          kind, layer,
          detail::open_gates("head", "layer " + std::to_string(layer) + " of " + std::string(to_string(kind)),
                             detail::gate_values<T>(be, gates.of(kind, layer)), layout.heads(kind).heads(layer)));
  return plan;
}

}  // namespace headred
