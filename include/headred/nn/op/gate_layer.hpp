// gate_layer: a layer's output faded into its input, by one gate.
#pragma once

#include <string>
#include <type_traits>

#include <headred/nn/op/checked_matrix.hpp>
#include <headred/nn/op/gate_relevance.hpp>
#include <headred/nn/op/row_loops.hpp>
#include <headred/nn/parameter.hpp>
#include <headred/nn/tape.hpp>

namespace headred {

namespace detail {

template <class T>
struct fade {
  T from, to;
  template <class Pack>
  HEADRED_INLINE Pack operator()(const Pack& a, const Pack& b) const {
    return a * broadcast<Pack>(from) + b * broadcast<Pack>(to);
  }
};
template <class T>
struct plus_scaled {
  T by;
  template <class Pack>
  HEADRED_INLINE Pack operator()(const Pack& sum, const Pack& a) const {
    return sum + a * broadcast<Pack>(by);
  }
};

}  // namespace detail

/// y = (1 - gate) x + gate f; exactly x for a gate of 0, exactly f for one of 1.
/// x, f, y : (R,D), y may be either. Throws shape_error.
template <class T, host_backend Backend>
void gate_layer_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2>> x,
                        std::type_identity_t<tensor_view<const T, 2>> f, std::type_identity_t<T> gate,
                        tensor_view<T, 2> y) {
  detail::require_matrix("gate_layer_forward", "x", x, x.extent(0), x.extent(1));
  detail::require_matrix("gate_layer_forward", "f", f, x.extent(0), x.extent(1));
  detail::require_matrix("gate_layer_forward", "y", y, x.extent(0), x.extent(1));
  if (gate == T(0) || gate == T(1))
    detail::map_rows<T>(
        be, y, [](const auto& from) { return from; }, gate == T(0) ? x : f);
  else
    detail::map_rows<T>(be, y, detail::fade<T>{T(1) - gate, gate}, x, f);
}

/// dx += (1 - gate) dy, df += gate dy; an empty view is not wanted. Returns dLoss/dgate = sum dy (f - x), rows in
/// order. Shapes as in gate_layer_forward; `df` may be empty for a gate of 0. Throws shape_error.
template <class T, host_backend Backend>
double gate_layer_gradient(Backend& be, std::type_identity_t<tensor_view<const T, 2>> x,
                           std::type_identity_t<tensor_view<const T, 2>> f, std::type_identity_t<T> gate,
                           std::type_identity_t<tensor_view<const T, 2>> dy, std::type_identity_t<tensor_view<T, 2>> dx,
                           tensor_view<T, 2> df) {
  constexpr const char* op = "gate_layer_gradient";
  const index_t rows = x.extent(0), cols = x.extent(1);
  detail::require_matrix(op, "x", x, rows, cols);
  detail::require_matrix(op, "f", f, rows, cols);
  detail::require_matrix(op, "dy", dy, rows, cols);
  if (dx.data() != nullptr) {
    detail::require_matrix(op, "dx", dx, rows, cols);
    detail::map_rows<T>(be, dx, detail::plus_scaled<T>{T(1) - gate}, tensor_view<const T, 2>(dx), dy);
  }
  if (df.data() != nullptr) {
    detail::require_matrix(op, "df", df, rows, cols);
    detail::map_rows<T>(be, df, detail::plus_scaled<T>{gate}, tensor_view<const T, 2>(df), dy);
  }
  // 64 parts of fixed rows: the sum does not know the number of threads, and needs no memory
  constexpr index_t parts = 64;
  double sums[parts] = {};
  task_runner<Backend>(be).run(parts, [&](index_t part, int) {
    for (index_t r = rows * part / parts; r < rows * (part + 1) / parts; ++r) {
      const T *const xr = x.data() + r * x.stride(0), *const fr = f.data() + r * f.stride(0),
                     *const dr = dy.data() + r * dy.stride(0);
      T lanes[16] = {};
      index_t c = 0;
      for (; c + 16 <= cols; c += 16)
        for (index_t l = 0; l < 16; ++l) lanes[l] += dr[c + l] * (fr[c + l] - xr[c + l]);
      for (; c < cols; ++c) lanes[c % 16] += dr[c] * (fr[c] - xr[c]);
      for (const T lane : lanes) sums[part] += static_cast<double>(lane);
    }
  });
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

namespace detail {

template <class T, backend Backend>
struct gate_layer_node {
  static constexpr const char* name = "gate_layer";
  static constexpr bool relevance_by_sweep = true;
  slot x, f, y;
  parameter<T, 1, Backend>* gates;
  index_t layer;
  T gate;  // as it was
  void gradient(tape<T, Backend>& t) const {
    if (!t.has_gradient(y)) return;
    tensor_view<T, 2> df;
    if (gate != T(0)) df = t.gradient(f);  // a layer that is off has no gradient, and no way back to go
    const double d =
        gate_layer_gradient<T>(t.backend(), t.input(x), t.input(f), gate, t.gradient(y), t.gradient(x), df);
    if (gates->trained()) gates->gradient(layer) += static_cast<T>(d);
  }
  void relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s) const {
    gate_layer_node_relevance(t, s, x, f, gate, y);
  }
};

}  // namespace detail

/// The output f of a layer faded into its input x by gates(layer), which must outlive the recording; its gradient is
/// collected while the gates are trained. Throws argument_error for a layer without a gate.
template <class T, host_backend Backend>
slot gate_layer(tape<T, Backend>& t, slot x, slot f, parameter<T, 1, Backend>& gates, index_t layer) {
  if (layer < 0 || layer >= gates.value.size())
    throw argument_error("gate_layer: there is no gate of layer " + std::to_string(layer));
  const T gate = gates.value(layer);
  const slot y = t.add_like(x, t.cols(x));
  gate_layer_forward<T>(t.backend(), t.input(x), t.input(f), gate, t.value(y));
  t.record(detail::gate_layer_node<T, Backend>{x, f, y, &gates, layer, gate});
  return y;
}

}  // namespace headred
