// Relevance through attention: y = A v, A = softmax(scale q k^T + bias + mask), head by head, query by query.
#pragma once

#include <algorithm>

#include <headred/nn/op/attention_forward.hpp>
#include <headred/nn/op/gate_relevance.hpp>
#include <headred/nn/op/signed_attention_relevance.hpp>
#include <headred/nn/relevance_sweep.hpp>

namespace headred {

/// What attention_relevance writes; q and k are empty for attention_mode::constant.
template <class T>
struct attention_relevance_in {
  tensor_view<T, 2> q, k, v;  ///< shapes of the operands
};

namespace detail {

template <class T>
index_t relevance_scratch(const attention_shape& s, index_t keys) {
  return signed_attention_head<T>::scratch(s.head_size, keys) + 4 * (keys + s.head_size);
}

/// Operands of a task; R of the outputs before the gates.
template <class T, class Rule>
struct attention_relevance_kernel {
  const attention_inputs<T>& in;
  Rule rule;
  bool joint;
  T scale;
  const T* probabilities;
  tensor_view<const T, 2> context, out;
  const attention_relevance_in<T>& to;
  double* terms;  ///< (sentences, heads, 3)

  void operator()(const attention_task& task, index_t offset, T* scratch) const {
    const auto b = static_cast<std::size_t>(task.sentence);
    const sequence queries = in.queries[b], keys = in.keys[b];
    const index_t group = in.shape.heads / in.shape.kv_heads;
    for (index_t h = task.group * group; h < (task.group + task.groups) * group; ++h) {
      relevance_terms lost;
      signed_attention_head<T> head(in.shape.head_size, keys.length, scale, scratch);
      const index_t first = h / group * in.shape.head_size;
      if (by_sign<Rule> && joint)
        head.begin(in.k.data() + keys.begin * in.k.stride(0) + first, in.k.stride(0),
                   in.v.data() + keys.begin * in.v.stride(0) + first, in.v.stride(0));
      for (index_t i = 0; i < queries.length; ++i) {
        const index_t n = visible_keys(in.options.causal, i, queries.length, keys.length);
        place w{};
        if (!find(queries, keys, h, i, n, probabilities + offset + (h * queries.length + i) * keys.length, w)) continue;
        if constexpr (by_sign<Rule>)
          lost.eps += head.row(rule, w, joint);
        else if (Rule::kind == rule_kind::attn && joint)
          product_row(w, h, i, queries, keys, scratch, lost);
        else
          plain_row(w, scratch, lost);
      }
      if (by_sign<Rule> && joint) head.end(to.k.data() + keys.begin * to.k.stride(0) + first, to.k.stride(0));
      double* const at = terms + 3 * (task.sentence * in.shape.heads + h);
      at[0] = lost.bias;
      at[1] = lost.eps;
      at[2] = lost.nonlinear;
    }
  }

 private:
  using place = attention_place<T>;

  /// Query i of head h; false if no relevance reaches it.
  bool find(const sequence& queries, const sequence& keys, index_t h, index_t i, index_t n, const T* p,
            place& w) const {
    const index_t size = in.shape.head_size, g = h / (in.shape.heads / in.shape.kv_heads), at = queries.begin + i;
    w.n = n;
    w.size = size;
    w.p = p;
    w.relevance = out.data() + at * out.stride(0) + h * size;
    if (std::none_of(w.relevance, w.relevance + size, [](T r) { return r != T(0); })) return false;
    const auto head = [size](const auto& m, index_t r, index_t number) {
      return m.data() + r * m.stride(0) + number * size;
    };
    w.q = head(in.q, at, h);
    w.k = head(in.k, keys.begin, g);
    w.v = head(in.v, keys.begin, g);
    w.y = head(context, at, h);
    w.to_v = head(to.v, keys.begin, g);
    w.k_row = in.k.stride(0);
    w.v_row = in.v.stride(0);
    w.to_v_row = to.v.stride(0);
    if (joint) {
      w.to_q = head(to.q, at, h);
      w.to_k = head(to.k, keys.begin, g);
      w.to_k_row = to.k.stride(0);
    }
    return true;
  }

