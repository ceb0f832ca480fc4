// model_gates: one factor for every head of a model, and for neurons and layers where they are asked for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <headred/nn/model_stack.hpp>
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

/// The stack of a model, or nullptr where it has none such.
inline const stack_config* find_stack(const transformer_config& c, model_stack stack) {
  const bool encoder = stack == model_stack::encoder;
  if (encoder ? !c.has_encoder() : !c.has_decoder()) return nullptr;
  return encoder ? &c.encoder : &c.decoder;
}

/// The stacks whose neurons or layers have gates, besides all heads.
struct gated_stacks {
  std::vector<model_stack> neurons = {};
  std::vector<model_stack> layers = {};
};

/// Gates, 1 at first. With `train(true)` the reverse pass collects dLoss/dgate. Layers that share weights still have
/// gates of their own.
///   xi_h of every head : its output is multiplied by it before the output projection
///   of a neuron : its activation is multiplied by it before the second linear of its feed-forward block
///   of a layer : y = (1 - gate) x + gate layer(x); a layer of 0 hands on its input, norms of its own included
template <class T, backend Backend>
class model_gates {
 public:
  /// Throws argument_error for a stack that the model does not have.
  model_gates(Backend& be, const transformer_config& c, const gated_stacks& also = {}) : backend_(&be) {
    for (const attention_kind kind : attention_kinds(c))
      for (const attention_config* block : attention_blocks(c, kind)) add(heads_[kind].emplace_back(), block->heads);
    for (const model_stack stack : also.neurons)
      if (neurons_[stack].empty())
        for (const layer_config& layer : stack_in(c, stack).layers)
          add(neurons_[stack].emplace_back(), layer.feed_forward);
    for (const model_stack stack : also.layers)
      if (layers_.find(stack) == layers_.end())
        add(layers_[stack], static_cast<index_t>(stack_in(c, stack).layers.size()));
  }

  /// The gates (H) of a layer's heads. Throws argument_error if the model has no such layer.
  parameter<T, 1, Backend>& of(attention_kind kind, index_t layer) {
    const auto found = heads_.find(kind);
    if (found == heads_.end() || layer < 0 || layer >= static_cast<index_t>(found->second.size()))
      throw argument_error("model_gates: there is no layer " + std::to_string(layer) + " of " +
                           std::string(to_string(kind)));
    return found->second[static_cast<std::size_t>(layer)];
  }
  const parameter<T, 1, Backend>& of(attention_kind kind, index_t layer) const {
    return const_cast<model_gates*>(this)->of(kind, layer);
  }

  bool gates_neurons(model_stack stack) const { return neurons_.find(stack) != neurons_.end(); }
  bool gates_layers(model_stack stack) const { return layers_.find(stack) != layers_.end(); }
  /// The gates (F) of a layer's neurons. Throws argument_error if there are none.
  parameter<T, 1, Backend>& neurons(model_stack stack, index_t layer) {
    const auto found = neurons_.find(stack);
    if (found == neurons_.end() || layer < 0 || layer >= static_cast<index_t>(found->second.size()))
      throw argument_error("model_gates: the neurons of " + std::string(to_string(stack)) + " layer " +
                           std::to_string(layer) + " have no gates");
    return found->second[static_cast<std::size_t>(layer)];
  }
  const parameter<T, 1, Backend>& neurons(model_stack stack, index_t layer) const {
    return const_cast<model_gates*>(this)->neurons(stack, layer);
  }
  /// The gates (layers) of a stack's layers. Throws argument_error if there are none.
  parameter<T, 1, Backend>& layers(model_stack stack) {
    const auto found = layers_.find(stack);
    if (found == layers_.end())
      throw argument_error("model_gates: the layers of the " + std::string(to_string(stack)) + " have no gates");
    return found->second;
  }
  const parameter<T, 1, Backend>& layers(model_stack stack) const {
    return const_cast<model_gates*>(this)->layers(stack);
  }

  /// Begins (with zeros) or stops to collect dLoss/dgate.
  void train(bool on = true) {
    const auto each = [&](auto& gates) { gates.train(*backend_, on && gates.value.size() > 0); };
    for (auto& [kind, layers] : heads_)
      for (auto& gates : layers) each(gates);
    for (auto& [stack, layers] : neurons_)
      for (auto& gates : layers) each(gates);
    for (auto& [stack, gates] : layers_) each(gates);
  }

 private:
  static const stack_config& stack_in(const transformer_config& c, model_stack stack) {
    const stack_config* const found = find_stack(c, stack);
    if (found == nullptr) throw argument_error("model_gates: the model has no " + std::string(to_string(stack)));
    return *found;
  }
  void add(parameter<T, 1, Backend>& gates, index_t n) {
    gates = parameter<T, 1, Backend>(*backend_, {n});
    const std::vector<T> ones(static_cast<std::size_t>(n), T(1));
    if (!ones.empty()) backend_->upload(gates.value.data(), ones.data(), gates.value.bytes());
  }

  Backend* backend_;
  std::map<attention_kind, std::vector<parameter<T, 1, Backend>>> heads_;
  std::map<model_stack, std::vector<parameter<T, 1, Backend>>> neurons_;  // [stack][layer], (F)
  std::map<model_stack, parameter<T, 1, Backend>> layers_;                // [stack], (layers)
};

}  // namespace headred
