// silu on the device: x times its logistic function.
#pragma once

#include <cmath>
#include <type_traits>

#include <headred/device/block_context.hpp>
#include <headred/device/entries.hpp>

namespace headred::device {
namespace detail {

struct silu {
  template <class T>
  HEADRED_FUNCTION static T value(T x) {
    return (x < T(-700) ? T(-700) : x) / (T(1) + std::exp(-x));
  }
  // s + x s (1 - s), s = 1 / (1 + e^-x)
  template <class T>
  HEADRED_FUNCTION static T slope(T unbounded, T dy) {
    const T x = within(unbounded, sizeof(T) == 4 ? T(80) : T(700));  // where e^-x is finite
    const T e = std::exp(-x), s = T(1) / (T(1) + e);
    return dy * (s + x * s * (e * s));
  }
};

}  // namespace detail

/// y = x / (1 + e^-x), also called swish; 0 for -infinity, NaN for NaN.
/// x, y : (R,D) on the device, y may be x. Throws shape_error. Source: Hendrycks and Gimpel 2016; Ramachandran et al.
/// 2017.
template <class T, device_backend Backend>
void silu_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> x,
                  tensor_view<T, 2, device_space> y) {
  detail::map_entries<detail::silu, T>("silu_forward", be, x, y);
}

/// dx += dy silu'(x); an empty dx is not wanted. Shapes as in silu_forward. Throws shape_error.
template <class T, device_backend Backend>
void silu_gradient(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> x,
                   std::type_identity_t<tensor_view<const T, 2, device_space>> dy, tensor_view<T, 2, device_space> dx) {
  detail::add_slopes<detail::silu, T>("silu_gradient", be, x, dy, dx);
}

}  // namespace headred::device
