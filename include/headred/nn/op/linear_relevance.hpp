// Relevance through y = x W^T + b.
#pragma once

#include <algorithm>

#include <headred/lrp/relevance_workspace.hpp>
#include <headred/nn/op/checked_matrix.hpp>
#include <headred/nn/op/row_loops.hpp>
#include <headred/nn/relevance_sweep.hpp>

namespace headred {

namespace detail {

/// Rows of x, relevance_out and relevance_in that go through the weights together.
inline constexpr int relevance_rows = 4;

template <class T>
struct signed_linear {
  static constexpr int lanes = native_lanes<T>;
  using vec = pack<T, lanes>;

  tensor_view<const T, 2> weight;
  const T* bias;  ///< or nullptr
  bool spread;
  index_t in, out;

  /// What each contribution to output o gets of the bias.
  T share(index_t o) const { return spread && bias != nullptr ? bias[o] / static_cast<T>(in) : T(0); }

  /// Sum of the positive contributions to output o.
  template <int Rows>
  void sums(const T* const* x, index_t o, T* plus) const {
    const T* const w = weight.data() + o * weight.stride(0);
    const vec b = broadcast<vec>(share(o));
    vec p[Rows] = {};
    index_t i = 0;
    for (; i + lanes <= in; i += lanes) {
      const vec v = load<vec>(w + i);
      for (int r = 0; r < Rows; ++r) {
        const vec z = b + v * load<vec>(x[r] + i);
        p[r] = select_less(vec{}, z, p[r] + z, p[r]);
      }
    }
    for (int r = 0; r < Rows; ++r) {
      plus[r] = lane_total<T, lanes>(p[r]);
      for (index_t k = i; k < in; ++k) plus[r] += std::max(T(0), share(o) + w[k] * x[r][k]);
    }
  }
  /// Sum of the negative ones, for an output whose own value does not tell it.
  T negative_sum(const T* x, index_t o) const {
    const T* const w = weight.data() + o * weight.stride(0);
    T sum = T(0);
    for (index_t k = 0; k < in; ++k) sum += std::min(T(0), share(o) + w[k] * x[k]);
    return sum;
  }
  /// Positive and negative contributions add up to the value y of the output (less an absorbed bias): one pass gives
  /// both. Where the difference would cost digits they are summed again, each for itself.
  T minus_of(const T* x, index_t o, T y, T plus) const {
    const T sum = spread || bias == nullptr ? y : y - bias[o], minus = sum - plus;
    return minus < T(-.0625) * plus ? minus : negative_sum(x, o);
  }

  /// to_i = sum_o factor_o z_oi, the factor chosen by the sign of z; factors (2, Rows, out).
  template <int Rows, int Packs>
  void contract(const T* const* x, const T* factors, index_t i, T* const* to) const {
    vec sum[Rows][Packs] = {}, a[Rows][Packs];
    for (int r = 0; r < Rows; ++r)
      for (int k = 0; k < Packs; ++k) a[r][k] = load<vec>(x[r] + i + k * lanes);
    for (index_t o = 0; o < out; ++o) {
      const T* const w = weight.data() + o * weight.stride(0) + i;
      const vec b = broadcast<vec>(share(o));
      for (int r = 0; r < Rows; ++r) {
        const vec plus = broadcast<vec>(factors[r * out + o]), minus = broadcast<vec>(factors[(Rows + r) * out + o]);
        for (int k = 0; k < Packs; ++k) {
          const vec z = b + load<vec>(w + k * lanes) * a[r][k];
          sum[r][k] += select_less(vec{}, z, plus, minus) * z;
        }
      }
    }
    for (int r = 0; r < Rows; ++r)
      for (int k = 0; k < Packs; ++k) store(to[r] + i + k * lanes, sum[r][k]);
  }

