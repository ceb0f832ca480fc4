// Relevance through y = a + b.
#pragma once

#include <headred/lrp/factor_row.hpp>
#include <headred/nn/op/checked_matrix.hpp>
#include <headred/nn/op/row_loops.hpp>
#include <headred/nn/relevance_sweep.hpp>

namespace headred {

namespace detail {

template <class T, class Rule>
double add_row_by_sign(const Rule& rule, const T* x, const T* y, const T* relevance, T* to_x, T* to_y, index_t n) {
  factor_packs<T> packs(rule);
  in_packs<T>(n, [&](const auto& get, const auto& put) {
    using vec = pack<T, native_lanes<T>>;
    const vec a = get(x), b = get(y), up_a = select_less(vec{}, a, a, vec{}), up_b = select_less(vec{}, b, b, vec{});
    vec plus = up_a + up_b, minus = (a - up_a) + (b - up_b);
    packs.turn(get(relevance), plus, minus);
    put(to_x, select_less(vec{}, a, plus, minus) * a);
    put(to_y, select_less(vec{}, b, plus, minus) * b);
  });
  return packs.total();
}

template <class T>
double add_row_by_sum(T epsilon, const T* x, const T* y, const T* relevance, T* to_x, T* to_y, index_t n) {
  using vec = pack<T, native_lanes<T>>;
  vec lost{};
  in_packs<T>(n, [&](const auto& get, const auto& put) {
    const vec a = get(x), b = get(y), stabiliser = stabiliser_of(epsilon, a + b),
              f = get(relevance) / (a + b + stabiliser);
    lost += f * stabiliser;
    put(to_x, f * a);
    put(to_y, f * b);
  });
  return static_cast<double>(lane_total<T, native_lanes<T>>(lost));
}

}  // namespace detail

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
        const T *const x = a.data() + r * a.stride(0), *const y = b.data() + r * b.stride(0),
                       *const from = relevance_out.data() + r * relevance_out.stride(0);
        T *const to_x = relevance_a.data() + r * relevance_a.stride(0), *const to_y = relevance_b.data() +
                                                                                      r * relevance_b.stride(0);
        double lost = 0;
        if constexpr (detail::by_sign<Rule>)
          lost = detail::add_row_by_sign(rule, x, y, from, to_x, to_y, cols);
        else
          lost = detail::add_row_by_sum(static_cast<T>(rule.epsilon), x, y, from, to_x, to_y, cols);
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
