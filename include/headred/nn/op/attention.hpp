// Multi-head attention over packed sentences: out_h = gate_h softmax(scale q_h k_g^T + bias + mask) v_g.
#pragma once

#include <headred/nn/op/attention_backward.hpp>
#include <headred/nn/op/attention_record.hpp>
#include <headred/nn/op/attention_relevance.hpp>
#include <headred/nn/parameter.hpp>

namespace headred {

/// For every sentence, query row i and head h of group g:
///   A_ij = softmax_j(scale q_i k_j + bias_ij - penalty (1 - mask_ij)), context_i = sum_j D(A_ij) v_j,
///   out_i = gate_h context_i, D the dropout.
/// out : (Rq, heads head_size), rows outside all sentences 0. `probabilities` receives A (before D), laid out as
/// attention_probability_count says, or is nullptr: nothing of the size of A is then held. `context` : shape of out, or
/// empty; it may be `out` where there are no gates. Results are the same bits whatever is kept, whatever else is in the
/// batch (but for dropout), and however many threads work.
/// A query that sees no key (all masked, S = 0, causal with i + S < T) has A = 0 and context 0. Scores may be as low as
/// the type goes; a NaN in q or k stays NaN. Throws shape_error, argument_error.
/// Cost: 4 heads head_size sum_b T_b S_b operations, half as many when causal.
template <class T, host_backend Backend>
void attention_forward(Backend& be, const attention_inputs<T>& in, tensor_view<T, 2> out,
                       std::type_identity_t<T>* probabilities, std::type_identity_t<tensor_view<T, 2>> context,
                       attention_workspace<T>& workspace) {
  const auto extent = detail::require_attention("attention_forward", in);
  detail::require_matrix("attention_forward", "out", out, in.q.extent(0), in.q.extent(1));
  detail::clear_between(in.queries, out);
  if (context.data() != nullptr) {
    detail::require_matrix("attention_forward", "context", context, in.q.extent(0), in.q.extent(1));
    if (context.data() == out.data() && in.gates.values.data() != nullptr)
      throw argument_error("attention_forward: context is out, expected its own memory where there are gates");
    detail::clear_between(in.queries, context);
  }
  workspace.cut(in.shape, in.queries, in.keys, true);
  const T scale = detail::attention_scale(in.shape, in.options);
  detail::run_attention(be, workspace, detail::forward_scratch<T>(in.shape, extent.cols),
                        detail::attention_forward_kernel<T, host_space>{in, scale, probabilities, context, out});
}

/// Adds to what `gradients` names, from dout = dLoss/dout and what attention_forward kept of the same inputs:
///   dcontext_i = gate dout_i, dA_ij = D'(dcontext_i v_j), ds_ij = A_ij (dA_ij - sum_l A_il dA_il),
///   dv_j += sum_i D(A_ij) dcontext_i, dq_i += scale sum_j ds_ij k_j, dk_j += scale sum_i ds_ij q_i,
///   dgate_h += sum_i dout_i context_i, dbias_ij += ds_ij, dmask_ij += penalty ds_ij.
/// Excluded keys have ds = 0. `context` is read for the gates alone. Sums over sentences and over the heads of a group
/// run in a fixed order. Throws shape_error, argument_error. Cost: 8 heads head_size sum_b T_b S_b operations.
template <class T, host_backend Backend>
void attention_gradient(Backend& be, const attention_inputs<T>& in, const std::type_identity_t<T>* probabilities,
                        std::type_identity_t<tensor_view<const T, 2>> context,
                        std::type_identity_t<tensor_view<const T, 2>> dout, const attention_gradients<T>& gradients,
                        attention_workspace<T>& workspace) {
  constexpr const char* op = "attention_gradient";
  const auto extent = detail::require_attention(op, in);
  const index_t heads = in.shape.heads, sentences = static_cast<index_t>(in.queries.size());
  detail::require_attention_gradients(op, in, context, dout, gradients);
  const bool gates = gradients.gates.data() != nullptr;
  const bool scores = gradients.mask.data() != nullptr || gradients.bias.data() != nullptr;
  detail::require_positions(op, "dmask", gradients.mask, heads, extent.rows, extent.cols);
  detail::require_positions(op, "dbias", gradients.bias, heads, extent.rows, extent.cols);

  workspace.cut(in.shape, in.queries, in.keys, false);
  const index_t count = workspace.probabilities();
  if (probabilities == nullptr && count > 0)
    throw argument_error(std::string(op) + ": there are no probabilities, expected those of attention_forward");
  T* const dscores = scores ? workspace.scores(count) : nullptr;
  T* const parts = gates ? workspace.gates(sentences * heads) : nullptr;
  if (gates) std::fill_n(parts, sentences * heads, T(0));
  detail::run_attention(
      be, workspace, detail::backward_scratch<T>(in.shape, extent.cols),
      detail::attention_backward_kernel<T, host_space>{in, detail::attention_scale(in.shape, in.options), probabilities,
                                                       context, dout, gradients, dscores, parts});
  if (gates)
    for (index_t b = 0; b < sentences; ++b)
      for (index_t h = 0; h < heads; ++h) gradients.gates(h) += parts[b * heads + h];
  if (gradients.mask.data() != nullptr)
    detail::add_scores(be, in, workspace, dscores, in.options.mask_penalty, extent, gradients.mask);
  if (gradients.bias.data() != nullptr) detail::add_scores(be, in, workspace, dscores, T(1), extent, gradients.bias);
}

/// Some columns of an activation: all, or as many as are needed from `first` on, as a slice of a fused projection.
struct slot_columns {
  slot source;
  index_t first = -1;  ///< -1: the activation as a whole

