// quoted_name: names out of files, fit for a one-line message.
#pragma once

#include <string>
#include <string_view>

namespace headred::detail {

/// The name in double quotes; control characters, quotes and bytes outside ASCII as \xNN; cut after 100 bytes.
inline std::string quoted_name(std::string_view name) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text = "\"";
  for (const char c : name.substr(0, 100)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\') {
      text += c;
    } else {
      text += "\\x";
      text += digits[byte >> 4];
      text += digits[byte & 15u];
    }
  }
  return text + (name.size() > 100 ? "...\"" : "\"");
}

}  // namespace headred::detail
