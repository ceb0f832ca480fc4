// Multi-head attention on the device under a binary mask that goes to the ones of the mask alone.
#pragma once

#include <string>

#include <headred/device/attention_gradient.hpp>
#include <headred/device/sparse_attention_kernels.hpp>

namespace headred::device {

/// What sparse_attention_gradient adds to; an empty view is not wanted.
template <class T>
struct sparse_attention_gradients {
  tensor_view<T, 2, device_space> q = {}, k = {}, v = {};  ///< shapes of the operands
  tensor_view<T, 1, device_space> gates = {};              ///< (heads)
};

namespace detail {

template <class T, class Backend>
void require_sparse_attention(const char* op, const sparse_attention_batch<Backend>& sparse,
                              const attention_operands<T>& in) {
  require_attention(op, sparse.batch(), in);
  if (in.mask.data() != nullptr || in.bias.data() != nullptr)
    throw argument_error(std::string(op) + ": there is a " + (in.bias.data() != nullptr ? "bias" : "dense mask") +
                         ", expected the lists alone");
  if (in.heads != sparse.heads() || in.causal != sparse.causal())
    throw argument_error(std::string(op) + ": " + std::to_string(in.heads) + (in.causal ? " causal" : "") +
                         " heads, the batch was made for " + std::to_string(sparse.heads()) +
                         (sparse.causal() ? " causal ones" : " that are not causal"));
}

}  // namespace detail

/// attention_forward under the mask that the lists were made of, equal to it to rounding:
///   A_ij = softmax over the ones j of row i of (scale q_i k_j), context_i = sum_j A_ij v_j, out_i = gate_h context_i.
/// `in` without mask and bias; out and context as in attention_forward; `probabilities` as
/// sparse_attention_batch::probability_count says, or nullptr; room that no sentence reaches is not written. The same
/// bits whatever is kept. A query that sees no key has context 0. Throws shape_error, argument_error. Cost: 4 heads
/// head_size operations a one; products once more for each 128 columns of a head beyond the first.
template <class T, device_backend Backend>
void sparse_attention_forward(Backend& be, const sparse_attention_batch<Backend>& sparse,
                              const attention_operands<T>& in, tensor_view<T, 2, device_space> out,
                              std::type_identity_t<T>* probabilities = nullptr,
                              std::type_identity_t<tensor_view<T, 2, device_space>> context = {}) {
  constexpr const char* op = "sparse_attention_forward";
  detail::require_sparse_attention(op, sparse, in);
  detail::require_shape(op, "out", out, in.q.shape());
  if (context.data() != nullptr) detail::require_shape(op, "context", context, in.q.shape());
  if (in.q.empty()) return;
  using kernel = detail::sparse_attention_kernel<T>;
  const auto& table = sparse.batch().table();
  be.for_each(out.size(), detail::clear_between<T>{table, out});
  if (context.data() != nullptr) be.for_each(context.size(), detail::clear_between<T>{table, context});
  be.launch(kernel::blocks(table.query_tiles, in.heads, in.head_size),
            kernel{{}, table, sparse.table(), in, detail::attention_scale(in), probabilities, context, out});
}

/// Adds to what `gradients` names, from dout = dLoss/dout and what sparse_attention_forward kept of the same operands:
/// the sums of attention_gradient over the ones of the mask, in a fixed order. Keys of sentences must lie apart where
/// their gradients are wanted. Scratch memory: as many T of the workspace as there are probabilities. Throws
/// shape_error, argument_error. Cost: 8 heads head_size operations a one.
template <class T, device_backend Backend>
void sparse_attention_gradient(Backend& be, const sparse_attention_batch<Backend>& sparse,
                               const attention_operands<T>& in, const std::type_identity_t<T>* probabilities,
                               std::type_identity_t<tensor_view<const T, 2, device_space>> context,
                               std::type_identity_t<tensor_view<const T, 2, device_space>> dout,
                               const sparse_attention_gradients<T>& gradients) {
  constexpr const char* op = "sparse_attention_gradient";
  detail::require_sparse_attention(op, sparse, in);
  detail::require_rows(op, "dout", dout, in.q.extent(0), in.q.extent(1));
  const auto require = [&](const char* name, const auto& m, const auto& like) {
    if (m.data() != nullptr) detail::require_shape(op, name, m, like.shape());
  };
  require("dq", gradients.q, in.q);
  require("dk", gradients.k, in.k);
  require("dv", gradients.v, in.v);
  const auto& batch = sparse.batch();
  if ((gradients.k.data() != nullptr || gradients.v.data() != nullptr) && !batch.keys_apart())
    throw argument_error(std::string(op) + ": sentences share keys, expected them apart where gradients are wanted");
  const bool gates = gradients.gates.data() != nullptr;
  if (gates) {
    detail::require_shape(op, "dgates", gradients.gates, {in.heads});
    detail::require_shape(op, "context", context, in.q.shape());
  }
  const index_t count = sparse.probability_count(), parts = gates ? batch.sentences() * in.heads : 0;
  if (probabilities == nullptr && count > 0)
    throw argument_error(std::string(op) + ": there are no probabilities, expected those of sparse_attention_forward");
  if (in.q.empty()) return;
  T* const dscores = static_cast<T*>(be.workspace(static_cast<std::size_t>(count + parts) * sizeof(T)));
  const auto& table = batch.table();
  using scores = detail::sparse_scores_kernel<T>;
  be.launch(scores::blocks(table.query_tiles, in.heads, 1),
            scores{{}, table, sparse.table(), in, probabilities, dout, dscores});
  const auto add_sums = [&](bool of_queries, const T* weights, T factor,
                            const tensor_view<const T, 1, device_space>& factors,
                            const tensor_view<const T, 2, device_space>& x, const tensor_view<T, 2, device_space>& to) {
    using kernel = detail::sparse_sum_kernel<T>;
    if (to.data() == nullptr) return;
    be.launch(kernel::blocks(of_queries ? table.query_tiles : table.key_tiles, of_queries ? in.heads : in.kv_heads,
                             in.head_size),
              kernel{{},
                     table,
                     sparse.table(),
                     of_queries,
                     in.heads,
                     in.kv_heads,
                     in.head_size,
                     weights,
                     factor,
                     factors,
                     x,
                     to});
  };
  const T scale = detail::attention_scale(in);
  add_sums(true, dscores, scale, {}, in.k, gradients.q);
  add_sums(false, dscores, scale, {}, in.q, gradients.k);
  add_sums(false, probabilities, T(1), in.gates, dout, gradients.v);
  if (!gates) return;
  detail::issue_head_dots<T>(be, batch, dout, context, in.heads, dscores + count);
  be.for_each(in.heads, detail::add_sentences<T>{dscores + count, batch.sentences(), in.heads, gradients.gates});
}

}  // namespace headred::device
