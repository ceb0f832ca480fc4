// model_layout: the heads of a model, as plans speak of them.
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

}  // namespace headred
