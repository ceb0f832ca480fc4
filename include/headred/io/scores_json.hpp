// The JSON form of head scores, for other programs.
#pragma once

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/core/atomic_file.hpp>
#include <headred/core/number_text.hpp>
#include <headred/importance/head_scores.hpp>
#include <headred/io/json_document.hpp>
#include <headred/io/json_fields.hpp>
#include <headred/io/mapped_file.hpp>

namespace headred {
namespace detail {

inline constexpr int scores_schema = 1;

/// A criterion's name in a JSON text; what JSON forbids or a program may stumble over is refused.
inline void require_criterion(const std::string& name) {
  if (name.empty() || name.size() > 100)
    throw argument_error("scores JSON: the criterion's name has " + std::to_string(name.size()) +
                         " bytes, expected 1 to 100");
  for (const char c : name)
    if (c < 0x20 || c > 0x7e || c == '"' || c == '\\')
      throw argument_error("scores JSON: the criterion " + quoted_name(name) +
                           " holds a character other than plain ASCII without quotes");
}

}  // namespace detail

/// The scores as JSON, keys in a fixed order, one line a layer, numbers as short as they read back exactly:
///
///     {
///       "format": "headred.head_scores",
///       "schema": 1,
///       "criterion": "taylor",
///       "attention": [
///         {"kind": "encoder_self", "examples": 20, "tokens": 160, "skipped": 0, "layers": [
///           [0.25, 0.5],
///           []
///         ]}
///       ]
///     }
///
/// Throws argument_error for a criterion whose name is empty, longer than 100 bytes or not plain ASCII.
inline std::string to_json_text(const head_scores& scores) {
  detail::require_criterion(scores.criterion());
  std::string text =
      "{\n  \"format\": \"headred.head_scores\",\n  \"schema\": " + std::to_string(detail::scores_schema) +
      ",\n  \"criterion\": \"" + scores.criterion() + "\",\n  \"attention\": [";
  const char* before_kind = "\n";
  for (const attention_kind kind : scores.kinds()) {
    const score_counts& counts = scores.counts(kind);
    text.append(before_kind).append("    {\"kind\": \"").append(to_string(kind));
    text += "\", \"examples\": " + std::to_string(counts.examples) + ", \"tokens\": " + std::to_string(counts.tokens) +
            ", \"skipped\": " + std::to_string(counts.skipped) + ", \"layers\": [";
    before_kind = ",\n";
    const char* before_layer = "\n";
    auto value = scores.of(kind).begin();
    for (const index_t heads : scores.layout(kind).heads_per_layer()) {
      text.append(before_layer).append("      [");
      before_layer = ",\n";
      for (index_t h = 0; h < heads; ++h) text += (h > 0 ? ", " : "") + number_text(*value++);
      text += "]";
    }
    text += "\n    ]}";
  }
  return text + (scores.kinds().empty() ? "]\n}\n" : "\n  ]\n}\n");
}

/// The scores of a JSON text as to_json_text writes it; white space and key order are free. `name` stands in messages.
/// Throws file_error, naming the key, for text that is not JSON, another format or schema, missing, unknown or repeated
/// keys, wrong types, numbers out of range, more than 16 MiB.
inline head_scores parse_scores_json(std::string_view text, const std::string& name = "scores JSON") {
  constexpr index_t most_count = index_t{1} << 53;
  constexpr double most = std::numeric_limits<double>::max();
  const detail::json_document parsed(detail::read_json_document(text, name, 6));
  const nlohmann::json& document = parsed.root();
  detail::json_fields fields(document, name);
  if (fields.text("format") != "headred.head_scores") fields.fail("format", "is not \"headred.head_scores\"");
  fields.whole("schema", detail::scores_schema, detail::scores_schema);
  head_scores scores(fields.text("criterion"));
  std::size_t number = 0;
  try {
    detail::require_criterion(scores.criterion());
    for (const auto& item : fields.array("attention")) {
      detail::json_fields entry(item, name, "attention[" + std::to_string(number++) + "]");
      const std::pair<std::string_view, attention_kind> kinds[] = {{"encoder_self", attention_kind::encoder_self},
                                                                   {"decoder_self", attention_kind::decoder_self},
                                                                   {"cross", attention_kind::cross}};
      const auto kind = entry.choice<attention_kind>("kind", kinds);
      score_counts counts;
      counts.examples = entry.whole("examples", 0, most_count);
      counts.tokens = entry.whole("tokens", 0, most_count);
      counts.skipped = entry.whole("skipped", 0, most_count);
      std::vector<index_t> heads;
      std::vector<double> values;
      for (const auto& layer : entry.array("layers")) {
        const std::string where = "layers[" + std::to_string(heads.size()) + "]";
        if (!layer.is_array()) entry.fail(where, "is not an array");
        for (const auto& value : layer) {
          const double x = value.is_number() ? value.get<double>() : 0;
          if (!value.is_number() || !(x >= -most && x <= most))
            entry.fail(where, "holds " + detail::json_fields::shown(value) + ", expected finite numbers");
          values.push_back(x);
        }
        heads.push_back(static_cast<index_t>(layer.size()));
      }
      entry.refuse_others();
      scores.add(kind, head_layout(std::move(heads)), std::move(values), counts);
    }
  } catch (const argument_error& problem) {
    throw file_error(name, problem.what());
  }
  fields.refuse_others();
  return scores;
}

/// Writes to_json_text(scores), whole or not at all. Throws file_error, argument_error.
inline void save_scores_json(const std::filesystem::path& path, const head_scores& scores) {
  write_file_atomically(path, to_json_text(scores));
}

/// Reads what save_scores_json wrote. Throws file_error for all that parse_scores_json refuses, and for a file that
/// cannot be read.
inline head_scores load_scores_json(const std::filesystem::path& path) {
  const mapped_file file(path);
  const auto bytes = file.bytes();
  return parse_scores_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

}  // namespace headred
