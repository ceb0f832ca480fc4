// The way back through attention on the device.
#pragma once

#include <headred/device/attention.hpp>
#include <headred/device/head_dots.hpp>

namespace headred::device {

/// What attention_gradient adds to; an empty view is not wanted.
template <class T>
struct attention_gradients {
  tensor_view<T, 2, device_space> q = {}, k = {}, v = {};  ///< shapes of the operands
  tensor_view<T, 1, device_space> gates = {};              ///< (heads)
  tensor_view<T, 3, device_space> mask = {}, bias = {};    ///< shapes of the operands; one head or stride 0: summed
  T* probabilities = nullptr;                              ///< overwritten, laid out as the probabilities
};

namespace detail {

/// dscores = A (dA - sum_l A_l dA_l), dA = gate dout v, laid out as the probabilities; a lane reads back what it wrote.
template <class T>
struct attention_scores_kernel : attention_tile<T> {
  using tile = attention_tile<T>;
  attention_table table;
  attention_operands<T> in;
  const T* probabilities;
  tensor_view<const T, 2, device_space> dout;
  T *dprobabilities, *dscores;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, typename tile::template shared<Block>& memory) const {
    const auto part = attention_part::of<tile::columns>(table, true, in.heads, 1, block.block());
    const attention_sentence& s = *part.sentence;
    const index_t key_column = part.head / (in.heads / in.kv_heads) * in.head_size;
    const int lane = block.thread() % tile::across, own = block.thread() / tile::across * tile::each;
    const T gate = in.gates.data() == nullptr ? T(1) : in.gates(part.head);
    const row_block<T> given{dout.data() + (s.query_begin + part.first) * dout.stride(0) + part.head * in.head_size,
                             dout.stride(0), part.rows};
    const index_t end = part.visible(in.causal, part.first + part.rows - 1);
    T mean[tile::each] = {};
    for (index_t j0 = 0; j0 < end; j0 += tile::across) {
      T d[tile::each];
      tile::products(block, memory, given, rows_of(in.v, s.key_begin, j0, end, key_column),
                     static_cast<int>(in.head_size), d);
      for (int a = 0; a < tile::each; ++a) {
        const index_t i = part.first + own + a, j = j0 + lane;
        if (own + a >= part.rows || j >= part.visible(in.causal, i)) continue;
        const index_t at = part.place(in.heads, i) + j;
        dscores[at] = d[a] * gate;
        mean[a] += probabilities[at] * dscores[at];
      }
    }
    for (int a = 0; a < tile::each; ++a) {
      mean[a] = tile::fold(block, mean[a], headred::detail::add{});
      if (own + a >= part.rows) continue;
      const index_t i = part.first + own + a, first = part.place(in.heads, i), seen = part.visible(in.causal, i);
      for (index_t j = lane; j < s.keys; j += tile::across) {
        const T d = j < seen ? dscores[first + j] : T(0);
        if (dprobabilities != nullptr) dprobabilities[first + j] = d;
        dscores[first + j] = j < seen ? probabilities[first + j] * (d - mean[a]) : T(0);
      }
    }
  }
};

/// to_r += factor sum_j w_rj x_j: of the queries, r a query and w_rj its weight for key j, x in groups of heads; of the
/// keys, r a key and j the queries of the heads of its group, one head after the other.
template <class T>
struct attention_sum_kernel : attention_tile<T> {
  using tile = attention_tile<T>;
  attention_table table;
  bool of_queries;
  index_t heads, kv_heads, head_size;
  const T* weights;
  T factor;
  tensor_view<const T, 1, device_space> gates;  // factors of the heads; or empty
  tensor_view<const T, 2, device_space> x;
  tensor_view<T, 2, device_space> to;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, typename tile::template shared<Block>& memory) const {
    const auto part =
        attention_part::of<tile::columns>(table, of_queries, of_queries ? heads : kv_heads, head_size, block.block());
    const attention_sentence& s = *part.sentence;
    const int t = block.thread(), lane = t % tile::across, own = t / tile::across * tile::each;
    const index_t group = heads / kv_heads, length = of_queries ? s.keys : s.queries;
    const index_t first_head = of_queries ? part.head : part.head * group;
    T values[tile::packs][tile::each] = {};
    for (index_t h = first_head; h < first_head + (of_queries ? 1 : group); ++h) {
      const T scaled = gates.data() == nullptr ? factor : factor * gates(h);
      const T* const w = weights + heads * s.place + h * s.queries * s.keys;
      const index_t column = (of_queries ? h / group : h) * head_size + part.column;
      for (index_t j0 = 0; j0 < length; j0 += tile::across) {
        block.sync();
        for (int e = t; e < tile::rows * tile::across; e += tile::threads) {
          // neighbouring threads read neighbouring weights
          const int r = of_queries ? e / tile::across : e % tile::rows, j = of_queries ? lane : e / tile::rows;
          const index_t row = part.first + r, other = j0 + j;
          memory.weights[r * tile::pitch + j] =
              r < part.rows && other < length ? scaled * w[of_queries ? row * s.keys + other : other * s.keys + row]
                                              : T(0);
        }
        block.sync();
        tile::add_weighted(block, memory, rows_of(x, of_queries ? s.key_begin : s.query_begin, j0, length, column),
                           part.columns, values);
      }
    }
    for (int a = 0; a < tile::each; ++a) {
      if (own + a >= part.rows) continue;
      const index_t row = (of_queries ? s.query_begin : s.key_begin) + part.first + own + a;
      for (int m = 0; m < tile::packs; ++m) {
        const int c = m * tile::across + lane;
        if (c < part.columns) to(row, part.head * head_size + part.column + c) += values[m][a];
      }
    }
  }
};

