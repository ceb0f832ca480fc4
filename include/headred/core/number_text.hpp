// Numbers in messages and files.
#pragma once

#include <charconv>
#include <string>

namespace headred {

/// The shortest text that reads back as x; "nan", "inf" and "-inf" by name.
inline std::string number_text(double x) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, x).ptr;
  return {text, end};
}

/// The same to so many significant digits, for people.
inline std::string number_text(double x, int digits) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, x, std::chars_format::general, digits).ptr;
  return {text, end};
}

}  // namespace headred
