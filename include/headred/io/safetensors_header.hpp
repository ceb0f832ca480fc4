// safetensors_header: the JSON at the front of a .safetensors file, checked in full before anything is read by it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <headred/core/error.hpp>
#include <headred/io/dtype.hpp>
#include <headred/io/elements.hpp>
#include <headred/io/quoted_name.hpp>

namespace headred {

/// One tensor of a .safetensors file: its bytes are [begin, end), counted from the end of the header.
struct safetensors_info {
  std::string name;
  dtype type = dtype::f32;
  std::vector<index_t> shape;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The tensors in the order of their bytes, which follow each other without a hole, and the file's metadata.
struct safetensors_header {
  std::vector<safetensors_info> tensors;
  std::vector<std::size_t> by_name;  ///< positions in `tensors`, ascending by name
  std::map<std::string, std::string> metadata;
  std::size_t data_offset = 0;  ///< of the first tensor's bytes in the file

  /// Bytes of all tensors.
  std::size_t data_size() const noexcept { return tensors.empty() ? 0 : tensors.back().end; }

  /// The tensor of this name, or nullptr.
  const safetensors_info* find(std::string_view name) const {
    const auto found = std::lower_bound(by_name.begin(), by_name.end(), name,
                                        [this](std::size_t i, std::string_view n) { return tensors[i].name < n; });
    return found != by_name.end() && tensors[*found].name == name ? &tensors[*found] : nullptr;
  }
};

namespace detail {

struct safetensors_type {
  std::string_view name;
  dtype type;
};
inline constexpr safetensors_type safetensors_types[] = {
    {"BOOL", dtype::boolean}, {"U8", dtype::u8},     {"I8", dtype::i8},   {"I16", dtype::i16}, {"U16", dtype::u16},
    {"F16", dtype::f16},      {"BF16", dtype::bf16}, {"I32", dtype::i32}, {"U32", dtype::u32}, {"F32", dtype::f32},
    {"F64", dtype::f64},      {"I64", dtype::i64},   {"U64", dtype::u64}};

inline constexpr std::string_view safetensors_metadata_key = "__metadata__";
inline constexpr std::size_t safetensors_longest_header = 100'000'000;  // the format's own limit

/// Takes the header's JSON event by event, and nothing that has no place in the format:
///   {"__metadata__": {KEY: TEXT, ...}, NAME: {"dtype": TEXT, "shape": [N, ...], "data_offsets": [BEGIN, END]}, ...}
class safetensors_sax final : public nlohmann::json_sax<nlohmann::json> {
 public:
  safetensors_sax(safetensors_header& header, const std::string& file) : header_(header), file_(file) {}

