// Strings from outside, made fit to stand in a page: no byte of theirs can end a tag, an attribute or a script.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include <headred/core/number_text.hpp>

namespace headred::detail {

/// One character of a UTF-8 text and the bytes it takes; an ill-formed sequence reads as U+FFFD.
struct utf8_character {
  std::uint32_t code = 0xFFFD;
  std::size_t bytes = 1;
};

/// The character that starts at `text[0]`. Overlong forms, surrogates and codes above U+10FFFF are ill-formed; of an
/// ill-formed sequence the longest prefix that could have been a character is taken (Unicode 15, section 3.9).
inline utf8_character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xC2 || lead > 0xF4) return {};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  std::uint32_t code = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (i >= text.size()) return {0xFFFD, i};
    // the first continuation byte alone decides about overlong forms, surrogates and the upper limit
    const std::uint32_t low = i > 1 ? 0x80u : lead == 0xE0 ? 0xA0u : lead == 0xF0 ? 0x90u : 0x80u;
    const std::uint32_t high = i > 1 ? 0xBFu : lead == 0xED ? 0x9Fu : lead == 0xF4 ? 0x8Fu : 0xBFu;
    if (byte(i) < low || byte(i) > high) return {0xFFFD, i};
    code = code << 6 | (byte(i) & 0x3F);
  }
  return {code, length};
}

/// Text for HTML, between tags or inside a quoted attribute: valid UTF-8 with markup as entities; control characters
/// other than tab and newline become U+FFFD.
inline std::string html_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const utf8_character c = first_character(text);
    const bool control = (c.code < 0x20 && c.code != '\t' && c.code != '\n') || (c.code >= 0x7F && c.code < 0xA0);
    switch (c.code) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += control || c.code == 0xFFFD ? std::string_view("\xEF\xBF\xBD") : text.substr(0, c.bytes);
    }
    text.remove_prefix(c.bytes);
  }
  return out;
}

/// Text as a JSON string, quotes included, that may stand inside a script element: what could end the script or a
/// line of it (<, >, &, U+2028, U+2029) and every control character is written as \uXXXX; ill-formed UTF-8 becomes
/// U+FFFD.
inline std::string json_text(std::string_view text) {
  static constexpr std::string_view hex = "0123456789abcdef";
  std::string out = "\"";
  out.reserve(text.size() + 2);
  while (!text.empty()) {
    const utf8_character c = first_character(text);
    const bool escape = c.code < 0x20 || (c.code >= 0x7F && c.code < 0xA0) || c.code == '<' || c.code == '>' ||
                        c.code == '&' || c.code == '\'' || c.code == 0x2028 || c.code == 0x2029;
    if (c.code == '"' || c.code == '\\') {
      out += '\\';
      out += static_cast<char>(c.code);
    } else if (escape) {
      out += "\\u";
      for (const unsigned shift : {12u, 8u, 4u, 0u}) out += hex[c.code >> shift & 15];
    } else {
      out += c.code == 0xFFFD ? std::string_view("\xEF\xBF\xBD") : text.substr(0, c.bytes);
    }
    text.remove_prefix(c.bytes);
  }
  return out + '"';
}

/// The shortest decimal form that reads back as the same double; null where JSON has no number (NaN, infinities).
inline std::string json_number(double x) { return std::isfinite(x) ? number_text(x) : "null"; }

/// The items as a JSON array, each written by `item`.
template <class Range, class Item>
std::string json_array(const Range& range, const Item& item) {
  std::string out = "[";
  for (const auto& x : range) {
    if (out.size() > 1) out += ',';
    out += item(x);
  }
  return out + ']';
}

}  // namespace headred::detail
