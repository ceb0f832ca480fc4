// transformer_config_json: the geometry of a model as JSON, headred's own config.json.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <headred/io/json_document.hpp>
#include <headred/io/json_fields.hpp>
#include <headred/io/plan_json.hpp>
#include <headred/nn/validate_config.hpp>

namespace headred {

/// What a config.json of headred's own format holds.
struct transformer_document {
  static constexpr int schema = 1;

  transformer_config config;
  std::optional<prune_plan> plan;  ///< that the model was pruned by, in head numbers of the unpruned model
  std::string saved;               ///< names the save that wrote the file, and stands in its weights too; may be empty
  friend bool operator==(const transformer_document&, const transformer_document&) = default;
};

namespace detail {

using named_architecture = std::pair<std::string_view, architecture>;
using named_activation = std::pair<std::string_view, activation>;
using named_positions = std::pair<std::string_view, positions>;
using named_output = std::pair<std::string_view, output_head>;
inline constexpr std::array architecture_names{named_architecture{"encoder", architecture::encoder},
                                               named_architecture{"encoder_decoder", architecture::encoder_decoder},
                                               named_architecture{"decoder", architecture::decoder}};
inline constexpr std::array activation_names{
    named_activation{"relu", activation::relu}, named_activation{"gelu", activation::gelu},
    named_activation{"gelu_tanh", activation::gelu_tanh}, named_activation{"silu", activation::silu}};
inline constexpr std::array positions_names{
    named_positions{"none", positions::none}, named_positions{"learned", positions::learned},
    named_positions{"sinusoidal_interleaved", positions::sinusoidal_interleaved},
    named_positions{"sinusoidal_halves", positions::sinusoidal_halves},
    named_positions{"sinusoidal_halves_from_1", positions::sinusoidal_halves_from_1}};
inline constexpr std::array output_names{named_output{"none", output_head::none},
                                         named_output{"projection", output_head::projection},
                                         named_output{"masked_lm", output_head::masked_lm}};

/// Writes the document; numbers as the shortest text that reads back as the same double.
class config_writer {
 public:
  static std::string write(const transformer_document& d) {
    const transformer_config& c = d.config;
    config_writer w;
    w.text_ = "{\n  \"format\": \"headred\",\n  \"schema\": " + std::to_string(transformer_document::schema);
    w.item("architecture", name(c.kind, architecture_names));
    w.item("width", std::to_string(c.width));
    w.item("activation", name(c.activation, activation_names));
    w.item("pre_norm", flag(c.pre_norm));
    w.item("final_norm", flag(c.final_norm));
    w.item("norm_epsilon", real("norm_epsilon", c.norm_epsilon));
    w.item("source", embedding("source", c.source));
    if (c.has_cross() || c.target != embedding_config()) w.item("target", embedding("target", c.target));
    w.item("shared_embeddings", flag(c.shared_embeddings));
    if (c.has_encoder() || c.encoder != stack_config()) w.item("encoder", stack(c.encoder, false));
    if (c.has_decoder() || c.decoder != stack_config()) w.item("decoder", stack(c.decoder, c.has_cross()));
    w.item("output", name(c.output, output_names));
    w.item("tied_output", flag(c.tied_output));
    w.item("output_bias", flag(c.output_bias));
    w.item("pooler", flag(c.pooler));
    w.item("dropout", real("dropout", c.dropout));
    w.item("attention_dropout", real("attention_dropout", c.attention_dropout));
    w.item("pad_id", std::to_string(c.pad_id));
    w.item("begin_id", std::to_string(c.begin_id));
    w.item("end_id", std::to_string(c.end_id));
    if (!d.saved.empty()) w.item("saved", nlohmann::json(d.saved).dump());
    if (d.plan) w.item("plan", indented(to_json_text(*d.plan)));
    return w.text_ + "\n}\n";
  }

 private:
  void item(const char* key, const std::string& value) { text_ += ",\n  \"" + std::string(key) + "\": " + value; }

