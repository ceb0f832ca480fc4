// huggingface_config: the config.json of Hugging Face models as a transformer_config.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <headred/io/json_document.hpp>
#include <headred/io/json_fields.hpp>
#include <headred/nn/validate_config.hpp>

namespace headred {

/// What a config.json of Hugging Face says. `begin` and `end` are the symbols of config.begin_id and end_id in the
/// model's vocabulary, for files that give no numbers (the ids are -1 then); empty where the numbers are known.
struct huggingface_model {
  std::string type;  ///< "model_type": bert, albert, marian or marian-like
  transformer_config config;
  std::string begin, end;
};

namespace detail {

/// Names of the tensors that lie beside a config.json: they decide about parts that it does not mention.
class tensor_names {
 public:
  explicit tensor_names(std::span<const std::string> names) : names_(names) {}
  /// Whether the names are unknown, so that nothing can be told from them.
  bool unknown() const noexcept { return names_.empty(); }
  bool any_contains(std::string_view part) const {
    return std::ranges::any_of(names_, [part](const std::string& n) { return n.find(part) != std::string::npos; });
  }

 private:
  std::span<const std::string> names_;
};

inline index_t config_size(json_fields& f, const char* key, index_t most = 1 << 20) { return f.whole(key, 1, most); }
inline index_t config_vocabulary(json_fields& f, const char* key) {
  return f.whole(key, 1, std::numeric_limits<std::int32_t>::max());
}
inline std::int32_t config_token(json_fields& f, const char* key, index_t fallback, index_t vocabulary) {
  return static_cast<std::int32_t>(f.whole_or(key, fallback, -1, vocabulary - 1));
}
inline double config_dropout(json_fields& f, const char* key, double fallback) {
  return f.real_or(key, fallback, 0, std::nextafter(1., 0.));
}

/// Refuses a switch that would turn on what headred's Transformer does not compute.
inline void refuse_switch(json_fields& f, const char* key) {
  if (f.flag_or(key, false)) f.fail(key, "is true, which is not supported");
}

inline activation config_activation(json_fields& f, const char* key, const char* fallback) {
  using named = std::pair<std::string_view, activation>;
  static constexpr named known[] = {{"relu", activation::relu},          {"gelu", activation::gelu},
                                    {"gelu_new", activation::gelu_tanh}, {"gelu_pytorch_tanh", activation::gelu_tanh},
                                    {"silu", activation::silu},          {"swish", activation::silu}};
  if (!f.has(key)) {
    for (const auto& [name, meaning] : known)
      if (name == fallback) return meaning;
  }
  return f.choice(key, std::span<const named>(known));
}

inline attention_config config_attention(json_fields& f, const char* key, index_t width) {
  const index_t heads = f.whole(key, 1, 4096);
  if (width % heads != 0)
    f.fail(key, "is " + std::to_string(heads) + ", expected a divisor of the width " + std::to_string(width));
  return {heads, heads, width / heads, {}};
}

inline bool has_architecture(json_fields& f, std::initializer_list<std::string_view> endings) {
  if (!f.has("architectures")) return false;
  for (const auto& item : f.array("architectures")) {
    if (!item.is_string()) f.fail("architectures", "holds " + json_fields::shown(item) + ", expected strings");
    for (const std::string_view ending : endings)
      if (item.get_ref<const std::string&>().ends_with(ending)) return true;
  }
  return false;
}

// {"0": [3, 5]}: heads that Hugging Face's prune_heads removed from layer 0.
inline void apply_pruned_heads(json_fields& f, stack_config& stack) {
  if (!f.has("pruned_heads")) return;
  json_fields pruned = f.object("pruned_heads");
  for (std::size_t l = 0; l < stack.layers.size(); ++l) {
    const std::string key = std::to_string(l);
    if (!pruned.has(key.c_str())) continue;
    attention_config& a = stack.layers[l].self;
    const auto removed = pruned.wholes(key.c_str(), 0, a.heads - 1);
    for (index_t h = 0; h < a.heads; ++h)
      if (std::ranges::find(removed, h) == removed.end()) a.original.push_back(h);
    a.heads = a.kv_heads = static_cast<index_t>(a.original.size());
  }
  pruned.refuse_others();
}

/// What BERT and ALBERT have in common.
inline transformer_config read_bert_like(json_fields& f, double dropout) {
  transformer_config c;
  c.kind = architecture::encoder;
  c.width = config_size(f, "hidden_size");
  c.norm_epsilon = f.real_or("layer_norm_eps", 1e-12, std::numeric_limits<double>::min(), 1);
  c.source.vocabulary = config_vocabulary(f, "vocab_size");
  c.source.width = c.width;
  c.source.max_positions = f.whole_or("max_position_embeddings", 512, 1, 1 << 24);
  c.source.token_types = f.whole_or("type_vocab_size", 2, 1, 1 << 20);
  c.source.norm = true;
  if (f.text_or("position_embedding_type", "absolute") != "absolute")
    f.fail("position_embedding_type", "is " + json_fields::shown(f.at("position_embedding_type")) +
                                          ", expected \"absolute\": relative positions are not supported");
  layer_config layer;
  layer.self = config_attention(f, "num_attention_heads", c.width);
  layer.feed_forward = f.whole("intermediate_size", 1, 1 << 24);
  c.encoder.layers.assign(static_cast<std::size_t>(f.whole("num_hidden_layers", 1, 4096)), layer);
  c.tied_output = f.flag_or("tie_word_embeddings", true);
  c.dropout = config_dropout(f, "hidden_dropout_prob", dropout);
  c.attention_dropout = config_dropout(f, "attention_probs_dropout_prob", dropout);
  refuse_switch(f, "is_decoder");
  refuse_switch(f, "add_cross_attention");
  // bos_token_id and eos_token_id mean nothing here: old ALBERT files have 0 for both
  c.pad_id = config_token(f, "pad_token_id", 0, c.source.vocabulary);
  c.begin_id = config_token(f, "cls_token_id", -1, c.source.vocabulary);
  c.end_id = config_token(f, "sep_token_id", -1, c.source.vocabulary);
  return c;
}

inline void read_bert_heads(json_fields& f, transformer_config& c, const tensor_names& names, std::string_view head) {
  const bool masked = has_architecture(f, {"ForMaskedLM", "ForPreTraining"}) || names.any_contains(head);
  c.output = masked ? output_head::masked_lm : output_head::none;
  c.pooler = names.unknown() ? !has_architecture(f, {"ForMaskedLM", "ForTokenClassification", "ForQuestionAnswering"})
                             : names.any_contains("pooler.");
}

inline transformer_config read_bert(json_fields& f, const tensor_names& names) {
  transformer_config c = read_bert_like(f, 0.1);
  c.activation = config_activation(f, "hidden_act", "gelu");
  apply_pruned_heads(f, c.encoder);
  read_bert_heads(f, c, names, "cls.predictions.");
  return c;
}

inline transformer_config read_albert(json_fields& f, const tensor_names& names) {
  for (const char* key : {"num_hidden_groups", "inner_group_num"})
    if (f.whole_or(key, 1, 0, 4096) != 1)
      f.fail(key, "is " + json_fields::shown(f.at(key)) + ", expected 1: all layers share one set of weights");
  if (f.has("pruned_heads") && !f.at("pruned_heads").empty())
    f.fail("pruned_heads", "is not empty, which is not supported where layers share their weights");
  transformer_config c = read_bert_like(f, 0);
  c.activation = config_activation(f, "hidden_act", "gelu_new");
  c.source.width = f.whole_or("embedding_size", 128, 1, 1 << 20);
  if (c.source.width == c.width)
    f.fail("embedding_size",
           "is hidden_size, " + std::to_string(c.width) + ": a projection between equal widths is not supported");
  c.encoder.weights.assign(c.encoder.layers.size(), 0);
  read_bert_heads(f, c, names, "predictions.");
  return c;
}

/// Marian of Hugging Face, and the variant "marian-like": norms before the blocks and after the stacks, positions from
/// 1, an output projection of its own. That one names its special tokens instead of numbering them; see
/// load_transformer.
inline transformer_config read_marian(json_fields& f, const tensor_names& names, bool like) {
  transformer_config c;
  c.kind = architecture::encoder_decoder;
  c.width = config_size(f, "d_model");
  c.norm_epsilon = f.real_or("layer_norm_eps", 1e-5, std::numeric_limits<double>::min(), 1);
  c.activation = config_activation(f, "activation_function", "gelu");
  c.pre_norm = like ? f.flag("normalize_before") : false;
  c.final_norm = c.pre_norm;
  if (!like)
    for (const char* key : {"normalize_before", "normalize_embedding", "add_final_layer_norm", "add_bias_logits"})
      refuse_switch(f, key);
  if (!f.flag_or("static_position_embeddings", true))
    f.fail("static_position_embeddings", "is false: learned positions are not supported for Marian");
  const bool scaled = f.flag_or("scale_embedding", false);
  const index_t source = config_vocabulary(f, like ? "vocab_size_source" : "vocab_size");
  const index_t target = like ? config_vocabulary(f, "vocab_size_target")
                              : f.whole_or("decoder_vocab_size", source, 1, std::numeric_limits<std::int32_t>::max());
  for (embedding_config* e : {&c.source, &c.target}) {
    e->vocabulary = e == &c.source ? source : target;
    e->width = c.width;
    e->positions = like ? positions::sinusoidal_halves_from_1 : positions::sinusoidal_halves;
    e->max_positions = f.whole_or("max_position_embeddings", 1024, 1, 1 << 24);
    e->scale = scaled ? std::sqrt(static_cast<double>(c.width)) : 1;
  }
  if (like && !f.text("position").starts_with("sinusoidal: position p counted from 1,"))
    f.fail("position", "is " + json_fields::shown(f.at("position")) + ", expected the sinusoids counted from 1");
  c.shared_embeddings = f.flag_or("share_encoder_decoder_embeddings", !like);
  layer_config encoder, decoder;
  encoder.self = config_attention(f, "encoder_attention_heads", c.width);
  decoder.self = decoder.cross = config_attention(f, "decoder_attention_heads", c.width);
  encoder.feed_forward = f.whole("encoder_ffn_dim", 1, 1 << 24);
  decoder.feed_forward = f.whole("decoder_ffn_dim", 1, 1 << 24);
  c.encoder.layers.assign(static_cast<std::size_t>(f.whole("encoder_layers", 1, 4096)), encoder);
  c.decoder.layers.assign(static_cast<std::size_t>(f.whole("decoder_layers", 1, 4096)), decoder);
  c.output = output_head::projection;
  c.tied_output = f.flag_or("tie_word_embeddings", !like);
  c.output_bias = names.unknown() || names.any_contains("final_logits_bias") || names.any_contains("lm_head.bias");
  c.dropout = config_dropout(f, "dropout", like ? 0 : 0.1);
  c.attention_dropout = config_dropout(f, "attention_dropout", 0);
  c.pad_id = config_token(f, "pad_token_id", like ? 0 : source - 1, source);
  c.begin_id = config_token(f, "decoder_start_token_id", like ? -1 : c.pad_id, target);
  c.end_id = config_token(f, "eos_token_id", like ? -1 : 0, target);
  return c;
}

inline huggingface_model read_huggingface_config(json_fields& f, const tensor_names& names) {
  huggingface_model model;
  const std::string type = model.type = f.text("model_type");
  transformer_config& c = model.config;
  if (type == "bert")
    c = read_bert(f, names);
  else if (type == "albert")
    c = read_albert(f, names);
  else if (type == "marian" || type == "marian-like")
    c = read_marian(f, names, type == "marian-like");
  else if (type == "roberta" || type == "xlm-roberta" || type == "camembert")
    f.fail("model_type", "is " + quoted_name(type) + ", whose positions begin after the padding id: not supported");
  else
    f.fail("model_type", "is " + quoted_name(type) + ", expected one of bert, albert, marian, marian-like");
  try {
    validate_config(c);
  } catch (const argument_error& problem) {
    throw file_error(f.file(), problem.what());
  }
  if (c.begin_id < 0) model.begin = c.has_cross() ? f.text("decoder_starts_with") : "[CLS]";
  if (c.end_id < 0) model.end = c.has_cross() ? f.text("eos") : "[SEP]";
  return model;
}

}  // namespace detail

/// The config.json of a Hugging Face model: BERT, ALBERT (one group of shared layers), Marian, and "marian-like".
///   `tensors`, the names in the model's file, decide whether a pooler, a masked-LM head or an output bias is there;
///   without them the key "architectures" does. Of BERT, what prune_heads removed stays removed and keeps its numbers.
///   begin_id and end_id are cls_token_id and sep_token_id of BERT and ALBERT, decoder_start_token_id and eos_token_id
///   of Marian; -1 where the file has none, beside the symbols. Keys that only matter to training elsewhere are not
///   read.
/// Throws file_error (`file` is its name), naming the key, for text that is not JSON, an unknown model_type, missing
/// keys, wrong types, sizes out of range, and every setting that would change what the model computes and is not
/// supported.
/// Source: the models' configuration classes in Hugging Face Transformers.
inline huggingface_model parse_huggingface_config(std::string_view text, const std::string& file,
                                                  std::span<const std::string> tensors = {}) {
  const detail::json_document parsed(detail::read_json_document(text, file, 16));
  const nlohmann::json& document = parsed.root();
  detail::json_fields fields(document, file);
  return detail::read_huggingface_config(fields, detail::tensor_names(tensors));
}

}  // namespace headred
