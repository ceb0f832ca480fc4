// What the kernels of attention share: a block holds 16 rows against 32 rows of the other side, each warp 4 of the 16.
#pragma once

#include <limits>

#include <headred/device/attention_batch.hpp>

namespace headred::device {

/// Operands of attention in a device's memory, the entries of a row side by side. Heads [g n, (g+1) n) share the keys
/// and values of group g, n = heads / kv_heads. q : (Rq, heads head_size), head after head; k, v : (Rk, kv_heads
/// head_size). bias, mask : (heads or 1, T, S) at least, or empty; their row for query i is i, and i + (S - T) when
/// attention is causal. gates : (heads), or empty.
template <class T>
struct attention_operands {
  index_t heads = 0, kv_heads = 0, head_size = 0;
  bool causal = false;        ///< query i sees the keys j <= i + (S - T)
  T scale = T(0);             ///< of the products of queries and keys; 0 takes 1 / sqrt(head_size)
  T mask_penalty = T(10000);  ///< what a mask of (almost) 0 takes off a score; a mask of 0 excludes the key
  tensor_view<const T, 2, device_space> q = {}, k = {}, v = {};
  tensor_view<const T, 3, device_space> bias = {}, mask = {};
  tensor_view<const T, 1, device_space> gates = {};
};

namespace detail {

/// Rows of a matrix, the entries of each side by side.
template <class T>
struct row_block {
  const T* data;
  index_t step;
  int count;
};

template <class T>
struct attention_tile {
  static constexpr int threads = 128, rows = attention_tile_rows, across = 32, each = 4, columns = 128;
  static constexpr int pitch = across + 1;  // columns of a tile lie in different banks
  static constexpr int packs = columns / across;
  template <class Block>
  struct shared {
    typename Block::template array<T, rows * pitch> left, weights;
    typename Block::template array<T, across * pitch> right;
  };
  static_assert(threads / across * each == rows);

  /// sum[a] = inner product of row 4 warp + a of the left and row `lane` of the right block; 0 beyond either's rows.
  template <class Block>
  HEADRED_FUNCTION static void products(Block& block, shared<Block>& memory, const row_block<T>& left,
                                        const row_block<T>& right, int size, T (&sum)[each]) {
    const int t = block.thread(), lane = t % across, warp = t / across;
    for (int a = 0; a < each; ++a) sum[a] = T(0);
    for (int c0 = 0; c0 < size; c0 += across) {
      const int c = c0 + lane;
      block.sync();
      for (int r = warp; r < rows; r += threads / across)
        memory.left[r * pitch + lane] = r < left.count && c < size ? left.data[r * left.step + c] : T(0);
      for (int r = warp; r < across; r += threads / across)
        memory.right[r * pitch + lane] = r < right.count && c < size ? right.data[r * right.step + c] : T(0);
      block.sync();
      for (int k = 0; k < across; ++k) {
        const T x = memory.right[lane * pitch + k];
        for (int a = 0; a < each; ++a) sum[a] += memory.left[(warp * each + a) * pitch + k] * x;
      }
    }
  }

  /// sum[m][a] += sum_j weights(4 warp + a, j) x(j, 32 m + lane) for the rows j of x, columns below `size`.
  template <class Block>
  HEADRED_FUNCTION static void add_weighted(Block& block, shared<Block>& memory, const row_block<T>& x, int size,
                                            T (&sum)[packs][each]) {
    const int lane = block.thread() % across, warp = block.thread() / across;
    for (int j = 0; j < x.count; ++j) {
      T w[each];
      for (int a = 0; a < each; ++a) w[a] = memory.weights[(warp * each + a) * pitch + j];
      for (int m = 0; m < packs; ++m) {
        const int c = m * across + lane;
        if (c >= size) break;
        const T value = x.data[j * x.step + c];
        for (int a = 0; a < each; ++a) sum[m][a] += w[a] * value;
      }
    }
  }

  /// combine over the lanes of a warp, the same bits in each.
  template <class Block, class Combine>
  HEADRED_FUNCTION static T fold(Block& block, T value, const Combine& combine) {
    for (int mask = across / 2; mask > 0; mask /= 2) value = combine(value, block.shuffle_xor(value, mask));
    return value;
  }
};

/// The part of the work that a block takes: some rows of a sentence in one head (or group) and at most 128 columns.
struct attention_part {
  const attention_sentence* sentence;
  index_t head, first;  // first: of the rows
  int rows;
  index_t column;
  int columns;

  static constexpr index_t chunks(index_t size, int columns) { return (size + columns - 1) / columns; }

  template <int Columns>
  HEADRED_FUNCTION static attention_part of(const attention_table& table, bool queries, index_t heads, index_t size,
                                            index_t block) {
    attention_part p{};
    const index_t all = chunks(size, Columns), tile = block / all / heads;
    p.sentence = &table.find(queries ? &attention_sentence::query_tile : &attention_sentence::key_tile, tile);
    const index_t length = queries ? p.sentence->queries : p.sentence->keys;
    p.head = block / all % heads;
    p.first = (tile - (queries ? p.sentence->query_tile : p.sentence->key_tile)) * attention_tile_rows;
    p.rows = static_cast<int>(length - p.first < attention_tile_rows ? length - p.first : attention_tile_rows);
    p.column = block % all * Columns;
    p.columns = static_cast<int>(size - p.column < Columns ? size - p.column : Columns);
    return p;
  }
  /// How many keys query i sees.
  HEADRED_FUNCTION index_t visible(bool causal, index_t i) const {
    const index_t end = causal ? i + 1 + sentence->keys - sentence->queries : sentence->keys;
    return end < 0 ? 0 : end < sentence->keys ? end : sentence->keys;
  }
  /// Place of the first probability of query i of this head.
  HEADRED_FUNCTION index_t place(index_t heads, index_t i) const {
    return heads * sentence->place + (head * sentence->queries + i) * sentence->keys;
  }
};

/// At most 32 rows from `at` on, of those below `end`.
template <class T>
HEADRED_FUNCTION row_block<T> rows_of(const tensor_view<const T, 2, device_space>& m, index_t begin, index_t at,
                                      index_t end, index_t column) {
  return {m.data() + (begin + at) * m.stride(0) + column, m.stride(0), static_cast<int>(end - at < 32 ? end - at : 32)};
}

}  // namespace detail
}  // namespace headred::device
