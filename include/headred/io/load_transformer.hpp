// load_transformer: a model from its files, headred's own or Hugging Face's.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <headred/io/huggingface_config.hpp>
#include <headred/io/huggingface_names.hpp>
#include <headred/io/json_document.hpp>
#include <headred/io/parameter_shapes.hpp>
#include <headred/io/safetensors_file.hpp>
#include <headred/io/transformer_config_json.hpp>
#include <headred/io/vocabulary.hpp>

namespace headred {

/// What a loader passes over.
struct load_transformer_options {
  bool ignore_extra = false;  ///< pass over tensors that the model has no place for (the head of another task)
};

/// A model as its files have it.
template <class T, backend Backend>
struct loaded_transformer {
  transformer_config config;
  transformer_weights<T, Backend> weights;
  std::optional<prune_plan> plan;  ///< that the model was pruned by, where its config.json holds one
};

namespace detail {

/// What a model's config.json says, in either format.
struct model_description {
  std::string type = "headred";  // or Hugging Face's model_type
  transformer_document document;
};

/// Numbers the special tokens that the config gives by name, by the vocabulary that lies beside it, if one does.
inline void number_special_tokens(huggingface_model& model, const std::filesystem::path& directory) {
  const bool named = model.config.has_cross();  // the names come from the config itself
  const auto path = directory / (named ? "target_vocabulary.txt" : "vocab.txt");
  if ((model.begin.empty() && model.end.empty()) || !std::filesystem::exists(path)) return;
  const vocabulary symbols = load_vocabulary(path);
  const auto number = [&](const std::string& symbol, std::int32_t& id) {
    if (symbol.empty()) return;
    const auto found = symbols.find(symbol);
    if (!found && named) throw file_error(path.string(), "has no symbol " + quoted_name(symbol));
    if (found && *found >= model.config.output_embedding().vocabulary)
      throw file_error(path.string(), "symbol " + quoted_name(symbol) + " has number " + std::to_string(*found) +
                                          ", expected one below the model's vocabulary of " +
                                          std::to_string(model.config.output_embedding().vocabulary));
    if (found) id = *found;
  };
  number(model.begin, model.config.begin_id);
  number(model.end, model.config.end_id);
}

inline model_description describe_model(const std::filesystem::path& directory, const safetensors_file& file) {
  const auto path = directory / "config.json";
  const mapped_file mapped(path);
  const std::string_view text = text_of(mapped);
  const json_document parsed(read_json_document(text, path.string(), 16));
  const nlohmann::json& document = parsed.root();
  model_description model;
  if (document.is_object() && document.contains("model_type") && !document.contains("format")) {
    auto found = parse_huggingface_config(text, path.string(), file.names());
    number_special_tokens(found, directory);
    model = {std::move(found.type), {std::move(found.config), std::nullopt, ""}};
  } else {
    if (document.is_object() && !document.contains("format"))
      throw file_error(path.string(), "has neither \"format\" (headred) nor \"model_type\" (Hugging Face)");
    model.document = parse_transformer_document(text, path.string());
  }
  // save_transformer puts the weights in place first: weights with a name must find it in their config.json
  const auto saved = file.metadata().find("saved");
  if (saved != file.metadata().end() && saved->second != model.document.saved)
    throw file_error(path.string(),
                     "is not of the save that wrote " + file.name() + ", which may have been interrupted");
  return model;
}

inline safetensors_file open_weights(const std::filesystem::path& directory) {
  const auto path = directory / "model.safetensors";
  for (const char* other : {"model.safetensors.index.json", "pytorch_model.bin"})
    if (!std::filesystem::exists(path) && std::filesystem::exists(directory / other))
      throw file_error(path.string(), "does not exist, and " + std::string(other) + " cannot be read instead of it");
  return safetensors_file(path);
}

/// A tensor that fits: a floating-point type and the parameter's shape, before which extents of 1 may stand.
inline void require_fit(const safetensors_info& t, const parameter_shape& p, const std::string& file) {
  const auto at = static_cast<std::ptrdiff_t>(t.shape.size()) - static_cast<std::ptrdiff_t>(p.shape.size());
  const bool fits = at >= 0 && std::equal(p.shape.begin(), p.shape.end(), t.shape.begin() + at, t.shape.end()) &&
                    std::all_of(t.shape.begin(), t.shape.begin() + at, [](index_t extent) { return extent == 1; });
  const std::string what = tensor_text(t.name);
  if (!fits)
    throw file_error(file, what + " has shape " + shape_text(t.shape) + ", expected " + shape_text(p.shape) +
                               (t.name == p.name ? "" : " for " + p.name));
  if (t.type != dtype::f16 && t.type != dtype::bf16 && t.type != dtype::f32 && t.type != dtype::f64)
    throw file_error(file, what + " is " + std::string(to_string(t.type)) + ", expected a floating-point type");
}

using name_candidates = std::function<std::vector<std::string>(const std::string&)>;

/// The tensor for each parameter, after a look at the whole header: nothing missing, extra or of another shape.
inline std::vector<std::string> match_tensors(const transformer_config& config, const safetensors_file& file,
                                              const name_candidates& candidates,
                                              const load_transformer_options& options) {
  std::vector<std::string> chosen, missing;
  std::set<std::string, std::less<>> used;
  for (const parameter_shape& p : parameter_shapes(config)) {
    const std::vector<std::string> names = candidates(p.name);
    const safetensors_info* first = nullptr;
    for (const std::string& name : names) {
      const safetensors_info* const t = file.header().find(name);
      if (t == nullptr) continue;
      require_fit(*t, p, file.name());
      used.insert(name);
      if (first == nullptr) {
        first = t;
      } else if (t != first &&
                 (t->type != first->type || !std::ranges::equal(file.bytes(name), file.bytes(first->name)))) {
        throw file_error(file.name(), tensor_text(name) + " differs from " + tensor_text(first->name) +
                                          ", expected a copy: the config ties both to " + p.name);
      }
    }
    if (first != nullptr)
      chosen.push_back(first->name);
    else
      missing.push_back(names.empty() ? p.name : names.front());
  }
  const auto and_more = [](std::size_t n) {
    return n > 1 ? " (and " + std::to_string(n - 1) + " more)" : std::string();
  };
  if (!missing.empty())
    throw file_error(file.name(), tensor_text(missing.front()) + and_more(missing.size()) + " is not in the file");
  std::vector<std::string> extra;
  for (const auto& t : file.header().tensors)
    if (!used.contains(t.name) && !huggingface_names::is_buffer(t.name)) extra.push_back(t.name);
  if (!extra.empty() && !options.ignore_extra)
    throw file_error(file.name(), tensor_text(extra.front()) + and_more(extra.size()) + " has no place in the model");
  return chosen;
}

template <class T, backend Backend>
transformer_weights<T, Backend> load_weights(Backend& be, const transformer_config& config,
                                             const safetensors_file& file, const std::vector<std::string>& tensors) {
  transformer_weights<T, Backend> weights(be, config);
  auto next = tensors.begin();
  visit_parameters(weights, [&](const std::string&, auto& parameter) {
    const safetensors_info& t = file.info(*next++);
    const auto shape = parameter.value.shape();
    constexpr int rank = std::remove_cvref_t<decltype(parameter)>::view_type::rank;
    parameter.value =
        load_elements<T, rank>(be, file.bytes(t.name), t.type, false, shape, 1, file.name(), tensor_text(t.name));
  });
  return weights;
}

}  // namespace detail

/// The parameters of a model whose configuration is known. `type` says what the tensors are called: "headred" for the
/// names of visit_parameters, or Hugging Face's bert, albert, marian, marian-like (with or without the model's prefix).
///   16-bit floats are widened, doubles rounded to nearest for T = float. Everything is checked before memory is taken.
/// Throws file_error, naming tensors and shapes, for a tensor that is missing, has another shape or no floating-point
/// type, has no place in the model (see the options; known buffers such as position_ids are passed over), or differs
/// from one that it is tied to; argument_error for an impossible configuration or an unknown type.
template <class T, backend Backend>
transformer_weights<T, Backend> load_transformer_weights(Backend& be, const transformer_config& config,
                                                         const safetensors_file& file,
                                                         std::string_view type = "headred",
                                                         const load_transformer_options& options = {}) {
  detail::name_candidates candidates = [](const std::string& name) { return std::vector<std::string>{name}; };
  if (type != "headred") candidates = huggingface_names(type, config);
  return detail::load_weights<T>(be, config, file, detail::match_tensors(config, file, candidates, options));
}

/// The configuration of the model in a folder, as load_transformer would give it; of the weights, the names are read.
inline transformer_config load_transformer_config(const std::filesystem::path& directory) {
  return detail::describe_model(directory, detail::open_weights(directory)).document.config;
}

/// The model in a folder: config.json and model.safetensors, as save_transformer or Hugging Face wrote them (see
/// parse_transformer_document, parse_huggingface_config and load_transformer_weights for what may be there and what is
/// thrown). A vocab.txt beside BERT or ALBERT numbers [CLS] and [SEP], a target_vocabulary.txt beside "marian-like" its
/// begin and end symbols. Throws file_error also for a config.json and weights that are not of one save.
template <class T, backend Backend>
loaded_transformer<T, Backend> load_transformer(Backend& be, const std::filesystem::path& directory,
                                                const load_transformer_options& options = {}) {
  const safetensors_file file = detail::open_weights(directory);
  detail::model_description model = detail::describe_model(directory, file);
  auto weights = load_transformer_weights<T>(be, model.document.config, file, model.type, options);
  return {std::move(model.document.config), std::move(weights), std::move(model.document.plan)};
}

}  // namespace headred