  static std::string flag(bool x) { return x ? "true" : "false"; }
  static std::string real(const char* key, double x) {
    if (!(x - x == 0)) throw argument_error("transformer_config: " + std::string(key) + " is " + number_text(x));
    return number_text(x);
  }
  template <class Enum, std::size_t N>
  static std::string name(Enum value, const std::array<std::pair<std::string_view, Enum>, N>& names) {
    for (const auto& [text, meaning] : names)
      if (meaning == value) return '"' + std::string(text) + '"';
    throw argument_error("transformer_config: an enumerator is unknown: " + std::to_string(static_cast<int>(value)));
  }
  static std::string list(const std::vector<index_t>& numbers) {
    std::string text = "[";
    for (std::size_t i = 0; i < numbers.size(); ++i) text += (i ? ", " : "") + std::to_string(numbers[i]);
    return text + "]";
  }
  static std::string embedding(const char* key, const embedding_config& e) {
    return "{\"vocabulary\": " + std::to_string(e.vocabulary) + ", \"width\": " + std::to_string(e.width) +
           ", \"positions\": " + name(e.positions, positions_names) +
           ", \"max_positions\": " + std::to_string(e.max_positions) +
           ", \"token_types\": " + std::to_string(e.token_types) + ", \"scale\": " + real(key, e.scale) +
           ", \"norm\": " + flag(e.norm) + "}";
  }
  static std::string attention(const attention_config& a) {
    return "{\"heads\": " + std::to_string(a.heads) + ", \"kv_heads\": " + std::to_string(a.kv_heads) +
           ", \"head_size\": " + std::to_string(a.head_size) +
           (a.original.empty() ? "" : ", \"original\": " + list(a.original)) + "}";
  }
  static std::string stack(const stack_config& s, bool cross) {
    std::string text = "{\"layers\": [";
    for (std::size_t l = 0; l < s.layers.size(); ++l) {
      text += (l ? ",\n    {\"self\": " : "\n    {\"self\": ") + attention(s.layers[l].self);
      if (cross || s.layers[l].cross != attention_config()) text += ", \"cross\": " + attention(s.layers[l].cross);
      text += ", \"feed_forward\": " + std::to_string(s.layers[l].feed_forward) + "}";
    }
    return text + (s.layers.empty() ? "]" : "\n  ]") + (s.weights.empty() ? "" : ", \"weights\": " + list(s.weights)) +
           "}";
  }
  static std::string indented(std::string text) {
    while (!text.empty() && text.back() == '\n') text.pop_back();
    for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1))
      text.insert(at + 1, "  ");
    return text;
  }

  std::string text_;
};

/// Reads what config_writer wrote.
class config_reader {
 public:
  static transformer_document read(std::string_view text, const std::string& file) {
    const json_document parsed(read_json_document(text, file, 8));
    const nlohmann::json& document = parsed.root();
    json_fields f(document, file);
    if (!f.at("format").is_string() || f.at("format").get_ref<const std::string&>() != "headred")
      f.fail("format", "is " + json_fields::shown(f.at("format")) + ", expected \"headred\"");
    f.whole("schema", transformer_document::schema, transformer_document::schema);
    transformer_document d;
    transformer_config& c = d.config;
    c.kind = choice(f, "architecture", architecture_names);
    c.width = f.whole("width", 1, 1 << 20);
    c.activation = choice(f, "activation", activation_names);
    c.pre_norm = f.flag("pre_norm");
    c.final_norm = f.flag("final_norm");
    c.norm_epsilon = f.real("norm_epsilon", 0, largest);
    c.source = embedding(f.object("source"));
    if (c.has_cross() || f.has("target")) c.target = embedding(f.object("target"));
    c.shared_embeddings = f.flag("shared_embeddings");
    if (c.has_encoder() || f.has("encoder")) c.encoder = stack(f.object("encoder"), false);
    if (c.has_decoder() || f.has("decoder")) c.decoder = stack(f.object("decoder"), c.has_cross());
    c.output = choice(f, "output", output_names);
    c.tied_output = f.flag("tied_output");
    c.output_bias = f.flag("output_bias");
    c.pooler = f.flag("pooler");
    c.dropout = f.real("dropout", 0, 1);
    c.attention_dropout = f.real("attention_dropout", 0, 1);
    c.pad_id = token(f, "pad_id");
    c.begin_id = token(f, "begin_id");
    c.end_id = token(f, "end_id");
    if (f.has("saved")) d.saved = f.text("saved");
    try {
      if (f.has("plan")) d.plan = parse_plan_json(f.at("plan").dump());
      f.refuse_others();
      validate_config(c);
    } catch (const argument_error& problem) {
      throw file_error(file, problem.what());
    } catch (const shape_error& problem) {
      throw file_error(file, problem.what());
    }
    return d;
  }

