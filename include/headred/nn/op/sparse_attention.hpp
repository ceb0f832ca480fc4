// Multi-head attention under a binary mask that goes to the ones of the mask alone.
#pragma once

#include <headred/nn/op/attention.hpp>
#include <headred/nn/op/sparse_attention_backward.hpp>
#include <headred/nn/op/sparse_attention_relevance.hpp>

namespace headred {

/// How many probabilities sparse_attention_forward keeps: those of one sentence after the other, head after head, query
/// after query, each as many as its row of the mask has ones. Ones that a sentence does not reach have room, and 0.
template <class T>
index_t sparse_probability_count(const attention_inputs<T>& in, const sparse_mask& mask) {
  detail::require_sparse_attention("sparse_probability_count", in, mask);
  index_t n = 0;
  for (std::size_t b = 0; b < in.queries.size(); ++b)
    for (index_t h = 0; h < in.shape.heads; ++h) {
      const index_t rows = in.queries[b].length, cols = in.keys[b].length;
      n += detail::listed_keys(mask, detail::mask_head(mask, h), in.options.causal, rows, cols).place(rows);
    }
  return n;
}

/// Whether lists are expected to be faster than attention_forward and attention_gradient under the same mask. A one
/// costs what some places of the dense pass cost, and a query as much as five ones: measured, see docs/gates.md.
/// Throws shape_error, argument_error.
template <class T>
bool sparse_attention_pays(const attention_inputs<T>& in, const sparse_mask& mask) {
  double ones = static_cast<double>(sparse_probability_count(in, mask)), places = 0;
  for (std::size_t b = 0; b < in.queries.size(); ++b) {
    const double rows = static_cast<double>(in.shape.heads * in.queries[b].length);
    ones += 5 * rows;
    places += rows * static_cast<double>(in.keys[b].length);
  }
  const double size = static_cast<double>(in.shape.head_size);
  return ones <= .45 * size / (size + 8) * places;
}

/// attention_forward under the mask that the lists were made of, equal to it to rounding:
///   A_ij = softmax over the ones j of row i of (scale q_i k_j),
///   context_i = sum_j D(A_ij) v_j, out_i = gate_h context_i, D the dropout, drawn by the place among the ones.
/// `in` without mask and bias; mask (heads or 1, >= T, >= S), whose rows serve queries as a dense mask's do. out and
/// context as in attention_forward; `probabilities` as sparse_probability_count says, or nullptr. The same bits
/// whatever is kept and however many threads work. A query that sees no key has context 0. Throws shape_error,
/// argument_error. Cost: 4 heads head_size operations a one; copies of k and v for each head.
template <class T, host_backend Backend>
void sparse_attention_forward(Backend& be, const attention_inputs<T>& in, const sparse_mask& mask,
                              tensor_view<T, 2> out, std::type_identity_t<T>* probabilities,
                              std::type_identity_t<tensor_view<T, 2>> context,
                              sparse_attention_workspace<T>& workspace) {
  constexpr const char* op = "sparse_attention_forward";
  const auto extent = detail::require_sparse_attention(op, in, mask);
  detail::require_matrix(op, "out", out, in.q.extent(0), in.q.extent(1));
  detail::clear_between(in.queries, out);
  if (context.data() != nullptr) {
    detail::require_matrix(op, "context", context, in.q.extent(0), in.q.extent(1));
    if (context.data() == out.data() && in.gates.values.data() != nullptr)
      throw argument_error(std::string(op) + ": context is out, expected its own memory where there are gates");
    detail::clear_between(in.queries, context);
  }
  workspace.cut(in.shape, in.options.causal, in.queries, in.keys, mask, true);
  detail::run_sparse_attention(
      be, workspace, detail::sparse_forward_scratch<T>(in.shape, extent.cols, mask.longest_row()),
      detail::sparse_forward_kernel<T>{in, mask, workspace, detail::attention_scale(in.shape, in.options),
                                       probabilities, context, out});
}

/// Adds to what `gradients` names, from dout = dLoss/dout and what sparse_attention_forward kept of the same inputs:
/// the sums of attention_gradient over the ones of the mask, in a fixed order. Throws shape_error, argument_error.
/// Cost: 8 heads head_size operations a one; copies of q, k, v and dout.
template <class T, host_backend Backend>
void sparse_attention_gradient(Backend& be, const attention_inputs<T>& in, const sparse_mask& mask,
                               const std::type_identity_t<T>* probabilities,
                               std::type_identity_t<tensor_view<const T, 2>> context,
                               std::type_identity_t<tensor_view<const T, 2>> dout,
                               const sparse_attention_gradients<T>& gradients,
                               sparse_attention_workspace<T>& workspace) {
  constexpr const char* op = "sparse_attention_gradient";
  const auto extent = detail::require_sparse_attention(op, in, mask);
  const index_t heads = in.shape.heads, sentences = static_cast<index_t>(in.queries.size());
  detail::require_attention_gradients(op, in, context, dout, gradients);
  const bool gates = gradients.gates.data() != nullptr;
  workspace.cut(in.shape, in.options.causal, in.queries, in.keys, mask, false);
  if (probabilities == nullptr && workspace.probabilities() > 0)
    throw argument_error(std::string(op) + ": there are no probabilities, expected those of sparse_attention_forward");
  T* const parts = gates ? workspace.gates(sentences * heads) : nullptr;
  if (gates) std::fill_n(parts, sentences * heads, T(0));
  detail::run_sparse_attention(
      be, workspace, detail::sparse_backward_scratch<T>(in.shape, extent, workspace.most()),
      detail::sparse_backward_kernel<T>{in, mask, workspace, detail::attention_scale(in.shape, in.options),
                                        probabilities, context, dout, gradients, parts});
  if (gates)
    for (index_t b = 0; b < sentences; ++b)
      for (index_t h = 0; h < heads; ++h) gradients.gates(h) += parts[b * heads + h];
}

namespace detail {

template <class T, backend Backend>
struct sparse_attention_node {
  static constexpr const char* name = "sparse attention";
  attention_node<T, Backend> dense;
  const sparse_mask* mask;
  sparse_attention_workspace<T>* workspace;

