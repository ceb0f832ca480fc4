// torch: LibTorch tensors, in as views and out without a copy. Needs LibTorch's headers, of which it reads two.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <headred/core/as_view.hpp>
#include <headred/core/error.hpp>
#include <headred/core/float16.hpp>
#include <headred/interop/hands_over.hpp>

namespace headred {
namespace detail {

template <class T>
struct torch_type {
  static constexpr at::ScalarType value = c10::CppTypeToScalarType<T>::value;
};
template <>
struct torch_type<float16> {
  static constexpr at::ScalarType value = at::ScalarType::Half;
};
template <>
struct torch_type<bfloat16> {
  static constexpr at::ScalarType value = at::ScalarType::BFloat16;
};

/// What torch itself refuses to change in place, and memory that several elements share.
inline void require_writable(const at::Tensor& t) {
  if (t.requires_grad() && c10::GradMode::is_enabled())
    throw argument_error(
        "torch_view: autograd records this tensor, expected const elements, or a guard against recording");
  for (int64_t i = 0; i < t.dim(); ++i)
    if (t.size(i) > 1 && t.stride(i) == 0)
      throw argument_error("torch_view: the tensor is expanded along axis " + std::to_string(i) +
                           ", expected const elements or a copy of it");
}

}  // namespace detail

/// View of a torch::Tensor in host memory: no copy, any strides.
///   t : rank `Rank`, dtype of T (float16 for Half, bfloat16 for BFloat16)
/// The caller keeps the tensor alive and does not resize it. Views of const T only read; the others count as a change
/// in place, so that autograd notices when it had kept the old values. Throws shape_error for another rank;
/// argument_error for an undefined tensor, another dtype, device or layout, a lazy negative, and a view to write of
/// what autograd records or of an expanded axis. Cost O(Rank).
template <class T, int Rank>
tensor_view<T, Rank> torch_view(const at::Tensor& t) {
  using value = std::remove_const_t<T>;
  constexpr at::ScalarType expected = detail::torch_type<value>::value;
  const std::string op = "torch_view: ";
  if (!t.defined()) throw argument_error(op + "the tensor is undefined, expected one with memory");
  if (t.is_nested() || t.layout() != at::kStrided)
    throw argument_error(op + "the tensor is sparse or nested, expected a dense one");
  if (!t.device().is_cpu())
    throw argument_error(op + "the tensor lies on " + t.device().str() + ", expected host memory");
  if (t.scalar_type() != expected)
    throw argument_error(op + "the elements are " + c10::toString(t.scalar_type()) + ", expected " +
                         c10::toString(expected));
  if (t.dim() != Rank)
    throw shape_error(op + "the tensor has rank " + std::to_string(t.dim()) + ", expected " + std::to_string(Rank));
  if (t.is_neg()) throw argument_error(op + "the tensor is a lazy negative, expected resolve_neg() of it");
  if constexpr (!std::is_const_v<T>) {
    detail::require_writable(t);
    if (!t.is_inference()) t.unsafeGetTensorImpl()->bump_version();
  }
  return detail::view_of<Rank>(static_cast<T*>(t.data_ptr()), t.sizes(), t.strides());
}

/// A torch::Tensor of memory that is handed over: `to_torch(std::move(tensor))`. No copy.
///   owner : a tensor, a matrix or another temporary with view(), kept until torch lets go of it (its backend must live
///           as long); or a tensor_view, whose memory the caller keeps alive
/// Elements that are const, and device memory, are refused when compiling (a device's goes through to_dlpack). Throws
/// shape_error for negative strides, which torch has not.
template <class Owner>
  requires detail::hands_over<Owner>
at::Tensor to_torch(Owner&& owner) {
  using own = std::remove_cvref_t<Owner>;
  using view_type = std::remove_cvref_t<decltype(as_view(std::declval<own&>()))>;
  using value = typename view_type::element_type;
  static_assert(!std::is_const_v<value>, "to_torch: torch has no const elements");
  static_assert(std::is_same_v<typename view_type::space, host_space>, "to_torch: the memory is not the host's");
  const auto kept = std::make_shared<own>(std::forward<Owner>(owner));
  const view_type view = as_view(*kept);
  for (const index_t stride : view.strides())
    if (stride < 0)
      throw shape_error("to_torch: the strides are " + shape_text(view.strides()) + ", expected none below 0");
  const std::vector<int64_t> shape(view.shape().begin(), view.shape().end());
  const std::vector<int64_t> strides(view.strides().begin(), view.strides().end());
  return at::from_blob(
      view.data(), shape, strides, [kept](void*) {}, at::TensorOptions().dtype(detail::torch_type<value>::value));
}

}  // namespace headred
