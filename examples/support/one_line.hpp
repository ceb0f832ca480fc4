// Messages: numbers with their nouns, and one line whatever names are quoted.
#pragma once

#include <string>
#include <string_view>

namespace examples {

/// The text with control characters as \xNN: a file may be called anything, and a terminal obeys what it is sent.
inline std::string one_line(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string line;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F, two bytes each, are control characters as well
    const bool pair = byte == 0xc2 && i + 1 < text.size() && (static_cast<unsigned char>(text[i + 1]) & 0xe0u) == 0x80;
    if (byte >= 0x20 && byte != 0x7f && !pair) {
      line += text[i];
      continue;
    }
    const auto code = pair ? static_cast<unsigned char>(text[++i]) : byte;
    line += "\\x";
    line += digits[code >> 4];
    line += digits[code & 15u];
  }
  return line;
}

/// A name out of a file, in quotes, cut where it is too long for a message.
inline std::string in_quotes(std::string_view name) {
  constexpr std::size_t longest = 100;
  if (name.size() <= longest) return '"' + one_line(name) + '"';
  std::size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0u) == 0x80) --end;  // not within a character
  return '"' + one_line(name.substr(0, end)) + "...\"";
}

/// "1 sentence", "2 sentences"
template <class Count>
std::string plural(Count count, const std::string& noun) {
  return std::to_string(count) + ' ' + noun + (count == 1 ? "" : "s");
}

}  // namespace examples
