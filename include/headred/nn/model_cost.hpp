// model_cost: what a model weighs and what a pass through it costs, from its configuration alone.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <headred/nn/validate_config.hpp>

namespace headred {

/// A number for each part of a model.
struct cost_by_part {
  double embeddings = 0;    ///< tables, token types, learned positions, the projection of a factorised embedding
  double projections = 0;   ///< Q, K, V and O of all attention blocks
  double scores = 0;        ///< q k^T and probabilities times v
  double feed_forward = 0;  ///< both layers of the feed-forward blocks
  double norms = 0;         ///< all layer norms
  double output = 0;        ///< what makes logits, and the pooler

  double total() const noexcept { return embeddings + projections + scores + feed_forward + norms + output; }
  friend bool operator==(const cost_by_part&, const cost_by_part&) = default;
};

namespace detail {

inline double real(index_t n) { return static_cast<double>(n); }

/// f(layer, whether it is the first with its weights) for the layers of a stack.
template <class F>
void for_each_layer(const stack_config& stack, const F& f) {
  std::vector<bool> seen(static_cast<std::size_t>(stack.weight_sets()));
  for (std::size_t l = 0; l < stack.layers.size(); ++l) {
    const auto set = static_cast<std::size_t>(stack.weights_of(static_cast<index_t>(l)));
    f(stack.layers[l], !seen[set]);
    seen[set] = true;
  }
}

}  // namespace detail

/// Number of parameters: what visit_parameters visits. Layers that share weights count once, tied matrices too.
///   attention D (2 H K + 2 KV K) + H K + 2 KV K + D, feed-forward 2 D F + F + D, norm 2 D, tables V E, P E, types E
/// Exact below 2^53. Throws argument_error for an impossible configuration.
inline cost_by_part parameter_count(const transformer_config& c) {
  using detail::real;
  validate_config(c);
  const double d = real(c.width);
  cost_by_part n;
  const auto attention = [&](const attention_config& a) {
    const double q = real(a.heads * a.head_size), kv = real(a.kv_heads * a.head_size);
    n.projections += d * (2 * q + 2 * kv) + q + 2 * kv + d;
    n.norms += 2 * d;
  };
  const auto stack = [&](const stack_config& s, bool cross) {
    detail::for_each_layer(s, [&](const layer_config& layer, bool first) {
      if (!first) return;
      attention(layer.self);
      if (cross) attention(layer.cross);
      n.feed_forward += 2 * d * real(layer.feed_forward) + real(layer.feed_forward) + d;
      n.norms += 2 * d;
    });
    if (c.final_norm) n.norms += 2 * d;
  };
  const auto embedding = [&](const embedding_config& e) {
    const double width = real(e.width);
    n.embeddings += (real(e.vocabulary) + real(e.token_types)) * width;
    if (e.positions == positions::learned) n.embeddings += real(e.max_positions) * width;
    if (e.norm) n.norms += 2 * width;
    if (e.width != c.width) n.embeddings += d * width + d;
  };
  embedding(c.source);
  if (c.has_cross() && !c.shared_embeddings) embedding(c.target);
  if (c.has_encoder()) stack(c.encoder, false);
  if (c.has_decoder()) stack(c.decoder, c.has_cross());
  const embedding_config& e = c.output_embedding();
  if (c.output == output_head::masked_lm) {
    n.output += real(e.width) * d + real(e.width);
    n.norms += 2 * real(e.width);
  }
  if (c.output != output_head::none) {
    if (!c.tied_output) n.output += real(e.vocabulary) * (c.output == output_head::masked_lm ? real(e.width) : d);
    if (c.output_bias) n.output += real(e.vocabulary);
  }
  if (c.pooler) n.output += d * d + d;
  return n;
}

/// Floating-point operations of a forward pass with logits for every token, a product and its sum counted as two.
/// Matrix products alone are counted (norms, softmax and the like are linear in the tokens, and 0 here):
///   projections  2 T D H K (Q), 2 S D KV K (K and V each), 2 T H K D (O)
///   scores       4 H K for each pair of a query and a key that it sees: T S of them, T (T + 1) / 2 where causal
///   feed_forward 4 T D F;  embeddings 2 T E D where factorised;  output 2 T E V, and 2 T D E for a masked-LM head
///   sources, targets : lengths of the sentences; targets for a model with cross-attention alone
/// Throws argument_error for an impossible configuration, a length below 0, another number of targets than of sources.
inline cost_by_part forward_flops(const transformer_config& c, std::span<const index_t> sources,
                                  std::span<const index_t> targets = {}) {
  using detail::real;
  validate_config(c);
  if (c.has_cross() ? targets.size() != sources.size() : !targets.empty())
    throw argument_error("forward_flops: " + std::to_string(targets.size()) + " targets for " +
                         std::to_string(sources.size()) + " sources" +
                         (c.has_cross() ? "" : " of a model without cross-attention"));
  for (const auto lengths : {sources, targets})
    for (const index_t length : lengths)
      if (length < 0) throw argument_error("forward_flops: a length is " + std::to_string(length));
  const double d = real(c.width);
  cost_by_part n;
  const auto attention = [&](const attention_config& a, double queries, double keys, double pairs) {
    const double q = real(a.heads * a.head_size), kv = real(a.kv_heads * a.head_size);
    n.projections += 4 * queries * d * q + 4 * keys * d * kv;
    n.scores += 4 * q * pairs;
  };
  for (std::size_t b = 0; b < sources.size(); ++b) {
    const double s = real(sources[b]), t = c.has_cross() ? real(targets[b]) : s;
    if (c.source.width != c.width) n.embeddings += 2 * s * real(c.source.width) * d;
    if (c.has_encoder())
      detail::for_each_layer(c.encoder, [&](const layer_config& layer, bool) {
        attention(layer.self, s, s, s * s);
        n.feed_forward += 4 * s * d * real(layer.feed_forward);
      });
    if (c.has_decoder())
      detail::for_each_layer(c.decoder, [&](const layer_config& layer, bool) {
        attention(layer.self, t, t, t * (t + 1) / 2);
        if (c.has_cross()) attention(layer.cross, t, s, t * s);
        n.feed_forward += 4 * t * d * real(layer.feed_forward);
      });
    const embedding_config& e = c.output_embedding();
    if (c.output == output_head::masked_lm) n.output += 2 * t * d * real(e.width);
    if (c.output != output_head::none)
      n.output += 2 * t * (c.output == output_head::masked_lm ? real(e.width) : d) * real(e.vocabulary);
  }
  return n;
}

}  // namespace headred
