// The gradient kernel of sparse attention for a task: all queries of one sentence in a group of heads.
#pragma once

#include <headred/nn/op/sparse_attention_forward.hpp>

namespace headred {

/// What sparse_attention_gradient adds to; an empty view is not wanted.
template <class T>
struct sparse_attention_gradients {
  tensor_view<T, 2> q, k, v;  ///< shapes of the operands
  tensor_view<T, 1> gates;    ///< (heads)
};

namespace detail {

template <class T>
index_t sparse_backward_scratch(const attention_shape& shape, attention_extent extent, index_t most) {
  return packed_rows<T>::distance(shape.head_size) * 2 * (extent.rows + extent.cols + 1) + 2 * most;
}

/// Operands of the gradient; `gates` (sentences, heads) receives parts that are summed later, or is absent.
template <class T>
struct sparse_backward_kernel {
  const attention_inputs<T>& in;
  const sparse_mask& mask;
  const sparse_attention_workspace<T>& places;
  T scale;
  const T* probabilities;
  tensor_view<const T, 2> context;
  tensor_view<const T, 2> dout;
  const sparse_attention_gradients<T>& d;
  T* gates;
  dropout_mask dropout{in.options.dropout, in.options.draws};
  bool drops = !dropout.keeps_all();

  void operator()(const attention_task& task, T* scratch) const {
    const auto b = static_cast<std::size_t>(task.sentence);
    const index_t size = in.shape.head_size, group = in.shape.heads / in.shape.kv_heads;
    const sequence queries = in.queries[b], keys = in.keys[b];
    const sentence_rows rows(in.options.causal, queries.length, keys.length);
    // Queries lie where the mask has their rows, so that its numbers find them.
    const packed_rows<T> k(scratch, size), v(k.row(keys.length), size), q(v.row(keys.length), size);
    const index_t end = keys.length == 0 ? 0 : rows.first + rows.count;
    const packed_rows<T> dcontext(q.row(end), size);
    T* const sum = dcontext.row(end);
    const memory at{k, v, q, dcontext, sum, sum + k.ld, sum + 2 * k.ld};
    for (index_t g = task.group; g < task.group + task.groups; ++g) {
      const auto copy = [&](const tensor_view<const T, 2>& m, const sequence& from, index_t number, T factor,
                            const packed_rows<T>& to, index_t first) {
        pack_rows(m.data() + from.begin * m.stride(0) + number * size, m.stride(0), from.length, size, factor, to,
                  first);
      };
      copy(in.k, keys, g, T(1), k, 0);
      copy(in.v, keys, g, T(1), v, 0);
      for (index_t h = g * group; h < (g + 1) * group; ++h) {
        if (gates != nullptr) gates[task.sentence * in.shape.heads + h] = gate_gradient(queries, h);
        if (keys.length == 0) continue;
        const T gate = in.gates.values.data() != nullptr ? in.gates.values(h) : T(1);
        const sequence seeing{queries.begin + rows.blind, rows.count};
        copy(in.q, seeing, h, T(1), q, rows.first);
        copy(dout, seeing, h, gate, dcontext, rows.first);
        head(at, task.sentence, h, g, rows);
      }
    }
  }

 private:
  struct memory {
    packed_rows<T> k, v, q, dcontext;
    T *sum, *other, *dscores;
  };

  T gate_gradient(const sequence& queries, index_t h) const {
    const index_t size = in.shape.head_size;
    T sum = 0;
    for (index_t i = queries.begin; i < queries.begin + queries.length; ++i)
      sum +=
          row_dot(dout.data() + i * dout.stride(0) + h * size, context.data() + i * context.stride(0) + h * size, size);
    return sum;
  }

  void head(const memory& at, index_t sentence, index_t h, index_t g, const sentence_rows& rows) const {
    const auto b = static_cast<std::size_t>(sentence);
    const index_t size = in.shape.head_size, number = mask_head(mask, h), queries = in.queries[b].length;
    const index_t keys = in.keys[b].length, offset = places.offset(sentence, h);
    const listed_keys seen(mask, number, in.options.causal, queries, keys);
    const T* const p = probabilities + offset;
    const index_t count = seen.place(queries);
    T* const dropped = at.dscores + count;
    if (drops) dropout.apply(p, dropped, count, static_cast<std::uint64_t>(offset));
    const T* const weights = drops ? dropped : p;
    for (index_t i = rows.blind; i < queries; ++i) {
      if (d.q.data() != nullptr && i + rows_ahead < queries)
        prefetch_row(d.q.data() + (in.queries[b].begin + i + rows_ahead) * d.q.stride(0) + h * size, size);
      const auto list = seen.of(i);
      const index_t place = seen.place(i), n = static_cast<index_t>(list.size());
      T* const s = at.dscores + place;
      listed_scores<T>(at.dcontext.row(rows.row(i)), at.v, list.data(), n, T(1), s);
      score_gradient_row(p + place, weights + place, s, n);
      if (d.q.data() == nullptr) continue;
      listed_sum<T>(s, list.data(), n, at.k, at.sum);
      add_scaled_to(at.sum, size, scale, d.q.data() + (in.queries[b].begin + i) * d.q.stride(0) + h * size);
    }
    if (d.k.data() == nullptr && d.v.data() == nullptr) return;
    const index_t before = mask.begin(number, rows.first) - mask.begin(number, 0), end = rows.first + rows.count;
    for (index_t j = 0; j < keys; ++j) {
      const auto column = mask.seen_by(number, j);
      const index_t from = count_below(column.rows, std::max(rows.first, in.options.causal ? j : 0));
      const index_t n = count_below(column.rows, end) - from;
      listed_column_sums<T>(column.rows.data() + from, column.places.data() + from, n, before, at.dscores, at.q, at.sum,
                            weights, at.dcontext, at.other);
      const index_t row = in.keys[b].begin + j;
      for (const auto* m : {&d.k, &d.v})
        if (m->data() != nullptr && j + rows_ahead < keys)
          prefetch_row(m->data() + (row + rows_ahead) * m->stride(0) + g * size, size);
      if (d.k.data() != nullptr) add_scaled_to(at.sum, size, scale, d.k.data() + row * d.k.stride(0) + g * size);
      if (d.v.data() != nullptr) add_scaled_to(at.other, size, T(1), d.v.data() + row * d.v.stride(0) + g * size);
    }
  }
};

}  // namespace detail
}  // namespace headred
