// model_gates: one factor for every head of a model.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <headred/core/head.hpp>
#include <headred/nn/parameter.hpp>
#include <headred/nn/transformer_config.hpp>

namespace headred {

/// The attention blocks of a kind, by layer.
inline std::vector<const attention_config*> attention_blocks(const transformer_config& c, attention_kind kind) {
  std::vector<const attention_config*> blocks;
  const bool encoder = kind == attention_kind::encoder_self;
  if (encoder ? !c.has_encoder() : !c.has_decoder()) return blocks;
  if (kind == attention_kind::cross && !c.has_cross()) return blocks;
  for (const layer_config& layer : encoder ? c.encoder.layers : c.decoder.layers)
    blocks.push_back(kind == attention_kind::cross ? &layer.cross : &layer.self);
  return blocks;
}

/// The attention kinds that a model has.
inline std::vector<attention_kind> attention_kinds(const transformer_config& c) {
  std::vector<attention_kind> kinds;
  for (const attention_kind kind : {attention_kind::encoder_self, attention_kind::decoder_self, attention_kind::cross})
    if (!attention_blocks(c, kind).empty()) kinds.push_back(kind);
  return kinds;
}

/// xi_h of every head, 1 at first: the head's output is multiplied by it before the output projection. With
/// `train(true)` the reverse pass collects dLoss/dxi. Layers that share weights still have gates of their own.
template <class T, backend Backend>
class model_gates {
 public:
  model_gates(Backend& be, const transformer_config& c) : backend_(&be) {
    for (const attention_kind kind : attention_kinds(c))
      for (const attention_config* block : attention_blocks(c, kind)) {
        auto& gates = layers_[kind].emplace_back(be, shape_t<1>{block->heads});
        const std::vector<T> ones(static_cast<std::size_t>(block->heads), T(1));
        if (!ones.empty()) be.upload(gates.value.data(), ones.data(), gates.value.bytes());
      }
  }

  /// The gates (H) of a layer. Throws argument_error if the model has no such layer.
  parameter<T, 1, Backend>& of(attention_kind kind, index_t layer) {
    const auto found = layers_.find(kind);
    if (found == layers_.end() || layer < 0 || layer >= static_cast<index_t>(found->second.size()))
      throw argument_error("model_gates: there is no layer " + std::to_string(layer) + " of " +
                           std::string(to_string(kind)));
    return found->second[static_cast<std::size_t>(layer)];
  }
  const parameter<T, 1, Backend>& of(attention_kind kind, index_t layer) const {
    return const_cast<model_gates*>(this)->of(kind, layer);
  }

  /// Begins (with zeros) or stops to collect dLoss/dgate.
  void train(bool on = true) {
    for (auto& [kind, layers] : layers_)
      for (auto& gates : layers) gates.train(*backend_, on && gates.value.size() > 0);
  }

 private:
  Backend* backend_;
  std::map<attention_kind, std::vector<parameter<T, 1, Backend>>> layers_;
};

}  // namespace headred
