// The gradient kernel of attention for a task: all queries of one sentence in some groups of heads.
#pragma once

#include <algorithm>

#include <headred/nn/op/attention_forward.hpp>

namespace headred {

/// What attention_gradient adds to; an empty view is not wanted.
template <class T, class Space = host_space>
struct attention_gradients {
  tensor_view<T, 2, Space> q, k, v;  ///< shapes of the operands
  tensor_view<T, 1, Space> gates;    ///< (heads)
  tensor_view<T, 3, Space> mask;     ///< shape of the mask's `values`; with one head or stride 0: the sum over heads
  tensor_view<T, 3, Space> bias;     ///< shape of the bias; likewise
  T* probabilities = nullptr;        ///< overwritten, laid out as the probabilities: before the softmax is gone back
};

namespace detail {

template <class T>
index_t backward_scratch(const attention_shape& shape, index_t keys) {
  return padded<T, native_lanes<T>>(keys) * (shape.head_size + 2 * attention_rows_at_once) +
         attention_rows_at_once * shape.head_size;
}

/// Operands of the gradient. `scores` (laid out as the probabilities) and `gates` (sentences, heads) receive parts that
/// are summed later, in a fixed order; either may be absent.
template <class T, class Space>
struct attention_backward_kernel {
  const attention_inputs<T, Space>& in;
  T scale;
  const T* probabilities;
  tensor_view<const T, 2, Space> context;
  tensor_view<const T, 2, Space> dout;
  const attention_gradients<T, Space>& d;
  T* scores;
  T* gates;
  dropout_mask dropout{in.options.dropout, in.options.draws};
  bool drops = !dropout.keeps_all();

  void operator()(const attention_task& task, index_t offset, T* scratch) const {
    const auto b = static_cast<std::size_t>(task.sentence);
    const sequence queries = in.queries[b], keys = in.keys[b];
    const index_t size = in.shape.head_size, group = in.shape.heads / in.shape.kv_heads;
    const index_t ld = padded<T, native_lanes<T>>(keys.length);
    T* const values_across = scratch;
    for (index_t g = task.group; g < task.group + task.groups; ++g) {
      transpose(in.v.data() + keys.begin * in.v.stride(0) + g * size, in.v.stride(0), keys.length, size, values_across,
                ld);
      for (index_t h = g * group; h < (g + 1) * group; ++h) {
        if (gates != nullptr) gates[task.sentence * in.shape.heads + h] = gate_gradient(queries, h);
        for (index_t i = 0; i < queries.length; i += attention_rows_at_once)
          head_rows(queries, keys, h, g, i, std::min(attention_rows_at_once, queries.length - i),
                    offset + (h * queries.length + i) * keys.length, values_across, ld, scratch + ld * size);
      }
    }
  }

 private:
  T gate_gradient(const sequence& queries, index_t h) const {
    const index_t size = in.shape.head_size;
    T sum = 0;
    for (index_t i = queries.begin; i < queries.begin + queries.length; ++i)
      sum +=
          row_dot(dout.data() + i * dout.stride(0) + h * size, context.data() + i * context.stride(0) + h * size, size);
    return sum;
  }

