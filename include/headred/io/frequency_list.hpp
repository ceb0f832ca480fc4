// frequency_list: words by how often they occur.
#pragma once

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <headred/core/error.hpp>
#include <headred/io/mapped_file.hpp>
#include <headred/io/quoted_name.hpp>
#include <headred/io/text_lines.hpp>

namespace headred {

/// Words and their ranks, 0 for the most frequent.
class frequency_list {
 public:
  /// A word and how often it occurs.
  struct entry {
    std::string word;
    std::uint64_t count = 0;
  };

  frequency_list() = default;
  /// Most frequent first. Throws argument_error for a word given twice or a count above the one before.
  explicit frequency_list(std::vector<entry> entries) : entries_(std::move(entries)) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (!ranks_.try_emplace(entries_[i].word, static_cast<index_t>(i)).second)
        throw argument_error("frequency_list: " + detail::quoted_name(entries_[i].word) + " is given twice");
      if (i > 0 && entries_[i].count > entries_[i - 1].count)
        throw argument_error("frequency_list: " + detail::quoted_name(entries_[i].word) +
                             " is more frequent than the word before it, expected the most frequent first");
    }
  }

  index_t size() const noexcept { return static_cast<index_t>(entries_.size()); }
  const std::vector<entry>& entries() const noexcept { return entries_; }
  /// Place of a word from 0 on; size() for a word that is not there: rarer than all. Letter case counts.
  index_t rank(const std::string& word) const {
    const auto found = ranks_.find(word);
    return found == ranks_.end() ? size() : found->second;
  }

 private:
  std::vector<entry> entries_;
  std::unordered_map<std::string, index_t> ranks_;
};

/// The list of a text whose lines read WORD<space>COUNT, most frequent first.
/// Throws file_error (`file` is its name), with the line, for anything else, a word that stands on two lines, a count
/// above the one before, and for a text without a line.
inline frequency_list parse_frequency_list(std::string_view text, const std::string& file) {
  std::vector<frequency_list::entry> entries;
  std::unordered_map<std::string_view, std::size_t> first;
  for (const std::string_view line : detail::text_lines(text)) {
    const std::size_t number = entries.size() + 1;
    const std::string where = "line " + std::to_string(number);
    detail::require_utf8_line(line, file, where);
    const std::size_t space = line.find(' ');
    std::uint64_t count = 0;
    const char* const end = line.data() + line.size();
    const char* const digits = space == std::string_view::npos ? end : line.data() + space + 1;
    const auto [stop, problem] = std::from_chars(digits, end, count);
    if (space == 0 || digits == end || problem != std::errc{} || stop != end)
      throw file_error(file, where + " is " + detail::quoted_name(line) + ", expected a word, a space and a count");
    const std::string_view word = line.substr(0, space);
    const auto [there, added] = first.try_emplace(word, number);
    if (!added)
      throw file_error(file, where + ": word " + detail::quoted_name(word) + " stands on line " +
                                 std::to_string(there->second) + " too");
    if (!entries.empty() && count > entries.back().count)
      throw file_error(file, where + ": count " + std::to_string(count) + " is above the one before, " +
                                 std::to_string(entries.back().count) + ", expected the most frequent word first");
    entries.push_back({std::string(word), count});
  }
  if (entries.empty()) throw file_error(file, "is empty, expected a word and its count a line");
  return frequency_list(std::move(entries));
}
/// The same from a file.
inline frequency_list load_frequency_list(const std::filesystem::path& path) {
  const mapped_file file(path);
  return parse_frequency_list(detail::text_of(file), path.string());
}

}  // namespace headred