  slot_columns() = default;
  slot_columns(slot whole) : source(whole) {}
  slot_columns(slot part_of, index_t from) : source(part_of), first(from) {}
};

/// Attention on a tape. What it points to must live until the tape has gone back; sentences are copied.
template <class T, backend Backend>
struct attention_call {
  using space = typename Backend::space;

  attention_shape shape = {};
  attention_options<T> options = {};
  std::span<const sequence> queries = {};
  std::span<const sequence> keys = {};
  slot_columns q = {}, k = {}, v = {};
  parameter<T, 1, Backend>* gates = nullptr;       ///< (heads), gradient collected while trained; or none
  parameter<T, 3, Backend>* mask = nullptr;        ///< (heads or 1, T, S), likewise
  attention_mask_view<T, space> fixed_mask = {};   ///< instead of `mask`; its `gradient` is added to, if there is one
  parameter<T, 3, Backend>* bias = nullptr;        ///< (heads or 1, T, S), likewise
  tensor_view<const T, 3, space> fixed_bias = {};  ///< instead of `bias`
  bool keep_probabilities = false;                 ///< on a tape that does not record; one that does keeps them
  bool keep_probability_gradients = false;         ///< for hooks, on a tape that records
};

namespace detail {

/// The columns of a view that `s` names. Throws shape_error unless there are `cols` of them.
template <class View>
View columns(const char* name, const View& m, const slot_columns& s, index_t cols) {
  const index_t first = std::max<index_t>(0, s.first);
  if (s.first < 0 ? m.extent(1) != cols : cols > m.extent(1) || first > m.extent(1) - cols)
    throw shape_error(std::string("attention: ") + name + " is " + shape_text(m.shape()) + ", expected " +
                      std::to_string(cols) + " columns" +
                      (s.first < 0 ? "" : " from " + std::to_string(first) + " on"));
  return m.narrow(1, first, cols);
}

template <class T, backend Backend>
struct attention_node {
  static constexpr const char* name = "attention";
  static constexpr bool relevance_by_sweep = true;
  attention_call<T, Backend> call;
  slot out, context;
  T* probabilities;
  T* probability_gradients;

  attention_inputs<T, typename Backend::space> inputs(const tape<T, Backend>& t) const {
    const attention_shape& s = call.shape;
    attention_inputs<T, typename Backend::space> in{s, call.options, call.queries, call.keys};
    in.q = columns("q", t.input(call.q.source), call.q, s.heads * s.head_size);
    in.k = columns("k", t.input(call.k.source), call.k, s.kv_heads * s.head_size);
    in.v = columns("v", t.input(call.v.source), call.v, s.kv_heads * s.head_size);
    in.bias = call.fixed_bias;
    if (call.bias != nullptr) in.bias = call.bias->value.view();
    in.mask = call.fixed_mask;
    if (call.mask != nullptr) in.mask = call.mask->value.view();
    if (call.gates != nullptr) in.gates = call.gates->value.view();
    return in;
  }