  /// Queries [i, i + rows) of one head; `first` is the place of their first probability in the storage.
  void head_rows(const sequence& queries, const sequence& keys, index_t h, index_t g, index_t i, index_t rows,
                 index_t first, const T* values_across, index_t ld, T* scratch) const {
    const index_t size = in.shape.head_size, row = queries.begin + i;
    const index_t cols = visible_keys(in.options.causal, i + rows - 1, queries.length, keys.length);
    T* const dscores = scratch;
    T* const dropped = scratch + attention_rows_at_once * ld;
    T* const gated = dropped + attention_rows_at_once * ld;
    const strided_matrix<T> dcontext = gate(dout.data() + row * dout.stride(0) + h * size, h, rows, gated);
    block_product(rows, padded<T, native_lanes<T>>(cols), size, T(1), dcontext, values_across, ld, T(0), dscores, ld);
    const T* const p = probabilities + first;
    if (drops) dropout.apply(p, dropped, rows * keys.length, static_cast<std::uint64_t>(first));
    const T* const weights = drops ? dropped : p;
    for (index_t r = 0; r < rows; ++r) {
      T* const s = dscores + r * ld;
      const index_t at = r * keys.length, n = visible_keys(in.options.causal, i + r, queries.length, keys.length);
      std::fill(s + n, s + cols, T(0));
      put(s, cols, keys.length, d.probabilities, first + at);
      score_gradient_row(p + at, weights + at, s, n);
      put(s, cols, keys.length, scores, first + at);
    }
    if (drops && d.probabilities != nullptr)
      dropout.apply(d.probabilities + first, d.probabilities + first, rows * keys.length,
                    static_cast<std::uint64_t>(first));
    if (d.q.data() != nullptr)
      block_product(rows, size, cols, scale, {dscores, ld, 1}, in.k.data() + keys.begin * in.k.stride(0) + g * size,
                    in.k.stride(0), T(1), d.q.data() + row * d.q.stride(0) + h * size, d.q.stride(0));
    if (d.k.data() != nullptr)
      block_product(cols, size, rows, scale, {dscores, 1, ld}, in.q.data() + row * in.q.stride(0) + h * size,
                    in.q.stride(0), T(1), d.k.data() + keys.begin * d.k.stride(0) + g * size, d.k.stride(0));
    if (d.v.data() != nullptr)
      block_product(cols, size, rows, T(1), {weights, 1, keys.length}, dcontext.data, dcontext.row, T(1),
                    d.v.data() + keys.begin * d.v.stride(0) + g * size, d.v.stride(0));
  }

  /// gate dout, in `to` unless there is no gate.
  strided_matrix<T> gate(const T* from, index_t h, index_t rows, T* to) const {
    if (in.gates.values.data() == nullptr) return {from, dout.stride(0), 1};
    const index_t size = in.shape.head_size;
    const T factor = in.gates.values(h);
    for (index_t r = 0; r < rows; ++r) scale_to(from + r * dout.stride(0), size, factor, to + r * size);
    return {to, size, 1};
  }

  /// A row of `keys` entries, of which `cols` may differ from 0, to its place in a storage that may be absent.
  static void put(const T* row, index_t cols, index_t keys, T* storage, index_t place) {
    if (storage == nullptr) return;
    std::copy(row, row + cols, storage + place);
    std::fill(storage + place + cols, storage + place + keys, T(0));
  }
};

/// to += factor dscores over the sentences, and over the heads where `to` has one for all. Each entry belongs to one
/// task, which adds sentence after sentence, head after head.
template <class T, class Backend, class Space>
void add_scores(Backend& be, const attention_inputs<T, Space>& in, const attention_workspace<T>& workspace,
                const T* dscores, T factor, attention_extent extent, const tensor_view<T, 3, Space>& to) {
  const index_t heads = in.shape.heads;
  const bool shared = to.extent(0) == 1 || to.stride(0) == 0;
  task_runner<Backend> runner(be);
  runner.run(shared ? extent.rows : heads * extent.rows, [&](index_t i, int) {
    const index_t first = shared ? 0 : i / extent.rows, last = shared ? heads : first + 1, at = i % extent.rows;
    for (std::size_t b = 0; b < in.queries.size(); ++b) {
      const index_t rows = in.queries[b].length, cols = in.keys[b].length;
      const index_t row = in.options.causal ? at - (cols - rows) : at;
      if (row < 0 || row >= rows) continue;
      for (index_t h = first; h < last; ++h) {
        const T* const from = dscores + workspace.offset(static_cast<index_t>(b)) + (h * rows + row) * cols;
        T* const sum = to.data() + (shared ? 0 : h * to.stride(0)) + at * to.stride(1);
        for_each_pack<T>(cols, [=](index_t j, auto zero) {
          using vec = decltype(zero);
          store(sum + j, load<vec>(sum + j) + load<vec>(from + j) * factor);
        });
      }
    }
  });
}

}  // namespace detail
}  // namespace headred
