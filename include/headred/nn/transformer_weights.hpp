// transformer_weights: the parameters of a model as plain structs, visited by name.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <headred/nn/parameter.hpp>
#include <headred/nn/validate_config.hpp>

namespace headred {

/// y = x weight^T + bias. weight : (out,in), bias : (out) or empty.
template <class T, backend Backend>
struct linear_weights {
  parameter<T, 2, Backend> weight;
  parameter<T, 1, Backend> bias;

  linear_weights() = default;
  linear_weights(Backend& be, index_t out, index_t in) : weight(be, {out, in}), bias(be, {out}) {}
};

/// Weights of a layer norm.
template <class T, backend Backend>
struct norm_weights {
  parameter<T, 1, Backend> scale, shift;  // (D)

  norm_weights() = default;
  norm_weights(Backend& be, index_t width) : scale(be, {width}), shift(be, {width}) {}
};

/// query : (H K, D), key and value : (KV K, D), output : (D, H K).
template <class T, backend Backend>
struct attention_weights {
  linear_weights<T, Backend> query, key, value, output;
  norm_weights<T, Backend> norm;

  attention_weights() = default;
  attention_weights(Backend& be, index_t width, const attention_config& c)
      : query(be, c.heads * c.head_size, width),
        key(be, c.kv_heads * c.head_size, width),
        value(be, c.kv_heads * c.head_size, width),
        output(be, width, c.heads * c.head_size),
        norm(be, width) {}
};

/// Weights of one layer; what it has not is empty.
template <class T, backend Backend>
struct layer_weights {
  attention_weights<T, Backend> self, cross;
  linear_weights<T, Backend> expand, contract;  // (F,D), (D,F)
  norm_weights<T, Backend> norm;                // of the feed-forward block

  layer_weights() = default;
  layer_weights(Backend& be, index_t width, const layer_config& c, bool has_cross)
      : self(be, width, c.self),
        expand(be, c.feed_forward, width),
        contract(be, width, c.feed_forward),
        norm(be, width) {
    if (has_cross) cross = attention_weights<T, Backend>(be, width, c.cross);
  }
};

/// Weights of an embedding; what it has not is empty.
template <class T, backend Backend>
struct embedding_weights {
  parameter<T, 2, Backend> tokens, positions, types;  // (V,E), (P,E) if learned, (types,E)
  norm_weights<T, Backend> norm;
  linear_weights<T, Backend> projection;  // (D,E) of a factorised embedding

  embedding_weights() = default;
  embedding_weights(Backend& be, index_t width, const embedding_config& c) : tokens(be, {c.vocabulary, c.width}) {
    if (c.positions == headred::positions::learned)
      positions = parameter<T, 2, Backend>(be, {c.max_positions, c.width});
    if (c.token_types > 0) types = parameter<T, 2, Backend>(be, {c.token_types, c.width});
    if (c.norm) norm = norm_weights<T, Backend>(be, c.width);
    if (c.width != width) projection = linear_weights<T, Backend>(be, width, c.width);
  }
};

/// Weights of an output head; what it has not is empty.
template <class T, backend Backend>
struct output_weights {
  linear_weights<T, Backend> transform;  // masked-LM head
  norm_weights<T, Backend> norm;
  parameter<T, 2, Backend> table;  // (V,D) unless tied
  parameter<T, 1, Backend> bias;   // (V)
};

/// All parameters of a model. Parameters that its configuration does not have are empty.
template <class T, backend Backend>
struct transformer_weights {
  embedding_weights<T, Backend> source, target;
  std::vector<layer_weights<T, Backend>> encoder, decoder;  // one entry a weight set
  norm_weights<T, Backend> encoder_norm, decoder_norm;      // final_norm
  output_weights<T, Backend> output;
  linear_weights<T, Backend> pooler;

