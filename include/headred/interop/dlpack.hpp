// dlpack: tensors of any framework that speaks DLPack, in and out without a copy and without its header: the structs
// are known by their members (DLTensor, DLManagedTensor, DLManagedTensorVersioned).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <headred/core/as_view.hpp>
#include <headred/core/error.hpp>
#include <headred/interop/hands_over.hpp>

namespace headred {

/// DLPack's DLTensor, by its members: data, device, ndim, dtype, shape, strides, byte_offset.
template <class A>
concept dlpack_tensor = detail::viewable_dlpack<A>;

/// DLPack's DLManagedTensor or DLManagedTensorVersioned: a DLTensor, and who frees it.
template <class A>
concept dlpack_managed = dlpack_tensor<decltype(std::declval<A&>().dl_tensor)> && requires(A& a) {
  a.manager_ctx;
  a.deleter(&a);
};

namespace detail {

template <class A>
concept dlpack_versioned = dlpack_managed<A> && requires(A& a) {
  a.version.major;
  a.flags;
};

/// DLDeviceType: which memory the CPU may touch (its own, page-locked, managed), and which a CUDA device.
constexpr bool dlpack_in_space(int device, host_space) {
  return device == 1 || device == 3 || device == 11 || device == 13;
}
constexpr bool dlpack_in_space(int device, device_space) { return device == 2 || device == 13; }

inline std::string dlpack_type_text(int code, int bits, int lanes) {
  return "(code " + std::to_string(code) + ", " + std::to_string(bits) + " bits, " + std::to_string(lanes) + " lanes)";
}

/// Bytes from the lowest to the highest element, and the number of elements, fit an index_t: else every later product
/// of extents and strides would overflow. Axes of extent 0 count as 1.
template <std::size_t Rank>
void require_addressable(const char* op, const std::array<index_t, Rank>& shape,
                         const std::array<index_t, Rank>& strides, std::size_t element) {
  const std::uint64_t limit = static_cast<std::uint64_t>(std::numeric_limits<index_t>::max()) / element;
  std::uint64_t elements = 1, reach = 1;
  bool fits = true;
  for (std::size_t i = 0; i < Rank; ++i) {
    const auto extent = static_cast<std::uint64_t>(std::max<index_t>(shape[i], 1));
    const auto stride = static_cast<std::uint64_t>(strides[i]), step = strides[i] < 0 ? 0 - stride : stride;
    fits = fits && extent <= limit / elements && (step == 0 || extent - 1 <= (limit - reach) / step);
    if (!fits) break;
    elements *= extent;
    reach += step * (extent - 1);
  }
  if (!fits) throw shape_error(std::string(op) + ": the memory that " + shape_text(shape) + " spans overflows");
}

/// Who owns the memory, and the struct that is handed out for it.
template <class Managed, class Owner, int Rank>
struct dlpack_export {
  Owner owner;
  Managed managed{};
  std::int64_t shape[static_cast<std::size_t>(Rank)], strides[static_cast<std::size_t>(Rank)];

