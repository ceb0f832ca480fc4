// linear: y = x W^T + b.
#pragma once

#include <headred/backend/row_sums.hpp>
#include <headred/nn/op/checked_matrix.hpp>
#include <headred/nn/op/linear_relevance.hpp>
#include <headred/nn/parameter.hpp>
#include <headred/nn/tape.hpp>

namespace headred {

namespace detail {

template <class T, class Space>
tensor_view<T, 3, Space> as_batch(const tensor_view<T, 2, Space>& m) {
  return {m.data(), {1, m.extent(0), m.extent(1)}, {0, m.stride(0), m.stride(1)}};
}

}  // namespace detail

/// y = x W^T + b.
/// x : (R,I), weight : (O,I), bias : (O) or empty (no bias) -> y : (R,O), overwritten.
/// Throws shape_error, with both shapes. Cost: 2 R I O operations.
template <class T, backend Backend, class Space = typename Backend::space>
void linear_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2, Space>> x,
                    std::type_identity_t<tensor_view<const T, 2, Space>> weight,
                    std::type_identity_t<tensor_view<const T, 1, Space>> bias, tensor_view<T, 2, Space> y) {
  const index_t rows = x.extent(0), in = x.extent(1), out = weight.extent(0);
  detail::require_matrix("linear_forward", "x", x, rows, in);
  detail::require_matrix("linear_forward", "weight", weight, out, in);
  detail::require_matrix("linear_forward", "y", y, rows, out);
  if (bias.data() != nullptr) detail::require_vector("linear_forward", "bias", bias, out);
  gemm_plus_row<T>(be, x, weight.transposed(), bias, y);
}

/// dx += dy W, dweight += dy^T x, dbias += the sum of dy over rows; an empty view is not wanted.
/// Shapes as in linear_forward. Throws shape_error. Cost: 4 R I O operations.
template <class T, backend Backend, class Space = typename Backend::space>
void linear_gradient(Backend& be, std::type_identity_t<tensor_view<const T, 2, Space>> x,
                     std::type_identity_t<tensor_view<const T, 2, Space>> weight,
                     std::type_identity_t<tensor_view<const T, 2, Space>> dy, tensor_view<T, 2, Space> dx,
                     tensor_view<T, 2, Space> dweight, tensor_view<T, 1, Space> dbias) {
  const index_t rows = x.extent(0), in = x.extent(1), out = weight.extent(0);
  detail::require_matrix("linear_gradient", "weight", weight, out, in);
  detail::require_matrix("linear_gradient", "dy", dy, rows, out);
  using const_matrix = tensor_view<const T, 2, Space>;
  if (dx.data() != nullptr) {
    detail::require_matrix("linear_gradient", "dx", dx, rows, in);
    be.gemm(T(1), detail::as_batch(dy), detail::as_batch(weight), T(1), detail::as_batch(dx));
  }
  if (dweight.data() != nullptr) {
    detail::require_matrix("linear_gradient", "dweight", dweight, out, in);
    be.gemm(T(1), detail::as_batch(const_matrix(dy.transposed())), detail::as_batch(x), T(1),
            detail::as_batch(dweight));
  }
  if (dbias.data() != nullptr) {
    detail::require_vector("linear_gradient", "dbias", dbias, out);
    add_row_sums<T>(be, dy, dbias);
  }
}

namespace detail {

template <class T, backend Backend>
struct linear_node {
  static constexpr const char* name = "linear";
  static constexpr bool relevance_by_sweep = true;
  slot x, y;
  parameter<T, 2, Backend>* weight;
  parameter<T, 1, Backend>* bias;
  void gradient(tape<T, Backend>& t) const {
    if (!t.has_gradient(y)) return;
    tensor_view<T, 1, typename Backend::space> dbias;
    if (bias != nullptr) dbias = bias->gradient.view();
    const tensor_view<const T, 2, typename Backend::space> w = std::as_const(weight->value).view(), dy = t.gradient(y);
    bool fresh = false;
    tensor_view<T, 2, typename Backend::space> dx = t.gradient_to_write(x, fresh);
    if (fresh && dx.data() != nullptr) {  // the first to reach dx writes it: nothing has to be zeroed and read
      t.backend().gemm(T(1), as_batch(dy), as_batch(w), T(0), as_batch(dx));
      dx = {};
    }
    linear_gradient<T>(t.backend(), t.input(x), w, dy, dx, weight->gradient.view(), dbias);
  }
  void relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s) const {
    linear_node_relevance(t, s, x, y, *weight, bias);
  }
};

}  // namespace detail

/// x W^T + b of an activation; weight : (O,I) and bias : (O) or nullptr, which must outlive the recording.
template <class T, backend Backend>
slot linear(tape<T, Backend>& t, slot x, parameter<T, 2, Backend>& weight,
            std::type_identity_t<parameter<T, 1, Backend>*> bias) {
  const slot y = t.add_like(x, weight.value.extent(0));
  tensor_view<const T, 1, typename Backend::space> b;
  if (bias != nullptr) b = std::as_const(bias->value).view();
  linear_forward<T>(t.backend(), t.input(x), std::as_const(weight.value).view(), b, t.value(y));
  t.record(detail::linear_node<T, Backend>{x, y, &weight, bias});
  return y;
}

}  // namespace headred
