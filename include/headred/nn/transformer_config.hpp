// transformer_config: the geometry of a model, layer by layer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <headred/core/error.hpp>

namespace headred {

/// Which stacks a model has.
enum class architecture {
  encoder,          ///< BERT, ALBERT: hidden states of one sequence
  encoder_decoder,  ///< Marian and the original Transformer
  decoder,          ///< causal, without cross-attention
};
/// What stands between the two layers of a feed-forward block.
enum class activation { relu, gelu, gelu_tanh, silu };
/// How a token's place enters its embedding.
enum class positions {
  none,
  learned,
  sinusoidal_interleaved,    ///< sin and cos of one frequency side by side, positions from 0 (Vaswani 2017)
  sinusoidal_halves,         ///< all sin, then all cos; positions from 0 (Hugging Face Marian)
  sinusoidal_halves_from_1,  ///< all sin, then all cos; positions from 1, frequencies of tensor2tensor (CTranslate2)
};
/// What is made of the last hidden states.
enum class output_head {
  none,        ///< hidden states only
  projection,  ///< logits = hidden W^T + b
  masked_lm,   ///< linear, activation, norm, then the projection (BERT, ALBERT)
};

/// One attention block. `original` names each head by its number in the unpruned model, so that later plans and reports
/// still speak of the same heads. A block may have lost all heads: its residual path and output bias remain.
struct attention_config {
  index_t heads = 0;
  index_t kv_heads = 0;  ///< each serves heads / kv_heads query heads
  index_t head_size = 0;
  std::vector<index_t> original;  ///< (heads), ascending; empty means 0, 1, 2, ...

  index_t original_of(index_t head) const { return original.empty() ? head : original[static_cast<std::size_t>(head)]; }
  friend bool operator==(const attention_config&, const attention_config&) = default;
};

/// Geometry of one layer.
struct layer_config {
  attention_config self;
  attention_config cross;    ///< used by the decoder of an encoder_decoder alone
  index_t feed_forward = 0;  ///< neurons
  friend bool operator==(const layer_config&, const layer_config&) = default;
};

/// Geometry of an embedding.
struct embedding_config {
  index_t vocabulary = 0;
  index_t width = 0;  ///< of the tables; another than the model's means a projection follows (ALBERT)
  headred::positions positions = headred::positions::learned;
  index_t max_positions = 0;  ///< longest sequence
  index_t token_types = 0;
  double scale = 1;   ///< multiplies token embeddings
  bool norm = false;  ///< a layer norm over the sum (BERT)
  friend bool operator==(const embedding_config&, const embedding_config&) = default;
};

/// The layers of an encoder or decoder. `weights[l]` is the set of weights that layer l uses: ALBERT's layers share one.
struct stack_config {
  std::vector<layer_config> layers;
  std::vector<index_t> weights;  ///< empty means a set each

  index_t weights_of(index_t layer) const { return weights.empty() ? layer : weights[static_cast<std::size_t>(layer)]; }
  index_t weight_sets() const {
    if (weights.empty()) return static_cast<index_t>(layers.size());
    index_t n = 0;
    for (const index_t w : weights) n = w + 1 > n ? w + 1 : n;
    return n;
  }
  friend bool operator==(const stack_config&, const stack_config&) = default;
};

/// The geometry of a Transformer. Every layer has head counts, a head size and a feed-forward width of its own: a pruned
/// model is an ordinary model.
struct transformer_config {
  architecture kind = architecture::encoder;
  index_t width = 0;
  headred::activation activation = headred::activation::gelu;
  bool pre_norm = false;  ///< norms before each block (and, with final_norm, after the stack) instead of after it
  bool final_norm = false;
  double norm_epsilon = 1e-5;
  embedding_config source;         ///< of the encoder; of the decoder in a decoder-only model
  embedding_config target;         ///< of the decoder of an encoder_decoder
  bool shared_embeddings = false;  ///< target tables are the source's
  stack_config encoder, decoder;
  output_head output = output_head::none;
  bool tied_output = true;  ///< the projection's matrix is the token table
  bool output_bias = true;
  bool pooler = false;  ///< tanh layer on the first token's hidden state (BERT)
  double dropout = 0;   ///< on embeddings and on each block's output, while training
  double attention_dropout = 0;
  std::int32_t pad_id = 0, begin_id = 1, end_id = 2;  ///< begin_id starts a decoder's target
  friend bool operator==(const transformer_config&, const transformer_config&) = default;

  /// Which parts a model of this kind has.
  bool has_encoder() const noexcept { return kind != architecture::decoder; }
  bool has_decoder() const noexcept { return kind != architecture::encoder; }
  bool has_cross() const noexcept { return kind == architecture::encoder_decoder; }
  /// The embedding whose table an output projection may be tied to.
  const embedding_config& output_embedding() const noexcept { return has_cross() ? target : source; }
  bool factorised() const noexcept { return has_encoder() && source.width != width; }
};

}  // namespace headred
