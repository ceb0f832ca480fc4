// silu: x times its logistic function.
#pragma once

#include <type_traits>

#include <headred/nn/op/bounded.hpp>
#include <headred/nn/op/checked_matrix.hpp>
#include <headred/nn/op/row_loops.hpp>
#include <headred/nn/relevance_sweep.hpp>
#include <headred/numeric/exponential.hpp>

namespace headred {
namespace detail {

struct silu_value {
  template <class Pack>
  HEADRED_INLINE Pack operator()(const Pack& x) const {
    using T = lane_type<Pack>;
    return at_least(x, T(-700)) / (T(1) + exp_of<lanes_of<Pack>>(T(-1) * x));
  }
};

struct silu_slope {
  // s + x s (1 - s), s = 1 / (1 + e^-x)
  template <class Pack>
  HEADRED_INLINE Pack operator()(const Pack& dx, const Pack& unbounded, const Pack& dy) const {
    using T = lane_type<Pack>;
    const Pack x = within(unbounded, sizeof(T) == 4 ? T(80) : T(700));  // where e^-x is finite
    const Pack e = exp_of<lanes_of<Pack>>(T(-1) * x);
    const Pack s = T(1) / (T(1) + e);
    return dx + dy * (s + x * s * (e * s));
  }
};

}  // namespace detail

/// y = x / (1 + e^-x), also called swish; 0 for -infinity, NaN for NaN.
/// x, y : (R,D), y may be x. Throws shape_error. Source: Hendrycks and Gimpel 2016; Ramachandran et al. 2017.
template <class T, host_backend Backend>
void silu_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2>> x, tensor_view<T, 2> y) {
  detail::require_matrix("silu_forward", "x", x, x.extent(0), x.extent(1));
  detail::require_matrix("silu_forward", "y", y, x.extent(0), x.extent(1));
  detail::map_rows<T>(be, y, detail::silu_value{}, x);
}

/// dx += dy silu'(x); an empty dx is not wanted. Shapes as in silu_forward. Throws shape_error.
template <class T, host_backend Backend>
void silu_gradient(Backend& be, std::type_identity_t<tensor_view<const T, 2>> x,
                   std::type_identity_t<tensor_view<const T, 2>> dy, tensor_view<T, 2> dx) {
  if (dx.data() == nullptr) return;
  detail::require_matrix("silu_gradient", "x", x, x.extent(0), x.extent(1));
  detail::require_matrix("silu_gradient", "dy", dy, x.extent(0), x.extent(1));
  detail::require_matrix("silu_gradient", "dx", dx, x.extent(0), x.extent(1));
  const tensor_view<const T, 2> before = dx;
  detail::map_rows<T>(be, dx, detail::silu_slope{}, before, x, dy);
}

namespace detail {

template <class T, backend Backend>
struct silu_node {
  static constexpr const char* name = "silu";
  static constexpr bool relevance_by_sweep = true;
  slot x, y;
  void gradient(tape<T, Backend>& t) const {
    if (t.has_gradient(y)) silu_gradient<T>(t.backend(), t.input(x), t.gradient(y), t.gradient(x));
  }
  void relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s) const {
    pass_relevance(t, s, relevance_op::activation, x, y);
  }
};

}  // namespace detail

/// silu of an activation.
template <class T, host_backend Backend>
slot silu(tape<T, Backend>& t, slot x) {
  const slot y = t.add_like(x, t.cols(x));
  silu_forward<T>(t.backend(), t.input(x), t.value(y));
  t.record(detail::silu_node<T, Backend>{x, y});
  return y;
}

}  // namespace headred
