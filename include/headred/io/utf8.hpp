// utf8: text into characters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <headred/core/error.hpp>

namespace headred {

/// Bytes of the UTF-8 character at the front of the text; 0 if there is none: a truncated, overlong or stray sequence, a
/// surrogate, or a number above U+10FFFF (RFC 3629).
constexpr std::size_t utf8_character_size(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (size == 0 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0u) != 0x80) return 0;
  const unsigned second = byte(1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool outside = (first == 0xed && second > 0x9f) || (first == 0xf4 && second > 0x8f);
  return overlong || outside ? 0 : size;
}

/// Position of the first byte that is not part of a UTF-8 character; the text's size if there is none.
constexpr std::size_t utf8_valid_bytes(std::string_view text) noexcept {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t size = utf8_character_size(text.substr(at));
    if (size == 0) break;
    at += size;
  }
  return at;
}

/// The text's characters (code points) in order. Throws argument_error, with the byte, for text that is not UTF-8.
inline std::vector<std::string> utf8_characters(std::string_view text) {
  std::vector<std::string> characters;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = utf8_character_size(text.substr(at));
    if (size == 0) throw argument_error("utf8_characters: the text is not valid UTF-8 at byte " + std::to_string(at));
    characters.emplace_back(text.substr(at, size));
    at += size;
  }
  return characters;
}

}  // namespace headred
