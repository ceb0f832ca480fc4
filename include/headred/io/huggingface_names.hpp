// huggingface_names: what Hugging Face calls the parameters of a model.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <headred/nn/transformer_config.hpp>

namespace headred {
namespace detail {

/// The name of a part here and there; "#" stands for the number of a layer, the same on both sides.
struct part_name {
  std::string_view ours, theirs;
};

inline constexpr part_name bert_parts[] = {
    {"source.tokens", "embeddings.word_embeddings.weight"},
    {"source.positions", "embeddings.position_embeddings.weight"},
    {"source.types", "embeddings.token_type_embeddings.weight"},
    {"source.norm", "embeddings.LayerNorm"},
    {"encoder.#.self.query", "encoder.layer.#.attention.self.query"},
    {"encoder.#.self.key", "encoder.layer.#.attention.self.key"},
    {"encoder.#.self.value", "encoder.layer.#.attention.self.value"},
    {"encoder.#.self.output", "encoder.layer.#.attention.output.dense"},
    {"encoder.#.self.norm", "encoder.layer.#.attention.output.LayerNorm"},
    {"encoder.#.expand", "encoder.layer.#.intermediate.dense"},
    {"encoder.#.contract", "encoder.layer.#.output.dense"},
    {"encoder.#.norm", "encoder.layer.#.output.LayerNorm"},
    {"output.transform", "cls.predictions.transform.dense"},
    {"output.norm", "cls.predictions.transform.LayerNorm"},
    {"output.table", "cls.predictions.decoder.weight"},
    {"output.bias", "cls.predictions.bias"},
    {"output.bias", "cls.predictions.decoder.bias"},
    {"pooler", "pooler.dense"},
};

inline constexpr part_name albert_parts[] = {
    {"source.tokens", "embeddings.word_embeddings.weight"},
    {"source.positions", "embeddings.position_embeddings.weight"},
    {"source.types", "embeddings.token_type_embeddings.weight"},
    {"source.norm", "embeddings.LayerNorm"},
    {"source.projection", "encoder.embedding_hidden_mapping_in"},
    {"encoder.0.self.query", "encoder.albert_layer_groups.0.albert_layers.0.attention.query"},
    {"encoder.0.self.key", "encoder.albert_layer_groups.0.albert_layers.0.attention.key"},
    {"encoder.0.self.value", "encoder.albert_layer_groups.0.albert_layers.0.attention.value"},
    {"encoder.0.self.output", "encoder.albert_layer_groups.0.albert_layers.0.attention.dense"},
    {"encoder.0.self.norm", "encoder.albert_layer_groups.0.albert_layers.0.attention.LayerNorm"},
    {"encoder.0.expand", "encoder.albert_layer_groups.0.albert_layers.0.ffn"},
    {"encoder.0.contract", "encoder.albert_layer_groups.0.albert_layers.0.ffn_output"},
    {"encoder.0.norm", "encoder.albert_layer_groups.0.albert_layers.0.full_layer_layer_norm"},
    {"output.transform", "predictions.dense"},
    {"output.norm", "predictions.LayerNorm"},
    {"output.table", "predictions.decoder.weight"},
    {"output.bias", "predictions.bias"},
    {"output.bias", "predictions.decoder.bias"},
    {"pooler", "pooler"},
};

inline constexpr part_name marian_parts[] = {
    {"source.tokens", "encoder.embed_tokens.weight"},
    {"target.tokens", "decoder.embed_tokens.weight"},
    {"encoder.#.self.query", "encoder.layers.#.self_attn.q_proj"},
    {"encoder.#.self.key", "encoder.layers.#.self_attn.k_proj"},
    {"encoder.#.self.value", "encoder.layers.#.self_attn.v_proj"},
    {"encoder.#.self.output", "encoder.layers.#.self_attn.out_proj"},
    {"encoder.#.self.norm", "encoder.layers.#.self_attn_layer_norm"},
    {"encoder.#.expand", "encoder.layers.#.fc1"},
    {"encoder.#.contract", "encoder.layers.#.fc2"},
    {"encoder.#.norm", "encoder.layers.#.final_layer_norm"},
    {"decoder.#.self.query", "decoder.layers.#.self_attn.q_proj"},
    {"decoder.#.self.key", "decoder.layers.#.self_attn.k_proj"},
    {"decoder.#.self.value", "decoder.layers.#.self_attn.v_proj"},
    {"decoder.#.self.output", "decoder.layers.#.self_attn.out_proj"},
    {"decoder.#.self.norm", "decoder.layers.#.self_attn_layer_norm"},
    {"decoder.#.cross.query", "decoder.layers.#.encoder_attn.q_proj"},
    {"decoder.#.cross.key", "decoder.layers.#.encoder_attn.k_proj"},
    {"decoder.#.cross.value", "decoder.layers.#.encoder_attn.v_proj"},
    {"decoder.#.cross.output", "decoder.layers.#.encoder_attn.out_proj"},
    {"decoder.#.cross.norm", "decoder.layers.#.encoder_attn_layer_norm"},
    {"decoder.#.expand", "decoder.layers.#.fc1"},
    {"decoder.#.contract", "decoder.layers.#.fc2"},
    {"decoder.#.norm", "decoder.layers.#.final_layer_norm"},
    {"encoder_norm", "encoder.layer_norm"},
    {"decoder_norm", "decoder.layer_norm"},
    {"output.table", "lm_head.weight"},
    {"output.bias", "final_logits_bias"},
    {"output.bias", "lm_head.bias"},
};

inline std::string with_layer(std::string_view pattern, std::string_view layer) {
  const std::size_t at = pattern.find('#');
  if (at == std::string_view::npos) return std::string(pattern);
  return std::string(pattern.substr(0, at)).append(layer).append(pattern.substr(at + 1));
}

}  // namespace detail

/// The names that a parameter, given by the name of visit_parameters, may have in a Hugging Face file: the usual one
/// first. Where a file holds several of them, they are copies of each other (tied weights).
class huggingface_names {
 public:
  /// `type` is bert, albert, marian or marian-like.
  huggingface_names(std::string_view type, const transformer_config& config) : config_(&config) {
    if (type == "bert") {
      parts_ = detail::bert_parts;
      prefix_ = "bert.";
    } else if (type == "albert") {
      parts_ = detail::albert_parts;
      prefix_ = "albert.";
    } else if (type == "marian" || type == "marian-like") {
      parts_ = detail::marian_parts;
      prefix_ = "model.";
    } else {
      throw argument_error("huggingface_names: unknown model type " + std::string(type));
    }
  }

