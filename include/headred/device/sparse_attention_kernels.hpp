// The kernels of attention under lists: a warp for a query, or a key, of a head.
#pragma once

#include <cmath>
#include <limits>

#include <headred/device/sparse_attention_batch.hpp>

namespace headred::device::detail {

template <class T>
struct sparse_warp {
  static constexpr int threads = 32, columns = 128, packs = columns / threads, pitch = threads + 1;

  /// The row that a block has: of a sentence in the table, in a head (or group), and its columns.
  struct place {
    const attention_sentence* sentence;
    index_t number, head, row, column;
    int width;
    bool there;
  };
  HEADRED_FUNCTION static place of(const attention_table& table, bool queries, index_t heads, index_t size,
                                   index_t block) {
    const index_t all = attention_part::chunks(size, columns), at = block / all / heads;
    const auto field = queries ? &attention_sentence::query_tile : &attention_sentence::key_tile;
    const attention_sentence& s = table.find(field, at / attention_tile_rows);
    const index_t row = at - (s.*field) * attention_tile_rows, column = block % all * columns;
    return {&s,
            &s - table.sentences,
            block / all % heads,
            row,
            column,
            static_cast<int>(size - column < columns ? size - column : columns),
            row < (queries ? s.queries : s.keys)};
  }
  HEADRED_FUNCTION static index_t blocks(index_t tiles, index_t heads, index_t size) {
    return tiles * attention_tile_rows * heads * attention_part::chunks(size, columns);
  }

  /// The product of a row x and row `numbers[lane]` of m, for the first `count` lanes; 0 beyond.
  template <class Block, class Array>
  HEADRED_FUNCTION static T product(Block& block, Array& rows, const T* x, const T* m, index_t step,
                                    const std::int32_t* numbers, int count, index_t size) {
    const int lane = block.thread();
    T sum = T(0);
    for (index_t c0 = 0; c0 < size; c0 += threads) {
      const index_t c = c0 + lane;
      block.sync();
      for (int r = 0; r < count; ++r) rows[r * pitch + lane] = c < size ? m[numbers[r] * step + c] : T(0);
      block.sync();
      const int end = static_cast<int>(size - c0 < threads ? size - c0 : threads);
      if (lane < count)
        for (int k = 0; k < end; ++k) sum += x[c0 + k] * rows[lane * pitch + k];
    }
    return sum;
  }
  template <class Block, class Combine>
  HEADRED_FUNCTION static T fold(Block& block, T value, const Combine& combine) {
    for (int mask = threads / 2; mask > 0; mask /= 2) value = combine(value, block.shuffle_xor(value, mask));
    return value;
  }
};

/// As attention_kernel, 32 listed keys after the other.
template <class T>
struct sparse_attention_kernel : sparse_warp<T> {
  using warp = sparse_warp<T>;
  template <class Block>
  struct shared {
    typename Block::template array<T, warp::threads * warp::pitch> rows;
    typename Block::template array<T, warp::threads> weights;
  };

  attention_table table;
  sparse_table lists;
  attention_operands<T> in;
  T scale;
  T* probabilities;
  tensor_view<T, 2, device_space> context, out;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, shared<Block>& memory) const {
    constexpr T lowest = -std::numeric_limits<T>::infinity(), least = std::numeric_limits<T>::lowest();
    const auto at = warp::of(table, true, in.heads, in.head_size, block.block());
    if (!at.there) return;
    const attention_sentence& s = *at.sentence;
    const auto seen = lists.seen(s, at.number, at.head, at.row);
    const index_t key_column = at.head / (in.heads / in.kv_heads) * in.head_size, row = s.query_begin + at.row;
    const T *const q = in.q.data() + row * in.q.stride(0) + at.head * in.head_size,
                   *const k = in.k.data() + s.key_begin * in.k.stride(0) + key_column,
                   *const v = in.v.data() + s.key_begin * in.v.stride(0) + key_column + at.column;
    const bool keeps = probabilities != nullptr && at.column == 0;
    const int lane = block.thread();
    T most = lowest, sum = T(0), values[warp::packs] = {};
    for (index_t e0 = 0; e0 < seen.count; e0 += warp::threads) {
      const int count = static_cast<int>(seen.count - e0 < warp::threads ? seen.count - e0 : warp::threads);
      const std::int32_t* const numbers = seen.numbers + e0;
      T x = warp::product(block, memory.rows, q, k, in.k.stride(0), numbers, count, in.head_size) * scale;
      x = lane >= count ? lowest : x < least ? least : x;
      if (keeps && lane < count) probabilities[seen.offset + e0 + lane] = x;
      const T before = most;
      most = warp::fold(block, before < x ? x : before, headred::detail::take_greater{});
      const T shift = most == lowest ? T(0) : most, e = std::exp(x - shift), down = std::exp(before - shift);
      sum = sum * down + warp::fold(block, e, headred::detail::add{});
      memory.weights[lane] = e;
      block.sync();
      for (int m = 0; m < warp::packs; ++m) values[m] *= down;
      for (int r = 0; r < count; ++r) {
        const T w = memory.weights[r];
        const T* const from = v + numbers[r] * in.v.stride(0);
        for (int m = 0; m < warp::packs; ++m)
          if (const int c = m * warp::threads + lane; c < at.width) values[m] += w * from[c];
      }
    }
    const T gate = in.gates.data() == nullptr ? T(1) : in.gates(at.head);
    const T unit = sum > T(0) ? T(1) / sum : sum;  // nothing seen: 0; a NaN stays one
    for (int m = 0; m < warp::packs; ++m) {
      const int c = m * warp::threads + lane;
      if (c >= at.width) break;
      const index_t column = at.head * in.head_size + at.column + c;
      const T value = values[m] * unit;
      if (context.data() != nullptr) context(row, column) = value;
      out(row, column) = value * gate;
    }
    const T shift = most == lowest ? T(0) : most;
    for (index_t e = lane; keeps && e < seen.count; e += warp::threads) {
      T& p = probabilities[seen.offset + e];
      p = std::exp(p - shift) * unit;
    }
  }
};