  transformer_weights() = default;
  /// Zeros of the shapes that the configuration asks for. Throws argument_error for an impossible one.
  transformer_weights(Backend& be, const transformer_config& c) {
    validate_config(c);
    source = {be, c.width, c.source};
    const auto build = [&](const stack_config& stack, bool cross) {
      std::vector<layer_weights<T, Backend>> sets(static_cast<std::size_t>(stack.weight_sets()));
      for (std::size_t l = 0; l < stack.layers.size(); ++l) {
        auto& set = sets[static_cast<std::size_t>(stack.weights_of(static_cast<index_t>(l)))];
        if (set.norm.scale.value.size() == 0) set = {be, c.width, stack.layers[l], cross};
      }
      return sets;
    };
    if (c.has_encoder()) encoder = build(c.encoder, false);
    if (c.has_decoder()) decoder = build(c.decoder, c.has_cross());
    if (c.has_cross() && !c.shared_embeddings) target = {be, c.width, c.target};
    if (c.final_norm && c.has_encoder()) encoder_norm = {be, c.width};
    if (c.final_norm && c.has_decoder()) decoder_norm = {be, c.width};
    const embedding_config& e = c.output_embedding();
    if (c.output == output_head::masked_lm) {
      output.transform = {be, e.width, c.width};
      output.norm = {be, e.width};
    }
    if (c.output != output_head::none) {
      if (!c.tied_output) output.table = {be, {e.vocabulary, c.output == output_head::masked_lm ? e.width : c.width}};
      if (c.output_bias) output.bias = {be, {e.vocabulary}};
    }
    if (c.pooler) pooler = {be, c.width, c.width};
  }
};

namespace detail {

template <class Linear, class Visitor>
void visit_linear(const std::string& name, Linear& w, Visitor& f) {
  f(name + ".weight", w.weight);
  f(name + ".bias", w.bias);
}
template <class Norm, class Visitor>
void visit_norm(const std::string& name, Norm& w, Visitor& f) {
  f(name + ".scale", w.scale);
  f(name + ".shift", w.shift);
}
template <class Attention, class Visitor>
void visit_attention(const std::string& name, Attention& w, Visitor& f) {
  visit_linear(name + ".query", w.query, f);
  visit_linear(name + ".key", w.key, f);
  visit_linear(name + ".value", w.value, f);
  visit_linear(name + ".output", w.output, f);
  visit_norm(name + ".norm", w.norm, f);
}
template <class Embedding, class Visitor>
void visit_embedding(const std::string& name, Embedding& w, Visitor& f) {
  f(name + ".tokens", w.tokens);
  f(name + ".positions", w.positions);
  f(name + ".types", w.types);
  visit_norm(name + ".norm", w.norm, f);
  visit_linear(name + ".projection", w.projection, f);
}

}  // namespace detail

/// f(name, parameter) for every parameter that the model has, in a fixed order: optimisers, files and counts are all
/// written on this. Names read like "encoder.0.self.query.weight". A parameter with an extent of 0 (all heads of a layer
/// removed) is visited; one that the configuration does not have is not.
template <class Weights, class Visitor>
void visit_parameters(Weights& w, Visitor&& visitor) {
  auto f = [&](const std::string& name, auto& parameter) {
    for (const index_t extent : parameter.value.shape())
      if (extent > 0) return visitor(name, parameter);
  };
  detail::visit_embedding("source", w.source, f);
  detail::visit_embedding("target", w.target, f);
  const auto stack = [&](const std::string& name, auto& layers) {
    for (std::size_t l = 0; l < layers.size(); ++l) {
      const std::string layer = name + "." + std::to_string(l);
      detail::visit_attention(layer + ".self", layers[l].self, f);
      detail::visit_attention(layer + ".cross", layers[l].cross, f);
      detail::visit_linear(layer + ".expand", layers[l].expand, f);
      detail::visit_linear(layer + ".contract", layers[l].contract, f);
      detail::visit_norm(layer + ".norm", layers[l].norm, f);
    }
  };
  stack("encoder", w.encoder);
  stack("decoder", w.decoder);
  detail::visit_norm("encoder_norm", w.encoder_norm, f);
  detail::visit_norm("decoder_norm", w.decoder_norm, f);
  detail::visit_linear("output.transform", w.output.transform, f);
  detail::visit_norm("output.norm", w.output.norm, f);
  f("output.table", w.output.table);
  f("output.bias", w.output.bias);
  detail::visit_linear("pooler", w.pooler, f);
}

}  // namespace headred
