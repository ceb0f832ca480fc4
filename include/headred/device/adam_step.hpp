// One step of Adam on the device.
#pragma once

#include <cmath>

#include <headred/device/block_context.hpp>
#include <headred/device/require_shape.hpp>

namespace headred::device {

/// What one step of Adam or AdamW multiplies with, each computed in double, then rounded.
template <class T>
struct adam_factors {
  T scale;   ///< of the gradient
  T decay;   ///< coupled: added times the weight
  T shrink;  ///< decoupled: 1 - rate decay
  T rest1;   ///< 1 - beta1
  T beta2;
  T rest2;  ///< 1 - beta2
  T root;   ///< 1 / sqrt(1 - beta2^t)
  T epsilon;
  T step;  ///< rate / (1 - beta1^t)
};

namespace detail {

template <class T>
struct adam_entry {
  adam_factors<T> f;
  tensor_view<T, 1, device_space> weights, gradient, first, second;
  bool clear;
  HEADRED_FUNCTION void operator()(index_t i) const {
    const T w = weights(i) * f.shrink, g = gradient(i) * f.scale + w * f.decay;
    const T m = first(i) + (g - first(i)) * f.rest1, v = second(i) * f.beta2 + (g * g) * f.rest2;
    first(i) = m;
    second(i) = v;
    weights(i) = w - (m * f.step) / (std::sqrt(v) * f.root + f.epsilon);
    if (clear) gradient(i) = T(0);
  }
};

}  // namespace detail

/// m += (1 - beta1) (g - m), v = beta2 v + (1 - beta2) g^2, w -= step m / (sqrt(v) root + epsilon), g = scale gradient
/// + decay w, on entries that lie anywhere on the device: the step of nn/adam.hpp. The gradient is set to zero if
/// `clear`. weights, gradient, first, second : (N). Throws shape_error. Source: Kingma & Ba 2015; Loshchilov & Hutter
/// 2019.
template <class T, device_backend Backend>
void adam_step(Backend& be, const adam_factors<T>& factors, tensor_view<T, 1, device_space> weights,
               tensor_view<T, 1, device_space> gradient, tensor_view<T, 1, device_space> first,
               tensor_view<T, 1, device_space> second, bool clear = false) {
  detail::require_shape("adam_step", "gradient", gradient, weights.shape());
  detail::require_shape("adam_step", "first", first, weights.shape());
  detail::require_shape("adam_step", "second", second, weights.shape());
  be.for_each(weights.size(), detail::adam_entry<T>{factors, weights, gradient, first, second, clear});
}

}  // namespace headred::device