  attention_inputs<T, typename Backend::space> inputs(const tape<T, Backend>& t) const {
    auto in = dense.inputs(t);
    in.mask = {};
    return in;
  }
  void gradient(tape<T, Backend>& t) const {
    if (!t.has_gradient(dense.out)) return;
    const auto& call = dense.call;
    const auto in = inputs(t);
    sparse_attention_gradients<T> d;
    d.q = columns("q", t.gradient(call.q.source), call.q, in.q.extent(1));
    d.k = columns("k", t.gradient(call.k.source), call.k, in.k.extent(1));
    d.v = columns("v", t.gradient(call.v.source), call.v, in.v.extent(1));
    if (call.gates != nullptr) d.gates = call.gates->gradient.view();
    sparse_attention_gradient(t.backend(), in, *mask, dense.probabilities, t.input(dense.context),
                              t.gradient(dense.out), d, *workspace);
  }
  void relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s) const {
    if (!t.has_relevance(dense.out)) return;
    const auto& call = dense.call;
    const auto in = inputs(t);
    head_gates_relevance<T>(t, s, in.gates.values, dense.context, dense.out);
    const tensor_view<const T, 2> out = t.relevance(dense.context);
    using input = typename relevance_sweep<T, Backend>::input;
    const auto part = [](const slot_columns& c, index_t cols) {
      return input{c.source, std::max<index_t>(0, c.first), cols};
    };
    const input q = part(call.q, in.q.extent(1)), k = part(call.k, in.k.extent(1)), v = part(call.v, in.v.extent(1));
    const relevance_rule& rule = s.rules().of(relevance_op::attention);
    const auto run = [&](const attention_relevance_in<T>& to) {
      return with_policy(rule, [&](const auto& policy) {
        return sparse_attention_relevance<T>(t.backend(), in, *mask, dense.probabilities, t.input(dense.context),
                                             policy, rule.attention, out, to, s.workspace(), *workspace);
      });
    };
    if (rule.attention == attention_mode::constant)
      s.pass(relevance_op::attention, rule, dense.context, std::array<input, 1>{{v}},
             [&](const relevance_rule&, const auto& raw) {
               return run({{}, {}, raw[0]});
             });
    else
      s.pass(relevance_op::attention, rule, dense.context, std::array<input, 3>{{q, k, v}},
             [&](const relevance_rule&, const auto& raw) {
               return run({raw[0], raw[1], raw[2]});
             });
  }
};

}  // namespace detail

/// Attention on a tape under the mask that the lists were made of: as `attention`, but its probabilities are kept by
/// the lists, for the ways back alone. `call` as of `attention`, without bias and learned mask; where it names the same
/// mask as `fixed_mask` and lists do not pay, this is `attention`. Lists and workspace must live until the tape has
/// gone back. Throws shape_error, argument_error.
template <class T, host_backend Backend>
slot sparse_attention(tape<T, Backend>& t, const attention_call<T, Backend>& call, const sparse_mask& mask,
                      sparse_attention_workspace<T>& workspace) {
  constexpr const char* op = "sparse_attention";
  if (call.mask != nullptr || call.fixed_mask.gradient.data() != nullptr || call.keep_probability_gradients)
    throw argument_error(std::string(op) + ": there is a " +
                         (call.keep_probability_gradients ? "gradient of probabilities" : "mask that learns") +
                         ", expected the ways back of q, k, v and gates alone");
  if (call.gates != nullptr && call.gates->trained() && call.gates->gradient.shape() != call.gates->value.shape())
    throw shape_error(std::string(op) + ": the gradient of gates is " + shape_text(call.gates->gradient.shape()) +
                      ", expected " + shape_text(call.gates->value.shape()));
  detail::sparse_attention_node<T, Backend> node{{call, {}, {}, nullptr, nullptr}, &mask, &workspace};
  auto& dense = node.dense;
  const auto in = node.inputs(t);
  if (call.fixed_mask.values.data() != nullptr && !sparse_attention_pays(in, mask)) return attention(t, call);
  if (t.recording()) {
    const auto copy = [&t](std::span<const sequence> from) {
      sequence* const to = t.template keep<sequence>(static_cast<index_t>(from.size()));
      std::copy(from.begin(), from.end(), to);
      return std::span<const sequence>(to, from.size());
    };
    dense.call.queries = copy(call.queries);
    dense.call.keys = copy(call.keys);
  }
  if (t.recording()) dense.probabilities = t.keep(sparse_probability_count(in, mask));
  dense.out = t.add(in.q.extent(0), in.q.extent(1));
  t.set_samples(dense.out, dense.call.queries);
  dense.context = t.recording() && call.gates != nullptr ? t.add(in.q.extent(0), in.q.extent(1)) : dense.out;
  sparse_attention_forward(t.backend(), in, mask, t.value(dense.out), dense.probabilities,
                           dense.context == dense.out ? tensor_view<T, 2>{} : t.value(dense.context), workspace);
  t.record(node);
  return dense.out;
}

}  // namespace headred
