// Layer norm on the device.
#pragma once

#include <string>

#include <headred/core/number_text.hpp>
#include <headred/device/softmax.hpp>

namespace headred::device {
namespace detail {

template <class T>
struct layer_norm_kernel : row_kernel<T> {
  tensor_view<const T, 2, device_space> x;
  tensor_view<const T, 1, device_space> scale, shift;
  T epsilon;
  tensor_view<T, 2, device_space> y;
  tensor_view<T, 1, device_space> mean, inverse_deviation;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, typename row_kernel<T>::template shared<Block>& memory) const {
    const index_t row = block.block(), cols = x.extent(1);
    const T count = static_cast<T>(cols), origin = x(row, 0);
    const auto average = [&](const auto& f) {
      return this->fold(block, memory, cols, T(0), f, headred::detail::add{}) / count;
    };
    // the mean in two parts: a row far from 0 keeps the digits of its deviations
    const T first = origin + average([&](index_t k) { return x(row, k) - origin; });
    const T rest = average([&](index_t k) { return x(row, k) - first; });
    const T square = average([&](index_t k) {
      const T d = (x(row, k) - first) - rest;
      return d * d;
    });
    const T spread = square + epsilon;
    const T inverse = spread == T(0) ? T(0) : T(1) / std::sqrt(spread);
    for (index_t k = block.thread(); k < cols; k += this->threads)
      y(row, k) = ((x(row, k) - first) - rest) * inverse * scale(k) + shift(k);
    if (block.thread() != 0) return;
    if (mean.data() != nullptr) mean(row) = first + rest;
    if (inverse_deviation.data() != nullptr) inverse_deviation(row) = inverse;
  }
};

template <class T>
struct layer_norm_gradient_kernel : row_kernel<T> {
  tensor_view<const T, 2, device_space> x;
  tensor_view<const T, 1, device_space> scale, mean, inverse_deviation;
  tensor_view<const T, 2, device_space> dy;
  tensor_view<T, 2, device_space> dx;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, typename row_kernel<T>::template shared<Block>& memory) const {
    const index_t row = block.block(), cols = x.extent(1);
    const T count = static_cast<T>(cols), m = mean(row), inverse = inverse_deviation(row);
    const auto average = [&](const auto& f) {
      return this->fold(block, memory, cols, T(0), f, headred::detail::add{}) / count;
    };
    const T even = average([&](index_t k) { return dy(row, k) * scale(k); });
    const T slope = average([&](index_t k) { return dy(row, k) * scale(k) * (x(row, k) - m); }) * inverse * inverse;
    for (index_t k = block.thread(); k < cols; k += this->threads)
      dx(row, k) += inverse * (dy(row, k) * scale(k) - even - (x(row, k) - m) * slope);
  }
};

/// Sums of a column, rows in groups of 32 so that long batches lose no digits; one order, whatever runs at once.
template <class T>
struct layer_norm_column {
  tensor_view<const T, 2, device_space> x, dy;
  tensor_view<const T, 1, device_space> mean, inverse_deviation;
  tensor_view<T, 1, device_space> dscale, dshift;
  HEADRED_FUNCTION void operator()(index_t c) const {
    T scale = T(0), shift = T(0);
    for (index_t begin = 0; begin < x.extent(0); begin += 32) {
      T some_scale = T(0), some_shift = T(0);
      for (index_t r = begin; r < begin + 32 && r < x.extent(0); ++r) {
        some_scale += dy(r, c) * (x(r, c) - mean(r)) * inverse_deviation(r);
        some_shift += dy(r, c);
      }
      scale += some_scale;
      shift += some_shift;
    }
    if (dscale.data() != nullptr) dscale(c) += scale;
    if (dshift.data() != nullptr) dshift(c) += shift;
  }
};

}  // namespace detail

/// y = (x - mean) / sqrt(variance + epsilon) scale + shift, row by row, variance the mean square.
/// x, y : (R,D), y may be x; scale, shift : (D); mean, inverse_deviation : (R), or empty where nobody wants them. A
/// constant row with epsilon = 0 has inverse deviation 0. Throws shape_error; argument_error for an epsilon below 0.
template <class T, device_backend Backend>
void layer_norm_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> x,
                        std::type_identity_t<tensor_view<const T, 1, device_space>> scale,
                        std::type_identity_t<tensor_view<const T, 1, device_space>> shift,
                        std::type_identity_t<T> epsilon, tensor_view<T, 2, device_space> y,
                        std::type_identity_t<tensor_view<T, 1, device_space>> mean = {},
                        std::type_identity_t<tensor_view<T, 1, device_space>> inverse_deviation = {}) {
  const char* const op = "layer_norm_forward";
  detail::require_shape(op, "scale", scale, {x.extent(1)});
  detail::require_shape(op, "shift", shift, {x.extent(1)});
  detail::require_shape(op, "y", y, x.shape());
  if (mean.data() != nullptr) detail::require_shape(op, "mean", mean, {x.extent(0)});
  if (inverse_deviation.data() != nullptr)
    detail::require_shape(op, "inverse_deviation", inverse_deviation, {x.extent(0)});
  if (!(epsilon >= T(0)))
    throw argument_error(std::string(op) + ": epsilon is " + number_text(static_cast<double>(epsilon)) +
                         ", expected a number >= 0");
  if (!x.empty())
    be.launch(x.extent(0), detail::layer_norm_kernel<T>{{}, x, scale, shift, epsilon, y, mean, inverse_deviation});
}

/// dx, dscale and dshift += what dy, the gradient of y, gives them; an empty view is not wanted. mean and
/// inverse_deviation as layer_norm_forward left them. Throws shape_error.
template <class T, device_backend Backend>
void layer_norm_gradient(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> x,
                         std::type_identity_t<tensor_view<const T, 1, device_space>> scale,
                         std::type_identity_t<tensor_view<const T, 1, device_space>> mean,
                         std::type_identity_t<tensor_view<const T, 1, device_space>> inverse_deviation,
                         std::type_identity_t<tensor_view<const T, 2, device_space>> dy,
                         tensor_view<T, 2, device_space> dx,
                         std::type_identity_t<tensor_view<T, 1, device_space>> dscale,
                         std::type_identity_t<tensor_view<T, 1, device_space>> dshift) {
  const char* const op = "layer_norm_gradient";
  detail::require_shape(op, "scale", scale, {x.extent(1)});
  detail::require_shape(op, "mean", mean, {x.extent(0)});
  detail::require_shape(op, "inverse_deviation", inverse_deviation, {x.extent(0)});
  detail::require_shape(op, "dy", dy, x.shape());
  if (dx.data() != nullptr) detail::require_shape(op, "dx", dx, x.shape());
  if (dscale.data() != nullptr) detail::require_shape(op, "dscale", dscale, {x.extent(1)});
  if (dshift.data() != nullptr) detail::require_shape(op, "dshift", dshift, {x.extent(1)});
  if (x.empty()) return;
  if (dx.data() != nullptr)
    be.launch(x.extent(0), detail::layer_norm_gradient_kernel<T>{{}, x, scale, mean, inverse_deviation, dy, dx});
  if (dscale.data() != nullptr || dshift.data() != nullptr)
    be.for_each(x.extent(1), detail::layer_norm_column<T>{x, dy, mean, inverse_deviation, dscale, dshift});
}

}  // namespace headred::device
