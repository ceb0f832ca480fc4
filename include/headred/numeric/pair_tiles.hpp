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
/// All three logarithms have `shift` added, which leaves the sum as it is and its rounding smaller: most entries lie
/// between 1/512 and 1, and an error of log2 x is 2^-24 of its size.
struct entropy_terms {
  static constexpr bool tabulated = true;
  static constexpr int shift = 4;
  static constexpr index_t chunk = 8;
  static constexpr int packs = 2;
  template <int Bytes>
  static constexpr int rows = 4;
  template <int Lanes, class T>
  static HEADRED_INLINE void add(pack<T, Lanes>& sum, const pack<T, Lanes>& a, const pack<T, Lanes>& b) {
    const pack<T, Lanes> m = T(.5) * (a + b);
    sum -= m * log2_of<Lanes, shift>(m);
  }
};

/// total[r * Packs * Lanes + c] = sum_k op(slab(k, i + r), slab(k, j + c)).
template <class Op, class T, int Lanes, int Rows, int Packs>
HEADRED_INLINE void pair_tile(const T* slab, const T* table, index_t keys, index_t columns, index_t i, index_t j,
                              T* total) {
  using vec = pack<T, Lanes>;
  for (index_t begin = 0; begin < keys; begin += Op::chunk) {
    vec sum[Rows][Packs]{};
    const index_t end = std::min(keys, begin + Op::chunk);
    for (index_t k = begin; k < end; ++k) {
      const T* x = slab + k * columns;
      vec right[Packs];
      HEADRED_UNROLL
      for (int c = 0; c < Packs; ++c) right[c] = load<vec>(x + j + c * Lanes);
      HEADRED_UNROLL
      for (int r = 0; r < Rows; ++r) {
        const vec left = broadcast<vec>(x[i + r]);
        HEADRED_UNROLL
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
    HEADRED_UNROLL
    for (int r = 0; r < Rows; ++r) {
      HEADRED_UNROLL
      for (int c = 0; c < Packs; ++c) {
        T* to = total + (r * Packs + c) * Lanes;
        store(to, begin == 0 ? sum[r][c] : load<vec>(to) + sum[r][c]);
      }
    }
  }
}

/// Columns of a slab that hold n heads, in whole packs and tiles.
template <class T, int Lanes = native_lanes<T>>
constexpr index_t used_columns(index_t n) {
  constexpr index_t unit = std::max(Lanes, 8);
  return (n + unit - 1) / unit * unit;
}

/// Columns of a slab for n heads: used_columns, and some more where rows would lie a multiple of 2 KB apart, all in the
/// same few sets of the first cache.
template <class T, int Lanes = native_lanes<T>>
constexpr index_t slab_columns(index_t n) {
  const index_t used = used_columns<T, Lanes>(n);
  return used * static_cast<index_t>(sizeof(T)) % 2048 == 0 ? used + std::max(Lanes, 8) : used;
}

/// Sums over keys of op(slab(k,i), slab(k,j)) for all pairs i < j of the first `heads` columns, tile by tile, for `units`
/// slabs (keys, columns) that lie one behind the other: sink.template take<Rows, Packs>(i, j, unit, total) gets those of
/// columns i .. i + Rows with j .. j + Packs * Lanes, row by row, in order of the units, then sink.template done<Rows,
/// Packs>(i, j) is called. Tiles hold some i >= j and columns beyond `heads` too.
/// columns: a multiple of Lanes and of the tile's rows; table: (units, ceil(keys / Op::chunk), columns), sums of a log2 a over
/// each chunk, where Op is tabulated.
/// A pair's value depends on its two columns alone, not on their place: permuted heads give permuted bits, and that of
/// (i,j) would equal that of (j,i).
/// split > 0: pairs i < split <= j alone, and some around them.
template <class Op, class T, int Lanes = native_lanes<T>, class Sink>
void walk_pair_tiles(const T* slab, const T* table, index_t units, index_t keys, index_t columns, index_t heads,
                     Sink& sink, index_t split = 0) {
  constexpr int rows = Op::template rows<Lanes* static_cast<int>(sizeof(T))>;
  const index_t table_size = (keys + Op::chunk - 1) / Op::chunk * columns;
  const auto tile = [&]<int Packs>(index_t i, index_t j) {
    alignas(64) T total[rows * Packs * Lanes];
    for (index_t u = 0; u < units; ++u) {
      pair_tile<Op, T, Lanes, rows, Packs>(slab + u * keys * columns, Op::tabulated ? table + u * table_size : nullptr,
                                           keys, columns, i, j, total);
      sink.template take<rows, Packs>(i, j, u, total);
    }
    sink.template done<rows, Packs>(i, j);
  };
  const auto any = [&](index_t packs, index_t i, index_t j) {
    if constexpr (Op::packs > 2) {
      if (packs == 3) return tile.template operator()<3>(i, j);
    }
    return packs == 2 ? tile.template operator()<2>(i, j) : tile.template operator()<1>(i, j);
  };
  static_assert(Op::packs == 2 || Op::packs == 3);
  // a panel of columns stays in the first cache while all rows pass by
  const index_t used = std::min(columns, used_columns<T, Lanes>(heads));
  for (index_t j = split / Lanes * Lanes; j < used; j += Op::packs * Lanes) {
    const index_t end = std::min(used, j + Op::packs * Lanes);
    for (index_t i = 0; i < std::min(end, split > 0 ? split : heads); i += rows) {
      const index_t begin = std::max(j, i / Lanes * Lanes);
      any((end - begin) / Lanes, i, begin);
    }
  }
}

/// Writes the sums of one slab to out (columns, columns).
template <class T, int Lanes>
struct pair_values {
  T* out;
  index_t columns;

  template <int Rows, int Packs>
  HEADRED_INLINE void take(index_t i, index_t j, index_t, const T* total) const {
    using vec = pack<T, Lanes>;
    for (int r = 0; r < Rows; ++r)
      for (int c = 0; c < Packs; ++c)
        store(out + (i + r) * columns + j + c * Lanes, load<vec>(total + (r * Packs + c) * Lanes));
  }
  template <int, int>
  void done(index_t, index_t) const {}
};

/// Adds the sums of one slab to those in double, or puts them there if they are the first.
template <class T, int Lanes>
struct pair_sums {
  double* sums;
  index_t columns;
  bool first;

  template <int Rows, int Packs>
  HEADRED_INLINE void take(index_t i, index_t j, index_t, const T* total) const {
    constexpr int wide = native_lanes<double>;
    using doubles = pack<double, wide>;
    for (int r = 0; r < Rows; ++r)
      for (int c = 0; c < Packs * Lanes; c += wide) {
        double* to = sums + (i + r) * columns + j + c;
        const doubles more = load_converted<doubles>(total + r * Packs * Lanes + c);
        store(to, first ? more : load<doubles>(to) + more);
      }
  }
  template <int, int>
  void done(index_t, index_t) const {}
};

/// out(i,j) = sum_k op(slab(k,i), slab(k,j)) for all i < j (and some other places that callers ignore); out (columns,
/// columns), the rest as above.
template <class Op, class T, int Lanes = native_lanes<T>>
void pair_tiles(const T* slab, const T* table, index_t keys, index_t columns, T* out) {
  pair_values<T, Lanes> sink{out, columns};
  walk_pair_tiles<Op, T, Lanes>(slab, table, 1, keys, columns, columns, sink);
}

}  // namespace headred::detail
