// safetensors_file: the tensors of a .safetensors file, mapped into memory.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/backend/tensor.hpp>
#include <headred/core/error.hpp>
#include <headred/core/view.hpp>
#include <headred/io/dtype.hpp>
#include <headred/io/elements.hpp>
#include <headred/io/mapped_file.hpp>
#include <headred/io/quoted_name.hpp>
#include <headred/io/safetensors_header.hpp>

namespace headred {
namespace detail {

inline std::string tensor_text(std::string_view name) { return "tensor " + quoted_name(name); }

}  // namespace detail

/// Read-only .safetensors file; opening it checks the whole header, reading touches only the tensors asked for.
/// Move-only; views stay valid as long as the object that the file was moved to.
/// Throws file_error for whatever is wrong with the file, and for a name, type or rank that it does not hold.
class safetensors_file {
 public:
  explicit safetensors_file(const std::filesystem::path& path)
      : mapping_(path),
        name_(mapping_.name()),
        bytes_(mapping_.bytes()),
        header_(read_safetensors_header(bytes_, name_)) {}
  /// A file that lies in the caller's memory, which must outlive the object; `name` stands in error messages.
  safetensors_file(std::span<const std::byte> bytes, std::string name)
      : name_(std::move(name)), bytes_(bytes), header_(read_safetensors_header(bytes_, name_)) {}

  /// The file's name, as it stands in error messages.
  const std::string& name() const noexcept { return name_; }
  const safetensors_header& header() const noexcept { return header_; }
  const std::map<std::string, std::string>& metadata() const noexcept { return header_.metadata; }

  /// Names of the tensors, in the order of their bytes in the file.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    names.reserve(header_.tensors.size());
    for (const auto& t : header_.tensors) names.push_back(t.name);
    return names;
  }

  /// Whether the file holds a tensor of this name.
  bool contains(std::string_view name) const { return header_.find(name) != nullptr; }

  /// Type, shape and place of a tensor. Throws file_error for a name that is not in the file.
  const safetensors_info& info(std::string_view name) const {
    const safetensors_info* const found = header_.find(name);
    if (found == nullptr) throw file_error(name_, detail::tensor_text(name) + " is not in the file");
    return *found;
  }

  /// The raw bytes of a tensor, valid as long as the file object. Throws as info.
  std::span<const std::byte> bytes(std::string_view name) const {
    const safetensors_info& t = info(name);
    return bytes_.subspan(header_.data_offset + t.begin, t.end - t.begin);
  }

  /// The factor in metadata "scale", by which integer tensors are multiplied; 1 if there is none.
  /// Throws file_error if it is not a positive finite number.
  double scale() const {
    const auto found = header_.metadata.find("scale");
    if (found == header_.metadata.end()) return 1;
    const auto value = nlohmann::json::parse(found->second, nullptr, false);
    const double factor = value.is_number() ? value.get<double>() : 0;
    if (!std::isfinite(factor) || !(factor > 0))
      throw file_error(
          name_, "metadata \"scale\" is " + detail::quoted_name(found->second) + ", expected a positive finite number");
    return factor;
  }

  /// The tensor where it lies in the file, without a copy; T is the stored type (BOOL is seen as std::uint8_t).
  /// Throws file_error also if its bytes are not aligned for T, which the format allows: load() takes those.
  template <stored_type T, int Rank>
  tensor_view<const T, Rank> view(std::string_view name) const {
    static_assert(!std::is_same_v<T, bool>, "bytes of a file need not be valid bools: view them as std::uint8_t");
    const safetensors_info& t = info(name);
    const std::string what = detail::tensor_text(name);
    const auto shape = detail::require_shape_rank<Rank>(t.shape, name_, what);
    if (!holds<T>(t.type))
      throw file_error(name_, what + " is " + std::string(to_string(t.type)) + ", expected " +
                                  std::string(to_string(dtype_of<T>())));
    const std::byte* const data = bytes(name).data();
    if (reinterpret_cast<std::uintptr_t>(data) % alignof(T) != 0)
      throw file_error(name_, what + " at byte " + std::to_string(header_.data_offset + t.begin) +
                                  " is not aligned for a view of " + std::string(to_string(t.type)) +
                                  ": load() copies it");
    return {reinterpret_cast<const T*>(data), shape};
  }

  /// A copy of the tensor in the backend's memory, its elements converted: value = T(stored * scale), taken in double.
  ///   float and double take every type, rounded to nearest; integers take integers and check that each fits.
  /// Throws argument_error for a scale that is not finite, or not 1 with integers.
  template <stored_type T, int Rank, backend Backend>
  tensor<T, Rank, Backend> load(Backend& be, std::string_view name, double scale = 1) const {
    const safetensors_info& t = info(name);
    const std::string what = detail::tensor_text(name);
    const auto shape = detail::require_shape_rank<Rank>(t.shape, name_, what);
    return detail::load_elements<T, Rank>(be, bytes(name), t.type, false, shape, scale, name_, what);
  }

 private:
  mapped_file mapping_;  // empty when the caller owns the bytes
  std::string name_;
  std::span<const std::byte> bytes_;
  safetensors_header header_;
};

}  // namespace headred