  std::vector<std::string> operator()(std::string_view ours) const {
    std::vector<std::string> names;
    if (ours == "source.tokens" && config_->shared_embeddings) add(names, "shared.weight");
    add_parts(names, ours);
    if (ours == "source.tokens" && config_->shared_embeddings) add_parts(names, "target.tokens");
    const bool table = ours == "target.tokens" || (ours == "source.tokens" && (config_->shared_embeddings || !cross()));
    if (table && config_->tied_output && config_->output != output_head::none) add_parts(names, "output.table");
    return names;
  }

  /// Whether a tensor holds nothing that a model learns: numbers of positions, tables of sinusoids.
  static bool is_buffer(std::string_view name) {
    constexpr std::string_view buffers[] = {"embeddings.position_ids", "embeddings.token_type_ids",
                                            "encoder.embed_positions.weight", "decoder.embed_positions.weight"};
    for (const std::string_view buffer : buffers)
      if (name.ends_with(buffer)) return true;
    return false;
  }

 private:
  bool cross() const noexcept { return config_->has_cross(); }

  void add(std::vector<std::string>& names, const std::string& name) const {
    names.push_back(prefix_ + name);
    names.push_back(name);
  }

  // A part's name is the whole name, or is followed by a field: weight and bias, or scale and shift of a norm.
  void add_parts(std::vector<std::string>& names, std::string_view ours) const {
    const std::size_t digit = ours.find_first_of("0123456789");
    const std::size_t end = digit == std::string_view::npos ? digit : ours.find('.', digit);
    const auto layer = digit == std::string_view::npos ? std::string_view() : ours.substr(digit, end - digit);
    const std::string_view field = ours.substr(ours.rfind('.') + 1);
    for (const detail::part_name& part : parts_) {
      const std::string here = detail::with_layer(part.ours, layer);
      const std::string there = detail::with_layer(part.theirs, layer);
      if (here == ours) add(names, there);
      if (ours.size() != here.size() + 1 + field.size() || !ours.starts_with(here)) continue;
      if (field == "scale" || field == "shift") {
        add(names, there + (field == "scale" ? ".weight" : ".bias"));
        add(names, there + (field == "scale" ? ".gamma" : ".beta"));  // files made from TensorFlow's
      } else {
        add(names, there + "." + std::string(field));
      }
    }
  }

  std::span<const detail::part_name> parts_;
  std::string prefix_;
  const transformer_config* config_;  // outlives the object
};

}  // namespace headred
