// The contributions z = w_oi x_ri + share_o by their signs: sums over inputs, and the way back over outputs.
#pragma once

#include <headred/device/block_context.hpp>

namespace headred::device::detail {

/// A block has 32 rows and 64 columns, of doubles 32, a thread 4 x 4 or 4 x 2 of them, `depth` terms of their sums at a
/// time: more would not fit into registers.
template <class T>
struct signed_tile {
  static constexpr int threads = 128, rows = 32, depth = 16, each = 4, wide = sizeof(T) == 4 ? 4 : 2,
                       across = 16 * wide;
  static constexpr int pitch = depth + 1;  // neighbours lie in different banks

  static constexpr index_t tiles(index_t n, index_t size) { return (n + size - 1) / size; }

  HEADRED_FUNCTION static index_t row_of(int thread, int a) { return thread / 16 * each + a; }
  HEADRED_FUNCTION static index_t column_of(int thread, int b) { return thread % 16 + 16 * b; }

  /// to[line pitch + k] = x(first + line, k0 + k), 0 beyond the ends of x.
  template <class Array>
  HEADRED_FUNCTION static void load(Array& to, int thread, int lines, const tensor_view<const T, 2, device_space>& x,
                                    index_t first, index_t k0) {
    for (int e = thread; e < lines * depth; e += threads) {
      const index_t line = first + e / depth, k = k0 + e % depth;
      to[e / depth * pitch + e % depth] = line < x.extent(0) && k < x.extent(1) ? x(line, k) : T(0);
    }
  }
};

/// plus and minus (rows, outputs): the positive and the negative contributions, summed each for itself.
template <class T>
struct signed_sums_kernel : signed_tile<T> {
  using tile = signed_tile<T>;
  template <class Block>
  struct shared {
    typename Block::template array<T, tile::rows * tile::pitch> x;
    typename Block::template array<T, tile::across * tile::pitch> w;
  };

  tensor_view<const T, 2, device_space> x, weight;
  tensor_view<const T, 1, device_space> bias;  // empty: shares of 0
  T part;                                      // of a bias for each contribution
  T *plus, *minus;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, shared<Block>& memory) const {
    const index_t out = weight.extent(0), in = x.extent(1), strips = tile::tiles(out, tile::across);
    const index_t first = block.block() / strips * tile::rows, column = block.block() % strips * tile::across;
    const int t = block.thread();
    T up[tile::each][tile::wide] = {}, down[tile::each][tile::wide] = {}, share[tile::wide];
    for (int b = 0; b < tile::wide; ++b) {
      const index_t o = column + tile::column_of(t, b);
      share[b] = bias.data() != nullptr && o < out ? bias(o) * part : T(0);
    }
    for (index_t k0 = 0; k0 < in; k0 += tile::depth) {
      block.sync();
      tile::load(memory.x, t, tile::rows, x, first, k0);
      tile::load(memory.w, t, tile::across, weight, column, k0);
      block.sync();
      const int end = static_cast<int>(in - k0 < tile::depth ? in - k0 : tile::depth);
      for (int k = 0; k < end; ++k) {
        T w[tile::wide];
        for (int b = 0; b < tile::wide; ++b) w[b] = memory.w[tile::column_of(t, b) * tile::pitch + k];
        for (int a = 0; a < tile::each; ++a) {
          const T v = memory.x[tile::row_of(t, a) * tile::pitch + k];
          for (int b = 0; b < tile::wide; ++b) {
            const T z = w[b] * v + share[b], positive = T(0) < z ? z : T(0);
            up[a][b] += positive;
            down[a][b] += z - positive;
          }
        }
      }
    }
    for (int a = 0; a < tile::each; ++a)
      for (int b = 0; b < tile::wide; ++b) {
        const index_t r = first + tile::row_of(t, a), o = column + tile::column_of(t, b);
        if (r >= x.extent(0) || o >= out) continue;
        plus[r * out + o] = up[a][b];
        minus[r * out + o] = down[a][b];
      }
  }
};

/// to_ri = sum_o f_ro z, f the factor of z's sign; rows that are not active get 0.
template <class T>
struct signed_contraction_kernel : signed_tile<T> {
  using tile = signed_tile<T>;
  template <class Block>
  struct shared {
    typename Block::template array<T, tile::rows * tile::pitch> plus, minus;
    typename Block::template array<T, tile::across * tile::pitch> w;
    typename Block::template array<T, tile::depth> share;
  };

  tensor_view<const T, 2, device_space> x, weight;
  tensor_view<const T, 1, device_space> bias;
  T part;
  tensor_view<const T, 2, device_space> plus, minus;
  const T* active;
  tensor_view<T, 2, device_space> to;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, shared<Block>& memory) const {
    const index_t out = weight.extent(0), in = x.extent(1), strips = tile::tiles(in, tile::across);
    const index_t first = block.block() / strips * tile::rows, column = block.block() % strips * tile::across;
    const int t = block.thread();
    T v[tile::each][tile::wide], sum[tile::each][tile::wide] = {};
    for (int a = 0; a < tile::each; ++a)
      for (int b = 0; b < tile::wide; ++b) {
        const index_t r = first + tile::row_of(t, a), i = column + tile::column_of(t, b);
        v[a][b] = r < x.extent(0) && i < in ? x(r, i) : T(0);
      }
    for (index_t k0 = 0; k0 < out; k0 += tile::depth) {
      block.sync();
      tile::load(memory.plus, t, tile::rows, plus, first, k0);
      tile::load(memory.minus, t, tile::rows, minus, first, k0);
      for (int e = t; e < tile::across * tile::depth; e += tile::threads) {
        const index_t i = column + e % tile::across, o = k0 + e / tile::across;
        memory.w[e % tile::across * tile::pitch + e / tile::across] = i < in && o < out ? weight(o, i) : T(0);
      }
      if (t < tile::depth) memory.share[t] = bias.data() != nullptr && k0 + t < out ? bias(k0 + t) * part : T(0);
      block.sync();
      for (int k = 0; k < tile::depth; ++k) {  // beyond `out` factors are 0
        const T share = memory.share[k];
        T w[tile::wide];
        for (int b = 0; b < tile::wide; ++b) w[b] = memory.w[tile::column_of(t, b) * tile::pitch + k];
        for (int a = 0; a < tile::each; ++a) {
          const index_t at = tile::row_of(t, a) * tile::pitch + k;
          const T above = memory.plus[at], below = memory.minus[at];
          for (int b = 0; b < tile::wide; ++b) {
            const T z = w[b] * v[a][b] + share;
            sum[a][b] += (T(0) < z ? above : below) * z;
          }
        }
      }
    }
    for (int a = 0; a < tile::each; ++a)
      for (int b = 0; b < tile::wide; ++b) {
        const index_t r = first + tile::row_of(t, a), i = column + tile::column_of(t, b);
        if (r < x.extent(0) && i < in) to(r, i) = active[r] == T(0) ? T(0) : sum[a][b];
      }
  }
};

}  // namespace headred::device::detail
