// npy: arrays in NumPy's file format.
#pragma once

#include <cstddef>
#include <filesystem>
#include <headred/backend/tensor.hpp>
#include <headred/core/as_view.hpp>
#include <headred/core/atomic_file.hpp>
#include <headred/core/error.hpp>
#include <headred/io/elements.hpp>
#include <headred/io/mapped_file.hpp>
#include <headred/io/npy_header.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace headred {
namespace detail {

template <stored_type T>
void require_npy_type(const npy_header& header, const std::string& file) {
  if (!holds<T>(header.type))
    throw file_error(file, "npy array is " + std::string(to_string(header.type)) + ", expected " +
                               std::string(to_string(dtype_of<T>())));
}

/// Magic, version, length and dict of an array in C order: the bytes that numpy.save writes.
template <stored_type T>
std::string npy_header_text(std::span<const index_t> shape) {
  constexpr dtype type = dtype_of<T>();
  static_assert(type != dtype::bf16, "npy has no bfloat16: save it as float, or as safetensors");
  constexpr char kind = type == dtype::boolean ? 'b' : std::is_integral_v<T> ? (std::is_signed_v<T> ? 'i' : 'u') : 'f';
  std::string dict = "{'descr': '";
  dict += size_of(type) == 1 ? '|' : '<';
  dict += kind;
  dict += std::to_string(size_of(type)) + "', 'fortran_order': False, 'shape': (";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) dict += ", ";
    dict += std::to_string(shape[i]);
  }
  dict += shape.size() == 1 ? ",), }" : "), }";
  // NumPy leaves room for the first extent to grow to 21 digits, and aligns the data to 64 bytes.
  if (!shape.empty()) dict.append(21 - std::to_string(shape[0]).size(), ' ');
  dict.append(64 - (10 + dict.size() + 1) % 64, ' ');
  dict += '\n';
  std::string text = "\x93NUMPY";
  text += '\1';
  text += '\0';
  text += static_cast<char>(dict.size() & 0xff);
  text += static_cast<char>(dict.size() >> 8);
  return text + dict;
}

}  // namespace detail

/// The array of an .npy file in memory, its elements as they are stored.
///   T is the stored type (float, double, float16, an integer type; bool is read as std::uint8_t).
/// Throws file_error (`file` is its name) for another type or rank, and for a malformed file.
/// Cost: one copy; C and Fortran order, any alignment.
template <stored_type T, int Rank, backend Backend>
tensor<T, Rank, Backend> load_npy(Backend& be, std::span<const std::byte> bytes, const std::string& file) {
  const npy_header header = read_npy_header(bytes, file);
  const auto shape = detail::require_shape_rank<Rank>(header.shape, file, "npy array");
  detail::require_npy_type<T>(header, file);
  return detail::load_elements<T, Rank>(be, bytes.subspan(header.data_offset), header.type, header.fortran_order, shape,
                                        1, file, "npy array");
}

/// The array of an .npy file, its elements as they are stored.
template <stored_type T, int Rank, backend Backend>
tensor<T, Rank, Backend> load_npy(Backend& be, const std::filesystem::path& path) {
  const mapped_file file(path);
  return load_npy<T, Rank>(be, file.bytes(), file.name());
}

/// The array of an .npy file in memory, its elements converted: value = T(stored * scale), product in double.
///   float and double take every type, rounded to nearest; integers take integers and check that each fits.
/// Throws file_error for another rank, a value that does not fit, a malformed file; argument_error for a scale that is
/// not finite, or not 1 with integers.
template <stored_type T, int Rank, backend Backend>
tensor<T, Rank, Backend> load_npy_as(Backend& be, std::span<const std::byte> bytes, const std::string& file,
                                     double scale = 1) {
  const npy_header header = read_npy_header(bytes, file);
  const auto shape = detail::require_shape_rank<Rank>(header.shape, file, "npy array");
  return detail::load_elements<T, Rank>(be, bytes.subspan(header.data_offset), header.type, header.fortran_order, shape,
                                        scale, file, "npy array");
}

/// The array of an .npy file, its elements converted.
template <stored_type T, int Rank, backend Backend>
tensor<T, Rank, Backend> load_npy_as(Backend& be, const std::filesystem::path& path, double scale = 1) {
  const mapped_file file(path);
  return load_npy_as<T, Rank>(be, file.bytes(), file.name(), scale);
}

/// Reads an .npy file of the array's own element type and shape into memory that is there: Eigen, xtensor, mdspan, ...
/// Throws file_error for another type, rank or shape.
template <viewable Array>
void load_npy_into(const std::filesystem::path& path, Array&& array) {
  const auto to = as_view(array);
  using view = std::remove_const_t<decltype(to)>;
  static_assert(std::is_same_v<typename view::space, host_space>, "load_npy_into: the array is not in host memory");
  const mapped_file file(path);
  const npy_header header = read_npy_header(file.bytes(), file.name());
  const auto shape = detail::require_shape_rank<view::rank>(header.shape, file.name(), "npy array");
  detail::require_npy_type<typename view::value_type>(header, file.name());
  if (shape != to.shape())
    throw file_error(file.name(),
                     "npy array has shape " + shape_text(shape) + ", the array to fill " + shape_text(to.shape()));
  detail::read_elements(file.bytes().subspan(header.data_offset), header.type, header.fortran_order, to, 1, file.name(),
                        "npy array");
}

/// Writes an array as .npy, format 1.0, C order, byte for byte as numpy.save does; the file appears complete or not at
/// all. Any strides. Throws file_error if it cannot be written.
template <viewable Array>
void save_npy(const std::filesystem::path& path, const Array& array) {
  const auto view = as_view(array);
  using element = typename decltype(as_view(array))::value_type;
  static_assert(std::is_same_v<typename decltype(as_view(array))::space, host_space>,
                "save_npy: the array is not in host memory");
  atomic_file file(path);
  file.write(detail::npy_header_text<element>(view.shape()));
  detail::write_elements(view, [&file](std::span<const std::byte> piece) { file.write(piece); });
  file.commit();
}

}  // namespace headred
