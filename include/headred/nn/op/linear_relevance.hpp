// Relevance through y = x W^T + b.
#pragma once

#include <algorithm>
#include <utility>

#include <headred/lrp/factor_row.hpp>
#include <headred/lrp/relevance_workspace.hpp>
#include <headred/nn/op/checked_matrix.hpp>
#include <headred/nn/op/product_linear_relevance.hpp>
#include <headred/nn/op/row_loops.hpp>
#include <headred/nn/op/signed_linear.hpp>
#include <headred/nn/relevance_sweep.hpp>

namespace headred {

namespace detail {

/// factors = R / (s + eps sgn(s)), outputs side by side; returns what goes to the bias, if there is one, and to the
/// stabiliser.
template <class T>
std::pair<T, T> factors_by_sum(T epsilon, const T* relevance, const T* sums, const T* bias, T* factors, index_t n) {
  using vec = pack<T, native_lanes<T>>;
  vec to_bias{}, lost{};
  in_packs<T>(n, [&](const auto& get, const auto& put) {
    const vec s = get(sums), stabiliser = stabiliser_of(epsilon, s), f = get(relevance) / (s + stabiliser);
    lost += f * stabiliser;
    if (bias != nullptr) to_bias += f * get(bias);
    put(factors, f);
  });
  return {lane_total<T, native_lanes<T>>(to_bias), lane_total<T, native_lanes<T>>(lost)};
}

/// By sign, each contribution with its share of the bias.
template <class T, host_backend Backend, class Rule>
void spread_linear_relevance(Backend& be, const tensor_view<const T, 2>& x, const tensor_view<const T, 2>& weight,
                             const T* bias, const tensor_view<const T, 2>& y, const Rule& rule,
                             const tensor_view<const T, 2>& relevance_out, const tensor_view<T, 2>& relevance_in,
                             double* terms, relevance_workspace<T>& workspace) {
  constexpr int most = signed_linear<T>::at_once;
  constexpr index_t block = 4 * most;
  const index_t rows = x.extent(0), in = x.extent(1), out = weight.extent(0);
  task_runner<Backend> runner(be);
  const signed_panels<T> panels{in, out, workspace.values(signed_panels<T>::elements(in, out))};
  runner.run(panels.count(out) + panels.count(in), [&](index_t n, int) { panels.fill(n, weight, bias); });
  workspace.reserve(runner.workers(), signed_linear<T>::scratch(out));
  runner.run((rows + block - 1) / block, [&](index_t task, int worker) {
    index_t active[block];
    int count = 0, done = 0;
    for (index_t r = task * block; r < std::min(rows, (task + 1) * block); ++r) {
      const T* const from = relevance_out.data() + r * relevance_out.stride(0);
      if (std::any_of(from, from + out, [](T v) { return v != T(0); }))
        active[count++] = r;
      else
        std::fill_n(relevance_in.data() + r * relevance_in.stride(0), in, T(0));
    }
    const auto next = [&]<int Rows>(std::integral_constant<int, Rows>) {
      for (; done + Rows <= count; done += Rows) {
        signed_rows<T, Rows> some;
        for (int k = 0; k < Rows; ++k) {
          const index_t r = active[done + k];
          const auto n = static_cast<std::size_t>(k);
          some.x[n] = x.data() + r * x.stride(0);
          some.y[n] = y.data() + r * y.stride(0);
          some.relevance[n] = relevance_out.data() + r * relevance_out.stride(0);
          some.to[n] = relevance_in.data() + r * relevance_in.stride(0);
          some.terms[n] = terms + 3 * r;
        }
        signed_linear<T>::template run<Rows>(panels, rule, some, workspace.scratch(worker));
      }
    };
    next(std::integral_constant<int, most>{});
    next(std::integral_constant<int, 2>{});
    next(std::integral_constant<int, 1>{});
  });
}

}  // namespace detail

/// relevance_in = what the rule hands to x, not rescaled; returns what it does not hand on.
/// x : (R,I), weight : (O,I), bias : (O) or empty, y : (R,O) as linear_forward left it, relevance_out : (R,O)
/// -> relevance_in : (R,I), overwritten. Contributions z_oi = weight_oi x_i + bias_o / I (bias_mode::absorbed: without
/// the bias, which then has its own). Throws shape_error; argument_error for identity.
/// Cost: epsilon and attn one product, R I O; by sign three where no bias is spread, else two passes over all
/// contributions, none of which is stored.
template <class T, host_backend Backend, rule_policy Rule>
relevance_terms linear_relevance(Backend& be, std::type_identity_t<tensor_view<const T, 2>> x,
                                 std::type_identity_t<tensor_view<const T, 2>> weight,
                                 std::type_identity_t<tensor_view<const T, 1>> bias,
                                 std::type_identity_t<tensor_view<const T, 2>> y, const Rule& rule,
                                 std::type_identity_t<tensor_view<const T, 2>> relevance_out,
                                 tensor_view<T, 2> relevance_in, relevance_workspace<T>& workspace) {
  constexpr const char* name = "linear_relevance";
  const index_t rows = x.extent(0), in = x.extent(1), out = weight.extent(0);
  detail::require_matrix(name, "x", x, rows, in);
  detail::require_matrix(name, "weight", weight, out, in);
  detail::require_matrix(name, "y", y, rows, out);
  detail::require_matrix(name, "relevance_out", relevance_out, rows, out);
  detail::require_matrix(name, "relevance_in", relevance_in, rows, in);
  if (bias.data() != nullptr) detail::require_vector(name, "bias", bias, out);
  if constexpr (Rule::kind == rule_kind::identity) {
    detail::refuse_rule(relevance_op::linear, Rule::kind);
  } else if constexpr (detail::by_sign<Rule>) {
    double* const terms = workspace.terms(3 * rows);
    std::fill_n(terms, 3 * rows, 0.0);
    if (bias.data() != nullptr && rule.bias == bias_mode::spread && in > 0)
      detail::spread_linear_relevance(be, x, weight, bias.data(), y, rule, relevance_out, relevance_in, terms,
                                      workspace);
    else
      detail::product_linear_relevance(be, x, weight, bias.data(), y, rule, relevance_out, relevance_in, terms,
                                       workspace);
    return detail::total_of(terms, rows);
  } else {
    double* const terms = workspace.terms(3 * rows);
    T* const factors = workspace.values(rows * out);
    T* const shares = workspace.factors(rows);
    const bool spread = rule.bias == bias_mode::spread && in > 0;
    detail::for_row_blocks(be, rows, out, [&](index_t begin, index_t end) {
      for (index_t r = begin; r < end; ++r) {
        const auto [to_bias, lost] =
            detail::factors_by_sum(static_cast<T>(rule.epsilon), relevance_out.data() + r * relevance_out.stride(0),
                                   y.data() + r * y.stride(0), bias.data(), factors + r * out, out);
        shares[r] = spread ? to_bias / static_cast<T>(in) : T(0);
        terms[3 * r] = spread ? 0 : static_cast<double>(to_bias);
        terms[3 * r + 1] = static_cast<double>(lost);
        terms[3 * r + 2] = 0;
      }
    });
    be.gemm(T(1), detail::batch_of_one(tensor_view<const T, 2>(factors, {rows, out})), detail::batch_of_one(weight),
            T(0), detail::batch_of_one(relevance_in));
    detail::for_row_blocks(be, rows, in, [&](index_t begin, index_t end) {
      using vec = detail::pack<T, native_lanes<T>>;
      for (index_t r = begin; r < end; ++r) {
        T* const to = relevance_in.data() + r * relevance_in.stride(0);
        const T share = shares[r];
        detail::map_row(
            in, to, [share](const vec& a, const vec& b) { return a * b + share; }, static_cast<const T*>(to),
            x.data() + r * x.stride(0));
      }
    });
    return detail::total_of(terms, rows);
  }
}

namespace detail {

template <class T, host_backend Backend, class Weight, class Bias>
void linear_node_relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s, slot x, slot y, const Weight& weight,
                           const Bias* bias) {
  if (!t.has_relevance(y)) return;
  const tensor_view<const T, 2> out = t.relevance(y);
  tensor_view<const T, 1> b;
  if (bias != nullptr) b = bias->value.view();
  s.pass(relevance_op::linear, s.rules().of(relevance_op::linear, &weight), y,
         std::array<typename relevance_sweep<T, Backend>::input, 1>{{{x}}},
         [&](const relevance_rule& rule, const auto& raw) {
           if (const auto* own = s.rules().own(relevance_op::linear))
             return (*own)({relevance_op::linear, t.input(x), t.input(y), weight.value.view(), {}, b, out, raw[0]});
           return with_policy(rule, [&](const auto& policy) {
             return linear_relevance<T>(t.backend(), t.input(x), weight.value.view(), b, t.input(y), policy, out,
                                        raw[0], s.workspace());
           });
         });
}

}  // namespace detail
}  // namespace headred
