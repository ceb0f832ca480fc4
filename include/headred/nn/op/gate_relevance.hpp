// Relevance through gates: of heads and neurons, which are factors of columns, and of whole layers.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>

#include <headred/nn/op/add_relevance.hpp>
#include <headred/nn/op/checked_matrix.hpp>
#include <headred/nn/op/row_loops.hpp>
#include <headred/nn/relevance_sweep.hpp>

namespace headred {

/// relevance_in_rc = relevance_out_rc where the gate of column c is not 0, else 0. Every column has one contribution and no
/// bias, so a gate's size divides out; what reaches a closed one (its share of a bias that was spread over all inputs of the
/// next op) is lost, under `eps`: R (1 - z / (z + eps)) at z = 0.
/// gates : (G), one for every D/G columns side by side; relevance_out, relevance_in : (R,D), the latter overwritten.
/// Throws shape_error.
template <class T, host_backend Backend>
relevance_terms gate_columns_relevance(Backend& be, std::type_identity_t<tensor_view<const T, 1>> gates,
                                       std::type_identity_t<tensor_view<const T, 2>> relevance_out,
                                       tensor_view<T, 2> relevance_in, relevance_workspace<T>& workspace) {
  constexpr const char* op = "gate_columns_relevance";
  const index_t rows = relevance_in.extent(0), cols = relevance_in.extent(1), count = gates.extent(0);
  detail::require_matrix(op, "relevance_in", relevance_in, rows, cols);
  detail::require_matrix(op, "relevance_out", relevance_out, rows, cols);
  if (count == 0 ? cols > 0 : cols % count != 0)
    throw shape_error(std::string(op) + ": " + std::to_string(count) + " gates for " + std::to_string(cols) +
                      " columns, expected a divisor");
  const index_t width = count == 0 ? 0 : cols / count;
  index_t* const closed = workspace.rows(count);
  index_t shut = 0;
  for (index_t g = 0; g < count; ++g)
    if (gates(g) == T(0)) closed[shut++] = g * width;
  double* const terms = workspace.terms(3 * rows);
  detail::for_row_blocks(be, rows, cols, [&](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r) {
      T* const to = relevance_in.data() + r * relevance_in.stride(0);
      std::copy_n(relevance_out.data() + r * relevance_out.stride(0), cols, to);
      double lost = 0;
      for (index_t i = 0; i < shut; ++i)
        for (index_t c = closed[i]; c < closed[i] + width; ++c) {
          lost += static_cast<double>(to[c]);
          to[c] = T(0);
        }
      terms[3 * r] = terms[3 * r + 2] = 0;
      terms[3 * r + 1] = lost;
    }
  });
  return detail::total_of(terms, rows);
}

/// Relevance through y = (1 - gate) x + gate f, by the rule of two contributions; all to x for a gate of 0, all to f for one
/// of 1, whatever the rule. All views (R,D), the last two overwritten; not rescaled, returns what is not handed on.
/// Throws shape_error; argument_error for identity, unless the gate is 0 or 1.
template <class T, host_backend Backend, rule_policy Rule>
relevance_terms gate_layer_relevance(Backend& be, std::type_identity_t<tensor_view<const T, 2>> x,
                                     std::type_identity_t<tensor_view<const T, 2>> f, std::type_identity_t<T> gate,
                                     const Rule& rule, std::type_identity_t<tensor_view<const T, 2>> relevance_out,
                                     tensor_view<T, 2> relevance_x, tensor_view<T, 2> relevance_f,
                                     relevance_workspace<T>& workspace) {
  constexpr const char* op = "gate_layer_relevance";
  const index_t rows = x.extent(0), cols = x.extent(1);
  detail::require_matrix(op, "x", x, rows, cols);
  detail::require_matrix(op, "f", f, rows, cols);
  detail::require_matrix(op, "relevance_out", relevance_out, rows, cols);
  detail::require_matrix(op, "relevance_x", relevance_x, rows, cols);
  detail::require_matrix(op, "relevance_f", relevance_f, rows, cols);
  const auto same = [](const auto& r) { return r; };
  const auto none = [](const auto& r) { return std::remove_cvref_t<decltype(r)>{}; };
  if (gate == T(0) || gate == T(1)) {
    detail::map_rows<T>(be, gate == T(0) ? relevance_x : relevance_f, same, relevance_out);
    detail::map_rows<T>(be, gate == T(0) ? relevance_f : relevance_x, none, relevance_out);
    return {};
  }
  const tensor_view<T, 2> of_x(workspace.values(2 * rows * cols), {rows, cols}),
      of_f(of_x.data() + rows * cols, {rows, cols});
  const auto scale = [&](const tensor_view<T, 2>& to, T by, const tensor_view<const T, 2>& from) {
    detail::map_rows<T>(
        be, to, [by](const auto& v) { return v * by; }, from);
  };
  scale(of_x, T(1) - gate, x);
  scale(of_f, gate, f);
  return add_relevance<T>(be, of_x, of_f, rule, relevance_out, relevance_x, relevance_f, workspace);
}

namespace detail {

/// The entry of gates on columns: identity where they are open. Rules that rescale keep sum |R| of a sample here as well,
/// if anything of it is left; a sample that lost nothing keeps its bits.
template <class T, host_backend Backend>
void gate_node_relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s, const tensor_view<const T, 1>& gates,
                         slot x, slot y) {
  if (!t.has_relevance(y)) return;
  const tensor_view<const T, 2> out = t.relevance(y);
  relevance_rule rule = relevance_rule::identity();
  rule.epsilon = 0;
  for (index_t g = 0; g < gates.extent(0) && !rule.rescale; ++g)
    rule.rescale = gates(g) == T(0) && s.rules().of(relevance_op::gate).rescale;
  s.pass(relevance_op::gate, rule, y, std::array<typename relevance_sweep<T, Backend>::input, 1>{{{x}}},
         [&](const relevance_rule&, const auto& raw) {
           return gate_columns_relevance<T>(t.backend(), gates, out, raw[0], s.workspace());
         });
}

/// The gates of heads: from their outputs to the same before the gates, whose relevance is what heads are scored by.
template <class T, host_backend Backend>
void head_gates_relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s, const tensor_view<const T, 1>& gates,
                          slot context, slot out) {
  if (context == out) return;
  if (t.samples(context).empty()) t.set_samples(context, t.samples(out));
  gate_node_relevance<T>(t, s, gates, context, out);
}

template <class T, host_backend Backend>
void gate_layer_node_relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s, slot x, slot f, T gate, slot y) {
  if (!t.has_relevance(y)) return;
  if (gate == T(0) || gate == T(1)) return pass_relevance(t, s, relevance_op::gate, gate == T(0) ? x : f, y);
  const tensor_view<const T, 2> out = t.relevance(y);
  s.pass(relevance_op::add, s.rules().of(relevance_op::add), y,
         std::array<typename relevance_sweep<T, Backend>::input, 2>{{{x}, {f}}},
         [&](const relevance_rule& rule, const auto& raw) {
           return with_policy(rule, [&](const auto& policy) {
             return gate_layer_relevance<T>(t.backend(), t.input(x), t.input(f), gate, policy, out, raw[0], raw[1],
                                            s.workspace());
           });
         });
}

}  // namespace detail
}  // namespace headred
