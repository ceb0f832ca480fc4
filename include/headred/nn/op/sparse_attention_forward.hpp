// The forward kernel of sparse attention for a task: some queries of one sentence in a group of heads.
#pragma once

#include <headred/nn/op/sparse_attention_rows.hpp>
#include <headred/nn/op/sparse_attention_workspace.hpp>

namespace headred::detail {

/// Queries whose softmax is taken at once.
template <class T>
inline constexpr index_t sparse_rows_at_once = native_lanes<T>;

template <class T>
index_t sparse_forward_scratch(const attention_shape& shape, index_t keys, index_t longest) {
  constexpr int lanes = native_lanes<T>;
  return packed_rows<T>::distance(shape.head_size) * (2 * keys + 2) +
         padded<T, lanes>(longest) * 3 * sparse_rows_at_once<T>;
}

/// The ones of one head of the mask, as the queries of a sentence read them.
class listed_keys {
 public:
  listed_keys(const sparse_mask& mask, index_t head, bool causal, index_t queries, index_t keys)
      : mask_(mask), head_(head), causal_(causal), keys_(keys), rows_(causal, queries, keys) {}

  /// Keys that query i sees.
  std::span<const std::int32_t> of(index_t i) const {
    if (keys_ == 0 || i < rows_.blind) return {};
    const auto all = mask_.keys(head_, rows_.row(i));
    return all.first(static_cast<std::size_t>(count_below(all, causal_ ? rows_.row(i) + 1 : keys_)));
  }
  /// Where the probabilities of query i begin among those of the head; i may be the number of queries. There is room
  /// for keys beyond the sentence too, which are not seen.
  index_t place(index_t i) const {
    return keys_ == 0 ? 0 : mask_.begin(head_, rows_.row(std::max(i, rows_.blind))) - mask_.begin(head_, rows_.first);
  }

 private:
  const sparse_mask& mask_;
  index_t head_;
  bool causal_;
  index_t keys_;
  sentence_rows rows_;
};

/// Operands of the forward pass; `probabilities` and `context` may be absent.
template <class T>
struct sparse_forward_kernel {
  const attention_inputs<T>& in;
  const sparse_mask& mask;
  const sparse_attention_workspace<T>& places;
  T scale;
  T* probabilities;
  tensor_view<T, 2> context;
  tensor_view<T, 2> out;
  dropout_mask dropout{in.options.dropout, in.options.draws};
  bool drops = !dropout.keeps_all();

  void operator()(const attention_task& task, T* scratch) const {
    const auto b = static_cast<std::size_t>(task.sentence);
    const index_t size = in.shape.head_size, group = in.shape.heads / in.shape.kv_heads;
    const sequence queries = in.queries[b], keys = in.keys[b];
    const packed_rows<T> k(scratch, size), v(k.row(keys.length), size);
    for (index_t g = task.group; g < task.group + task.groups; ++g) {
      const auto from = [&](const tensor_view<const T, 2>& m) {
        return m.data() + keys.begin * m.stride(0) + g * size;
      };
      pack_rows(from(in.k), in.k.stride(0), keys.length, size, T(1), k, 0);
      pack_rows(from(in.v), in.v.stride(0), keys.length, size, T(1), v, 0);
      for (index_t h = g * group; h < (g + 1) * group; ++h) {
        const listed_keys seen(mask, mask_head(mask, h), in.options.causal, queries.length, keys.length);
        for (index_t i = task.row; i < task.row + task.rows; i += sparse_rows_at_once<T>)
          block(seen, h, queries.begin, i, std::min(sparse_rows_at_once<T>, task.row + task.rows - i),
                places.offset(task.sentence, h), k, v, v.row(keys.length));
      }
    }
  }

 private:
  /// Queries [i, i + rows) of head h; `offset` is where its probabilities begin.
  void block(const listed_keys& seen, index_t h, index_t begin, index_t i, index_t rows, index_t offset,
             const packed_rows<T>& k, const packed_rows<T>& v, T* scratch) const {
    const index_t size = in.shape.head_size, room = padded<T, native_lanes<T>>(mask.longest_row());
    const packed_rows<T> q(scratch, size);
    T *const sum = q.row(1), *const scores = q.row(2);
    T *const compact = scores + sparse_rows_at_once<T> * room, *const dropped = compact + sparse_rows_at_once<T> * room;
    const index_t first = seen.place(i), count = seen.place(i + rows) - first;
    T* const to = probabilities != nullptr ? probabilities + offset + first : compact;
    std::span<const std::int32_t> list[sparse_rows_at_once<T>];
    score_row<T> row[sparse_rows_at_once<T>] = {};
    for (index_t r = 0; r < rows; ++r) {  // read now, and written when all is done
      prefetch_row(in.q.data() + (begin + i + r) * in.q.stride(0) + h * size, size);
      prefetch_row(out.data() + (begin + i + r) * out.stride(0) + h * size, size);
    }
    for (index_t r = 0; r < rows; ++r) {
      const auto& l = list[r] = seen.of(i + r);
      row[r] = {scores + r * room, to + (seen.place(i + r) - first), static_cast<index_t>(l.size())};
      pack_rows(in.q.data() + (begin + i + r) * in.q.stride(0) + h * size, 0, 1, size, T(1), q, 0);
      listed_scores(q.data, k, l.data(), row[r].n, scale, row[r].scores);
    }
    softmax_rows(row, rows);
    for (index_t r = 0; r < rows; ++r) std::fill(row[r].to + row[r].n, to + (seen.place(i + r + 1) - first), T(0));
    if (drops) dropout.apply(to, dropped, count, static_cast<std::uint64_t>(offset + first));
    for (index_t r = 0; r < rows; ++r) {
      listed_sum((drops ? dropped : to) + (row[r].to - to), list[r].data(), row[r].n, v, sum);
      if (context.data() != nullptr)
        std::copy_n(sum, size, context.data() + (begin + i + r) * context.stride(0) + h * size);
      if (context.data() != out.data())
        scale_to(sum, size, in.gates.values.data() != nullptr ? in.gates.values(h) : T(1),
                 out.data() + (begin + i + r) * out.stride(0) + h * size);
    }
  }
};

}  // namespace headred::detail