  bool null() override { misplaced("null"); }
  bool boolean(bool) override { misplaced("a boolean"); }
  bool number_integer(number_integer_t) override { misplaced("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { misplaced("a number that is no integer of 64 bits"); }
  bool binary(binary_t&) override { misplaced("binary data"); }

  bool number_unsigned(number_unsigned_t number) override {
    if (place_ != place::shape && place_ != place::offsets) misplaced("a number");
    if (number > static_cast<number_unsigned_t>(std::numeric_limits<index_t>::max()))
      fail("the number " + std::to_string(number) + " overflows");
    if (place_ == place::shape) {
      if (tensor_.shape.size() == highest_rank) fail("shape has more than 64 axes");
      tensor_.shape.push_back(static_cast<index_t>(number));
    } else {
      if (offsets_ == 2) fail("data_offsets holds more than 2 numbers");
      (offsets_++ == 0 ? tensor_.begin : tensor_.end) = static_cast<std::size_t>(number);
    }
    return true;
  }

  bool string(string_t& text) override {
    if (place_ == place::metadata_value) {
      *metadata_value_ = text;
      place_ = place::metadata;
      return true;
    }
    if (place_ != place::type_value) misplaced("a string");
    const auto* const known =
        std::ranges::find(safetensors_types, std::string_view(text), [](const safetensors_type& t) { return t.name; });
    if (known == std::end(safetensors_types)) fail("dtype " + quoted_name(text) + " is not supported");
    tensor_.type = known->type;
    place_ = place::tensor;
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == place::start) return enter(place::top);
    if (place_ == place::metadata_start) return enter(place::metadata);
    if (place_ == place::tensor_start) return enter(place::tensor);
    misplaced("an object");
  }

  bool key(string_t& name) override {
    if (place_ == place::top && name == safetensors_metadata_key) {
      if (has_metadata_) fail("the key \"__metadata__\" appears twice in the header");
      has_metadata_ = true;
      return enter(place::metadata_start);
    }
    if (place_ == place::top) {
      tensor_ = {};
      tensor_.name = name;
      has_type_ = has_shape_ = has_offsets_ = false;
      offsets_ = 0;
      return enter(place::tensor_start);
    }
    if (place_ == place::metadata) {
      const auto [entry, added] = header_.metadata.try_emplace(name);
      if (!added) fail("the key " + quoted_name(name) + " appears twice");
      metadata_value_ = &entry->second;
      return enter(place::metadata_value);
    }
    if (name == "dtype") return enter_once(has_type_, place::type_value, name);
    if (name == "shape") return enter_once(has_shape_, place::shape_start, name);
    if (name == "data_offsets") return enter_once(has_offsets_, place::offsets_start, name);
    fail("the key " + quoted_name(name) + " is unknown, expected dtype, shape and data_offsets");
  }

  bool end_object() override {
    if (place_ == place::tensor) {
      const char* const missing = !has_type_      ? "dtype"
                                  : !has_shape_   ? "shape"
                                  : !has_offsets_ ? "data_offsets"
                                                  : nullptr;
      if (missing != nullptr) fail(std::string(missing) + " is missing");
      header_.tensors.push_back(std::move(tensor_));
    }
    return enter(place_ == place::top ? place::end : place::top);
  }

  bool start_array(std::size_t) override {
    if (place_ == place::shape_start) return enter(place::shape);
    if (place_ == place::offsets_start) return enter(place::offsets);
    misplaced("an array");
  }

  bool end_array() override {
    if (place_ == place::offsets && offsets_ != 2) fail("data_offsets holds fewer than 2 numbers");
    return enter(place::tensor);
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    throw file_error(file_, "the header is not valid JSON in UTF-8 at byte " + std::to_string(8 + position));
  }

 private:
  static constexpr std::size_t highest_rank = 64;

  /// Where the parser stands; *_start and *_value follow a key.
  enum class place {
    start,
    top,
    metadata_start,
    metadata,
    metadata_value,
    tensor_start,
    tensor,
    type_value,
    shape_start,
    shape,
    offsets_start,
    offsets,
    end
  };

  bool enter(place next) {
    place_ = next;
    return true;
  }
  bool enter_once(bool& seen, place next, const std::string& name) {
    if (seen) fail("the key " + quoted_name(name) + " appears twice");
    seen = true;
    return enter(next);
  }

  bool in_metadata() const {
    return place_ == place::metadata_start || place_ == place::metadata || place_ == place::metadata_value;
  }
  [[noreturn]] void fail(const std::string& what) const {
    const bool outside = place_ == place::start || place_ == place::top || place_ == place::end;
    throw file_error(file_, (outside         ? ""
                             : in_metadata() ? "__metadata__: "
                                             : "tensor " + quoted_name(tensor_.name) + ": ") +
                                what);
  }
  [[noreturn]] void misplaced(const char* what) const {
    const char* const expected = place_ == place::metadata_value                              ? "a string"
                                 : place_ == place::type_value                                ? "dtype's string"
                                 : place_ == place::shape || place_ == place::shape_start     ? "shape's numbers"
                                 : place_ == place::offsets || place_ == place::offsets_start ? "data_offsets' numbers"
                                                                                              : "an object";
    fail("found " + std::string(what) + ", expected " + expected);
  }

  safetensors_header& header_;
  const std::string& file_;
  place place_ = place::start;
  safetensors_info tensor_;
  std::string* metadata_value_ = nullptr;
  int offsets_ = 0;
  bool has_metadata_ = false, has_type_ = false, has_shape_ = false, has_offsets_ = false;
};

/// Puts the tensors in order and checks names, sizes and offsets.
inline void check_safetensors_header(safetensors_header& header, const std::string& file) {
  for (const auto& t : header.tensors) {
    const std::string what = "tensor " + quoted_name(t.name);
    const std::size_t bytes = byte_count(t.shape, t.type, file, what);
    if (t.begin > t.end || t.end - t.begin != bytes)
      throw file_error(file, what + ": data_offsets [" + std::to_string(t.begin) + "," + std::to_string(t.end) +
                                 "] do not span the " + std::to_string(bytes) + " bytes of shape " +
                                 shape_text(t.shape) + " of " + std::string(to_string(t.type)));
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::size_t position = 0;
  for (const auto& t : header.tensors) {
    if (t.begin != position)
      throw file_error(file, "tensor " + quoted_name(t.name) + ": data_offsets begin at " + std::to_string(t.begin) +
                                 (t.begin < position ? ", which overlaps" : ", which leaves a hole after") +
                                 " the tensor that ends at " + std::to_string(position));
    position = t.end;
  }
  header.by_name.resize(header.tensors.size());
  std::iota(header.by_name.begin(), header.by_name.end(), std::size_t{0});
  const auto name = [&header](std::size_t i) -> const std::string& { return header.tensors[i].name; };
  std::ranges::sort(header.by_name, {}, name);
  const auto twice = std::ranges::adjacent_find(header.by_name, {}, name);
  if (twice != header.by_name.end())
    throw file_error(file, "tensor " + quoted_name(name(*twice)) + " appears twice in the header");
}

/// Length of the header from a file's first 8 bytes.
inline std::size_t safetensors_header_length(std::span<const std::byte> prefix, const std::string& file) {
  if (prefix.size() < 8)
    throw file_error(file, "is truncated: " + std::to_string(prefix.size()) + " bytes, not a safetensors file");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= std::to_integer<std::uint64_t>(prefix[i]) << (8 * i);
  if (length < 2 || length > safetensors_longest_header)
    throw file_error(file, "the header's length at byte 0 is " + std::to_string(length) +
                               ", expected 2 to 100000000: not a safetensors file");
  return static_cast<std::size_t>(length);
}

/// The header from its JSON text; the length of what follows it is not looked at.
inline safetensors_header parse_safetensors_header(std::string_view json, const std::string& file) {
  if (json.empty() || json[0] != '{') throw file_error(file, "the header does not begin with { at byte 8");
  safetensors_header header;
  header.data_offset = 8 + json.size();
  safetensors_sax sax(header, file);
  nlohmann::json::sax_parse(json.begin(), json.end(), &sax);
  check_safetensors_header(header, file);
  return header;
}

}  // namespace detail

/// Reads and checks the header of a .safetensors file that lies in memory, against the file's size too.
/// Throws file_error (`file` is its name) with the byte or the tensor's name for every malformed header: its length,
/// JSON or UTF-8, unknown, missing or doubled keys, an unknown dtype, a shape that overflows or does not fit its bytes,
/// offsets that overlap, leave holes or leave the file.
inline safetensors_header read_safetensors_header(std::span<const std::byte> bytes, const std::string& file) {
  const std::size_t length =
      detail::safetensors_header_length(bytes.first(std::min<std::size_t>(8, bytes.size())), file);
  if (length > bytes.size() - 8)
    throw file_error(file, "is truncated: a header of " + std::to_string(length) + " bytes was announced, " +
                               std::to_string(bytes.size() - 8) + " are there");
  const std::string_view json(reinterpret_cast<const char*>(bytes.data()) + 8, length);
  safetensors_header header = detail::parse_safetensors_header(json, file);
  const std::size_t found = bytes.size() - header.data_offset;
  if (found != header.data_size())
    throw file_error(file, std::string(found < header.data_size() ? "is truncated" : "is too long") +
                               ": the tensors need " + std::to_string(header.data_size()) + " bytes, found " +
                               std::to_string(found));
  return header;
}

}  // namespace headred
