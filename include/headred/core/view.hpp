// tensor_view: a pointer, a shape and strides over memory that somebody else owns.
#pragma once

#include <array>
#include <cassert>
#include <concepts>
#include <type_traits>

#include <headred/core/config.hpp>

namespace headred {

/// Memory that the CPU may read and write.
struct host_space {};
/// Memory of an accelerator: it can be named, copied and handed to a backend, not read by the CPU.
struct device_space {};

/// Extents, or strides, one for each axis.
template <int Rank>
using shape_t = std::array<index_t, static_cast<std::size_t>(Rank)>;

/// Strides of a densely packed row-major tensor, in elements.
template <std::size_t N>
HEADRED_FUNCTION constexpr std::array<index_t, N> row_major_strides(const std::array<index_t, N>& shape) {
  std::array<index_t, N> strides{};
  index_t step = 1;
  for (std::size_t i = N; i-- > 0;) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

/// Non-owning strided view of Rank axes; the memory space is part of the type, so host and device never mix.
/// Strides count elements and may be zero or negative. A view of T converts to a view of T const.
template <class T, int Rank, class Space = host_space>
class tensor_view {
  static_assert(Rank >= 1, "a tensor_view has at least one axis");

 public:
  using element_type = T;
  using value_type = std::remove_const_t<T>;
  using space = Space;
  static constexpr int rank = Rank;

  constexpr tensor_view() = default;
  /// Row-major memory of this shape.
  HEADRED_FUNCTION constexpr tensor_view(T* data, const shape_t<Rank>& shape)
      : data_(data), shape_(shape), strides_(row_major_strides(shape)) {}
  /// Memory with these strides, counted in elements.
  HEADRED_FUNCTION constexpr tensor_view(T* data, const shape_t<Rank>& shape, const shape_t<Rank>& strides)
      : data_(data), shape_(shape), strides_(strides) {}
  template <class U>
    requires(std::same_as<T, const U> && !std::same_as<T, U>)
  HEADRED_FUNCTION constexpr tensor_view(const tensor_view<U, Rank, Space>& other)
      : data_(other.data()), shape_(other.shape()), strides_(other.strides()) {}

  HEADRED_FUNCTION constexpr T* data() const { return data_; }
  HEADRED_FUNCTION constexpr const shape_t<Rank>& shape() const { return shape_; }
  HEADRED_FUNCTION constexpr const shape_t<Rank>& strides() const { return strides_; }
  HEADRED_FUNCTION constexpr index_t extent(int axis) const { return shape_[static_cast<std::size_t>(axis)]; }
  HEADRED_FUNCTION constexpr index_t stride(int axis) const { return strides_[static_cast<std::size_t>(axis)]; }
  HEADRED_FUNCTION constexpr index_t size() const {
    index_t n = 1;
    for (int axis = 0; axis < Rank; ++axis) n *= extent(axis);
    return n;
  }
  HEADRED_FUNCTION constexpr bool empty() const { return size() == 0; }

  /// Whether the elements lie densely packed in row-major order (axes of extent 1 do not matter).
  HEADRED_FUNCTION constexpr bool contiguous() const {
    index_t step = 1;
    for (int axis = Rank - 1; axis >= 0; --axis) {
      if (extent(axis) != 1 && stride(axis) != step) return false;
      step *= extent(axis);
    }
    return true;
  }

  /// The element at (i0, i1, ...); indices are checked by assert only.
  template <std::convertible_to<index_t>... Index>
    requires(sizeof...(Index) == Rank)
  HEADRED_FUNCTION constexpr T& operator()(Index... index) const {
    const shape_t<Rank> at{static_cast<index_t>(index)...};
    index_t offset = 0;
    for (int axis = 0; axis < Rank; ++axis) {
      assert(at[static_cast<std::size_t>(axis)] >= 0 && at[static_cast<std::size_t>(axis)] < extent(axis));
      offset += at[static_cast<std::size_t>(axis)] * stride(axis);
    }
    return data_[offset];
  }

  /// The view of one axis less at index i of the first axis: attention (L,H,T,S) -> layer (H,T,S).
  HEADRED_FUNCTION constexpr tensor_view<T, Rank - 1, Space> operator[](index_t i) const
    requires(Rank > 1)
  {
    assert(i >= 0 && i < extent(0));
    shape_t<Rank - 1> shape{}, strides{};
    for (int axis = 1; axis < Rank; ++axis) {
      shape[static_cast<std::size_t>(axis - 1)] = extent(axis);
      strides[static_cast<std::size_t>(axis - 1)] = stride(axis);
    }
    return {data_ + i * stride(0), shape, strides};
  }

  /// The same tensor cut to `count` indices from `begin` on one axis: padding is cut off this way.
  HEADRED_FUNCTION constexpr tensor_view narrow(int axis, index_t begin, index_t count) const {
    assert(begin >= 0 && count >= 0 && begin + count <= extent(axis));
    tensor_view cut = *this;
    cut.data_ += begin * stride(axis);
    cut.shape_[static_cast<std::size_t>(axis)] = count;
    return cut;
  }

  /// The same elements with two axes exchanged.
  HEADRED_FUNCTION constexpr tensor_view transposed(int a = Rank - 2, int b = Rank - 1) const {
    tensor_view t = *this;
    t.shape_[static_cast<std::size_t>(a)] = extent(b);
    t.shape_[static_cast<std::size_t>(b)] = extent(a);
    t.strides_[static_cast<std::size_t>(a)] = stride(b);
    t.strides_[static_cast<std::size_t>(b)] = stride(a);
    return t;
  }

 private:
  T* data_ = nullptr;
  shape_t<Rank> shape_{};
  shape_t<Rank> strides_{};
};

namespace detail {
template <class T>
inline constexpr bool is_tensor_view = false;
template <class T, int Rank, class Space>
inline constexpr bool is_tensor_view<tensor_view<T, Rank, Space>> = true;
}  // namespace detail

}  // namespace headred
