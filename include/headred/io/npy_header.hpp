// npy_header: what an .npy file says of its array (NEP 1; format versions 1, 2 and 3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <headred/core/error.hpp>
#include <headred/io/dtype.hpp>
#include <headred/io/elements.hpp>
#include <headred/io/mapped_file.hpp>
#include <headred/io/quoted_name.hpp>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headred {

/// Element type, shape and order of an .npy array, and where its elements lie in the file.
struct npy_header {
  dtype type = dtype::f64;
  std::vector<index_t> shape;
  bool fortran_order = false;   ///< the first axis varies fastest
  std::size_t data_offset = 0;  ///< of the first element, in bytes
  std::size_t data_size = 0;    ///< in bytes; the file ends there

  int rank() const noexcept { return static_cast<int>(shape.size()); }
};

namespace detail {

/// Reader of the header's Python dict: {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }.
class npy_dict_parser {
 public:
  npy_dict_parser(std::string_view text, std::size_t offset, const std::string& file)
      : text_(text), offset_(offset), file_(file) {}

  npy_header parse() {
    npy_header header;
    bool has_type = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::size_t begin = at_;
      const std::string_view key = string();
      bool* const seen = key == "descr"           ? &has_type
                         : key == "fortran_order" ? &has_order
                         : key == "shape"         ? &has_shape
                                                  : nullptr;
      if (seen == nullptr) fail("unknown key " + quoted_name(key), begin);
      if (*seen) fail("key " + quoted_name(key) + " appears twice", begin);
      *seen = true;
      expect(':');
      if (key == "descr") {
        header.type = type();
      } else if (key == "fortran_order") {
        header.fortran_order = boolean();
      } else {
        header.shape = shape();
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) fail("unexpected text after the header's dict");
    const char* const missing = !has_type ? "descr" : !has_order ? "fortran_order" : !has_shape ? "shape" : nullptr;
    if (missing != nullptr) fail("key '" + std::string(missing) + "' is missing");
    return header;
  }

 private:
  static constexpr std::size_t highest_rank = 64;  // NumPy's

  [[noreturn]] void fail(const std::string& what, std::size_t at) const {
    throw file_error(file_, what + " at byte " + std::to_string(offset_ + at));
  }
  [[noreturn]] void fail(const std::string& what) const { fail(what, at_); }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool accept(std::string_view word) {
    skip_space();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail("expected '" + std::string(1, c) + "' in the header");
  }

  std::string_view string() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail("expected a quoted string in the header");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("string without an end in the header");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return inside;
  }

  bool boolean() {
    if (accept("True")) return true;
    if (accept("False")) return false;
    fail("fortran_order is neither True nor False");
  }

  dtype type() {
    skip_space();
    const std::size_t begin = at_;
    if (accept('[')) fail("descr is a structured type, expected a plain number type", begin);
    const std::string_view descr = string();
    const char order = descr.empty() ? '\0' : descr[0];
    const std::string_view kind = descr.substr(descr.empty() ? 0 : 1);
    const struct {
      std::string_view kind;
      dtype type;
    } known[] = {{"b1", dtype::boolean}, {"u1", dtype::u8},  {"i1", dtype::i8},  {"i2", dtype::i16},
                 {"u2", dtype::u16},     {"f2", dtype::f16}, {"i4", dtype::i32}, {"u4", dtype::u32},
                 {"f4", dtype::f32},     {"f8", dtype::f64}, {"i8", dtype::i64}, {"u8", dtype::u64}};
    for (const auto& k : known) {
      if (kind != k.kind) continue;
      if (order == '<' || (size_of(k.type) == 1 && (order == '|' || order == '>'))) return k.type;
      if (order == '>') fail("descr " + quoted_name(descr) + " is big-endian, expected little-endian", begin);
    }
    fail("descr " + quoted_name(descr) +
             " is not supported, expected one of <f2 <f4 <f8 |i1 <i2 <i4 <i8 |u1 <u2 <u4 <u8 |b1",
         begin);
  }

  std::vector<index_t> shape() {
    std::vector<index_t> extents;
    expect('(');
    while (!accept(')')) {
      if (extents.size() == highest_rank) fail("shape has more than 64 axes");
      extents.push_back(extent());
      if (accept(',')) continue;
      expect(')');
      if (extents.size() == 1) fail("shape is a number, expected a tuple such as (3,)");
      break;
    }
    return extents;
  }

  index_t extent() {
    skip_space();
    const std::size_t begin = at_;
    constexpr auto limit = static_cast<std::uint64_t>(std::numeric_limits<index_t>::max());
    std::uint64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      const auto digit = static_cast<std::uint64_t>(text_[at_] - '0');
      if (value > (limit - digit) / 10) fail("an extent of the shape overflows", begin);
      value = 10 * value + digit;
      ++at_;
    }
    if (at_ == begin) fail("expected an extent (0 or more) in the shape");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // a long of Python 2
    return static_cast<index_t>(value);
  }

  std::string_view text_;
  std::size_t offset_;  // of text_ in the file
  const std::string& file_;
  std::size_t at_ = 0;
};

}  // namespace detail

/// Reads and checks the header of an .npy file that lies in memory, against the file's size too.
/// Throws file_error (`file` is its name) for a malformed header, an unsupported type, a file that is shorter or longer
/// than its shape says. Allocates nothing but the shape.
inline npy_header read_npy_header(std::span<const std::byte> bytes, const std::string& file) {
  constexpr std::size_t longest = 1 << 20;  // header length; NumPy's own stay below 10000
  constexpr std::string_view magic = "\x93NUMPY";
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.substr(0, magic.size()) != magic) throw file_error(file, "is not an npy file (no \\x93NUMPY at byte 0)");
  const auto byte = [bytes](std::size_t i) { return std::to_integer<std::size_t>(bytes[i]); };
  if (bytes.size() < 8) throw file_error(file, "is truncated: " + std::to_string(bytes.size()) + " bytes");
  const std::size_t version = byte(6);
  if (version < 1 || version > 3 || byte(7) != 0)
    throw file_error(file, "npy format " + std::to_string(version) + "." + std::to_string(byte(7)) +
                               " is unknown, expected 1.0, 2.0 or 3.0");
  const std::size_t begin = version == 1 ? 10 : 12;
  if (bytes.size() < begin) throw file_error(file, "is truncated: " + std::to_string(bytes.size()) + " bytes");
  std::size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > longest)
    throw file_error(file, "the header is " + std::to_string(length) + " bytes long, expected at most 1048576");
  if (length > bytes.size() - begin)
    throw file_error(file, "is truncated: a header of " + std::to_string(length) + " bytes was announced, " +
                               std::to_string(bytes.size() - begin) + " are there");
  npy_header header = detail::npy_dict_parser(text.substr(begin, length), begin, file).parse();
  header.data_offset = begin + length;
  header.data_size = detail::byte_count(header.shape, header.type, file, "npy array");
  const std::size_t found = bytes.size() - header.data_offset;
  if (found != header.data_size)
    throw file_error(file, std::string(found < header.data_size ? "is truncated" : "is too long") + ": shape " +
                               shape_text(header.shape) + " of " + std::string(to_string(header.type)) + " needs " +
                               std::to_string(header.data_size) + " bytes of data, found " + std::to_string(found));
  return header;
}

/// The same for a file on the disk, of which only the header is read.
inline npy_header read_npy_header(const std::filesystem::path& path) {
  const mapped_file file(path);
  return read_npy_header(file.bytes(), file.name());
}

}  // namespace headred
