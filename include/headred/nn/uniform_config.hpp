// uniform_config: the configuration of a model whose layers are all alike.
#pragma once

#include <cmath>

#include <headred/nn/validate_config.hpp>

namespace headred {

/// What most models are described by.
struct uniform_geometry {
  architecture kind = architecture::encoder_decoder;
  index_t layers = 2;  ///< of each stack
  index_t width = 64;
  index_t heads = 8;
  index_t kv_heads = 0;      ///< 0: one for each head
  index_t head_size = 0;     ///< 0: width / heads
  index_t feed_forward = 0;  ///< 0: 4 width
  index_t source_vocabulary = 0;
  index_t target_vocabulary = 0;  ///< of an encoder_decoder
  index_t max_positions = 512;
  double dropout = 0;
};

/// A model in the manner of today: norms before the blocks and after each stack, sinusoidal positions, embeddings scaled
/// by sqrt(width), logits from the tied token table. Every field of the result may be changed before a model is built.
/// Throws argument_error for a geometry that no model can have.
inline transformer_config uniform_config(const uniform_geometry& g) {
  detail::require_config(g.layers >= 1 && g.heads >= 1 && g.width >= 1, "layers, heads and width must be at least 1");
  detail::require_config(g.head_size > 0 || g.width % g.heads == 0,
                         "a width of " + std::to_string(g.width) + " does not divide into " + std::to_string(g.heads) +
                             " heads: give head_size");
  attention_config block;
  block.heads = g.heads;
  block.kv_heads = g.kv_heads > 0 ? g.kv_heads : g.heads;
  block.head_size = g.head_size > 0 ? g.head_size : g.width / g.heads;
  layer_config layer;
  layer.self = block;
  layer.feed_forward = g.feed_forward > 0 ? g.feed_forward : 4 * g.width;

  transformer_config c;
  c.kind = g.kind;
  c.width = g.width;
  c.activation = activation::relu;
  c.pre_norm = c.final_norm = true;
  c.source.vocabulary = g.source_vocabulary;
  c.source.width = g.width;
  c.source.positions = positions::sinusoidal_interleaved;
  c.source.max_positions = g.max_positions;
  c.source.scale = std::sqrt(static_cast<double>(g.width));
  c.target = c.source;
  c.target.vocabulary = g.target_vocabulary;
  if (c.has_encoder()) c.encoder.layers.assign(static_cast<std::size_t>(g.layers), layer);
  if (c.has_cross()) layer.cross = block;
  if (c.has_decoder()) c.decoder.layers.assign(static_cast<std::size_t>(g.layers), layer);
  if (!c.has_cross()) c.target = {};
  c.output = output_head::projection;
  c.dropout = g.dropout;
  validate_config(c);
  return c;
}

}  // namespace headred
