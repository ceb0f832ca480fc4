// parallel_text: pairs of source and target, one a line.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <headred/core/error.hpp>
#include <headred/io/mapped_file.hpp>
#include <headred/io/text_lines.hpp>

namespace headred {

/// One line: a source and its target.
struct text_pair {
  std::string source, target;
  friend bool operator==(const text_pair&, const text_pair&) = default;
};

/// The pairs of a text whose lines read SOURCE<tab>TARGET.
/// Throws file_error (`file` is its name), with the line, for one that has not exactly one tab, has nothing on one side
/// of it or is not UTF-8, and for a text without a line.
inline std::vector<text_pair> parse_parallel_text(std::string_view text, const std::string& file) {
  std::vector<text_pair> pairs;
  for (const std::string_view line : detail::text_lines(text)) {
    const std::string where = "line " + std::to_string(pairs.size() + 1);
    detail::require_utf8_line(line, file, where);
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos) throw file_error(file, where + " has no tab between source and target");
    if (line.find('\t', tab + 1) != std::string_view::npos)
      throw file_error(file, where + " has more than one tab, expected one source and one target");
    if (tab == 0 || tab + 1 == line.size())
      throw file_error(file, where + ": the " + (tab == 0 ? "source" : "target") + " is empty");
    pairs.push_back({std::string(line.substr(0, tab)), std::string(line.substr(tab + 1))});
  }
  if (pairs.empty()) throw file_error(file, "is empty, expected a pair a line");
  return pairs;
}
/// The same from a file.
inline std::vector<text_pair> load_parallel_text(const std::filesystem::path& path) {
  const mapped_file file(path);
  return parse_parallel_text(detail::text_of(file), path.string());
}

}  // namespace headred
