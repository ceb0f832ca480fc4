// gelu on the device: x times the probability that a standard normal number is below x.
#pragma once

#include <cmath>
#include <type_traits>

#include <headred/core/gelu_form.hpp>
#include <headred/device/block_context.hpp>
#include <headred/device/entries.hpp>

namespace headred::device {

namespace detail {

// From 40 on both forms are x or 0 in double too: what is infinite beyond need not be computed.
struct gelu_by_erf {
  template <class T>
  HEADRED_FUNCTION static T cumulative(T x) {
    return T(.5) * std::erfc(x * T(-0.70710678118654752440));
  }
  template <class T>
  HEADRED_FUNCTION static T value(T x) {
    return (x < T(-40) ? T(-40) : x) * cumulative(x);
  }
  // Phi(x) + x phi(x)
  template <class T>
  HEADRED_FUNCTION static T slope(T unbounded, T dy) {
    const T x = within(unbounded, T(40));
    return dy * (cumulative(x) + x * (T(0.39894228040143267794) * std::exp(x * x * T(-.5))));
  }
};

// (1 + tanh u) / 2 = 1 / (1 + e^-2u): one exponential, and nothing cancels.
struct gelu_by_tanh {
  template <class T>
  HEADRED_FUNCTION static T value(T x) {
    const T z = x * (T(-1.5957691216057307117) + T(-0.071354816272600248) * (x * x));
    return (x < T(-40) ? T(-40) : x) / (T(1) + std::exp(z));
  }
  // s + x s (1 - s) (2u)', s = 1 / (1 + e^-2u)
  template <class T>
  HEADRED_FUNCTION static T slope(T unbounded, T dy) {
    const T x = within(unbounded, T(40)), square = x * x;
    const T z = x * (T(-1.5957691216057307117) + T(-0.071354816272600248) * square);
    const T e = std::exp(T(80) < z ? T(80) : z), s = T(1) / (T(1) + e);
    return dy * (s + x * s * (e * s) * (T(1.5957691216057307117) + T(3 * 0.071354816272600248) * square));
  }
};

}  // namespace detail

/// y = gelu(x), 0 for -infinity, NaN for NaN.
/// x, y : (R,D) on the device, y may be x. Throws shape_error. Source: Hendrycks and Gimpel 2016, section 2.
template <class T, device_backend Backend>
void gelu_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> x, gelu_form form,
                  tensor_view<T, 2, device_space> y) {
  if (form == gelu_form::erf) return detail::map_entries<detail::gelu_by_erf, T>("gelu_forward", be, x, y);
  detail::map_entries<detail::gelu_by_tanh, T>("gelu_forward", be, x, y);
}

/// dx += dy gelu'(x); an empty dx is not wanted. Shapes as in gelu_forward. Throws shape_error.
template <class T, device_backend Backend>
void gelu_gradient(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> x, gelu_form form,
                   std::type_identity_t<tensor_view<const T, 2, device_space>> dy, tensor_view<T, 2, device_space> dx) {
  if (form == gelu_form::erf) return detail::add_slopes<detail::gelu_by_erf, T>("gelu_gradient", be, x, dy, dx);
  detail::add_slopes<detail::gelu_by_tanh, T>("gelu_gradient", be, x, dy, dx);
}

}  // namespace headred::device