  template <int Rows, class Rule>
  void rows(const Rule& rule, const T* const* x, const T* const* y, const T* const* relevance, T* const* to, T* factors,
            double* terms) const {
    for (index_t o = 0; o < out; ++o) {
      T plus[Rows];
      sums<Rows>(x, o, plus);
      for (int r = 0; r < Rows; ++r) {
        const T minus = minus_of(x[r], o, y[r][o], plus[r]);
        T positive = T(0), negative = T(0);
        if (!spread && bias != nullptr) (bias[o] > T(0) ? positive : negative) = bias[o];
        const auto f = factors_by_sign(rule, relevance[r][o], plus[r] + positive, minus + negative);
        factors[r * out + o] = f.plus;
        factors[(Rows + r) * out + o] = f.minus;
        terms[3 * r] += static_cast<double>(f.plus * positive + f.minus * negative);
        terms[3 * r + 1] += f.lost;
      }
    }
    index_t i = 0;
    for (; i + 2 * lanes <= in; i += 2 * lanes) contract<Rows, 2>(x, factors, i, to);
    for (; i + lanes <= in; i += lanes) contract<Rows, 1>(x, factors, i, to);
    for (; i < in; ++i)
      for (int r = 0; r < Rows; ++r) {
        T sum = T(0);
        for (index_t o = 0; o < out; ++o) {
          const T z = share(o) + weight(o, i) * x[r][i];
          sum += factors[(z > T(0) ? r : Rows + r) * out + o] * z;
        }
        to[r][i] = sum;
      }
  }
};

}  // namespace detail

/// relevance_in = what the rule hands to x, not rescaled; returns what it does not hand on.
/// x : (R,I), weight : (O,I), bias : (O) or empty, y : (R,O) as linear_forward left it, relevance_out : (R,O)
/// -> relevance_in : (R,I), overwritten. Contributions z_oi = weight_oi x_i + bias_o / I (bias_mode::absorbed: without
/// the bias, which then has its own). Throws shape_error; argument_error for identity.
/// Cost: epsilon and attn one product, R I O; the others two passes over all contributions, none of which is stored.
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
    constexpr int at_once = detail::relevance_rows;
    const detail::signed_linear<T> op{weight, bias.data(), rule.bias == bias_mode::spread && in > 0, in, out};
    double* const terms = workspace.terms(3 * rows);
    std::fill_n(terms, 3 * rows, 0.0);
    task_runner<Backend> runner(be);
    workspace.reserve(runner.workers(), 2 * at_once * out);
    runner.run((rows + at_once - 1) / at_once, [&](index_t task, int worker) {
      const T *from[at_once], *value[at_once], *relevance[at_once];
      T* to[at_once];
      const index_t first = task * at_once, count = std::min<index_t>(at_once, rows - first);
      bool any = false;
      for (index_t r = 0; r < count; ++r) {
        from[r] = x.data() + (first + r) * x.stride(0);
        value[r] = y.data() + (first + r) * y.stride(0);
        relevance[r] = relevance_out.data() + (first + r) * relevance_out.stride(0);
        to[r] = relevance_in.data() + (first + r) * relevance_in.stride(0);
        any = any || std::any_of(relevance[r], relevance[r] + out, [](T v) { return v != T(0); });
      }
      if (!any) {
        for (index_t r = 0; r < count; ++r) std::fill_n(to[r], in, T(0));
      } else if (count == at_once) {
        op.template rows<at_once>(rule, from, value, relevance, to, workspace.scratch(worker), terms + 3 * first);
      } else {
        for (index_t r = 0; r < count; ++r)
          op.template rows<1>(rule, from + r, value + r, relevance + r, to + r, workspace.scratch(worker),
                              terms + 3 * (first + r));
      }
    });
    return detail::total_of(terms, rows);
  } else {
    double* const terms = workspace.terms(3 * rows);
    T* const factors = workspace.values(rows * out);
    T* const shares = workspace.factors(rows);
    const bool spread = rule.bias == bias_mode::spread && in > 0;
    detail::for_row_blocks(be, rows, out, [&](index_t begin, index_t end) {
      for (index_t r = begin; r < end; ++r) {
        double lost = 0;
        T to_bias = T(0);
        for (index_t o = 0; o < out; ++o) {
          const T f = detail::factor_of_sum(static_cast<T>(rule.epsilon), relevance_out(r, o), y(r, o), lost);
          factors[r * out + o] = f;
          if (bias.data() != nullptr) to_bias += f * bias(o);
        }
        shares[r] = spread ? to_bias / static_cast<T>(in) : T(0);
        terms[3 * r] = spread ? 0 : static_cast<double>(to_bias);
        terms[3 * r + 1] = lost;
        terms[3 * r + 2] = 0;
      }
    });
    const auto batch = [](auto m) {
      return tensor_view<typename decltype(m)::element_type, 3>(m.data(), {1, m.extent(0), m.extent(1)},
                                                                {0, m.stride(0), m.stride(1)});
    };
    be.gemm(T(1), batch(tensor_view<const T, 2>(factors, {rows, out})), batch(weight), T(0), batch(relevance_in));
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
