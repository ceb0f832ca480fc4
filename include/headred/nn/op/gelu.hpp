// gelu: x times the probability that a standard normal number is below x.
#pragma once

#include <type_traits>

#include <headred/core/gelu_form.hpp>
#include <headred/nn/op/bounded.hpp>
#include <headred/nn/op/checked_matrix.hpp>
#include <headred/nn/op/row_loops.hpp>
#include <headred/nn/relevance_sweep.hpp>
#include <headred/numeric/exponential.hpp>

namespace headred {
namespace detail {

// From 40 on both forms are x or 0 in double too: what is infinite beyond need not be computed.
template <gelu_form Form>
struct gelu_value;
template <gelu_form Form>
struct gelu_slope;

template <>
struct gelu_value<gelu_form::erf> {
  template <class Pack>
  HEADRED_INLINE Pack operator()(const Pack& x) const {
    using T = lane_type<Pack>;
    return at_least(x, T(-40)) * (T(.5) * one_plus_erf_of<lanes_of<Pack>>(x * T(0.70710678118654752440)));
  }
};

template <>
struct gelu_slope<gelu_form::erf> {
  // Phi(x) + x phi(x)
  template <class Pack>
  HEADRED_INLINE Pack operator()(const Pack& dx, const Pack& unbounded, const Pack& dy) const {
    using T = lane_type<Pack>;
    const Pack x = within(unbounded, T(40));
    const Pack cumulative = T(.5) * one_plus_erf_of<lanes_of<Pack>>(x * T(0.70710678118654752440));
    const Pack density = T(0.39894228040143267794) * exp_of<lanes_of<Pack>>(x * x * T(-.5));
    return dx + dy * (cumulative + x * density);
  }
};

// (1 + tanh u) / 2 = 1 / (1 + e^-2u): one exponential, and nothing cancels.
template <>
struct gelu_value<gelu_form::tanh> {
  template <class Pack>
  HEADRED_INLINE Pack operator()(const Pack& x) const {
    using T = lane_type<Pack>;
    const Pack z = x * (T(-1.5957691216057307117) + T(-0.071354816272600248) * (x * x));
    return at_least(x, T(-40)) / (T(1) + exp_of<lanes_of<Pack>>(z));
  }
};

template <>
struct gelu_slope<gelu_form::tanh> {
  // s + x s (1 - s) (2u)', s = 1 / (1 + e^-2u)
  template <class Pack>
  HEADRED_INLINE Pack operator()(const Pack& dx, const Pack& unbounded, const Pack& dy) const {
    using T = lane_type<Pack>;
    const Pack x = within(unbounded, T(40));
    const Pack square = x * x;
    const Pack z = x * (T(-1.5957691216057307117) + T(-0.071354816272600248) * square);
    const Pack limit = broadcast<Pack>(T(80));
    const Pack e = exp_of<lanes_of<Pack>>(select_less(limit, z, limit, z));
    const Pack s = T(1) / (T(1) + e);
    const Pack slope = T(1.5957691216057307117) + T(3 * 0.071354816272600248) * square;
    return dx + dy * (s + x * s * (e * s) * slope);
  }
};

}  // namespace detail

/// y = gelu(x), 0 for -infinity, NaN for NaN.
/// x, y : (R,D), y may be x. Throws shape_error. Source: Hendrycks and Gimpel 2016, section 2.
template <class T, host_backend Backend>
void gelu_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2>> x, gelu_form form, tensor_view<T, 2> y) {
  detail::require_matrix("gelu_forward", "x", x, x.extent(0), x.extent(1));
  detail::require_matrix("gelu_forward", "y", y, x.extent(0), x.extent(1));
  if (form == gelu_form::erf) return detail::map_rows<T>(be, y, detail::gelu_value<gelu_form::erf>{}, x);
  detail::map_rows<T>(be, y, detail::gelu_value<gelu_form::tanh>{}, x);
}

/// dx += dy gelu'(x); an empty dx is not wanted. Shapes as in gelu_forward. Throws shape_error.
template <class T, host_backend Backend>
void gelu_gradient(Backend& be, std::type_identity_t<tensor_view<const T, 2>> x, gelu_form form,
                   std::type_identity_t<tensor_view<const T, 2>> dy, tensor_view<T, 2> dx) {
  if (dx.data() == nullptr) return;
  detail::require_matrix("gelu_gradient", "x", x, x.extent(0), x.extent(1));
  detail::require_matrix("gelu_gradient", "dy", dy, x.extent(0), x.extent(1));
  detail::require_matrix("gelu_gradient", "dx", dx, x.extent(0), x.extent(1));
  const tensor_view<const T, 2> before = dx;
  if (form == gelu_form::erf) return detail::map_rows<T>(be, dx, detail::gelu_slope<gelu_form::erf>{}, before, x, dy);
  detail::map_rows<T>(be, dx, detail::gelu_slope<gelu_form::tanh>{}, before, x, dy);
}

namespace detail {

template <class T, backend Backend>
struct gelu_node {
  static constexpr const char* name = "gelu";
  static constexpr bool relevance_by_sweep = true;
  slot x, y;
  gelu_form form;
  void gradient(tape<T, Backend>& t) const {
    if (t.has_gradient(y)) gelu_gradient<T>(t.backend(), t.input(x), form, t.gradient(y), t.gradient(x));
  }
  void relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s) const {
    pass_relevance(t, s, relevance_op::activation, x, y);
  }
};

}  // namespace detail

/// gelu of an activation.
template <class T, host_backend Backend>
slot gelu(tape<T, Backend>& t, slot x, gelu_form form) {
  const slot y = t.add_like(x, t.cols(x));
  gelu_forward<T>(t.backend(), t.input(x), form, t.value(y));
  t.record(detail::gelu_node<T, Backend>{x, y, form});
  return y;
}

}  // namespace headred
