// json_fields: JSON objects out of files, read key by key, with errors that name the file and the key.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/core/error.hpp>
#include <headred/core/number_text.hpp>
#include <headred/io/quoted_name.hpp>

namespace headred::detail {

/// The document of a JSON text. Throws file_error for text that is no JSON (NaN and numbers beyond double are none),
/// has more than 16 MiB, is nested deeper than `deepest`, or gives a key of one object twice (the later would win).
inline nlohmann::json read_json_document(std::string_view text, const std::string& file, int deepest) {
  constexpr std::size_t most_bytes = std::size_t{16} << 20;
  if (text.size() > most_bytes)
    throw file_error(file,
                     "has " + std::to_string(text.size()) + " bytes, expected at most " + std::to_string(most_bytes));
  using event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> keys(static_cast<std::size_t>(deepest) + 2);
  const auto watch = [&](int depth, event what, nlohmann::json& parsed) {
    if (what == event::object_start || what == event::array_start) {
      if (depth >= deepest) throw file_error(file, "is nested deeper than " + std::to_string(deepest) + " levels");
      keys[static_cast<std::size_t>(depth) + 1].clear();
    } else if (what == event::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys[static_cast<std::size_t>(depth)].insert(key).second)
        throw file_error(file, "key " + quoted_name(key) + " is given twice");
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::parse_error& problem) {
    throw file_error(file, "is not JSON: mistake at byte " + std::to_string(problem.byte));
  } catch (const nlohmann::json::exception&) {
    throw file_error(file, "is not JSON: a number is out of range");
  }
}

/// One object of a document. Every member names the file, the place and the key in the file_error that it throws.
/// `T_or` members take a fallback for a key that is absent or null; the others require the key.
class json_fields {
 public:
  json_fields(const nlohmann::json& value, const std::string& file, std::string where = "")
      : value_(&value), file_(&file), where_(std::move(where)) {
    if (!value.is_object()) throw file_error(file, (where_.empty() ? "document" : where_) + " is not an object");
  }

  const std::string& file() const noexcept { return *file_; }
  std::string place(std::string_view key) const { return (where_.empty() ? "" : where_ + ".") + std::string(key); }
  [[noreturn]] void fail(std::string_view key, const std::string& what) const {
    throw file_error(*file_, place(key) + " " + what);
  }

  /// Whether the key is there and not null.
  bool has(const char* key) {
    known_.insert(key);
    const auto found = value_->find(key);
    return found != value_->end() && !found->is_null();
  }
  const nlohmann::json& at(const char* key) {
    known_.insert(key);
    const auto found = value_->find(key);
    if (found == value_->end())
      throw file_error(*file_, (where_.empty() ? "document" : where_) + " has no key \"" + key + "\"");
    return *found;
  }

  index_t whole(const char* key, index_t least, index_t most) { return whole_of(at(key), place(key), least, most); }
  index_t whole_or(const char* key, index_t fallback, index_t least, index_t most) {
    return has(key) ? whole(key, least, most) : fallback;
  }
  std::vector<index_t> wholes(const char* key, index_t least, index_t most) {
    std::vector<index_t> numbers;
    for (const auto& item : array(key))
      numbers.push_back(whole_of(item, place(key) + "[" + std::to_string(numbers.size()) + "]", least, most));
    return numbers;
  }
  double real(const char* key, double least, double most) {
    const auto& value = at(key);
    const double x = value.is_number() ? value.get<double>() : 0;
    if (!value.is_number() || !(x >= least && x <= most))
      fail(key, "is " + shown(value) + ", expected a number from " + number_text(least) + " to " + number_text(most));
    return x;
  }
  double real_or(const char* key, double fallback, double least, double most) {
    return has(key) ? real(key, least, most) : fallback;
  }
  bool flag(const char* key) {
    const auto& value = at(key);
    if (!value.is_boolean()) fail(key, "is " + shown(value) + ", expected true or false");
    return value.get<bool>();
  }
  bool flag_or(const char* key, bool fallback) { return has(key) ? flag(key) : fallback; }
  std::string text(const char* key) {
    const auto& value = at(key);
    if (!value.is_string()) fail(key, "is " + shown(value) + ", expected a string");
    return value.get<std::string>();
  }
  std::string text_or(const char* key, const char* fallback) { return has(key) ? text(key) : fallback; }
  const nlohmann::json& array(const char* key) {
    const auto& value = at(key);
    if (!value.is_array()) fail(key, "is " + shown(value) + ", expected an array");
    return value;
  }
  /// The value that stands beside the key's string in `choices`.
  template <class Value>
  Value choice(const char* key, std::span<const std::pair<std::string_view, Value>> choices) {
    const auto& value = at(key);
    std::string names;
    for (const auto& [name, meaning] : choices) {
      if (value.is_string() && value.get_ref<const std::string&>() == name) return meaning;
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    fail(key, "is " + shown(value) + ", expected one of " + names);
  }
  json_fields object(const char* key) { return {at(key), *file_, place(key)}; }

  /// Refuses keys that no member was asked for.
  void refuse_others() const {
    for (const auto& item : value_->items())
      if (!known_.contains(item.key()))
        throw file_error(*file_,
                         (where_.empty() ? "document" : where_) + " has the unknown key " + quoted_name(item.key()));
  }

  /// A value in a message: numbers and strings as they are, else the name of the type.
  static std::string shown(const nlohmann::json& value) {
    if (value.is_number() || value.is_boolean()) return value.dump();
    return value.is_string() ? quoted_name(value.get_ref<const std::string&>()) : std::string(value.type_name());
  }

 private:
  index_t whole_of(const nlohmann::json& value, const std::string& where, index_t least, index_t most) const {
    if (!value.is_number_integer() || value < least || value > most)
      throw file_error(*file_, where + " is " + shown(value) + ", expected a whole number from " +
                                   std::to_string(least) + " to " + std::to_string(most));
    return value.get<index_t>();
  }

  const nlohmann::json* value_;
  const std::string* file_;  // outlives the object
  std::string where_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace headred::detail
