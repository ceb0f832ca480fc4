// The JSON form of a plan: for other programs, and to keep beside a pruned model.
#pragma once

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/core/atomic_file.hpp>
#include <headred/io/json_document.hpp>
#include <headred/io/mapped_file.hpp>
#include <headred/io/quoted_name.hpp>
#include <headred/prune/plan.hpp>

namespace headred {
namespace detail {

[[noreturn]] inline void fail_plan_json(const std::string& where, const std::string& what) {
  throw argument_error("plan JSON: " + where + (where.empty() ? "" : " ") + what);
}

// The parsed document without repeated keys (the later one would win silently) and without needless depth.
inline nlohmann::json read_plan_document(std::string_view text) {
  constexpr std::size_t most_bytes = std::size_t{16} << 20;
  if (text.size() > most_bytes)
    fail_plan_json("", "has " + std::to_string(text.size()) + " bytes, expected at most " + std::to_string(most_bytes));
  using event = nlohmann::json::parse_event_t;
  constexpr int deepest = 5;  // document, attention, kind, layers, layer, kept
  std::vector<std::set<std::string>> keys(deepest + 2);
  const auto watch = [&](int depth, event what, nlohmann::json& parsed) {
    if (what == event::object_start || what == event::array_start) {
      if (depth > deepest) fail_plan_json("", "is nested deeper than a plan is");
      keys[static_cast<std::size_t>(depth) + 1].clear();
    } else if (what == event::key) {
      if (!keys[static_cast<std::size_t>(depth)].insert(parsed.get<std::string>()).second)
        fail_plan_json("key " + quoted_name(parsed.get<std::string>()), "is given twice");
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::parse_error& problem) {
    fail_plan_json("", "is not JSON: mistake at byte " + std::to_string(problem.byte));
  } catch (const nlohmann::json::exception&) {
    fail_plan_json("", "is not JSON: a number is out of range");
  }
}

// Refuses anything but an object with all of `required`, some of `optional`, and no other keys.
inline void require_keys(const nlohmann::json& value, const std::string& where,
                         std::initializer_list<const char*> required,
                         std::initializer_list<const char*> optional = {}) {
  if (!value.is_object()) fail_plan_json(where, "is not an object");
  for (const char* key : required)
    if (!value.contains(key)) fail_plan_json(where, "has no key \"" + std::string(key) + "\"");
  const auto known = [&](const std::string& key) {
    return std::find(required.begin(), required.end(), key) != required.end() ||
           std::find(optional.begin(), optional.end(), key) != optional.end();
  };
  for (const auto& item : value.items())
    if (!known(item.key())) fail_plan_json(where, "has the unknown key " + quoted_name(item.key()));
}

inline index_t plan_number(const nlohmann::json& value, const std::string& where, index_t most) {
  if (!value.is_number_integer() || value < 0 || value > most)
    fail_plan_json(where, "is " + (value.is_number() ? value.dump() : std::string(value.type_name())) +
                              ", expected a whole number from 0 to " + std::to_string(most));
  return value.get<index_t>();
}

inline const nlohmann::json& plan_array(const nlohmann::json& value, std::string_view where) {
  if (!value.is_array()) fail_plan_json(std::string(where), "is not an array");
  return value;
}

inline std::vector<index_t> plan_numbers(const nlohmann::json& value, const std::string& where,
                                         index_t most = plan_layout::max_heads) {
  std::vector<index_t> numbers;
  for (const auto& item : plan_array(value, where)) {
    if (item.is_number_integer() && item >= 0 && item <= most)
      numbers.push_back(item.get<index_t>());
    else
      plan_number(item, where + "[" + std::to_string(numbers.size()) + "]", most);  // throws
  }
  return numbers;
}

// The enumerator among `choices` whose to_string the value is.
template <class Enum>
Enum plan_choice(const nlohmann::json& value, const std::string& where, std::initializer_list<Enum> choices) {
  std::string names;
  for (const Enum choice : choices) {
    if (value.is_string() && value.get_ref<const std::string&>() == to_string(choice)) return choice;
    names += (names.empty() ? "" : ", ") + std::string(to_string(choice));
  }
  fail_plan_json(where,
                 "is " + (value.is_string() ? quoted_name(value.get<std::string>()) : std::string(value.type_name())) +
                     ", expected one of " + names);
}

}  // namespace detail

/// The plan as JSON, keys in a fixed order, one line a layer, ending in a line end:
///
///     {
///       "format": "headred.prune_plan",
///       "schema": 1,
///       "unit": "head",
///       "attention": [
///         {"kind": "encoder_self", "layers": [
///           {"heads": 12, "kept": [0, 4, 7]},
///           {"heads": 12, "groups": [6, 6], "kept": []}
///         ]}
///       ]
///     }
///
/// `kept` holds head numbers, or key/value group numbers in a plan of unit kv_group; `groups`, the sizes of the layer's
/// key/value groups, stands only where heads share them. Where the layout names stacks, the schema is 2 and one more
/// key follows; a layer that goes has "removed" instead of "kept":
///
///       "feed_forward": [
///         {"stack": "encoder", "layers": [
///           {"neurons": 2048, "kept": [0, 1, 5]},
///           {"neurons": 2048, "removed": true}
///         ]}
///       ]
inline std::string to_json_text(const prune_plan& plan) {
  const auto list = [](const std::vector<index_t>& numbers) {
    std::string text = "[";
    for (std::size_t i = 0; i < numbers.size(); ++i) text += (i ? ", " : "") + std::to_string(numbers[i]);
    return text + "]";
  };
  const auto stacks = plan.layout().stacks();
  std::string text = "{\n  \"format\": \"headred.prune_plan\",\n  \"schema\": " +
                     std::to_string(stacks.empty() ? 1 : prune_plan::schema) + ",\n  \"unit\": \"" +
                     std::string(to_string(plan.unit())) + "\",\n  \"attention\": [";
  const char* before_kind = "\n";
  for (const attention_kind kind : plan.layout().kinds()) {
    text += before_kind + ("    {\"kind\": \"" + std::string(to_string(kind))) + "\", \"layers\": [";
    before_kind = ",\n";
    const char* before_layer = "\n";
    for (index_t layer = 0; layer < plan.layout().heads(kind).layers(); ++layer) {
      text += before_layer + ("      {\"heads\": " + std::to_string(plan.layout().heads(kind).heads(layer)));
      before_layer = ",\n";
      if (plan.layout().grouped(kind, layer)) text += ", \"groups\": " + list(plan.layout().groups(kind, layer));
      const bool by_group = plan.unit() == prune_unit::kv_group;
      text += ", \"kept\": " + list(by_group ? plan.kept_groups(kind, layer) : plan.kept(kind, layer)) + "}";
    }
    text += "\n    ]}";
  }
  text += plan.layout().kinds().empty() ? "]" : "\n  ]";
  const char* before_stack = ",\n  \"feed_forward\": [\n";
  for (const model_stack stack : stacks) {
    text += before_stack + ("    {\"stack\": \"" + std::string(to_string(stack))) + "\", \"layers\": [";
    before_stack = ",\n";
    for (index_t layer = 0; layer < plan.layout().layers(stack); ++layer) {
      text += layer > 0 ? ",\n      {\"neurons\": " : "\n      {\"neurons\": ";
      text += std::to_string(plan.layout().neurons(stack)[static_cast<std::size_t>(layer)]);
      const bool stays = plan.is_kept(stack, layer);
      text += stays ? ", \"kept\": " + list(plan.kept_neurons(stack, layer)) + "}" : ", \"removed\": true}";
    }
    text += "\n    ]}";
  }
  return text + (stacks.empty() ? "\n}\n" : "\n  ]\n}\n");
}

/// The plan of a JSON text as to_json_text writes it; white space, key order and the order of kept numbers are free.
/// Throws argument_error, naming the key, for text that is not JSON, another format or schema, missing, unknown or
/// repeated keys, wrong types, numbers out of range or repeated, more than 16 MiB, and all that plan_layout refuses.
inline prune_plan parse_plan_json(std::string_view text) {
  const detail::json_document parsed(detail::read_plan_document(text));
  const nlohmann::json& document = parsed.root();
  detail::require_keys(document, "document", {"format", "schema", "unit", "attention"}, {"feed_forward"});
  // json's own == with a text allocates, and must not throw
  const auto* const format = document["format"].get_ptr<const nlohmann::json::string_t*>();
  if (format == nullptr || *format != "headred.prune_plan")
    detail::fail_plan_json("format", "is not \"headred.prune_plan\"");
  const auto& schema = document["schema"];
  if (!schema.is_number_integer() || schema < 1 || schema > prune_plan::schema)
    detail::fail_plan_json("schema", "is " + (schema.is_number() ? schema.dump() : std::string(schema.type_name())) +
                                         ", expected 1 to " + std::to_string(prune_plan::schema));
  if (document.contains("feed_forward") != (schema >= 2))
    detail::fail_plan_json("document", std::string(schema >= 2 ? "has no" : "has the") +
                                           " key \"feed_forward\" in schema " + schema.dump());
  const auto unit = detail::plan_choice(document["unit"], "unit", {prune_unit::head, prune_unit::kv_group});

  plan_layout layout;
  std::vector<std::pair<attention_kind, std::vector<std::vector<index_t>>>> kept;  // [kind][layer]
  for (const auto& entry : detail::plan_array(document["attention"], "attention")) {
    const std::string where = "attention[" + std::to_string(kept.size()) + "]";
    detail::require_keys(entry, where, {"kind", "layers"});
    const auto kind =
        detail::plan_choice(entry["kind"], where + ".kind",
                            {attention_kind::encoder_self, attention_kind::decoder_self, attention_kind::cross});
    auto& layers = kept.emplace_back(kind, std::vector<std::vector<index_t>>()).second;
    std::vector<index_t> heads;
    std::vector<std::vector<index_t>> groups;
    for (const auto& layer : detail::plan_array(entry["layers"], where + ".layers")) {
      const std::string here = where + ".layers[" + std::to_string(heads.size()) + "]";
      detail::require_keys(layer, here, {"heads", "kept"}, {"groups"});
      heads.push_back(detail::plan_number(layer["heads"], here + ".heads", plan_layout::max_heads));
      groups.emplace_back();
      if (layer.contains("groups")) groups.back() = detail::plan_numbers(layer["groups"], here + ".groups");
      layers.push_back(detail::plan_numbers(layer["kept"], here + ".kept"));
    }
    layout.add(kind, head_layout(std::move(heads)), std::move(groups));
  }

  struct block {
    bool stays = true;
    std::vector<index_t> kept;
  };
  std::vector<std::pair<model_stack, std::vector<block>>> blocks;  // [stack][layer]
  if (schema >= 2) {
    for (const auto& entry : detail::plan_array(document["feed_forward"], "feed_forward")) {
      const std::string where = "feed_forward[" + std::to_string(blocks.size()) + "]";
      detail::require_keys(entry, where, {"stack", "layers"});
      const auto stack =
          detail::plan_choice(entry["stack"], where + ".stack", {model_stack::encoder, model_stack::decoder});
      auto& layers = blocks.emplace_back(stack, std::vector<block>()).second;
      std::vector<index_t> neurons;
      for (const auto& layer : detail::plan_array(entry["layers"], where + ".layers")) {
        const std::string here = where + ".layers[" + std::to_string(neurons.size()) + "]";
        detail::require_keys(layer, here, {"neurons"}, {"kept", "removed"});
        neurons.push_back(detail::plan_number(layer["neurons"], here + ".neurons", plan_layout::max_neurons));
        block& own = layers.emplace_back();
        own.stays = !layer.contains("removed");
        if (own.stays != layer.contains("kept"))
          detail::fail_plan_json(here, "has not one of \"kept\" and \"removed\"");
        if (!own.stays && layer["removed"] != true) detail::fail_plan_json(here + ".removed", "is not true");
        if (own.stays) own.kept = detail::plan_numbers(layer["kept"], here + ".kept", plan_layout::max_neurons);
      }
      layout.add_stack(stack, std::move(neurons));
    }
  }

  prune_plan plan(std::move(layout), unit);
  for (auto& [stack, layers] : blocks) {
    std::vector<index_t> stay;
    for (std::size_t i = 0; i < layers.size(); ++i)
      if (layers[i].stays) stay.push_back(static_cast<index_t>(i));
    plan.set_kept_layers(stack, std::move(stay));
    for (std::size_t i = 0; i < layers.size(); ++i)
      plan.set_kept_neurons(stack, static_cast<index_t>(i), std::move(layers[i].kept));
  }
  for (auto& [kind, layers] : kept) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto layer = static_cast<index_t>(i);
      if (unit == prune_unit::head)
        plan.set_kept(kind, layer, std::move(layers[i]));
      else
        plan.set_kept_groups(kind, layer, std::move(layers[i]));
    }
  }
  return plan;
}

/// Writes to_json_text(plan), whole or not at all. Throws file_error.
inline void save_plan_json(const std::filesystem::path& path, const prune_plan& plan) {
  write_file_atomically(path, to_json_text(plan));
}

/// Reads what save_plan_json wrote. Throws file_error with the file's name for all that parse_plan_json refuses, and
/// for a file that cannot be read.
inline prune_plan load_plan_json(const std::filesystem::path& path) {
  const mapped_file file(path);
  const auto bytes = file.bytes();
  try {
    return parse_plan_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  } catch (const argument_error& problem) {
    throw file_error(path.string(), problem.what());
  }
}

}  // namespace headred