/// dscores = A (dA - sum_l A_l dA_l), dA = gate dout v, laid out as the probabilities.
template <class T>
struct sparse_scores_kernel : sparse_warp<T> {
  using warp = sparse_warp<T>;
  template <class Block>
  struct shared {
    typename Block::template array<T, warp::threads * warp::pitch> rows;
  };

  attention_table table;
  sparse_table lists;
  attention_operands<T> in;
  const T* probabilities;
  tensor_view<const T, 2, device_space> dout;
  T* dscores;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, shared<Block>& memory) const {
    const auto at = warp::of(table, true, in.heads, 1, block.block());
    if (!at.there) return;
    const attention_sentence& s = *at.sentence;
    const auto seen = lists.seen(s, at.number, at.head, at.row);
    const T gate = in.gates.data() == nullptr ? T(1) : in.gates(at.head);
    const T *const given = dout.data() + (s.query_begin + at.row) * dout.stride(0) + at.head * in.head_size,
                   *const v =
                       in.v.data() + s.key_begin * in.v.stride(0) + at.head / (in.heads / in.kv_heads) * in.head_size;
    const int lane = block.thread();
    T mean = T(0);
    for (index_t e0 = 0; e0 < seen.count; e0 += warp::threads) {
      const int count = static_cast<int>(seen.count - e0 < warp::threads ? seen.count - e0 : warp::threads);
      const T d =
          gate * warp::product(block, memory.rows, given, v, in.v.stride(0), seen.numbers + e0, count, in.head_size);
      if (lane >= count) continue;
      dscores[seen.offset + e0 + lane] = d;
      mean += probabilities[seen.offset + e0 + lane] * d;
    }
    mean = warp::fold(block, mean, headred::detail::add{});
    for (index_t e = lane; e < seen.count; e += warp::threads) {
      T& d = dscores[seen.offset + e];
      d = probabilities[seen.offset + e] * (d - mean);
    }
  }
};

/// to_r += factor sum_e w_e x_e over a list: of the queries over the keys they see, of the keys over the queries that
/// see them, one head of the group after the other.
template <class T>
struct sparse_sum_kernel : sparse_warp<T> {
  using warp = sparse_warp<T>;
  template <class Block>
  struct shared {};

  attention_table table;
  sparse_table lists;
  bool of_queries;
  index_t heads, kv_heads, head_size;
  const T* weights;
  T factor;
  tensor_view<const T, 1, device_space> gates;  // factors of the heads; or empty
  tensor_view<const T, 2, device_space> x;
  tensor_view<T, 2, device_space> to;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, shared<Block>&) const {
    const auto at = warp::of(table, of_queries, of_queries ? heads : kv_heads, head_size, block.block());
    if (!at.there) return;
    const attention_sentence& s = *at.sentence;
    const index_t group = heads / kv_heads, first_head = of_queries ? at.head : at.head * group;
    const index_t moved = of_queries ? s.key_begin : s.query_begin + lists.blind(s) - lists.first(s);
    const int lane = block.thread();
    T values[warp::packs] = {};
    for (index_t h = first_head; h < first_head + (of_queries ? 1 : group); ++h) {
      const auto list = of_queries ? lists.seen(s, at.number, h, at.row) : lists.seeing(s, at.number, h, at.row);
      const T scaled = gates.data() == nullptr ? factor : factor * gates(h);
      const T* const from = x.data() + moved * x.stride(0) + (of_queries ? h / group : h) * head_size + at.column;
      for (index_t e = 0; e < list.count; ++e) {
        const T w = scaled * weights[list.offset + (of_queries ? e : list.places[e])];
        const T* const row = from + list.numbers[e] * x.stride(0);
        for (int m = 0; m < warp::packs; ++m)
          if (const int c = m * warp::threads + lane; c < at.width) values[m] += w * row[c];
      }
    }
    const index_t row = (of_queries ? s.query_begin : s.key_begin) + at.row;
    for (int m = 0; m < warp::packs; ++m)
      if (const int c = m * warp::threads + lane; c < at.width)
        to(row, at.head * head_size + at.column + c) += values[m];
  }
};

}  // namespace headred::device::detail