  /// Epsilon: by sums. With s_j = 2 scale q k_j that of output c is y_c + sum_j slope_jc s_j; the slopes' weights add up
  /// to 0, hence it is sum_j A_j (1 + s_j - sum_j' A_j' s_j') v_jc.
  void plain_row(const place& w, T* scratch, relevance_terms& lost) const {
    const index_t n = w.n, size = w.size;
    T *const weight = scratch, *const factor = weight + n;
    std::fill_n(factor, size, T(0));
    T mean = T(0);
    for (index_t j = 0; j < n; ++j) {
      weight[j] = joint ? 2 * scale * row_dot(w.q, w.k + j * w.k_row, size) : T(0);
      mean += w.p[j] * weight[j];
    }
    for (index_t j = 0; j < n; ++j) add_scaled(w.v + j * w.v_row, w.p[j] * (T(1) + weight[j] - mean), size, factor);
    for (index_t c = 0; c < size; ++c)
      factor[c] = factor_of_sum(static_cast<T>(rule.epsilon), w.relevance[c], factor[c], lost.eps);
    const T middle = row_dot(w.y, factor, size);
    for (index_t j = 0; j < n; ++j) {
      to_values(w, j, w.p[j], factor);
      if (joint) to_scores(w, j, w.p[j] * (row_dot(w.v + j * w.v_row, factor, size) - middle));
    }
  }

  /// AttnLRP: half of the epsilon rule to each factor of a product, its own rule for the softmax.
  void product_row(const place& w, index_t h, index_t i, const sequence& queries, const sequence& keys, T* scratch,
                   relevance_terms& lost) const {
    const index_t n = w.n, size = w.size;
    const T eps = static_cast<T>(rule.epsilon);
    T *const factor = scratch, *const score = factor + size, *const other = score + n, *const part = other + n;
    for (index_t c = 0; c < size; ++c) factor[c] = factor_of_sum(eps, w.relevance[c], w.y[c], lost.eps);
    const index_t position = in.options.causal ? i + keys.length - queries.length : i;
    const T* const bias = position_row(in.bias, h, position);
    const T* const mask = position_row(in.mask.values, h, position);
    T total = T(0), mean = T(0);
    for (index_t j = 0; j < n; ++j) {
      to_values(w, j, w.p[j] / 2, factor);
      part[j] = w.p[j] * row_dot(w.v + j * w.v_row, factor, size) / 2;
      other[j] = bias == nullptr ? T(0) : bias[j];
      if (mask != nullptr) other[j] -= mask[j] > T(0) ? (T(1) - mask[j]) * in.options.mask_penalty : T(0);
      score[j] = scale * row_dot(w.q, w.k + j * w.k_row, size) + other[j];
      total += part[j];
      mean += w.p[j] * score[j];
    }
    for (index_t j = 0; j < n; ++j) {
      if (w.p[j] == T(0)) {  // excluded, or as good as: a score without a way to the output
        lost.nonlinear += static_cast<double>(part[j] * (T(1) + mean));
        continue;
      }
      lost.nonlinear += static_cast<double>(part[j] * (T(1) - score[j] + mean));
      const T f = factor_of_sum(eps, score[j] * (part[j] - w.p[j] * total), score[j], lost.eps);
      lost.bias += static_cast<double>(f * other[j]);
      to_scores(w, j, f);
    }
  }

  /// Relevance factor (scale q_d k_jd) to both q_d and k_jd, halves of a product's where `attn` says so.
  void to_scores(const place& w, index_t j, T factor) const {
    const T half = Rule::kind == rule_kind::attn ? T(.5) : T(1);
    const T by = half * factor * scale;
    for_each_pack<T>(w.size, [by, q = w.q, k = w.k + j * w.k_row, to_q = w.to_q, to_k = w.to_k + j * w.to_k_row](
                                 index_t d, auto zero) {
      using vec = decltype(zero);
      const vec z = load<vec>(q + d) * load<vec>(k + d) * by;
      store(to_q + d, load<vec>(to_q + d) + z);
      store(to_k + d, load<vec>(to_k + d) + z);
    });
  }

  /// Relevance factor_c share v_jc to the values.
  static void to_values(const place& w, index_t j, T share, const T* factor) {
    for_each_pack<T>(w.size, [=, v = w.v + j * w.v_row, to_row = w.to_v + j * w.to_v_row](index_t c, auto zero) {
      using vec = decltype(zero);
      store(to_row + c, load<vec>(to_row + c) + load<vec>(factor + c) * load<vec>(v + c) * share);
    });
  }

