// gated_plan: the heads whose gates are open.
#pragma once

#include <cmath>

#include <headred/prune/apply.hpp>
#include <headred/prune/model_layout.hpp>

namespace headred {

/// Keeps the heads of a model whose gate is not 0; kinds without learned gates have gates of 1 and stay whole. After
/// gate_training::finalize, `apply(plan, model)` is the gated model, physically smaller; where gates are between 0 and 1,
/// give them to `apply` as well, which multiplies them into the weights.
/// Throws argument_error for a gate that is not finite and for gates of another model. Cost O(heads).
template <class T, backend Backend>
prune_plan gated_plan(Backend& be, const transformer_config& config, const model_gates<T, Backend>& gates) {
  prune_plan plan(model_layout(config));
  for (const auto& [kind, layers] : gate_factors(be, config, gates))
    for (std::size_t l = 0; l < layers.size(); ++l) {
      const auto layer = static_cast<index_t>(l);
      const auto& factors = layers[l];
      if (static_cast<index_t>(factors.size()) != plan.layout().heads(kind).heads(layer))
        throw argument_error("gated_plan: layer " + std::to_string(layer) + " of " + std::string(to_string(kind)) +
                             " has " + std::to_string(factors.size()) + " gates, expected " +
                             std::to_string(plan.layout().heads(kind).heads(layer)));
      std::vector<index_t> kept;
      for (std::size_t h = 0; h < factors.size(); ++h) {
        if (!std::isfinite(factors[h]))
          throw argument_error("gated_plan: the gate of head " + std::to_string(h) + " in layer " +
                               std::to_string(layer) + " of " + std::string(to_string(kind)) + " is not finite");
        if (factors[h] != 0) kept.push_back(static_cast<index_t>(h));
      }
      plan.set_kept(kind, layer, std::move(kept));
    }
  return plan;
}

}  // namespace headred
