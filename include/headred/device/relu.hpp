// relu on the device: what is negative becomes zero.
#pragma once

#include <type_traits>

#include <headred/device/block_context.hpp>
#include <headred/device/entries.hpp>

namespace headred::device {
namespace detail {

struct relu {
  template <class T>
  HEADRED_FUNCTION static T value(T x) {
    return x < T(0) ? T(0) : x;
  }
  template <class T>
  HEADRED_FUNCTION static T slope(T x, T dy) {
    return T(0) < x ? dy : T(0);
  }
};

}  // namespace detail

/// y = max(x, 0), NaN for NaN.
/// x, y : (R,D) on the device, y may be x. Throws shape_error.
template <class T, device_backend Backend>
void relu_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> x,
                  tensor_view<T, 2, device_space> y) {
  detail::map_entries<detail::relu, T>("relu_forward", be, x, y);
}

/// dx += dy where x > 0 (y does as well as x); an empty dx is not wanted. Shapes as in relu_forward.
/// Throws shape_error.
template <class T, device_backend Backend>
void relu_gradient(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> x,
                   std::type_identity_t<tensor_view<const T, 2, device_space>> dy, tensor_view<T, 2, device_space> dx) {
  detail::add_slopes<detail::relu, T>("relu_gradient", be, x, dy, dx);
}

}  // namespace headred::device
