// The forward kernel of attention for a task: some queries of one sentence in some groups of heads.
#pragma once

#include <algorithm>

#include <headred/nn/op/attention_rows.hpp>
#include <headred/nn/op/attention_workspace.hpp>
#include <headred/nn/op/dropout.hpp>
#include <headred/simd/block_product.hpp>
#include <headred/simd/transpose.hpp>

namespace headred::detail {

/// Queries whose scores are held at once.
inline constexpr index_t attention_rows_at_once = 32;
/// Sentences with fewer queries do not pay for a transposition of the keys.
inline constexpr index_t attention_few_queries = 4;

/// How many keys query i sees: all, or those up to its own position.
inline index_t visible_keys(bool causal, index_t i, index_t queries, index_t keys) {
  return causal ? std::clamp<index_t>(i + 1 + keys - queries, 0, keys) : keys;
}

/// Row `at` of a bias or mask of head h; nullptr if there is none.
template <class T, class Space>
const T* position_row(const tensor_view<const T, 3, Space>& p, index_t h, index_t at) {
  if (p.data() == nullptr) return nullptr;
  return p.data() + (p.extent(0) == 1 ? 0 : h * p.stride(0)) + at * p.stride(1);
}

template <class T>
index_t forward_scratch(const attention_shape& shape, index_t keys) {
  return padded<T, native_lanes<T>>(keys) * (shape.head_size + 2 * attention_rows_at_once);
}

/// Operands of the forward pass; `probabilities` and `context` may be absent.
template <class T, class Space>
struct attention_forward_kernel {
  const attention_inputs<T, Space>& in;
  T scale;
  T* probabilities;
  tensor_view<T, 2, Space> context;
  tensor_view<T, 2, Space> out;
  dropout_mask dropout{in.options.dropout, in.options.draws};
  bool drops = !dropout.keeps_all();

  void operator()(const attention_task& task, index_t offset, T* scratch) const {
    const auto b = static_cast<std::size_t>(task.sentence);
    const sequence queries = in.queries[b], keys = in.keys[b];
    const index_t size = in.shape.head_size, group = in.shape.heads / in.shape.kv_heads;
    const index_t end = task.row + task.rows, ld = padded<T, native_lanes<T>>(keys.length);
    const index_t seen = visible_keys(in.options.causal, end - 1, queries.length, keys.length);
    const bool few = queries.length < attention_few_queries;
    T* const keys_across = scratch;
    T* const scores = scratch + ld * size;
    for (index_t g = task.group; g < task.group + task.groups; ++g) {
      const T* const k = in.k.data() + keys.begin * in.k.stride(0) + g * size;
      const T* const v = in.v.data() + keys.begin * in.v.stride(0) + g * size;
      if (!few) transpose(k, in.k.stride(0), seen, size, keys_across, padded<T, native_lanes<T>>(seen));
      for (index_t i = task.row; i < end; i += attention_rows_at_once) {
        const index_t rows = std::min(attention_rows_at_once, end - i);
        const index_t cols = visible_keys(in.options.causal, i + rows - 1, queries.length, keys.length);
        for (index_t h = g * group; h < (g + 1) * group; ++h) {
          const T* const q = in.q.data() + (queries.begin + i) * in.q.stride(0) + h * size;
          if (few) {
            for (index_t r = 0; r < rows; ++r)
              score_keys(q + r * in.q.stride(0), k, in.k.stride(0), cols, size, scale, scores + r * ld);
          } else {
            block_product(rows, padded<T, native_lanes<T>>(cols), size, scale, {q, in.q.stride(0), 1}, keys_across,
                          padded<T, native_lanes<T>>(seen), T(0), scores, ld);
          }
          const index_t first = offset + (h * queries.length + i) * keys.length;
          const strided_matrix<T> weights = weigh(scores, ld, h, i, rows, cols, queries.length, keys.length, first);
          combine(weights, rows, cols, h, queries.begin + i, v);
        }
      }
    }
  }

 private:
  /// From scores to the weights of the values; `first` is the place of the first probability in the storage.
  strided_matrix<T> weigh(T* scores, index_t ld, index_t h, index_t i, index_t rows, index_t cols, index_t queries,
                          index_t keys, index_t first) const {
    // Dropout wants the rows as dense as in the storage, since it draws for many places at once.
    T* const dropped = scores + attention_rows_at_once * ld;
    T* const to = probabilities != nullptr ? probabilities + first : drops ? dropped : scores;
    const index_t to_row = to == scores ? ld : keys, width = to == scores ? cols : keys;
    for (index_t r = 0; r < rows; ++r) {
      T* const s = scores + r * ld;
      const index_t n = visible_keys(in.options.causal, i + r, queries, keys);
      const index_t at = in.options.causal ? i + r + keys - queries : i + r;
      if (n > 0 && (in.bias.data() != nullptr || in.mask.values.data() != nullptr))
        mask_scores(s, n, position_row(in.bias, h, at), position_row(in.mask.values, h, at), in.options.mask_penalty);
      softmax_scores(s, n, to + r * to_row);
      std::fill(to + r * to_row + n, to + r * to_row + width, T(0));
    }
    if (!drops) return {to, to_row, 1};
    dropout.apply(to, dropped, rows * keys, static_cast<std::uint64_t>(first));
    return {dropped, keys, 1};
  }

  /// context = weights v, out = gate context.
  void combine(const strided_matrix<T>& weights, index_t rows, index_t cols, index_t h, index_t row, const T* v) const {
    const index_t size = in.shape.head_size;
    const bool gated = in.gates.values.data() != nullptr;
    const T gate = gated ? in.gates.values(h) : T(1);
    T* const y = out.data() + row * out.stride(0) + h * size;
    if (context.data() == nullptr || context.data() == out.data()) {
      block_product(rows, size, cols, gate, weights, v, in.v.stride(0), T(0), y, out.stride(0));
      return;
    }
    T* const c = context.data() + row * context.stride(0) + h * size;
    block_product(rows, size, cols, T(1), weights, v, in.v.stride(0), T(0), c, context.stride(0));
    for (index_t r = 0; r < rows; ++r) scale_to(c + r * context.stride(0), size, gate, y + r * out.stride(0));
  }
};

/// Rows of m that no sentence covers become 0, so that what follows (a product over all rows) reads numbers.
template <class T, class Space>
void clear_between(std::span<const sequence> sequences, const tensor_view<T, 2, Space>& m) {
  const auto clear = [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) std::fill_n(m.data() + i * m.stride(0), m.extent(1), T(0));
  };
  index_t end = 0;
  for (const sequence& s : sequences) {
    if (s.length == 0) continue;
    clear(end, s.begin);
    end = s.begin + s.length;
  }
  clear(end, m.extent(0));
}

}  // namespace headred::detail
