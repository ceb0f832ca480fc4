// The forward kernel of attention for a task: some queries of one sentence in some groups of heads.
#pragma once

#include <algorithm>
#include <cstdint>

#include <headred/nn/op/attention_rows.hpp>
#include <headred/nn/op/attention_workspace.hpp>
#include <headred/nn/op/dropout.hpp>
#include <headred/simd/block_product.hpp>

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
    const sentence_place at{in.queries[b], in.keys[b], offset, padded<T, native_lanes<T>>(in.keys[b].length)};
    if (at.queries.length < attention_few_queries)
      few_queries(task, at, scratch);
    else
      many_queries(task, at, scratch);
  }

 private:
  struct sentence_place {
    sequence queries, keys;
    index_t offset;  // of its probabilities
    index_t ld;      // of its scores
  };

  const T* query(const sentence_place& at, index_t h, index_t i) const {
    return in.q.data() + (at.queries.begin + i) * in.q.stride(0) + h * in.shape.head_size;
  }
  const T* key(const sentence_place& at, index_t group) const {
    return in.k.data() + at.keys.begin * in.k.stride(0) + group * in.shape.head_size;
  }
  index_t visible(const sentence_place& at, index_t i) const {
    return visible_keys(in.options.causal, i, at.queries.length, at.keys.length);
  }

  /// Scores by a product with the transposed keys of a group, block of queries after block.
  void many_queries(const attention_task& task, const sentence_place& at, T* scratch) const {
    constexpr int lanes = native_lanes<T>;
    const index_t size = in.shape.head_size, group = in.shape.heads / in.shape.kv_heads, end = task.row + task.rows;
    const index_t seen = visible(at, end - 1), seen_ld = padded<T, lanes>(seen);
    T* const scores = scratch + at.ld * size;
    for (index_t g = task.group; g < task.group + task.groups; ++g) {
      transpose(key(at, g), in.k.stride(0), seen, size, scratch, seen_ld);
      for (index_t i = task.row; i < end; i += attention_rows_at_once) {
        const index_t rows = std::min(attention_rows_at_once, end - i), cols = visible(at, i + rows - 1);
        for (index_t h = g * group; h < (g + 1) * group; ++h) {
          block_product(rows, padded<T, lanes>(cols), size, scale, {query(at, h, i), in.q.stride(0), 1}, scratch,
                        seen_ld, T(0), scores, at.ld);
          combine(weigh(scores, at, h * at.queries.length + i, rows, cols), at, h, i, rows, cols);
        }
      }
    }
  }

  /// Scores as inner products with the keys where they lie, for as many heads at once as make a block of rows.
  void few_queries(const attention_task& task, const sentence_place& at, T* scores) const {
    const index_t rows = at.queries.length, cols = visible(at, rows - 1), group = in.shape.heads / in.shape.kv_heads;
    const index_t at_once = attention_rows_at_once / rows, end = (task.group + task.groups) * group;
    for (index_t first = task.group * group; first < end; first += at_once) {
      const index_t last = std::min(end, first + at_once);
      for (index_t h = first; h < last; ++h)
        for (index_t i = 0; i < rows; ++i)
          score_keys(query(at, h, i), key(at, h / group), in.k.stride(0), cols, in.shape.head_size, scale,
                     scores + ((h - first) * rows + i) * at.ld);
      strided_matrix<T> weights = weigh(scores, at, first * rows, (last - first) * rows, cols);
      for (index_t h = first; h < last; ++h, weights.data += rows * weights.row) combine(weights, at, h, 0, rows, cols);
    }
  }

  /// From scores to the weights of the values. Row r of the block is row first + r of the sentence's probabilities,
  /// (heads T, S).
  strided_matrix<T> weigh(T* scores, const sentence_place& at, index_t first, index_t rows, index_t cols) const {
    // Dropout wants the rows as dense as in the storage, since it draws for many places at once.
    const index_t keys = at.keys.length, queries = at.queries.length, place = at.offset + first * keys;
    T* const dropped = scores + attention_rows_at_once * at.ld;
    T* const to = probabilities != nullptr ? probabilities + place : drops ? dropped : scores;
    const index_t to_row = to == scores ? at.ld : keys, width = to == scores ? cols : keys;
    const bool masked = in.bias.data() != nullptr || in.mask.values.data() != nullptr;
    score_row<T> row[attention_rows_at_once] = {};
    for (index_t r = 0; r < rows; ++r) {
      const index_t h = (first + r) / queries, i = (first + r) % queries, n = visible(at, i);
      const index_t position = in.options.causal ? i + keys - queries : i;
      row[r] = {scores + r * at.ld, to + r * to_row, n};
      if (masked && n > 0)
        mask_scores(row[r].scores, n, position_row(in.bias, h, position), position_row(in.mask.values, h, position),
                    in.options.mask_penalty);
    }
    softmax_rows(row, rows);
    for (index_t r = 0; r < rows; ++r) std::fill(row[r].to + row[r].n, row[r].to + width, T(0));
    if (!drops) return {to, to_row, 1};
    dropout.apply(to, dropped, rows * keys, static_cast<std::uint64_t>(place));
    return {dropped, keys, 1};
  }

  /// context = weights v, out = gate context.
  void combine(const strided_matrix<T>& weights, const sentence_place& at, index_t h, index_t i, index_t rows,
               index_t cols) const {
    const index_t size = in.shape.head_size, group = h / (in.shape.heads / in.shape.kv_heads);
    const index_t row = at.queries.begin + i;
    const T* const v = in.v.data() + at.keys.begin * in.v.stride(0) + group * size;
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