  template <class From>
  explicit dlpack_export(From&& from) : owner(std::forward<From>(from)) {}
};

template <class Export, class Managed>
void delete_dlpack_export(Managed* managed) {
  delete static_cast<Export*>(managed->manager_ctx);
}

}  // namespace detail

/// View of a DLPack tensor, or of a managed one, that lies in `Space`: no copy, any strides.
///   a : rank `Rank`, elements T (of the same kind and width), strides in elements or null for row-major
/// The caller keeps the tensor alive. Everything in the struct is checked, unlike by as_view, which serves structs of
/// the program's own: throws shape_error for another rank, a negative extent, a size that overflows; argument_error for
/// other elements or memory, null or misaligned data, a major version other than 1, elements asked for to write that
/// are read-only. Cost O(Rank). Source: DLPack 1.1, dlpack.h.
template <class T, int Rank, class Space = host_space, class A>
  requires(dlpack_tensor<const A> || dlpack_managed<A>)
tensor_view<T, Rank, Space> dlpack_view(const A& a) {
  using value = std::remove_const_t<T>;
  const std::string op = "dlpack_view: ";
  if constexpr (dlpack_managed<A>) {
    if constexpr (detail::dlpack_versioned<A>) {
      if (a.version.major != 1)
        throw argument_error(op + "the tensor has DLPack version " + std::to_string(a.version.major) + ", expected 1");
      if (!std::is_const_v<T> && (a.flags & 1u) != 0)
        throw argument_error(op + "the tensor is read-only, expected a view of const elements");
    }
    return dlpack_view<T, Rank, Space>(a.dl_tensor);
  } else {
    const int device = static_cast<int>(a.device.device_type), code = static_cast<int>(a.dtype.code),
              bits = static_cast<int>(a.dtype.bits), lanes = static_cast<int>(a.dtype.lanes);
    if (!detail::dlpack_in_space(device, Space{}))
      throw argument_error(op + "the tensor lies in memory of device type " + std::to_string(device) + ", expected " +
                           (std::is_same_v<Space, host_space> ? "the host's (1, 3, 11, 13)" : "CUDA's (2, 13)"));
    constexpr int own_code = detail::dlpack_code<value>, own_bits = static_cast<int>(8 * sizeof(value));
    if (code != own_code || bits != own_bits || lanes != 1)
      throw argument_error(op + "the elements are " + detail::dlpack_type_text(code, bits, lanes) + ", expected " +
                           detail::dlpack_type_text(own_code, own_bits, 1));
    if (static_cast<index_t>(a.ndim) != Rank)
      throw shape_error(op + "the tensor has rank " + std::to_string(a.ndim) + ", expected " + std::to_string(Rank));
    if (a.shape == nullptr)
      throw argument_error(op + "the shape is null, expected " + std::to_string(Rank) + " extents");
    shape_t<Rank> shape{}, strides{};
    for (int i = 0; i < Rank; ++i) shape[static_cast<std::size_t>(i)] = static_cast<index_t>(a.shape[i]);
    if (std::ranges::any_of(shape, [](index_t extent) { return extent < 0; }))
      throw shape_error(op + "negative extent in " + shape_text(shape));
    detail::require_addressable("dlpack_view", shape, strides, sizeof(T));  // the extents alone
    strides = row_major_strides(shape);
    if (a.strides != nullptr)
      for (int i = 0; i < Rank; ++i) strides[static_cast<std::size_t>(i)] = static_cast<index_t>(a.strides[i]);
    detail::require_addressable("dlpack_view", shape, strides, sizeof(T));
    const bool empty = std::ranges::any_of(shape, [](index_t extent) { return extent == 0; });
    if (empty) return {nullptr, shape, strides};
    if (a.data == nullptr) throw argument_error(op + "the data is null, expected elements of " + shape_text(shape));
    const auto address = reinterpret_cast<std::uintptr_t>(a.data) + static_cast<std::uintptr_t>(a.byte_offset);
    if (address % alignof(T) != 0)
      throw argument_error(op + "the data is not aligned, expected a multiple of " + std::to_string(alignof(T)));
    return {reinterpret_cast<T*>(static_cast<unsigned char*>(a.data) + a.byte_offset), shape, strides};
  }
}

/// Calls the deleter that the struct itself names, once.
struct dlpack_deleter {
  template <dlpack_managed Managed>
  void operator()(Managed* managed) const {
    if (managed->deleter != nullptr) managed->deleter(managed);
  }
};

/// Owner of a managed tensor, whoever made it; release() hands it on, e.g. into a Python capsule.
template <dlpack_managed Managed>
using dlpack_pointer = std::unique_ptr<Managed, dlpack_deleter>;

/// A managed DLPack tensor of memory that is handed over: `to_dlpack<DLManagedTensor>(std::move(tensor))`. No copy.
///   owner : a tensor, a matrix or another temporary with view(), kept until the deleter is called (its backend must
///           live as long); or a tensor_view, whose memory the caller keeps
/// Const elements are refused when compiling, as DLPack cannot say so. `device` is the number of a CUDA device.
/// Cost: one allocation.
template <dlpack_managed Managed, class Owner>
  requires detail::hands_over<Owner>
dlpack_pointer<Managed> to_dlpack(Owner&& owner, int device = 0) {
  using own = std::remove_cvref_t<Owner>;
  using view_type = std::remove_cvref_t<decltype(as_view(std::declval<own&>()))>;
  using value = typename view_type::element_type;
  static_assert(!std::is_const_v<value>, "to_dlpack: DLPack has no const elements");
  constexpr int rank = view_type::rank;
  using exported = detail::dlpack_export<Managed, own, rank>;
  auto made = std::make_unique<exported>(std::forward<Owner>(owner));
  const view_type view = as_view(made->owner);
  for (int i = 0; i < rank; ++i) {
    made->shape[i] = view.extent(i);
    made->strides[i] = view.stride(i);
  }
  auto& managed = made->managed;
  auto& t = managed.dl_tensor;
  const bool host = std::is_same_v<typename view_type::space, host_space>;
  t.data = view.data();
  t.device.device_type = static_cast<decltype(t.device.device_type)>(host ? 1 : 2);
  t.device.device_id = host ? 0 : device;
  t.ndim = rank;
  t.dtype.code = static_cast<decltype(t.dtype.code)>(detail::dlpack_code<value>);
  t.dtype.bits = static_cast<decltype(t.dtype.bits)>(8 * sizeof(value));
  t.dtype.lanes = 1;
  t.shape = made->shape;
  t.strides = made->strides;
  t.byte_offset = 0;
  if constexpr (detail::dlpack_versioned<Managed>) {
    managed.version.major = 1;
    managed.version.minor = 0;
    managed.flags = 0;
  }
  managed.manager_ctx = made.get();
  managed.deleter = detail::delete_dlpack_export<exported, Managed>;
  return dlpack_pointer<Managed>(&made.release()->managed);
}

}  // namespace headred
