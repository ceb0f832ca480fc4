// add: the residual path.
#pragma once

#include <type_traits>

#include <headred/nn/op/add_relevance.hpp>
#include <headred/nn/op/checked_matrix.hpp>
#include <headred/nn/op/row_loops.hpp>
#include <headred/nn/tape.hpp>

namespace headred {

namespace detail {

struct sum_of_two {
  template <class Pack>
  HEADRED_INLINE Pack operator()(const Pack& a, const Pack& b) const {
    return a + b;
  }
};

}  // namespace detail

/// y = a + b.
/// a, b, y : (R,D), y may be a or b. Throws shape_error.
template <class T, host_backend Backend>
void add_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2>> a,
                 std::type_identity_t<tensor_view<const T, 2>> b, tensor_view<T, 2> y) {
  detail::require_matrix("add_forward", "a", a, a.extent(0), a.extent(1));
  detail::require_matrix("add_forward", "b", b, a.extent(0), a.extent(1));
  detail::require_matrix("add_forward", "y", y, a.extent(0), a.extent(1));
  detail::map_rows<T>(be, y, detail::sum_of_two{}, a, b);
}

/// da += dy, db += dy; an empty view is not wanted. Shapes as in add_forward. Throws shape_error.
template <class T, host_backend Backend>
void add_gradient(Backend& be, std::type_identity_t<tensor_view<const T, 2>> dy,
                  std::type_identity_t<tensor_view<T, 2>> da, tensor_view<T, 2> db) {
  detail::require_matrix("add_gradient", "dy", dy, dy.extent(0), dy.extent(1));
  const auto pass_on = [&](const char* name, const tensor_view<T, 2>& to) {
    if (to.data() == nullptr) return;
    detail::require_matrix("add_gradient", name, to, dy.extent(0), dy.extent(1));
    detail::map_rows<T>(be, to, detail::sum_of_two{}, tensor_view<const T, 2>(to), dy);
  };
  pass_on("da", da);
  pass_on("db", db);
}

namespace detail {

template <class T, backend Backend>
struct add_node {
  static constexpr const char* name = "add";
  static constexpr bool relevance_by_sweep = true;
  slot a, b, y;
  void gradient(tape<T, Backend>& t) const {
    if (t.has_gradient(y)) add_gradient<T>(t.backend(), t.gradient(y), t.gradient(a), t.gradient(b));
  }
  void relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s) const { add_node_relevance(t, s, a, b, y); }
};

}  // namespace detail

/// The sum of two activations.
template <class T, host_backend Backend>
slot add(tape<T, Backend>& t, slot a, slot b) {
  const slot y = t.add_like(a, t.cols(a));
  add_forward<T>(t.backend(), t.input(a), t.input(b), t.value(y));
  t.record(detail::add_node<T, Backend>{a, b, y});
  return y;
}

}  // namespace headred
