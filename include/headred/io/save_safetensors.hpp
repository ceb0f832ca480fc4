// save_safetensors: tensors of any origin into one .safetensors file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <headred/core/as_view.hpp>
#include <headred/core/atomic_file.hpp>
#include <headred/core/error.hpp>
#include <headred/io/dtype.hpp>
#include <headred/io/elements.hpp>
#include <headred/io/quoted_name.hpp>
#include <headred/io/safetensors_header.hpp>

namespace headred {

/// A name and a view of the caller's memory, which must live until the file is saved: {"attn.0", attention}.
class safetensors_entry {
 public:
  using write_bytes = std::function<void(std::span<const std::byte>)>;

  template <viewable Array>
  safetensors_entry(std::string name, const Array& array) : name_(std::move(name)) {
    const auto view = as_view(array);
    using view_type = decltype(as_view(array));
    static_assert(std::is_same_v<typename view_type::space, host_space>,
                  "safetensors_entry: the array is not in host memory");
    type_ = dtype_of<typename view_type::value_type>();
    shape_.assign(view.shape().begin(), view.shape().end());
    write_ = [view](const write_bytes& write) { detail::write_elements(view, write); };
  }

  const std::string& name() const noexcept { return name_; }
  dtype type() const noexcept { return type_; }
  const std::vector<index_t>& shape() const noexcept { return shape_; }
  void write_to(const write_bytes& write) const { write_(write); }

 private:
  std::string name_;
  dtype type_{};
  std::vector<index_t> shape_;
  std::function<void(const write_bytes&)> write_;
};

namespace detail {

inline std::string json_string(const std::string& text, std::string_view what) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    throw argument_error("save_safetensors: " + std::string(what) + " " + quoted_name(text) + " is not valid UTF-8");
  }
}

}  // namespace detail

/// Writes tensors and metadata as .safetensors, readable by the Python package; complete or not at all.
///   Order: by type, wide types first, then by name, so each tensor is aligned for its type; equal input, equal bytes.
/// Throws argument_error for a name that appears twice, is "__metadata__" or not UTF-8; file_error if the file cannot
/// be written. Any strides.
inline void save_safetensors(const std::filesystem::path& path, std::vector<safetensors_entry> tensors,
                             const std::map<std::string, std::string>& metadata = {}) {
  std::ranges::sort(tensors, [](const auto& a, const auto& b) {
    return a.type() != b.type() ? a.type() > b.type() : a.name() < b.name();
  });
  std::vector<std::string_view> names;
  for (const auto& t : tensors) names.push_back(t.name());
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end())
    throw argument_error("save_safetensors: tensor " + detail::quoted_name(*twice) + " is given twice");

  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"" + std::string(detail::safetensors_metadata_key) + "\":{";
    for (const auto& [key, value] : metadata) {
      header += (header.back() == '{' ? "" : ",") + detail::json_string(key, "metadata key") + ":" +
                detail::json_string(value, "metadata value");
    }
    header += "}";
  }
  std::size_t position = 0;
  for (const auto& t : tensors) {
    if (t.name() == detail::safetensors_metadata_key)
      throw argument_error("save_safetensors: \"__metadata__\" is no name for a tensor");
    const auto type = std::ranges::find(detail::safetensors_types, t.type(), &detail::safetensors_type::type);
    const std::size_t begin = position;
    position += detail::byte_count(t.shape(), t.type(), path.string(), detail::quoted_name(t.name()));
    header += (header.size() == 1 ? "" : ",") + detail::json_string(t.name(), "tensor name") + ":{\"dtype\":\"" +
              std::string(type->name) + "\",\"shape\":[";
    for (std::size_t i = 0; i < t.shape().size(); ++i) {
      if (i > 0) header += ',';
      header += std::to_string(t.shape()[i]);
    }
    header += "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(position) + "]}";
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  if (header.size() > detail::safetensors_longest_header)
    throw file_error(path.string(), "cannot be written: the header would be longer than 100000000 bytes");

  atomic_file file(path);
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  file.write(length);
  file.write(header);
  for (const auto& t : tensors) t.write_to([&file](std::span<const std::byte> piece) { file.write(piece); });
  file.commit();
}

}  // namespace headred
