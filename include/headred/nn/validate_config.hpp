// validate_config: what must hold before a model can be built.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <headred/nn/transformer_config.hpp>

namespace headred {
namespace detail {

inline void require_config(bool holds, const std::string& what) {
  if (!holds) throw argument_error("transformer_config: " + what);
}

inline void validate_attention_config(const attention_config& a, const std::string& where) {
  constexpr index_t limit = 1 << 20;
  require_config(a.heads >= 0 && a.heads <= 4096,
                 where + " has " + std::to_string(a.heads) + " heads, expected 0 to 4096");
  require_config(a.head_size >= 1 && a.head_size <= limit,
                 where + ": head_size is " + std::to_string(a.head_size) + ", expected at least 1");
  const bool grouped = a.heads == 0 ? a.kv_heads == 0 : a.kv_heads >= 1 && a.heads % a.kv_heads == 0;
  require_config(grouped, where + " has " + std::to_string(a.kv_heads) + " key/value heads, expected a divisor of " +
                              std::to_string(a.heads));
  require_config(
      a.original.empty() || static_cast<index_t>(a.original.size()) == a.heads,
      where + " names " + std::to_string(a.original.size()) + " original heads, expected " + std::to_string(a.heads));
  for (std::size_t i = 0; i < a.original.size(); ++i)
    require_config(a.original[i] >= 0 && (i == 0 || a.original[i - 1] < a.original[i]),
                   where + ": original head numbers must ascend from 0 or more");
}

inline void validate_stack_config(const stack_config& s, const std::string& name, bool cross) {
  require_config(!s.layers.empty() && s.layers.size() <= 4096,
                 name + " has " + std::to_string(s.layers.size()) + " layers, expected 1 to 4096");
  require_config(s.weights.empty() || s.weights.size() == s.layers.size(),
                 name + " names weights for " + std::to_string(s.weights.size()) + " layers, expected " +
                     std::to_string(s.layers.size()));
  for (std::size_t l = 0; l < s.layers.size(); ++l) {
    const std::string where = name + " layer " + std::to_string(l);
    validate_attention_config(s.layers[l].self, where + " self-attention");
    if (cross) validate_attention_config(s.layers[l].cross, where + " cross-attention");
    require_config(s.layers[l].feed_forward >= 0 && s.layers[l].feed_forward <= (1 << 24),
                   where + ": feed_forward is " + std::to_string(s.layers[l].feed_forward));
    const index_t w = s.weights_of(static_cast<index_t>(l));
    require_config(
        w >= 0 && w < static_cast<index_t>(s.layers.size()),
        where + " uses weight set " + std::to_string(w) + ", expected [0," + std::to_string(s.layers.size()) + ")");
    for (std::size_t m = 0; m < l; ++m)
      require_config(s.weights_of(static_cast<index_t>(m)) != w || s.layers[m] == s.layers[l],
                     where + " shares its weights with layer " + std::to_string(m) + " of another shape");
  }
  std::vector<bool> used(s.layers.size());
  for (std::size_t l = 0; l < s.layers.size(); ++l)
    used[static_cast<std::size_t>(s.weights_of(static_cast<index_t>(l)))] = true;
  for (index_t w = 0; w < s.weight_sets(); ++w)
    require_config(used[static_cast<std::size_t>(w)], name + ": no layer uses weight set " + std::to_string(w));
}

inline void validate_embedding_config(const embedding_config& e, const std::string& name) {
  constexpr index_t limit = index_t{1} << 31;
  require_config(e.vocabulary >= 1 && e.vocabulary < limit,
                 name + " vocabulary is " + std::to_string(e.vocabulary) + ", expected at least 1");
  require_config(e.width >= 1 && e.width <= (1 << 20),
                 name + " embedding width is " + std::to_string(e.width) + ", expected 1 to 2^20");
  require_config(e.max_positions >= 1 && e.max_positions <= (1 << 24),
                 name + " max_positions is " + std::to_string(e.max_positions) + ", expected 1 to 2^24");
  require_config(e.token_types >= 0 && e.token_types <= (1 << 20),
                 name + " token_types is " + std::to_string(e.token_types) + ", expected 0 to 2^20");
  require_config(std::isfinite(e.scale), name + " embedding scale is not finite");
}

}  // namespace detail

/// Throws argument_error, with the field's name and value, for a geometry that no model can have.
inline void validate_config(const transformer_config& c) {
  using detail::require_config;
  require_config(c.width >= 1 && c.width <= (1 << 20), "width is " + std::to_string(c.width) + ", expected 1 to 2^20");
  require_config(std::isfinite(c.norm_epsilon) && c.norm_epsilon > 0, "norm_epsilon must be positive");
  for (const double p : {c.dropout, c.attention_dropout})
    require_config(p >= 0 && p < 1, "dropout is " + std::to_string(p) + ", expected [0,1)");
  detail::validate_embedding_config(c.source, "source");
  if (c.has_encoder()) detail::validate_stack_config(c.encoder, "encoder", false);
  if (c.has_decoder()) detail::validate_stack_config(c.decoder, "decoder", c.has_cross());
  if (c.has_cross()) {
    detail::validate_embedding_config(c.target, "target");
    require_config(c.target.width == c.width, "the target's embedding width is " + std::to_string(c.target.width) +
                                                  ", expected the model's " + std::to_string(c.width));
    require_config(!c.shared_embeddings || (c.source.vocabulary == c.target.vocabulary && c.source.width == c.width),
                   "shared embeddings need one vocabulary and the model's width");
  }
  require_config(c.kind != architecture::decoder || c.source.width == c.width,
                 "a factorised embedding needs an encoder");
  require_config(c.output != output_head::masked_lm || c.kind == architecture::encoder,
                 "a masked-LM head needs an encoder-only model");
  require_config(c.output != output_head::projection || !c.tied_output || c.output_embedding().width == c.width,
                 "a tied projection needs an embedding as wide as the model");
}

}  // namespace headred