  void gradient(tape<T, Backend>& t) const {
    if (!t.has_gradient(out)) return;
    const auto in = inputs(t);
    attention_gradients<T, typename Backend::space> d;
    d.q = columns("q", t.gradient(call.q.source), call.q, in.q.extent(1));
    d.k = columns("k", t.gradient(call.k.source), call.k, in.k.extent(1));
    d.v = columns("v", t.gradient(call.v.source), call.v, in.v.extent(1));
    if (call.gates != nullptr) d.gates = call.gates->gradient.view();
    d.mask = call.mask != nullptr ? call.mask->gradient.view() : call.fixed_mask.gradient;
    if (call.bias != nullptr) d.bias = call.bias->gradient.view();
    d.probabilities = probability_gradients;
    attention_gradient(t.backend(), in, probabilities, t.input(context), t.gradient(out), d, t.workspace());
  }
  void relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s) const {
    attention_node_relevance(t, s, call, inputs(t), probabilities, context, out);
  }
};

}  // namespace detail

/// Attention as attention_forward computes it; returns `out`. A recording keeps the probabilities and the heads' outputs
/// before the gates for the way back, and for hooks: `record`, if given, says where they lie (its `kind` and `layer`
/// stay as they are). Throws shape_error, argument_error.
template <class T, host_backend Backend>
slot attention(tape<T, Backend>& t, const attention_call<T, Backend>& call,
               std::type_identity_t<attention_record<T>>* record = nullptr) {
  if (call.queries.size() != call.keys.size())
    throw argument_error("attention: queries of " + std::to_string(call.queries.size()) + " sentences, keys of " +
                         std::to_string(call.keys.size()));
  detail::attention_node<T, Backend> node{call, {}, {}, nullptr, nullptr};
  const auto require_trained_like = [](const char* name, const auto* p) {
    if (p != nullptr && p->trained() && p->gradient.shape() != p->value.shape())
      throw shape_error(std::string("attention: the gradient of ") + name + " is " + shape_text(p->gradient.shape()) +
                        ", expected " + shape_text(p->value.shape()));
  };
  require_trained_like("gates", call.gates);
  require_trained_like("mask", call.mask);
  require_trained_like("bias", call.bias);
  const auto& fixed = call.fixed_mask;
  if (fixed.gradient.data() != nullptr && fixed.gradient.shape() != fixed.values.shape())
    throw shape_error("attention: the gradient of the mask is " + shape_text(fixed.gradient.shape()) + ", expected " +
                      shape_text(fixed.values.shape()));
  const bool keeps = t.recording() || call.keep_probabilities;
  index_t* offsets = nullptr;
  if (keeps) {
    const auto copy = [&t](std::span<const sequence> from) {
      sequence* const to = t.template keep<sequence>(static_cast<index_t>(from.size()));
      std::copy(from.begin(), from.end(), to);
      return std::span<const sequence>(to, from.size());
    };
    node.call.queries = copy(call.queries);
    node.call.keys = copy(call.keys);
    offsets = t.template keep<index_t>(static_cast<index_t>(call.queries.size()) + 1);
  }
  const auto in = node.inputs(t);
  detail::require_attention("attention", in);
  if (keeps) {
    offsets[0] = 0;
    for (std::size_t b = 0; b < in.queries.size(); ++b)
      offsets[b + 1] = offsets[b] + call.shape.heads * in.queries[b].length * in.keys[b].length;
    const index_t count = offsets[in.queries.size()];
    node.probabilities = t.keep(count);
    if (t.recording() && call.keep_probability_gradients) {
      node.probability_gradients = t.keep(count);
      std::fill_n(node.probability_gradients, count, T(0));
    }
  }
  node.out = t.add(in.q.extent(0), in.q.extent(1));
  t.set_samples(node.out, node.call.queries);
  node.context = keeps && call.gates != nullptr ? t.add(in.q.extent(0), in.q.extent(1)) : node.out;
  attention_forward(t.backend(), in, t.value(node.out), node.probabilities,
                    node.context == node.out ? tensor_view<T, 2>{} : t.value(node.context), t.workspace());
  t.record(node);
  if (record != nullptr) {
    record->shape = call.shape;
    record->out = node.out;
    record->context = node.context;
    record->kept = keeps ? kept_probabilities<T>{node.probabilities,
                                                 node.probability_gradients,
                                                 node.call.queries,
                                                 node.call.keys,
                                                 {offsets, in.queries.size() + 1}}
                         : kept_probabilities<T>{};
  }
  return node.out;
}

}  // namespace headred
