// elements: stored numbers, at any address and in either order, into a tensor_view, widened on the way.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <headred/backend/tensor.hpp>
#include <headred/core/error.hpp>
#include <headred/core/view.hpp>
#include <headred/io/dtype.hpp>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace headred::detail {

/// Bytes of a tensor; throws file_error if the product of its extents (zeros left out, so that strides fit too)
/// overflows. `what` names the tensor.
inline std::size_t byte_count(std::span<const index_t> shape, dtype type, const std::string& file,
                              std::string_view what) {
  constexpr auto limit = static_cast<std::size_t>(std::numeric_limits<index_t>::max());
  std::size_t bytes = size_of(type);
  bool empty = false;
  for (const index_t extent : shape) {
    if (extent == 0) {
      empty = true;
    } else if (bytes > limit / static_cast<std::size_t>(extent)) {
      throw file_error(file, std::string(what) + ": the size of shape " + shape_text(shape) + " overflows");
    } else {
      bytes *= static_cast<std::size_t>(extent);
    }
  }
  return empty ? 0 : bytes;
}

template <int Rank>
shape_t<Rank> require_shape_rank(std::span<const index_t> shape, const std::string& file, std::string_view what) {
  if (shape.size() != static_cast<std::size_t>(Rank))
    throw file_error(file, std::string(what) + " has rank " + std::to_string(shape.size()) + ", shape " +
                               shape_text(shape) + ", expected rank " + std::to_string(Rank));
  shape_t<Rank> extents{};
  std::copy(shape.begin(), shape.end(), extents.begin());
  return extents;
}

inline void require_scale(double scale, bool floating) {
  if (!std::isfinite(scale)) throw argument_error("scale is not finite");
  if (!floating && scale != 1) throw argument_error("scale is only for loading as float or double");
}

/// `count` elements of type Stored to to[0], to[step], ...; returns the first that T cannot hold, or count.
template <class Stored, class T>
std::size_t widen_run(const std::byte* from, T* to, std::size_t count, index_t step, double scale) {
  const auto stored = [from](std::size_t i) {
    Stored value;  // the file's elements need not be aligned
    std::memcpy(static_cast<void*>(&value), from + i * sizeof(Stored), sizeof(Stored));
    return value;
  };
  const auto at = [step](std::size_t i) { return static_cast<index_t>(i) * step; };
  if constexpr (std::is_same_v<Stored, T>) {
    if (scale == 1 && step == 1) {
      if (count > 0) std::memcpy(static_cast<void*>(to), from, count * sizeof(T));
      return count;
    }
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (scale == 1) {
      for (std::size_t i = 0; i < count; ++i) to[at(i)] = static_cast<T>(stored(i));
    } else {
      for (std::size_t i = 0; i < count; ++i) to[at(i)] = static_cast<T>(static_cast<double>(stored(i)) * scale);
    }
  } else if constexpr (std::is_integral_v<T>) {
    for (std::size_t i = 0; i < count; ++i) {
      if (!std::in_range<T>(stored(i))) return i;
      to[at(i)] = static_cast<T>(stored(i));
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) to[at(i)] = stored(i);
  }
  return count;
}

template <class T>
std::size_t widen_run(dtype type, const std::byte* from, T* to, std::size_t count, index_t step, double scale) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (type) {
      case dtype::f16: return widen_run<float16>(from, to, count, step, scale);
      case dtype::bf16: return widen_run<bfloat16>(from, to, count, step, scale);
      case dtype::f32: return widen_run<float>(from, to, count, step, scale);
      case dtype::f64: return widen_run<double>(from, to, count, step, scale);
      default: break;
    }
  }
  if constexpr (std::is_arithmetic_v<T>) {
    switch (type) {
      case dtype::boolean:
      case dtype::u8: return widen_run<std::uint8_t>(from, to, count, step, scale);
      case dtype::i8: return widen_run<std::int8_t>(from, to, count, step, scale);
      case dtype::i16: return widen_run<std::int16_t>(from, to, count, step, scale);
      case dtype::u16: return widen_run<std::uint16_t>(from, to, count, step, scale);
      case dtype::i32: return widen_run<std::int32_t>(from, to, count, step, scale);
      case dtype::u32: return widen_run<std::uint32_t>(from, to, count, step, scale);
      case dtype::i64: return widen_run<std::int64_t>(from, to, count, step, scale);
      case dtype::u64: return widen_run<std::uint64_t>(from, to, count, step, scale);
      default: return 0;
    }
  } else {
    return widen_run<T>(from, to, count, step, scale);
  }
}

