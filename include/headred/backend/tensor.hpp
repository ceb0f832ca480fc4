// tensor: owning memory of a backend, with a shape.
#pragma once

#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include <headred/backend/concept.hpp>
#include <headred/core/error.hpp>

namespace headred {

/// Owning, move-only, row-major tensor in the memory of a backend, which must outlive it. Elements start as zero bytes
/// on host backends and uninitialised elsewhere. Throws shape_error for a negative extent or a size that overflows,
/// std::bad_alloc (or the backend's own error) when memory is short.
template <class T, int Rank, backend Backend>
class tensor {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>, "a tensor holds plain values");

 public:
  using value_type = T;
  using space = typename Backend::space;

  tensor() = default;
  /// Memory of this shape; zeros on the host, uninitialised on a device. Throws shape_error for an impossible shape.
  tensor(Backend& be, const shape_t<Rank>& shape) : backend_(&be), shape_(shape), bytes_(byte_count(shape)) {
    if (bytes_ == 0) return;
    data_ = static_cast<T*>(be.allocate(bytes_));
    if constexpr (std::is_same_v<space, host_space>) std::memset(static_cast<void*>(data_), 0, bytes_);
  }
  tensor(tensor&& other) noexcept { swap(other); }
  tensor& operator=(tensor&& other) noexcept {
    tensor(std::move(other)).swap(*this);
    return *this;
  }
  tensor(const tensor&) = delete;
  tensor& operator=(const tensor&) = delete;
  ~tensor() {
    if (data_ != nullptr) backend_->deallocate(data_, bytes_);
  }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  const shape_t<Rank>& shape() const noexcept { return shape_; }
  index_t extent(int axis) const { return shape_[static_cast<std::size_t>(axis)]; }
  index_t size() const noexcept { return static_cast<index_t>(bytes_ / sizeof(T)); }
  std::size_t bytes() const noexcept { return bytes_; }

  /// A view of it, valid as long as the tensor.
  tensor_view<T, Rank, space> view() { return {data_, shape_}; }
  tensor_view<const T, Rank, space> view() const { return {data_, shape_}; }

  template <std::convertible_to<index_t>... Index>
    requires(sizeof...(Index) == Rank && std::is_same_v<space, host_space>)
  T& operator()(Index... index) {
    return view()(index...);
  }
  template <std::convertible_to<index_t>... Index>
    requires(sizeof...(Index) == Rank && std::is_same_v<space, host_space>)
  const T& operator()(Index... index) const {
    return view()(index...);
  }

  void swap(tensor& other) noexcept {
    std::swap(backend_, other.backend_);
    std::swap(data_, other.data_);
    std::swap(shape_, other.shape_);
    std::swap(bytes_, other.bytes_);
  }

 private:
  static std::size_t byte_count(const shape_t<Rank>& shape) {
    std::size_t elements = 1;
    constexpr auto limit = static_cast<std::size_t>(std::numeric_limits<index_t>::max()) / sizeof(T);
    bool zero = false;
    for (const index_t extent : shape) {
      if (extent < 0) throw shape_error("tensor: negative extent in " + shape_text(shape));
      zero = zero || extent == 0;
    }
    if (zero) return 0;
    for (const index_t extent : shape) {
      if (elements > limit / static_cast<std::size_t>(extent))
        throw shape_error("tensor: the size of " + shape_text(shape) + " overflows");
      elements *= static_cast<std::size_t>(extent);
    }
    return elements * sizeof(T);
  }

  Backend* backend_ = nullptr;
  T* data_ = nullptr;
  shape_t<Rank> shape_{};
  std::size_t bytes_ = 0;
};

}  // namespace headred
