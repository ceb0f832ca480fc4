// dtype: the element types that files hold.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <headred/core/float16.hpp>
#include <string_view>
#include <type_traits>

namespace headred {

static_assert(std::endian::native == std::endian::little, "headred's readers and writers are little-endian");

/// Element type of stored numbers; in ascending order of safetensors, which lays tensors out by it.
enum class dtype { boolean, u8, i8, i16, u16, f16, bf16, i32, u32, f32, f64, i64, u64 };

/// Bytes of one element.
constexpr std::size_t size_of(dtype type) noexcept {
  switch (type) {
    case dtype::boolean:
    case dtype::u8:
    case dtype::i8: return 1;
    case dtype::i16:
    case dtype::u16:
    case dtype::f16:
    case dtype::bf16: return 2;
    case dtype::i32:
    case dtype::u32:
    case dtype::f32: return 4;
    case dtype::f64:
    case dtype::i64:
    case dtype::u64: return 8;
  }
  return 0;
}

/// "float32", as NumPy names it.
constexpr std::string_view to_string(dtype type) noexcept {
  switch (type) {
    case dtype::boolean: return "bool";
    case dtype::u8: return "uint8";
    case dtype::i8: return "int8";
    case dtype::i16: return "int16";
    case dtype::u16: return "uint16";
    case dtype::f16: return "float16";
    case dtype::bf16: return "bfloat16";
    case dtype::i32: return "int32";
    case dtype::u32: return "uint32";
    case dtype::f32: return "float32";
    case dtype::f64: return "float64";
    case dtype::i64: return "int64";
    case dtype::u64: return "uint64";
  }
  return "unknown";
}

/// C++ types that files can hold.
template <class T>
concept stored_type = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, float16> ||
                      std::same_as<T, bfloat16> || (std::integral<T> && sizeof(T) <= 8);

/// The dtype of a C++ type; integers by size and sign.
template <stored_type T>
constexpr dtype dtype_of() noexcept {
  if constexpr (std::same_as<T, bool>) {
    return dtype::boolean;
  } else if constexpr (std::same_as<T, float>) {
    return dtype::f32;
  } else if constexpr (std::same_as<T, double>) {
    return dtype::f64;
  } else if constexpr (std::same_as<T, float16>) {
    return dtype::f16;
  } else if constexpr (std::same_as<T, bfloat16>) {
    return dtype::bf16;
  } else if constexpr (std::is_signed_v<T>) {
    return sizeof(T) == 1 ? dtype::i8 : sizeof(T) == 2 ? dtype::i16 : sizeof(T) == 4 ? dtype::i32 : dtype::i64;
  } else {
    return sizeof(T) == 1 ? dtype::u8 : sizeof(T) == 2 ? dtype::u16 : sizeof(T) == 4 ? dtype::u32 : dtype::u64;
  }
}

/// Whether elements of a file's type may be used as T without conversion: the same type, or bool bytes as uint8.
template <stored_type T>
constexpr bool holds(dtype type) noexcept {
  return type == dtype_of<T>() || (type == dtype::boolean && dtype_of<T>() == dtype::u8);
}

}  // namespace headred
