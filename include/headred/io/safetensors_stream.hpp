// safetensors_stream: the tensors of a .safetensors stream, one after the other, where mapping is not possible.
#pragma once

#include <algorithm>
#include <cstddef>
#include <istream>
#include <span>
#include <streambuf>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/backend/tensor.hpp>
#include <headred/core/error.hpp>
#include <headred/io/elements.hpp>
#include <headred/io/quoted_name.hpp>
#include <headred/io/safetensors_header.hpp>

namespace headred {
namespace detail {

/// `count` bytes, or fewer if the stream ends; memory grows with what arrives, not with what was announced.
inline std::vector<std::byte> read_bytes(std::istream& in, std::size_t count) {
  std::vector<std::byte> bytes;
  std::streambuf* const buffer = in.good() ? in.rdbuf() : nullptr;
  std::size_t filled = 0;
  while (buffer != nullptr && filled < count) {
    bytes.resize(std::min(count, std::max<std::size_t>(1 << 16, 2 * filled)));
    const auto wanted = static_cast<std::streamsize>(bytes.size() - filled);
    const std::streamsize got = buffer->sgetn(reinterpret_cast<char*>(bytes.data() + filled), wanted);
    filled += static_cast<std::size_t>(std::max<std::streamsize>(got, 0));
    if (got != wanted) break;
  }
  bytes.resize(filled);
  return bytes;
}

}  // namespace detail

/// Reads and checks a header off a stream, which then stands at the first tensor's first byte; what follows is not
/// looked at. Throws file_error (`name` is the stream's name) as for a file in memory.
inline safetensors_header read_safetensors_header(std::istream& in, const std::string& name) {
  const std::size_t length = detail::safetensors_header_length(detail::read_bytes(in, 8), name);
  const std::vector<std::byte> bytes = detail::read_bytes(in, length);
  if (bytes.size() != length)
    throw file_error(name, "is truncated: a header of " + std::to_string(length) + " bytes was announced, " +
                               std::to_string(bytes.size()) + " are there");
  return detail::parse_safetensors_header({reinterpret_cast<const char*>(bytes.data()), length}, name);
}

/// A .safetensors stream read once, front to back:
///   while (stream.next()) if (wanted(stream.info())) use(stream.load<float, 4>(be));
/// Memory: the largest tensor's bytes beside the loaded tensor. The stream must outlive the object.
/// Throws file_error for a malformed header (on construction), a stream that ends too early or too late.
class safetensors_stream {
 public:
  safetensors_stream(std::istream& in, std::string name)
      : in_(in), name_(std::move(name)), header_(read_safetensors_header(in_, name_)) {}

  const safetensors_header& header() const noexcept { return header_; }

  /// Goes to the next tensor, over the bytes of one that was not loaded; false after the last.
  bool next() {
    if (started_ && !loaded_) skip();
    current_ = started_ ? current_ + 1 : 0;
    started_ = true;
    loaded_ = current_ >= header_.tensors.size();
    if (!loaded_) return true;
    current_ = header_.tensors.size();
    if (!detail::read_bytes(in_, 1).empty()) throw file_error(name_, "is too long: bytes follow the last tensor");
    return false;
  }

  /// The tensor that next() went to. Throws argument_error before the first and after the last.
  const safetensors_info& info() const {
    if (!started_ || current_ >= header_.tensors.size())
      throw argument_error("safetensors_stream: call next() first, and stop when it returns false");
    return header_.tensors[current_];
  }

  /// Reads this tensor, once; conversion and scale as in safetensors_file::load.
  template <stored_type T, int Rank, backend Backend>
  tensor<T, Rank, Backend> load(Backend& be, double scale = 1) {
    const safetensors_info& t = info();
    if (loaded_) throw argument_error("safetensors_stream: tensor " + detail::quoted_name(t.name) + " was read before");
    const std::string what = "tensor " + detail::quoted_name(t.name);
    const auto shape = detail::require_shape_rank<Rank>(t.shape, name_, what);
    loaded_ = true;
    const std::vector<std::byte> bytes = detail::read_bytes(in_, t.end - t.begin);
    require(bytes.size(), t);
    return detail::load_elements<T, Rank>(be, bytes, t.type, false, shape, scale, name_, what);
  }

 private:
  void require(std::size_t found, const safetensors_info& t) const {
    if (found != t.end - t.begin)
      throw file_error(name_, "is truncated: tensor " + detail::quoted_name(t.name) + " needs " +
                                  std::to_string(t.end - t.begin) + " bytes, found " + std::to_string(found));
  }

  void skip() {
    const safetensors_info& t = info();
    std::size_t found = 0;
    while (found < t.end - t.begin) {
      const std::size_t piece = std::min<std::size_t>(t.end - t.begin - found, 1 << 16);
      const std::size_t got = detail::read_bytes(in_, piece).size();
      found += got;
      if (got != piece) break;
    }
    require(found, t);
  }

  std::istream& in_;
  std::string name_;
  safetensors_header header_;
  std::size_t current_ = 0;
  bool started_ = false;
  bool loaded_ = false;
};

}  // namespace headred