/// Whether load<T> can turn this type into T: every number into float and double, integers into integers (each value is
/// checked to fit), 16-bit floats only into themselves.
template <class T>
constexpr bool converts_to(dtype type) noexcept {
  const bool floating = type == dtype::f16 || type == dtype::bf16 || type == dtype::f32 || type == dtype::f64;
  if constexpr (std::is_floating_point_v<T>) return true;
  if constexpr (std::is_integral_v<T>) return !floating;
  return type == dtype_of<T>();
}

/// Stored elements, densely packed in row-major (or, `column_major`, Fortran) order, into a view of the same shape.
/// Throws file_error if T cannot hold the type or one of the values; `what` names the tensor.
template <class T, int Rank>
void read_elements(std::span<const std::byte> bytes, dtype type, bool column_major, tensor_view<T, Rank> to,
                   double scale, const std::string& file, std::string_view what) {
  static_assert(!std::is_same_v<T, bool>, "bytes of a file need not be valid bools: read them as std::uint8_t");
  require_scale(scale, std::is_floating_point_v<T>);
  if (!converts_to<T>(type))
    throw file_error(file, std::string(what) + " is " + std::string(to_string(type)) + ", which does not convert to " +
                               std::string(to_string(dtype_of<T>())));
  if (bytes.empty()) return;
  const auto axis = [column_major](int i) { return column_major ? i : Rank - 1 - i; };  // axis(0) varies fastest
  const bool whole = to.contiguous() && !column_major;
  const auto run = static_cast<std::size_t>(whole ? to.size() : to.extent(axis(0)));
  const index_t step = whole ? 1 : to.stride(axis(0));
  const std::size_t runs = bytes.size() / (run * size_of(type));
  shape_t<Rank> index{};
  index_t offset = 0;  // of the run's first element
  for (std::size_t r = 0; r < runs; ++r) {
    const std::size_t done =
        widen_run(type, bytes.data() + r * run * size_of(type), to.data() + offset, run, step, scale);
    if (done != run)
      throw file_error(file, std::string(what) + ": stored element " + std::to_string(r * run + done) +
                                 " does not fit into " + std::string(to_string(dtype_of<T>())));
    for (int i = 1; i < Rank; ++i) {
      const auto a = static_cast<std::size_t>(axis(i));
      offset += to.stride(axis(i));
      if (++index[a] < to.extent(axis(i))) break;
      offset -= index[a] * to.stride(axis(i));
      index[a] = 0;
    }
  }
}

/// The same into a new tensor in the backend's memory; allocates only what the bytes at hand fill.
template <class T, int Rank, backend Backend>
tensor<T, Rank, Backend> load_elements(Backend& be, std::span<const std::byte> bytes, dtype type, bool column_major,
                                       const shape_t<Rank>& shape, double scale, const std::string& file,
                                       std::string_view what) {
  tensor<T, Rank, Backend> result(be, shape);
  if constexpr (host_backend<Backend>) {
    read_elements<T, Rank>(bytes, type, column_major, result.view(), scale, file, what);
  } else {
    std::vector<T> host(static_cast<std::size_t>(result.size()));
    read_elements<T, Rank>(bytes, type, column_major, {host.data(), shape}, scale, file, what);
    if (!host.empty()) be.upload(result.data(), host.data(), result.bytes());
    be.synchronize();
  }
  return result;
}

/// The elements of any view to write(span of bytes), in row-major order and in pieces.
template <class T, int Rank, class Write>
void write_elements(tensor_view<T, Rank> view, const Write& write) {
  if (view.empty()) return;
  if (view.contiguous()) {
    write(std::as_bytes(std::span(view.data(), static_cast<std::size_t>(view.size()))));
    return;
  }
  if constexpr (Rank > 1) {
    for (index_t i = 0; i < view.extent(0); ++i) write_elements(view[i], write);
  } else {
    std::array<std::remove_const_t<T>, 512> piece;
    for (index_t i = 0; i < view.size();) {
      std::size_t filled = 0;
      while (filled < piece.size() && i < view.size()) piece[filled++] = view(i++);
      write(std::as_bytes(std::span(piece.data(), filled)));
    }
  }
}

}  // namespace headred::detail