  /// y += x factor.
  static void add_scaled(const T* x, T factor, index_t n, T* y) {
    for_each_pack<T>(n, [=](index_t c, auto zero) {
      using vec = decltype(zero);
      store(y + c, load<vec>(y + c) + load<vec>(x + c) * factor);
    });
  }
};

}  // namespace detail

/// What the rule hands to queries, keys and values, not rescaled; returns what it does not hand on.
/// Contributions by the Jacobians at the operands: A_ij v_jc to the values and, unless `mode` is constant, those through
/// the softmax to queries and keys; `attn` goes back product, softmax, product. `in`, `probabilities` and `context`
/// (before the gates) as of attention_forward without dropout; relevance_out : (Rq, heads head_size), at the context.
/// `to` is overwritten. A query without keys, or with relevance 0, hands nothing on.
/// Throws shape_error; argument_error for dropout and for identity. Memory: head_size (4 S + head_size) a worker; cost by
/// sign and joint: heads head_size^2 sum_b T_b S_b, otherwise head_size times less.
template <class T, host_backend Backend, rule_policy Rule>
relevance_terms attention_relevance(Backend& be, const attention_inputs<T>& in,
                                    const std::type_identity_t<T>* probabilities,
                                    std::type_identity_t<tensor_view<const T, 2>> context, const Rule& rule,
                                    attention_mode mode, std::type_identity_t<tensor_view<const T, 2>> relevance_out,
                                    const attention_relevance_in<T>& to, relevance_workspace<T>& memory,
                                    attention_workspace<T>& workspace) {
  constexpr const char* op = "attention_relevance";
  if constexpr (Rule::kind == rule_kind::identity) {
    detail::refuse_rule(relevance_op::attention, Rule::kind);
  } else {
    const auto extent = detail::require_attention(op, in);
    detail::require_sequences(op, "keys", in.keys, in.k.extent(0), true);
    const bool joint = mode == attention_mode::joint;
    if (in.options.dropout > 0)
      throw argument_error(std::string(op) + ": dropout is " + number_text(in.options.dropout) +
                           ", expected a pass without dropout of probabilities");
    detail::require_matrix(op, "context", context, in.q.extent(0), in.q.extent(1));
    detail::require_matrix(op, "relevance_out", relevance_out, in.q.extent(0), in.q.extent(1));
    const auto begin = [&](const char* name, const tensor_view<T, 2>& r, const tensor_view<const T, 2>& like) {
      detail::require_matrix(op, name, r, like.extent(0), like.extent(1));
      for (index_t i = 0; i < r.extent(0); ++i) std::fill_n(r.data() + i * r.stride(0), r.extent(1), T(0));
    };
    if (joint) {
      begin("relevance of q", to.q, in.q);
      begin("relevance of k", to.k, in.k);
    }
    begin("relevance of v", to.v, in.v);
    workspace.cut(in.shape, in.queries, in.keys, false);
    if (probabilities == nullptr && workspace.probabilities() > 0)
      throw argument_error(std::string(op) + ": there are no probabilities, expected those of attention_forward");
    const index_t count = static_cast<index_t>(in.queries.size()) * in.shape.heads;
    double* const terms = memory.terms(3 * count);
    std::fill_n(terms, 3 * count, 0.0);
    detail::run_attention(
        be, workspace, detail::relevance_scratch<T>(in.shape, extent.cols),
        detail::attention_relevance_kernel<T, Rule>{in, rule, joint, detail::attention_scale(in.shape, in.options),
                                                    probabilities, context, relevance_out, to, terms});
    return detail::total_of(terms, count);
  }
}

namespace detail {

/// `call` names the operands on the tape.
template <class T, host_backend Backend, class Call>
void attention_node_relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s, const Call& call,
                              const attention_inputs<T>& in, const T* probabilities, slot context, slot y) {
  if (!t.has_relevance(y)) return;
  head_gates_relevance<T>(t, s, in.gates.values, context, y);
  const tensor_view<const T, 2> out = t.relevance(context);
  using input = typename relevance_sweep<T, Backend>::input;
  const auto part = [](const auto& columns, index_t cols) {
    return input{columns.source, std::max<index_t>(0, columns.first), cols};
  };
  const input q = part(call.q, in.q.extent(1)), k = part(call.k, in.k.extent(1)), v = part(call.v, in.v.extent(1));
  const relevance_rule& rule = s.rules().of(relevance_op::attention);
  const auto run = [&](const attention_relevance_in<T>& to) {
    return with_policy(rule, [&](const auto& policy) {
      return attention_relevance<T>(t.backend(), in, probabilities, t.input(context), policy, rule.attention, out, to,
                                    s.workspace(), t.workspace());
    });
  };
  if (rule.attention == attention_mode::constant)
    s.pass(relevance_op::attention, rule, context, std::array<input, 1>{{v}},
           [&](const relevance_rule&, const auto& raw) {
             return run({{}, {}, raw[0]});
           });
  else
    s.pass(relevance_op::attention, rule, context, std::array<input, 3>{{q, k, v}},
           [&](const relevance_rule&, const auto& raw) {
             return run({raw[0], raw[1], raw[2]});
           });
}

}  // namespace detail
}  // namespace headred
