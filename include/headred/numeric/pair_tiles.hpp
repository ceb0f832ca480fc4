// The kernel under the pairwise distances: sum over keys of op(x_i, x_j) for all pairs of columns of a slab.
#pragma once

#include <algorithm>

#include <headred/numeric/vector_math.hpp>

namespace headred::detail {

/// A sum whose terms need no table. `chunk` keys are summed before a partial sum is added to the total; a register tile is
/// `rows` by `packs`, which fits 32 or 16 vector registers.
struct plain_terms {
  static constexpr bool tabulated = false;
  static constexpr index_t chunk = 64;
  static constexpr int packs = 3;
  template <int Bytes>
  static constexpr int rows = Bytes == 64 ? 8 : 4;
};

/// op(a, b) = a b: Gram matrix of the columns.
struct product_terms : plain_terms {
  template <int Lanes, class T>
  static HEADRED_INLINE void add(pack<T, Lanes>& sum, const pack<T, Lanes>& a, const pack<T, Lanes>& b) {
    sum += a * b;
  }
};

/// op(a, b) = (a - b)^2: squared distances of the columns.
struct difference_terms : plain_terms {
  template <int Lanes, class T>
  static HEADRED_INLINE void add(pack<T, Lanes>& sum, const pack<T, Lanes>& a, const pack<T, Lanes>& b) {
    const pack<T, Lanes> d = a - b;
    sum += d * d;
  }
};

/// op(a, b) = (a log2 a + b log2 b)/2 - m log2 m, m = (a+b)/2: the Jensen-Shannon divergence of the columns in bits.
/// The first two terms come from a table of sums a log2 a over each chunk of keys, so a pair costs one logarithm a key.
struct entropy_terms {
  static constexpr bool tabulated = true;
  static constexpr index_t chunk = 8;
  static constexpr int packs = 2;
  template <int Bytes>
  static constexpr int rows = 4;
  template <int Lanes, class T>
  static HEADRED_INLINE void add(pack<T, Lanes>& sum, const pack<T, Lanes>& a, const pack<T, Lanes>& b) {
    const pack<T, Lanes> m = T(.5) * (a + b);
    sum -= m * log2_of<Lanes>(m);
  }
};

template <class Op, class T, int Lanes, int Rows, int Packs>
HEADRED_INLINE void pair_tile(const T* slab, const T* table, index_t keys, index_t columns, index_t i, index_t j,
                              T* out) {
  using vec = pack<T, Lanes>;
  for (index_t begin = 0; begin < keys; begin += Op::chunk) {
    vec sum[Rows][Packs]{};
    const index_t end = std::min(keys, begin + Op::chunk);
    for (index_t k = begin; k < end; ++k) {
      const T* x = slab + k * columns;
      vec right[Packs];
      for (int c = 0; c < Packs; ++c) right[c] = load<vec>(x + j + c * Lanes);
      for (int r = 0; r < Rows; ++r) {
        const vec left = broadcast<vec>(x[i + r]);
        for (int c = 0; c < Packs; ++c) Op::template add<Lanes, T>(sum[r][c], left, right[c]);
      }
    }
    if constexpr (Op::tabulated) {
      const T* half = table + begin / Op::chunk * columns;
      for (int r = 0; r < Rows; ++r) {
        const vec left = broadcast<vec>(half[i + r]);
        for (int c = 0; c < Packs; ++c) sum[r][c] += T(.5) * (left + load<vec>(half + j + c * Lanes));
      }
    }
    // the total lives in memory: two sets of sums would not fit the registers
    for (int r = 0; r < Rows; ++r)
      for (int c = 0; c < Packs; ++c) {
        T* to = out + (i + r) * columns + j + c * Lanes;
        store(to, begin == 0 ? sum[r][c] : load<vec>(to) + sum[r][c]);
      }
  }
}

/// out(i,j) = sum_k op(slab(k,i), slab(k,j)) for all j >= i (and some j < i that callers ignore).
/// slab: (keys, columns), columns a multiple of Lanes and of the tile's rows, unused columns zero; table: (ceil(keys /
/// Op::chunk), columns), sums of a log2 a over each chunk, where Op is tabulated; out: (columns, columns).
/// A pair's value depends on its two columns alone, not on their place: permuted heads give permuted bits, and
/// out(i,j) would equal out(j,i).
template <class Op, class T, int Lanes = native_lanes<T>>
void pair_tiles(const T* slab, const T* table, index_t keys, index_t columns, T* out) {
  constexpr int rows = Op::template rows<Lanes* static_cast<int>(sizeof(T))>;
  for (index_t i = 0; i < columns; i += rows) {
    index_t j = i / Lanes * Lanes;
    for (; j + Op::packs * Lanes <= columns; j += Op::packs * Lanes)
      pair_tile<Op, T, Lanes, rows, Op::packs>(slab, table, keys, columns, i, j, out);
    if constexpr (Op::packs > 2) {
      if (j + 2 * Lanes <= columns) {
        pair_tile<Op, T, Lanes, rows, 2>(slab, table, keys, columns, i, j, out);
        j += 2 * Lanes;
      }
    }
    if (j + Lanes <= columns) pair_tile<Op, T, Lanes, rows, 1>(slab, table, keys, columns, i, j, out);
  }
}

/// Columns of a slab for n heads.
template <class T, int Lanes = native_lanes<T>>
constexpr index_t slab_columns(index_t n) {
  constexpr index_t unit = std::max(Lanes, 8);
  return (n + unit - 1) / unit * unit;
}

}  // namespace headred::detail