/// The shapes are those of `in`; an empty `to` is not wanted.
template <class T, class Backend>
void issue_attention_sum(Backend& be, const attention_table& table, const attention_operands<T>& in, bool of_queries,
                         const T* weights, T factor, const tensor_view<const T, 1, device_space>& gates,
                         const tensor_view<const T, 2, device_space>& x, const tensor_view<T, 2, device_space>& to) {
  using kernel = attention_sum_kernel<T>;
  if (to.data() == nullptr) return;
  be.launch((of_queries ? table.query_tiles * in.heads : table.key_tiles * in.kv_heads) *
                attention_part::chunks(in.head_size, kernel::columns),
            kernel{{}, table, of_queries, in.heads, in.kv_heads, in.head_size, weights, factor, gates, x, to});
}

/// to += factor dscores over the sentences, and over the heads where `to` has one for all, in order.
template <class T>
struct add_scores {
  attention_table table;
  index_t heads, rows, cols;
  bool causal, shared;
  const T* dscores;
  T factor;
  tensor_view<T, 3, device_space> to;

  HEADRED_FUNCTION void operator()(index_t at) const {
    const index_t j = at % cols, i = at / cols % rows, own = at / cols / rows;
    const index_t first = shared ? 0 : own, last = shared ? heads : own + 1;
    T sum = to(own, i, j);
    for (index_t b = 0; b < table.count; ++b) {
      const attention_sentence& s = table.sentences[b];
      const index_t row = causal ? i - (s.keys - s.queries) : i;
      if (row < 0 || row >= s.queries || j >= s.keys) continue;
      for (index_t h = first; h < last; ++h)
        sum += factor * dscores[heads * s.place + (h * s.queries + row) * s.keys + j];
    }
    to(own, i, j) = sum;
  }
};

}  // namespace detail

