// text_lines: a text file line by line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <headred/core/error.hpp>
#include <headred/io/mapped_file.hpp>
#include <headred/io/utf8.hpp>

namespace headred::detail {

inline std::string_view text_of(const mapped_file& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.size()};
}

/// The lines, without their ends (LF or CR LF); the last one may lack its end. A byte order mark is left out.
inline std::vector<std::string_view> text_lines(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
  }
  return lines;
}

inline void require_utf8_line(std::string_view line, const std::string& file, const std::string& where) {
  const std::size_t valid = utf8_valid_bytes(line);
  if (valid != line.size()) throw file_error(file, where + " is not valid UTF-8 at its byte " + std::to_string(valid));
}

}  // namespace headred::detail