 private:
  static constexpr double largest = std::numeric_limits<double>::max();

  template <class Enum, std::size_t N>
  static Enum choice(json_fields& f, const char* key, const std::array<std::pair<std::string_view, Enum>, N>& names) {
    return f.choice(key, std::span<const std::pair<std::string_view, Enum>>(names));
  }
  static std::int32_t token(json_fields& f, const char* key) {
    return static_cast<std::int32_t>(f.whole(key, -1, std::numeric_limits<std::int32_t>::max()));
  }
  static embedding_config embedding(json_fields f) {
    embedding_config e;
    e.vocabulary = f.whole("vocabulary", 0, std::numeric_limits<std::int32_t>::max());
    e.width = f.whole("width", 0, 1 << 20);
    e.positions = choice(f, "positions", positions_names);
    e.max_positions = f.whole("max_positions", 0, 1 << 24);
    e.token_types = f.whole("token_types", 0, 1 << 20);
    e.scale = f.real("scale", -largest, largest);
    e.norm = f.flag("norm");
    f.refuse_others();
    return e;
  }
  static attention_config attention(json_fields f) {
    attention_config a;
    a.heads = f.whole("heads", 0, 4096);
    a.kv_heads = f.whole("kv_heads", 0, 4096);
    a.head_size = f.whole("head_size", 0, 1 << 20);
    if (f.has("original")) a.original = f.wholes("original", 0, 4095);
    f.refuse_others();
    return a;
  }
  static stack_config stack(json_fields f, bool cross) {
    stack_config s;
    for (const auto& item : f.array("layers")) {
      if (s.layers.size() == 4096) f.fail("layers", "has more than 4096 entries");
      json_fields layer(item, f.file(), f.place("layers") + "[" + std::to_string(s.layers.size()) + "]");
      layer_config& l = s.layers.emplace_back();
      l.self = attention(layer.object("self"));
      if (cross || layer.has("cross")) l.cross = attention(layer.object("cross"));
      l.feed_forward = layer.whole("feed_forward", 0, 1 << 24);
      layer.refuse_others();
    }
    if (f.has("weights")) s.weights = f.wholes("weights", 0, 4095);
    f.refuse_others();
    return s;
  }
};

}  // namespace detail

/// The document as JSON, keys in a fixed order, one line a layer:
///
///     {
///       "format": "headred",
///       "schema": 1,
///       "architecture": "encoder",
///       "width": 256,
///       ...
///       "encoder": {"layers": [
///         {"self": {"heads": 2, "kv_heads": 2, "head_size": 32, "original": [0, 5]}, "feed_forward": 512}
///       ]},
///       ...
///     }
///
/// Keys for what a config leaves at its default and its architecture does not need (target, decoder, cross, original,
/// weights, saved, plan) are left out. Throws argument_error for a number that is not finite.
inline std::string to_json_text(const transformer_document& document) { return detail::config_writer::write(document); }
/// The configuration alone, without a plan.
inline std::string to_json_text(const transformer_config& config) { return to_json_text({config, std::nullopt, ""}); }

/// The document of a JSON text as to_json_text writes it: equal to what was written, to the last bit of every number.
/// Throws file_error (`file` is its name), naming the key, for text that is not JSON, another format or schema,
/// missing, unknown or repeated keys, wrong types, numbers out of range, and all that validate_config and
/// parse_plan_json refuse.
inline transformer_document parse_transformer_document(std::string_view text, const std::string& file) {
  return detail::config_reader::read(text, file);
}

}  // namespace headred
