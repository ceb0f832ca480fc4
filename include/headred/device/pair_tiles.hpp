// Second kernel of the pair distances: all pairs of two groups of 32 heads, by the fast form of the distance.
#pragma once

#include <headred/device/pair_rows.hpp>

namespace headred::device::detail {

/// A block takes 32 x 32 pairs of heads and a group of tokens; a thread takes 2 x 2 pairs. Sums that come out close are
/// left to close_pairs_kernel.
template <class T, class Rule>
struct pair_tiles_kernel {
  static constexpr int threads = 256, tile = 32, chunk = 32;
  template <class Block>
  struct shared {
    static constexpr int pitch = chunk + 1;  // rows of a tile lie in different banks
    typename Block::template array<T, tile * pitch> left, right;
    typename Block::template array<T, Rule::tabulated ? tile * pitch : 1> left_weight, right_weight;
  };

  tensor_view<const T, 4, device_space> maps;  // (L,H,T,S)
  pair_memory<T> memory;

  static constexpr index_t tiles(index_t heads) { return (heads + tile - 1) / tile; }
  static constexpr index_t blocks(index_t heads, index_t groups) {
    return tiles(heads) * (tiles(heads) + 1) / 2 * groups;
  }

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, shared<Block>& slabs) const {
    const index_t tokens = maps.extent(2), group = block.block() % memory.groups;
    const int heads = static_cast<int>(maps.extent(0) * maps.extent(1)), keys = static_cast<int>(maps.extent(3));
    int row_tile = 0, column = static_cast<int>(block.block() / memory.groups);
    while (column >= tiles(heads) - row_tile) column -= static_cast<int>(tiles(heads)) - row_tile++;
    const int i0 = row_tile * tile, j0 = (row_tile + column) * tile;
    const int t = block.thread(), ti = t / 16, tj = t % 16;
    const index_t begin = tokens * group / memory.groups, end = tokens * (group + 1) / memory.groups;

    long long distance[2][2] = {};
    unsigned close = 0;  // a bit for each pair
    for (index_t token = begin; token < end; ++token) {
      T sum[2][2] = {};
      for (int k0 = 0; k0 < keys; k0 += chunk) {
        block.sync();
        fill(slabs.left, slabs.left_weight, t, i0, token, k0, heads);
        fill(slabs.right, slabs.right_weight, t, j0, token, k0, heads);
        block.sync();
        T part[2][2] = {};  // of a chunk, so that long rows lose no digits
#if defined(__CUDA_ARCH__)
#pragma unroll 8  // all 32 at once take more registers than there are
#endif
        for (int k = 0; k < chunk; ++k) {
          T p[2], q[2], wp[2] = {}, wq[2] = {};
          for (int a = 0; a < 2; ++a) {
            const int left = (ti + 16 * a) * shared<Block>::pitch + k, right = (tj + 16 * a) * shared<Block>::pitch + k;
            p[a] = slabs.left[left];
            q[a] = slabs.right[right];
            if constexpr (Rule::tabulated) {
              wp[a] = slabs.left_weight[left];
              wq[a] = slabs.right_weight[right];
            }
          }
          for (int a = 0; a < 2; ++a)
            for (int b = 0; b < 2; ++b) part[a][b] += Rule::term(p[a], q[b], wp[a], wq[b]);
        }
        for (int a = 0; a < 2; ++a)
          for (int b = 0; b < 2; ++b) sum[a][b] += part[a][b];
      }
      for (int a = 0; a < 2; ++a)
        for (int b = 0; b < 2; ++b) {
          const int i = i0 + ti + 16 * a, j = j0 + tj + 16 * b;
          if (i >= j || j >= heads) continue;
          const int kind_i = memory.kind[i * tokens + token], kind_j = memory.kind[j * tokens + token];
          if (kind_i == regular_row && kind_j == regular_row) {
            if (Rule::close(sum[a][b], keys)) close |= 1u << (2 * a + b);
            distance[a][b] += static_cast<long long>(Rule::finish(sum[a][b]) * static_cast<T>(1 / distance_unit));
          } else if (kind_i != kind_j) {
            const bool zero = kind_i == zero_row || kind_j == zero_row;
            distance[a][b] += static_cast<long long>((zero ? T(1) : static_cast<T>(Rule::one_constant)) *
                                                     static_cast<T>(1 / distance_unit));
          }
        }
    }
    for (int a = 0; a < 2; ++a)
      for (int b = 0; b < 2; ++b) {
        const int i = i0 + ti + 16 * a, j = j0 + tj + 16 * b;
        if (i < j && j < heads)
          memory.partial[(group * heads + i) * heads + j] = (close >> (2 * a + b) & 1u) != 0 ? -1 : distance[a][b];
      }
  }

 private:
  /// A chunk of the rows of 32 heads at one token, brought to their scale; zeros beyond the last key and head.
  template <class Array, class Weights>
  HEADRED_FUNCTION void fill(Array& slab, Weights& weights, int t, int first, index_t token, int k0, int heads) const {
    const int column = t % chunk, k = k0 + column;
    for (int r = t / chunk; r < tile; r += threads / chunk) {
      T x = T(0);
      const int head = first + r, per_layer = static_cast<int>(maps.extent(1));
      const index_t row = head * maps.extent(2) + token;
      if (head < heads && k < maps.extent(3) && memory.kind[row] == regular_row)
        x = Rule::shape(((maps(head / per_layer, head % per_layer, token, k) - memory.first[row]) - memory.rest[row]) *
                        memory.unit[row]);
      slab[r * (chunk + 1) + column] = x;
      if constexpr (Rule::tabulated) weights[r * (chunk + 1) + column] = Rule::weight(x);
    }
  }
};

}  // namespace headred::device::detail
