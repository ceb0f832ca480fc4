// relu: what is negative becomes zero.
#pragma once

#include <type_traits>

#include <headred/nn/op/checked_matrix.hpp>
#include <headred/nn/op/row_loops.hpp>
#include <headred/nn/relevance_sweep.hpp>

namespace headred {

namespace detail {

struct relu_value {
  template <class Pack>
  HEADRED_INLINE Pack operator()(const Pack& x) const {
    return select_less(x, Pack{}, Pack{}, x);
  }
};
struct relu_slope {
  template <class Pack>
  HEADRED_INLINE Pack operator()(const Pack& dx, const Pack& x, const Pack& dy) const {
    return dx + select_less(Pack{}, x, dy, Pack{});
  }
};

}  // namespace detail

/// y = max(x, 0), NaN for NaN.
/// x, y : (R,D), y may be x. Throws shape_error.
template <class T, host_backend Backend>
void relu_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2>> x, tensor_view<T, 2> y) {
  detail::require_matrix("relu_forward", "x", x, x.extent(0), x.extent(1));
  detail::require_matrix("relu_forward", "y", y, x.extent(0), x.extent(1));
  detail::map_rows<T>(be, y, detail::relu_value{}, x);
}

/// dx += dy where x > 0 (y does as well as x); an empty dx is not wanted. Shapes as in relu_forward.
/// Throws shape_error.
template <class T, host_backend Backend>
void relu_gradient(Backend& be, std::type_identity_t<tensor_view<const T, 2>> x,
                   std::type_identity_t<tensor_view<const T, 2>> dy, tensor_view<T, 2> dx) {
  if (dx.data() == nullptr) return;
  detail::require_matrix("relu_gradient", "x", x, x.extent(0), x.extent(1));
  detail::require_matrix("relu_gradient", "dy", dy, x.extent(0), x.extent(1));
  detail::require_matrix("relu_gradient", "dx", dx, x.extent(0), x.extent(1));
  detail::map_rows<T>(be, dx, detail::relu_slope{}, tensor_view<const T, 2>(dx), x, dy);
}

namespace detail {

template <class T, backend Backend>
struct relu_node {
  static constexpr const char* name = "relu";
  static constexpr bool relevance_by_sweep = true;
  slot x, y;
  void gradient(tape<T, Backend>& t) const {
    if (t.has_gradient(y)) relu_gradient<T>(t.backend(), t.input(x), t.gradient(y), t.gradient(x));
  }
  void relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s) const {
    pass_relevance(t, s, relevance_op::activation, x, y);
  }
};

}  // namespace detail

/// relu of an activation.
template <class T, host_backend Backend>
slot relu(tape<T, Backend>& t, slot x) {
  const slot y = t.add_like(x, t.cols(x));
  relu_forward<T>(t.backend(), t.input(x), t.value(y));
  t.record(detail::relu_node<T, Backend>{x, y});
  return y;
}

}  // namespace headred
