// What the library throws. Every message names the thing that is wrong and what was expected of it.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include <headred/core/config.hpp>

namespace headred {

/// Base of all exceptions thrown by headred.
class error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A view of the wrong rank, extent or layout; the text states both shapes.
class shape_error : public error {
 public:
  using error::error;
};

/// An argument outside its range.
class argument_error : public error {
 public:
  using error::error;
};

/// A value in attention data that no attention map can hold: not finite, negative, or a row that does not sum to 1.
/// Positions are -1 where they do not apply.
class data_error : public error {
 public:
  /// Where the value is.
  struct position {
    index_t layer = -1;
    index_t head = -1;
    index_t row = -1;
  };
  data_error(const std::string& what, position where)
      : error("layer " + std::to_string(where.layer) + ", head " + std::to_string(where.head) + ", row " +
              std::to_string(where.row) + ": " + what),
        where_(where) {}
  const position& where() const noexcept { return where_; }

 private:
  position where_;
};

namespace detail {

/// The text with control characters as \xNN: a file may be called anything, and a message is one line.
inline std::string on_one_line(const std::string& text) {
  constexpr const char* digits = "0123456789abcdef";
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      line += c;
    } else {
      line += {'\\', 'x', digits[byte >> 4], digits[byte & 15u]};
    }
  }
  return line;
}

}  // namespace detail

/// A file that cannot be read or written, or whose content is malformed; the text starts with the file's name.
class file_error : public error {
 public:
  file_error(std::string file, const std::string& what)
      : error(detail::on_one_line(file) + ": " + what), file_(std::move(file)) {}
  const std::string& file() const noexcept { return file_; }

 private:
  std::string file_;
};

/// Thrown out of a long call when its progress callback asked to stop; what was finished before stays finished.
class cancelled : public error {
 public:
  cancelled() : error("cancelled by the caller") {}
};

/// "(12,12,64,64)", as shapes are written in every message.
inline std::string shape_text(std::span<const index_t> shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(shape[i]);
  }
  text += ')';
  return text;
}

}  // namespace headred