/// Adds to what `gradients` names, from dout = dLoss/dout and what attention_forward kept of the same operands:
///   dcontext_i = gate dout_i, dA_ij = dcontext_i v_j, ds_ij = A_ij (dA_ij - sum_l A_il dA_il),
///   dv_j += sum_i A_ij dcontext_i, dq_i += scale sum_j ds_ij k_j, dk_j += scale sum_i ds_ij q_i,
///   dgate_h += sum_i dout_i context_i, dbias_ij += ds_ij, dmask_ij += penalty ds_ij.
/// Excluded keys have ds = 0. `context` is read for the gates alone. Sums run in a fixed order. Keys of sentences must
/// lie apart where their gradients are wanted. Scratch memory of the size of A in the workspace. Throws shape_error,
/// argument_error. Cost: 8 heads head_size sum_b T_b S_b operations.
template <class T, device_backend Backend>
void attention_gradient(Backend& be, const attention_batch<Backend>& batch, const attention_operands<T>& in,
                        const std::type_identity_t<T>* probabilities,
                        std::type_identity_t<tensor_view<const T, 2, device_space>> context,
                        std::type_identity_t<tensor_view<const T, 2, device_space>> dout,
                        const attention_gradients<T>& gradients) {
  constexpr const char* op = "attention_gradient";
  detail::require_attention(op, batch, in);
  detail::require_rows(op, "dout", dout, in.q.extent(0), in.q.extent(1));
  const auto require = [&](const char* name, const auto& m, const auto& like) {
    if (m.data() != nullptr) detail::require_shape(op, name, m, like.shape());
  };
  require("dq", gradients.q, in.q);
  require("dk", gradients.k, in.k);
  require("dv", gradients.v, in.v);
  const bool of_keys = gradients.k.data() != nullptr || gradients.v.data() != nullptr;
  if (of_keys && !batch.keys_apart())
    throw argument_error(std::string(op) + ": sentences share keys, expected them apart where gradients are wanted");
  const bool gates = gradients.gates.data() != nullptr;
  if (gates) {
    detail::require_shape(op, "dgates", gradients.gates, {in.heads});
    detail::require_shape(op, "context", context, in.q.shape());
  }
  const index_t rows = detail::position_rows(batch, in), cols = batch.greatest_keys();
  detail::require_positions(op, "dmask", gradients.mask, in.heads, rows, cols);
  detail::require_positions(op, "dbias", gradients.bias, in.heads, rows, cols);
  const index_t count = batch.probability_count(in.heads), parts = gates ? batch.sentences() * in.heads : 0;
  if (probabilities == nullptr && count > 0)
    throw argument_error(std::string(op) + ": there are no probabilities, expected those of attention_forward");
  if (in.q.empty()) return;

  T* const dscores = static_cast<T*>(be.workspace(static_cast<std::size_t>(count + parts) * sizeof(T)));
  const auto& table = batch.table();
  be.launch(table.query_tiles * in.heads,
            detail::attention_scores_kernel<T>{{}, table, in, probabilities, dout, gradients.probabilities, dscores});
  const T scale = detail::attention_scale(in);
  detail::issue_attention_sum<T>(be, table, in, true, dscores, scale, {}, in.k, gradients.q);
  detail::issue_attention_sum<T>(be, table, in, false, dscores, scale, {}, in.q, gradients.k);
  detail::issue_attention_sum<T>(be, table, in, false, probabilities, T(1), in.gates, dout, gradients.v);
  const auto add_positions = [&](T factor, const tensor_view<T, 3, device_space>& to) {
    if (to.data() == nullptr) return;
    if ((to.extent(1) > 1 && to.stride(1) == 0) || (to.extent(2) > 1 && to.stride(2) == 0))
      throw argument_error(std::string(op) + ": the gradient of a mask or bias has stride 0 over queries or keys, " +
                           "expected it over heads alone");
    const bool shared = to.extent(0) == 1 || to.stride(0) == 0;
    be.for_each((shared ? 1 : in.heads) * rows * cols,
                detail::add_scores<T>{table, in.heads, rows, cols, in.causal, shared, dscores, factor, to});
  };
  add_positions(in.mask_penalty, gradients.mask);
  add_positions(T(1), gradients.bias);
  if (!gates) return;
  detail::issue_head_dots<T>(be, batch, dout, context, in.heads, dscores + count);
  be.for_each(in.heads, detail::add_sentences<T>{dscores + count, batch.sentences(), in.heads, gradients.gates});
}

}  // namespace headred::device
