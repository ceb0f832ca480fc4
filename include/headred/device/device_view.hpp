// device_view: a view of what another library holds in a device's memory, without a copy and without including it.
#pragma once

#include <string>
#include <type_traits>

#include <headred/core/as_view.hpp>

namespace headred {
namespace detail {

/// thrust::device_vector and what looks like it.
template <class V>
concept device_vector = requires(V& v) {
  { v.size() } -> std::convertible_to<std::size_t>;
  { *v.data().get() } -> std::convertible_to<double>;
};

/// A torch::Tensor, and what looks like it.
template <class A>
concept device_tensor = viewable_torch<A> && requires(A& a) {
  { a.is_cuda() } -> std::convertible_to<bool>;
};

}  // namespace detail

/// View of a thrust::device_vector as a densely packed tensor of this shape. Throws shape_error unless it has as many
/// elements. Thrust works on its own stream: give a backend that stream, or synchronise between the two.
template <std::size_t Rank, detail::device_vector Vector>
auto device_view(Vector& vector, const index_t (&extents)[Rank]) {
  constexpr int rank = static_cast<int>(Rank);
  using element = std::remove_pointer_t<decltype(vector.data().get())>;
  shape_t<rank> shape{};
  const auto size = static_cast<std::size_t>(vector.size());
  std::size_t count = 1;
  bool fits = true;
  for (std::size_t axis = 0; axis < Rank; ++axis) {
    shape[axis] = extents[axis];
    const bool usable = extents[axis] >= 0 && (count == 0 || static_cast<std::size_t>(extents[axis]) <= size / count);
    fits = fits && usable;
    count = usable ? count * static_cast<std::size_t>(extents[axis]) : 0;
  }
  if (!fits || count != size)
    throw shape_error("device_view: a vector of " + std::to_string(size) + " elements, expected those of " +
                      shape_text(shape));
  return tensor_view<element, rank, device_space>(vector.data().get(), shape);
}

/// View of a torch::Tensor in CUDA memory, by its strides. Throws shape_error for another rank, argument_error for
/// memory that is not CUDA's; a wrong element type is torch's own error.
template <class T, int Rank, detail::device_tensor Tensor>
tensor_view<T, Rank, device_space> device_view(Tensor&& tensor) {
  detail::require_rank(static_cast<index_t>(tensor.dim()), Rank);
  if (!tensor.is_cuda()) throw argument_error("device_view: the tensor is not in CUDA memory");
  const auto named = detail::view_of<Rank>(static_cast<T*>(tensor.template data_ptr<std::remove_const_t<T>>()),
                                           tensor.sizes(), tensor.strides());
  return {named.data(), named.shape(), named.strides()};
}

}  // namespace headred
