// linear on the device: y = x W^T + b.
#pragma once

#include <type_traits>

#include <headred/device/column_sums.hpp>
#include <headred/device/entries.hpp>

namespace headred::device {
namespace detail {

template <class T>
struct bias_entry {
  tensor_view<const T, 1, device_space> bias;
  tensor_view<T, 2, device_space> y;
  HEADRED_FUNCTION void operator()(index_t at) const {
    const auto [r, c] = matrix_place::of(at, y.extent(1));
    y(r, c) = bias(c);
  }
};

template <class T>
tensor_view<T, 3, device_space> as_batch(const tensor_view<T, 2, device_space>& m) {
  return {m.data(), {1, m.extent(0), m.extent(1)}, {0, m.stride(0), m.stride(1)}};
}

/// c = a b + beta c.
template <class T, class Backend>
void multiply(Backend& be, const tensor_view<const T, 2, device_space>& a,
              const tensor_view<const T, 2, device_space>& b, T beta, const tensor_view<T, 2, device_space>& c) {
  be.gemm(T(1), as_batch(a), as_batch(b), beta, as_batch(c));
}

}  // namespace detail

/// y = x W^T + b.
/// x : (R,I), weight : (O,I), bias : (O) or empty (no bias) -> y : (R,O), all on the device. Throws shape_error.
/// Cost: 2 R I O operations, by the backend's product.
template <class T, device_backend Backend>
void linear_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> x,
                    std::type_identity_t<tensor_view<const T, 2, device_space>> weight,
                    std::type_identity_t<tensor_view<const T, 1, device_space>> bias,
                    tensor_view<T, 2, device_space> y) {
  const char* const op = "linear_forward";
  const bool add = bias.data() != nullptr;
  detail::require_shape(op, "weight", weight, {weight.extent(0), x.extent(1)});
  detail::require_shape(op, "y", y, {x.extent(0), weight.extent(0)});
  if (add) detail::require_shape(op, "bias", bias, {weight.extent(0)});
  if (add) be.for_each(y.size(), detail::bias_entry<T>{bias, y});
  detail::multiply<T>(be, x, weight.transposed(), add ? T(1) : T(0), y);
}

/// dx += dy W, dweight += dy^T x, dbias += the sum of dy over rows; an empty view is not wanted.
/// Shapes as in linear_forward. Throws shape_error. Cost: 4 R I O operations; add_column_sums has the rest.
template <class T, device_backend Backend>
void linear_gradient(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> x,
                     std::type_identity_t<tensor_view<const T, 2, device_space>> weight,
                     std::type_identity_t<tensor_view<const T, 2, device_space>> dy, tensor_view<T, 2, device_space> dx,
                     std::type_identity_t<tensor_view<T, 2, device_space>> dweight,
                     std::type_identity_t<tensor_view<T, 1, device_space>> dbias) {
  const char* const op = "linear_gradient";
  detail::require_shape(op, "weight", weight, {weight.extent(0), x.extent(1)});
  detail::require_shape(op, "dy", dy, {x.extent(0), weight.extent(0)});
  if (dx.data() != nullptr) detail::require_shape(op, "dx", dx, x.shape());
  if (dweight.data() != nullptr) detail::require_shape(op, "dweight", dweight, weight.shape());
  if (dbias.data() != nullptr) detail::require_shape(op, "dbias", dbias, {weight.extent(0)});
  if (dx.data() != nullptr) detail::multiply<T>(be, dy, weight, T(1), dx);
  if (dweight.data() != nullptr) detail::multiply<T>(be, dy.transposed(), x, T(1), dweight);
  if (dbias.data() != nullptr) add_column_sums<T>(be, dy, dbias);
}

}  // namespace headred::device
