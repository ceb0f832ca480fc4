// gate_columns: every column of a matrix times its gate, as the neurons of a feed-forward block.
#pragma once

#include <type_traits>

#include <headred/nn/op/checked_matrix.hpp>
#include <headred/nn/op/gate_relevance.hpp>
#include <headred/nn/op/row_loops.hpp>
#include <headred/nn/parameter.hpp>
#include <headred/nn/tape.hpp>

namespace headred {

namespace detail {

struct product_of_two {
  template <class Pack>
  HEADRED_INLINE Pack operator()(const Pack& a, const Pack& b) const {
    return a * b;
  }
};
struct plus_product_of_two {
  template <class Pack>
  HEADRED_INLINE Pack operator()(const Pack& sum, const Pack& a, const Pack& b) const {
    return sum + a * b;
  }
};

}  // namespace detail

/// y_rj = x_rj gate_j.
/// x, y : (R,D), y may be x; gates : (D). Throws shape_error.
template <class T, host_backend Backend>
void gate_columns_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2>> x,
                          std::type_identity_t<tensor_view<const T, 1>> gates, tensor_view<T, 2> y) {
  const index_t rows = x.extent(0), cols = x.extent(1);
  detail::require_matrix("gate_columns_forward", "x", x, rows, cols);
  detail::require_matrix("gate_columns_forward", "y", y, rows, cols);
  detail::require_vector("gate_columns_forward", "gates", gates, cols);
  detail::for_row_blocks(be, rows, cols, [&](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r)
      detail::map_row(cols, y.data() + r * y.stride(0), detail::product_of_two{}, x.data() + r * x.stride(0),
                      gates.data());
  });
}

/// dx_rj += dy_rj gate_j, dgate_j += sum_r dy_rj x_rj, rows in order; an empty view is not wanted. `fresh`: dx is
/// written instead. Shapes as in gate_columns_forward. Throws shape_error.
template <class T, host_backend Backend>
void gate_columns_gradient(Backend& be, std::type_identity_t<tensor_view<const T, 2>> x,
                           std::type_identity_t<tensor_view<const T, 1>> gates,
                           std::type_identity_t<tensor_view<const T, 2>> dy, std::type_identity_t<tensor_view<T, 2>> dx,
                           tensor_view<T, 1> dgates, bool fresh = false) {
  constexpr const char* op = "gate_columns_gradient";
  const index_t rows = x.extent(0), cols = x.extent(1);
  detail::require_matrix(op, "x", x, rows, cols);
  detail::require_matrix(op, "dy", dy, rows, cols);
  detail::require_vector(op, "gates", gates, cols);
  if (dx.data() != nullptr) {
    detail::require_matrix(op, "dx", dx, rows, cols);
    if (fresh)
      gate_columns_forward<T>(be, dy, gates, dx);
    else
      detail::for_row_blocks(be, rows, cols, [&](index_t begin, index_t end) {
        for (index_t r = begin; r < end; ++r) {
          T* const to = dx.data() + r * dx.stride(0);
          detail::map_row(cols, to, detail::plus_product_of_two{}, to, dy.data() + r * dy.stride(0), gates.data());
        }
      });
  }
  if (dgates.data() == nullptr) return;
  detail::require_vector(op, "dgates", dgates, cols);
  detail::for_column_strips(be, cols, [&](index_t begin, index_t end) {
    T sums[detail::column_strip] = {};
    const index_t n = end - begin;
    for (index_t r = 0; r < rows; ++r)
      detail::map_row(n, sums, detail::plus_product_of_two{}, sums, dy.data() + r * dy.stride(0) + begin,
                      x.data() + r * x.stride(0) + begin);
    for (index_t c = 0; c < n; ++c) dgates(begin + c) += sums[c];
  });
}

namespace detail {

template <class T, backend Backend>
struct gate_columns_node {
  static constexpr const char* name = "gate_columns";
  static constexpr bool relevance_by_sweep = true;
  slot x, y;
  parameter<T, 1, Backend>* gates;
  void gradient(tape<T, Backend>& t) const {
    if (!t.has_gradient(y)) return;
    bool fresh = false;
    const auto dx = t.gradient_to_write(x, fresh);
    gate_columns_gradient<T>(t.backend(), t.input(x), gates->value.view(), t.gradient(y), dx, gates->gradient.view(),
                             fresh);
  }
  void relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s) const {
    gate_node_relevance<T>(t, s, gates->value.view(), x, y);
  }
};

}  // namespace detail

/// Every column of an activation times its gate; gates : (D), which must outlive the recording; their gradient is
/// collected while they are trained.
template <class T, host_backend Backend>
slot gate_columns(tape<T, Backend>& t, slot x, parameter<T, 1, Backend>& gates) {
  const slot y = t.add_like(x, t.cols(x));
  gate_columns_forward<T>(t.backend(), t.input(x), gates.value.view(), t.value(y));
  t.record(detail::gate_columns_node<T, Backend>{x, y, &gates});
  return y;
}

}  // namespace headred
