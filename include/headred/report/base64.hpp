// Bytes as text that may stand inside a page.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace headred::detail {

/// The bytes in base64 (RFC 4648, section 4), padded: 4 characters for every 3 bytes begun.
inline std::string base64(std::span<const std::uint8_t> bytes) {
  static constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = bytes.size() - i;
    const std::uint32_t group = std::uint32_t{bytes[i]} << 16 |                       //
                                (left > 1 ? std::uint32_t{bytes[i + 1]} : 0u) << 8 |  //
                                (left > 2 ? std::uint32_t{bytes[i + 2]} : 0u);
    text += digits[group >> 18];
    text += digits[group >> 12 & 63];
    text += left > 1 ? digits[group >> 6 & 63] : '=';
    text += left > 2 ? digits[group & 63] : '=';
  }
  return text;
}

}  // namespace headred::detail
