// add on the device: the residual path.
#pragma once

#include <type_traits>

#include <headred/device/block_context.hpp>
#include <headred/device/entries.hpp>

namespace headred::device {
namespace detail {

template <class T>
struct sum_of_entries {
  tensor_view<const T, 2, device_space> a, b;
  tensor_view<T, 2, device_space> y;
  HEADRED_FUNCTION void operator()(index_t at) const {
    const auto [r, c] = matrix_place::of(at, y.extent(1));
    y(r, c) = a(r, c) + b(r, c);
  }
};

}  // namespace detail

/// y = a + b.
/// a, b, y : (R,D) on the device, y may be a or b. Throws shape_error.
template <class T, device_backend Backend>
void add_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> a,
                 std::type_identity_t<tensor_view<const T, 2, device_space>> b, tensor_view<T, 2, device_space> y) {
  detail::require_shape("add_forward", "b", b, a.shape());
  detail::require_shape("add_forward", "y", y, a.shape());
  be.for_each(y.size(), detail::sum_of_entries<T>{a, b, y});
}

/// da += dy, db += dy; an empty view is not wanted. Shapes as in add_forward. Throws shape_error.
template <class T, device_backend Backend>
void add_gradient(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> dy,
                  std::type_identity_t<tensor_view<T, 2, device_space>> da, tensor_view<T, 2, device_space> db) {
  const auto pass_on = [&](const char* name, const tensor_view<T, 2, device_space>& to) {
    if (to.data() == nullptr) return;
    detail::require_shape("add_gradient", name, to, dy.shape());
    be.for_each(to.size(), detail::sum_of_entries<T>{to, dy, to});
  };
  pass_on("da", da);
  pass_on("db", db);
}

}  // namespace headred::device
