// as_view: a tensor_view of what the caller already has, without a copy and without including its library.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <ranges>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <headred/core/error.hpp>
#include <headred/core/float16.hpp>
#include <headred/core/view.hpp>

namespace headred {
namespace detail {

template <class A>
concept viewable_self = is_tensor_view<std::remove_cvref_t<A>>;

/// Owns memory and says how it is viewed (headred::tensor, user types).
template <class A>
concept viewable_member = !viewable_self<A> && requires(A& a) {
  { a.view() };
  requires is_tensor_view<std::remove_cvref_t<decltype(a.view())>>;
};

/// Eigen matrices, arrays, maps and blocks with direct access.
template <class A>
concept viewable_eigen = requires(A& a) {
  a.data();
  { a.rows() } -> std::convertible_to<index_t>;
  { a.cols() } -> std::convertible_to<index_t>;
  { a.rowStride() } -> std::convertible_to<index_t>;
  { a.colStride() } -> std::convertible_to<index_t>;
};

/// Eigen::Tensor, TensorFixedSize and TensorMap (unsupported/Eigen/CXX11/Tensor), in either order. A TensorRef, which
/// may stand for an expression without memory, has no Options.
template <class A>
concept viewable_eigen_tensor = requires(A& a) {
  a.data();
  { a.dimension(0) } -> std::convertible_to<index_t>;
  { int{std::remove_cvref_t<A>::Layout} };
  { std::remove_cvref_t<A>::Options };
  requires(std::remove_cvref_t<A>::NumIndices > 0);
};

/// An accessor that computes what it returns (scaled, conjugated) is no view of memory.
template <class A>
inline constexpr bool refers_to_elements = true;
template <class A>
  requires requires {
    typename A::reference;
    typename A::element_type;
  }
inline constexpr bool refers_to_elements<A> = std::same_as<typename A::reference, typename A::element_type&>;

/// std::mdspan and kokkos::mdspan.
template <class A>
concept viewable_mdspan = refers_to_elements<std::remove_cvref_t<A>> && requires(A& a) {
  requires std::is_pointer_v<std::remove_cvref_t<decltype(a.data_handle())>>;  // a reference to it in std::mdspan
  { std::remove_cvref_t<A>::rank() } -> std::convertible_to<std::size_t>;
  { a.extent(0) } -> std::convertible_to<index_t>;
  { a.stride(0) } -> std::convertible_to<index_t>;
};

/// xtensor containers and strided views: shape(), strides() in elements, data() and data_offset().
template <class A>
concept viewable_xtensor = !viewable_self<A> && requires(A& a) {
  a.data();
  { a.dimension() } -> std::convertible_to<std::size_t>;
  { *a.shape().begin() } -> std::convertible_to<index_t>;
  { *a.strides().begin() } -> std::convertible_to<index_t>;
};

/// torch::Tensor and the like: sizes(), strides(), and data_ptr<T>(), whose T the caller names.
template <class A>
concept viewable_torch = requires(A& a) {
  { a.dim() } -> std::convertible_to<index_t>;
  { *a.sizes().begin() } -> std::convertible_to<index_t>;
  { *a.strides().begin() } -> std::convertible_to<index_t>;
  { a.is_cpu() } -> std::convertible_to<bool>;
};

/// A DLTensor: plain struct with a void pointer; the element type is checked against its dtype.
template <class A>
concept viewable_dlpack = requires(A& a) {
  { a.data } -> std::convertible_to<const void*>;
  { a.ndim } -> std::convertible_to<int>;
  { a.shape[0] } -> std::convertible_to<index_t>;
  a.strides;
  { a.byte_offset } -> std::convertible_to<std::uint64_t>;
  { a.dtype.bits } -> std::convertible_to<int>;
  { a.dtype.code } -> std::convertible_to<int>;
  { a.device.device_type } -> std::convertible_to<int>;
};

/// std::vector, std::array, std::span: one axis. What has `dimensions()` has several, and is not flattened.
template <class A>
concept viewable_range = !viewable_self<A> && !viewable_member<A> && !viewable_eigen<A> && !viewable_xtensor<A> &&
                         !viewable_mdspan<A> && !requires(A& a) { a.dimensions(); } && requires(A& a) {
                           { a.size() } -> std::convertible_to<std::size_t>;
                           { *a.data() } -> std::convertible_to<double>;
                         };

/// DLDataTypeCode of an element type: 0 signed, 1 unsigned, 2 IEEE float, 4 bfloat, 6 bool.
template <class T>
inline constexpr int dlpack_code = std::is_same_v<T, bool>                                     ? 6
                                   : std::is_floating_point_v<T> || std::is_same_v<T, float16> ? 2
                                   : std::is_same_v<T, bfloat16>                               ? 4
                                   : std::is_unsigned_v<T>                                     ? 1
                                                                                               : 0;

inline void require_rank(index_t found, int expected) {
  if (found != expected)
    throw shape_error("as_view: the tensor has rank " + std::to_string(found) + ", expected " +
                      std::to_string(expected));
}

template <std::size_t N>
constexpr std::array<index_t, N> column_major_strides(const std::array<index_t, N>& shape) {
  std::array<index_t, N> strides{};
  index_t step = 1;
  for (std::size_t i = 0; i < N; ++i) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

template <int Rank, class T, class Shape, class Strides>
tensor_view<T, Rank> view_of(T* data, const Shape& shape, const Strides& strides) {
  shape_t<Rank> s{}, st{};
  for (int i = 0; i < Rank; ++i) {
    const auto at = static_cast<std::size_t>(i);
    s[at] = static_cast<index_t>(shape[static_cast<decltype(shape.size())>(i)]);
    st[at] = static_cast<index_t>(strides[static_cast<decltype(strides.size())>(i)]);
  }
  return {data, s, st};
}

/// xtensor's dimension when the type of its shape fixes it (xtensor, its views), else 0 (xarray).
template <class A>
inline constexpr int static_rank_of = 0;
template <class A>
  requires requires(A& a) { std::tuple_size<std::remove_cvref_t<decltype(a.shape())>>::value; }
inline constexpr int static_rank_of<A> =
    static_cast<int>(std::tuple_size_v<std::remove_cvref_t<decltype(std::declval<A&>().shape())>>);

/// Whether A is a temporary that owns its elements: a view of it would outlive them. (Blocks, maps, spans and views are
/// fine.) A function, since nvcc 13 takes no constrained specialisations of variables.
template <class A>
constexpr bool owning_temporary() {
  if constexpr (std::is_reference_v<A>) {
    return false;
  } else if constexpr (viewable_member<A>) {
    return true;
  } else if constexpr (viewable_range<A>) {
    return !std::ranges::borrowed_range<A>;
  } else if constexpr (viewable_eigen<A>) {
    return std::same_as<std::remove_const_t<A>, typename A::PlainObject>;
  } else if constexpr (viewable_xtensor<A>) {
    return std::same_as<std::remove_const_t<A>, typename A::temporary_type>;
  } else if constexpr (viewable_eigen_tensor<A>) {
    // a const Eigen::Tensor gives const elements, a const TensorMap does not
    return !std::same_as<decltype(std::declval<std::remove_const_t<A>&>().data()),
                         decltype(std::declval<const A&>().data())>;
  } else {
    return false;
  }
}

}  // namespace detail

/// View with its own rank: a tensor_view, anything with view(), Eigen (rank 2), Eigen::Tensor, mdspan, xtensor of fixed
/// rank, vectors.
template <class A>
constexpr auto as_view(A&& a) {
  static_assert(!detail::owning_temporary<A>(), "as_view: the view would outlive this temporary; give it a name first");
  if constexpr (detail::viewable_self<A>) {
    return std::remove_cvref_t<A>(a);
  } else if constexpr (detail::viewable_member<A>) {
    return a.view();
  } else if constexpr (detail::viewable_eigen<A>) {
    return tensor_view<std::remove_pointer_t<decltype(a.data())>, 2>(
        a.data(), {static_cast<index_t>(a.rows()), static_cast<index_t>(a.cols())},
        {static_cast<index_t>(a.rowStride()), static_cast<index_t>(a.colStride())});
  } else if constexpr (detail::viewable_eigen_tensor<A>) {
    constexpr int rank = static_cast<int>(std::remove_cvref_t<A>::NumIndices);
    constexpr bool row_major = int{std::remove_cvref_t<A>::Layout} == 1;  // Eigen::RowMajor
    const auto shape = [&]<std::size_t... Axis>(std::index_sequence<Axis...>) {
      return shape_t<rank>{static_cast<index_t>(a.dimension(Axis))...};
    }(std::make_index_sequence<rank>{});
    return tensor_view<std::remove_pointer_t<decltype(a.data())>, rank>(
        a.data(), shape, row_major ? row_major_strides(shape) : detail::column_major_strides(shape));
  } else if constexpr (detail::viewable_mdspan<A>) {
    constexpr int rank = static_cast<int>(std::remove_cvref_t<A>::rank());
    shape_t<rank> shape{}, strides{};
    for (int i = 0; i < rank; ++i) {
      const auto at = static_cast<std::size_t>(i);
      shape[at] = static_cast<index_t>(a.extent(at));
      strides[at] = static_cast<index_t>(a.stride(at));
    }
    using pointer = std::remove_cvref_t<decltype(a.data_handle())>;
    return tensor_view<std::remove_pointer_t<pointer>, rank>(a.data_handle(), shape, strides);
  } else if constexpr (detail::viewable_xtensor<A>) {
    constexpr int rank = detail::static_rank_of<A>;
    static_assert(rank > 0, "as_view: this array's rank is known at run time only; write as_view<Rank>(array)");
    return detail::view_of<rank>(a.data() + a.data_offset(), a.shape(), a.strides());
  } else if constexpr (detail::viewable_range<A>) {
    return tensor_view<std::remove_pointer_t<decltype(a.data())>, 1>(a.data(), {static_cast<index_t>(a.size())});
  } else {
    static_assert(!sizeof(A),
                  "as_view: no known view of this type; build a tensor_view from pointer, shape and strides");
  }
}

/// View of a stated rank, checked at run time where the type does not fix it (xarray): throws shape_error.
template <int Rank, class A>
auto as_view(A&& a) {
  if constexpr (detail::viewable_xtensor<A> && detail::static_rank_of<A> == 0) {
    detail::require_rank(static_cast<index_t>(a.dimension()), Rank);
    return detail::view_of<Rank>(a.data() + a.data_offset(), a.shape(), a.strides());
  } else {
    auto v = as_view(std::forward<A>(a));
    static_assert(decltype(v)::rank == Rank, "as_view<Rank>: this type has another rank");
    return v;
  }
}

/// View of a torch-like or DLPack tensor in host memory as elements T: throws shape_error for another rank,
/// argument_error for another element type or for memory that is not the host's.
template <class T, int Rank, class A>
  requires(detail::viewable_torch<A> || detail::viewable_dlpack<A>)
tensor_view<T, Rank> as_view(A&& a) {
  using value = std::remove_const_t<T>;
  if constexpr (detail::viewable_torch<A>) {
    detail::require_rank(static_cast<index_t>(a.dim()), Rank);
    if (!a.is_cpu()) throw argument_error("as_view: the tensor is not in host memory");
    return detail::view_of<Rank>(static_cast<T*>(a.template data_ptr<value>()), a.sizes(), a.strides());
  } else {
    detail::require_rank(static_cast<index_t>(a.ndim), Rank);
    if (static_cast<int>(a.device.device_type) != 1) throw argument_error("as_view: the tensor is not in host memory");
    if (static_cast<int>(a.dtype.code) != detail::dlpack_code<value> ||
        static_cast<int>(a.dtype.bits) != int(8 * sizeof(value)) || static_cast<int>(a.dtype.lanes) != 1)
      throw argument_error("as_view: the tensor's element type is not the one asked for");
    shape_t<Rank> shape{}, strides{};
    for (int i = 0; i < Rank; ++i) shape[static_cast<std::size_t>(i)] = static_cast<index_t>(a.shape[i]);
    strides = row_major_strides(shape);
    if (a.strides != nullptr)
      for (int i = 0; i < Rank; ++i) strides[static_cast<std::size_t>(i)] = static_cast<index_t>(a.strides[i]);
    auto* bytes = static_cast<unsigned char*>(a.data) + a.byte_offset;
    return {reinterpret_cast<T*>(bytes), shape, strides};
  }
}

/// Whether as_view accepts the type without naming a rank or element type.
template <class A>
concept viewable = detail::viewable_self<A> || detail::viewable_member<A> || detail::viewable_eigen<A> ||
                   detail::viewable_eigen_tensor<A> || detail::viewable_mdspan<A> ||
                   (detail::viewable_xtensor<A> && (detail::static_rank_of<A> > 0)) || detail::viewable_range<A>;

/// Whether as_view gives a view of this rank without naming it.
template <class A, int Rank>
concept viewable_as = viewable<A> && (decltype(as_view(std::declval<std::remove_reference_t<A>&>()))::rank == Rank);

}  // namespace headred
