// model_layout: the heads, neurons and layers of a model, as plans speak of them.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <headred/nn/model_gates.hpp>
#include <headred/nn/validate_config.hpp>
#include <headred/prune/plan_layout.hpp>

namespace headred {

/// The layout of a model as it is: its attention kinds, the heads of each layer, and which share a key/value head.
/// What a pruned model keeps of its unpruned numbering (attention_config::original) does not enter.
/// Throws argument_error for a kind without layers and for key/value heads that do not divide the heads.
inline plan_layout model_layout(const transformer_config& config) {
  plan_layout layout;
  for (const attention_kind kind : attention_kinds(config)) {
    std::vector<index_t> heads;
    std::vector<std::vector<index_t>> groups;
    for (const attention_config* block : attention_blocks(config, kind)) {
      detail::validate_attention_config(*block, std::string(to_string(kind)));
      heads.push_back(block->heads);
      const auto count = static_cast<std::size_t>(block->kv_heads);
      groups.emplace_back(count, count == 0 ? 0 : block->heads / block->kv_heads);
    }
    layout.add(kind, head_layout(std::move(heads)), std::move(groups));
  }
  return layout;
}

/// The same with the neurons and layers of its stacks, for plans that prune these too.
/// Throws argument_error as model_layout, and for more neurons than plan_layout allows.
inline plan_layout whole_layout(const transformer_config& config) {
  plan_layout layout = model_layout(config);
  const auto add = [&](model_stack stack, const stack_config& c) {
    std::vector<index_t> neurons;
    for (const layer_config& layer : c.layers) neurons.push_back(layer.feed_forward);
    layout.add_stack(stack, std::move(neurons));
  };
  if (config.has_encoder()) add(model_stack::encoder, config.encoder);
  if (config.has_decoder()) add(model_stack::decoder, config.decoder);
  return layout;
}

}  // namespace headred
