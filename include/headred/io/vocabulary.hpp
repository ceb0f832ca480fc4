// vocabulary: the symbols of a model and their numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <headred/core/error.hpp>
#include <headred/io/quoted_name.hpp>
#include <headred/io/text_lines.hpp>
#include <headred/io/utf8.hpp>

namespace headred {

/// Symbols numbered from 0. Symbols that it does not hold become its unknown symbol, "<unk>" or "[UNK]", if it has one.
class vocabulary {
 public:
  vocabulary() = default;
  /// Throws argument_error, with the number, for an empty or repeated symbol.
  explicit vocabulary(std::vector<std::string> symbols) : symbols_(std::move(symbols)) {
    if (symbols_.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
      throw argument_error("vocabulary: more than 2^31 - 1 symbols");
    for (std::size_t i = 0; i < symbols_.size(); ++i) {
      if (symbols_[i].empty()) throw argument_error("vocabulary: symbol " + std::to_string(i) + " is empty");
      const auto [there, added] = ids_.try_emplace(symbols_[i], static_cast<std::int32_t>(i));
      if (!added)
        throw argument_error("vocabulary: symbol " + std::to_string(i) + ", " + detail::quoted_name(symbols_[i]) +
                             ", is symbol " + std::to_string(there->second) + " too");
    }
    for (const char* name : {"<unk>", "[UNK]"})
      if (!unknown_) unknown_ = find(name);
  }

  index_t size() const noexcept { return static_cast<index_t>(symbols_.size()); }
  const std::vector<std::string>& symbols() const noexcept { return symbols_; }
  /// The number of the unknown symbol, if there is one.
  std::optional<std::int32_t> unknown() const noexcept { return unknown_; }

  /// The number of a symbol, if it is there.
  std::optional<std::int32_t> find(const std::string& symbol) const {
    const auto found = ids_.find(symbol);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  /// Throws argument_error for a symbol that is not there, when there is no unknown symbol.
  std::int32_t id(const std::string& symbol) const {
    const auto found = find(symbol);
    if (!found && !unknown_)
      throw argument_error("vocabulary: " + detail::quoted_name(symbol) + " is none of the " + std::to_string(size()) +
                           " symbols, and there is no unknown symbol");
    return found ? *found : *unknown_;
  }
  /// Throws argument_error for a number outside [0, size()).
  const std::string& symbol(std::int32_t id) const {
    if (id < 0 || id >= size())
      throw argument_error("vocabulary: id " + std::to_string(id) + " is not in [0," + std::to_string(size()) + ")");
    return symbols_[static_cast<std::size_t>(id)];
  }

  /// The numbers of symbols. Throws as id.
  std::vector<std::int32_t> encode(std::span<const std::string> symbols) const {
    std::vector<std::int32_t> ids;
    ids.reserve(symbols.size());
    for (const auto& symbol : symbols) ids.push_back(id(symbol));
    return ids;
  }
  /// A number for each UTF-8 character of the text. Throws argument_error also, with the byte, for text that is not
  /// UTF-8.
  std::vector<std::int32_t> encode_characters(std::string_view text) const { return encode(utf8_characters(text)); }
  /// The symbols of the numbers, with `between` after each but the last.
  std::string decode(std::span<const std::int32_t> ids, std::string_view between = "") const {
    std::string text;
    for (std::size_t i = 0; i < ids.size(); ++i) (i > 0 ? text.append(between) : text).append(symbol(ids[i]));
    return text;
  }

 private:
  std::vector<std::string> symbols_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::optional<std::int32_t> unknown_;
};

/// A vocabulary from a text with one symbol a line; the first line has number 0. White space belongs to the symbol.
/// Throws file_error (`file` is its name), with the line, for text that is not UTF-8, an empty line, a symbol that
/// stands on two lines, and for a text without a symbol.
inline vocabulary parse_vocabulary(std::string_view text, const std::string& file) {
  std::vector<std::string> symbols;
  std::unordered_map<std::string_view, std::size_t> first;
  for (const std::string_view line : detail::text_lines(text)) {
    const std::string where = "line " + std::to_string(symbols.size() + 1);
    detail::require_utf8_line(line, file, where);
    if (line.empty()) throw file_error(file, where + " is empty, expected a symbol");
    const auto [there, added] = first.try_emplace(line, symbols.size() + 1);
    if (!added)
      throw file_error(file, where + ": symbol " + detail::quoted_name(line) + " stands on line " +
                                 std::to_string(there->second) + " too");
    symbols.emplace_back(line);
  }
  if (symbols.empty()) throw file_error(file, "is empty, expected a symbol a line");
  return vocabulary(std::move(symbols));
}
/// The same from a file.
inline vocabulary load_vocabulary(const std::filesystem::path& path) {
  const mapped_file file(path);
  return parse_vocabulary(detail::text_of(file), path.string());
}

}  // namespace headred
