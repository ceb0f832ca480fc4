// Relevance through y = a + b.
#pragma once

#include <headred/nn/op/checked_matrix.hpp>
#include <headred/nn/op/row_loops.hpp>
#include <headred/nn/relevance_sweep.hpp>

namespace headred {

/// relevance_a, relevance_b = what the rule hands to a and b, the two contributions to every entry, not rescaled; returns
/// what it does not hand on. All (R,D), the last two overwritten. Throws shape_error; argument_error for identity.
template <class T, host_backend Backend, rule_policy Rule>
relevance_terms add_relevance(Backend& be, std::type_identity_t<tensor_view<const T, 2>> a,
                              std::type_identity_t<tensor_view<const T, 2>> b, const Rule& rule,
                              std::type_identity_t<tensor_view<const T, 2>> relevance_out,
                              tensor_view<T, 2> relevance_a, tensor_view<T, 2> relevance_b,
                              relevance_workspace<T>& workspace) {
  constexpr const char* name = "add_relevance";
  const index_t rows = a.extent(0), cols = a.extent(1);
  detail::require_matrix(name, "a", a, rows, cols);
  detail::require_matrix(name, "b", b, rows, cols);
  detail::require_matrix(name, "relevance_out", relevance_out, rows, cols);
  detail::require_matrix(name, "relevance_a", relevance_a, rows, cols);
  detail::require_matrix(name, "relevance_b", relevance_b, rows, cols);
  if constexpr (Rule::kind == rule_kind::identity) {
    detail::refuse_rule(relevance_op::add, Rule::kind);
  } else {
    double* const terms = workspace.terms(3 * rows);
    detail::for_row_blocks(be, rows, cols, [&](index_t begin, index_t end) {
      for (index_t r = begin; r < end; ++r) {
        double lost = 0;
        for (index_t c = 0; c < cols; ++c) {
          const T x = a(r, c), y = b(r, c), relevance = relevance_out(r, c);
          if constexpr (detail::by_sign<Rule>) {
            const T plus = (x > T(0) ? x : T(0)) + (y > T(0) ? y : T(0));
            const T minus = (x > T(0) ? T(0) : x) + (y > T(0) ? T(0) : y);
            const auto f = detail::factors_by_sign(rule, relevance, plus, minus);
            relevance_a(r, c) = (x > T(0) ? f.plus : f.minus) * x;
            relevance_b(r, c) = (y > T(0) ? f.plus : f.minus) * y;
            lost += f.lost;
          } else {
            const T f = detail::factor_of_sum(static_cast<T>(rule.epsilon), relevance, x + y, lost);
            relevance_a(r, c) = f * x;
            relevance_b(r, c) = f * y;
          }
        }
        terms[3 * r] = terms[3 * r + 2] = 0;
        terms[3 * r + 1] = lost;
      }
    });
    return detail::total_of(terms, rows);
  }
}

namespace detail {

template <class T, host_backend Backend>
void add_node_relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s, slot a, slot b, slot y) {
  if (!t.has_relevance(y)) return;
  const tensor_view<const T, 2> out = t.relevance(y);
  s.pass(relevance_op::add, s.rules().of(relevance_op::add), y,
         std::array<typename relevance_sweep<T, Backend>::input, 2>{{{a}, {b}}},
         [&](const relevance_rule& rule, const auto& raw) {
           return with_policy(rule, [&](const auto& policy) {
             return add_relevance<T>(t.backend(), t.input(a), t.input(b), policy, out, raw[0], raw[1], s.workspace());
           });
         });
}

}  // namespace detail
}  // namespace headred
