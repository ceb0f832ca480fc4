// code_points: UTF-8 text as numbers of characters, for measures that count characters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <headred/core/error.hpp>

namespace headred {

/// The text's Unicode code points. Throws argument_error, with the byte, for text that is not UTF-8 (RFC 3629).
inline std::u32string code_points(std::string_view text) {
  std::u32string points;
  points.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
    const unsigned first = byte(0);
    const std::size_t size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    bool valid = (first < 0x80 || (first >= 0xc2 && first < 0xf5)) && text.size() - at >= size;
    char32_t point = size == 1 ? first : first & (0x7fu >> size);
    for (std::size_t i = 1; valid && i < size; ++i) {
      valid = (byte(i) & 0xc0u) == 0x80;
      point = point << 6 | (byte(i) & 0x3fu);
    }
    // neither longer than need be, nor a surrogate, nor beyond the last
    if (size == 3) valid = valid && point >= 0x800 && (point < 0xd800 || point > 0xdfff);
    if (size == 4) valid = valid && point >= 0x10000 && point <= 0x10ffff;
    if (!valid) throw argument_error("code_points: the text is not valid UTF-8 at byte " + std::to_string(at));
    points.push_back(point);
    at += size;
  }
  return points;
}

/// Appends one code point, which must be a valid one, as UTF-8.
inline void append_utf8(char32_t point, std::string& text) {
  const auto put = [&](char32_t value) { text.push_back(static_cast<char>(static_cast<unsigned char>(value))); };
  if (point < 0x80) return put(point);
  if (point < 0x800) {
    put(0xc0 | point >> 6);
  } else {
    if (point < 0x10000) {
      put(0xe0 | point >> 12);
    } else {
      put(0xf0 | point >> 18);
      put(0x80 | (point >> 12 & 0x3f));
    }
    put(0x80 | (point >> 6 & 0x3f));
  }
  put(0x80 | (point & 0x3f));
}

}  // namespace headred
