// Products of a vector with listed rows of a matrix, and sums of such rows: rows are read whole, nothing is gathered.
#pragma once

#include <cstdint>

#include <headred/nn/op/attention_rows.hpp>

namespace headred::detail {

/// The lanes of a pack folded in halves down to Count: in the order of lane_total, as far as it goes.
template <class T, int Count, int Lanes>
HEADRED_INLINE pack<T, Count> folded_to(const pack<T, Lanes>& x) {
  if constexpr (Count == Lanes)
    return x;
  else
    return folded_to<T, Count, Lanes / 2>(half_of<T, Lanes, 0>(x) + half_of<T, Lanes, 1>(x));
}

/// Rows of whole packs, an odd number of packs apart: rows listed at a power of two then share the first cache evenly.
template <class T>
struct packed_rows {
  T* data;
  index_t width, ld;

  packed_rows(T* memory, index_t size) : data(memory), width(padded<T, native_lanes<T>>(size)), ld(distance(size)) {}
  static index_t distance(index_t size) {
    const index_t packs = (size + native_lanes<T> - 1) / native_lanes<T>;
    return (packs + (packs + 1) % 2) * native_lanes<T>;
  }
  HEADRED_INLINE T* row(index_t r) const { return data + r * ld; }
};

/// q . m_r for the Count rows listed. Packs: their number in a row, 0 for any. An entry is the same bits whatever
/// Count.
template <class T, int Packs, int Count>
HEADRED_INLINE pack<T, Count> listed_dots(const T* q, const packed_rows<T>& m, const std::int32_t* rows) {
  constexpr int lanes = native_lanes<T>;
  using vec = pack<T, lanes>;
  pack<T, Count> sums[Count];
  HEADRED_UNROLL
  for (int r = 0; r < Count; ++r) {
    const T* const row = m.row(rows[r]);
    vec sum{};
    if constexpr (Packs > 0) {
      HEADRED_UNROLL
      for (int c = 0; c < Packs * lanes; c += lanes) sum += load<vec>(q + c) * load<vec>(row + c);
    } else {
      for (index_t c = 0; c < m.width; c += lanes) sum += load<vec>(q + c) * load<vec>(row + c);
    }
    sums[r] = folded_to<T, Count, lanes>(sum);
  }
  return fold_each<T, Count>(sums, fold_sum{});
}

/// s[e] = scale (q . m_rows[e]) for e in [0,n), kept finite as scores under a mask are.
template <class T, int Packs>
void listed_scores_by(const T* q, const packed_rows<T>& m, const std::int32_t* rows, index_t n, T scale, T* s) {
  for_each_pack<T>(n, [=](index_t e, auto zero) {
    using vec = decltype(zero);
    const vec lowest = broadcast<vec>(std::numeric_limits<T>::lowest());
    const vec x = listed_dots<T, Packs, lanes_of<vec>>(q, m, rows + e) * scale;
    store(s + e, select_less(x, lowest, lowest, x));
  });
}
template <class T>
void listed_scores(const T* q, const packed_rows<T>& m, const std::int32_t* rows, index_t n, T scale, T* s) {
  switch (m.width / native_lanes<T>) {
    case 1: return listed_scores_by<T, 1>(q, m, rows, n, scale, s);
    case 2: return listed_scores_by<T, 2>(q, m, rows, n, scale, s);
    case 4: return listed_scores_by<T, 4>(q, m, rows, n, scale, s);
    default: return listed_scores_by<T, 0>(q, m, rows, n, scale, s);
  }
}

/// f(column, number of packs as a constant) for the columns [0,width) in as wide strips as registers allow.
template <class T, class F>
HEADRED_INLINE void for_each_strip(index_t width, const F& f) {
  constexpr int lanes = native_lanes<T>;
  index_t c = 0;
  for (; c + 4 * lanes <= width; c += 4 * lanes) f(c, std::integral_constant<int, 4>{});
  for (; c + 2 * lanes <= width; c += 2 * lanes) f(c, std::integral_constant<int, 2>{});
  for (; c < width; c += lanes) f(c, std::integral_constant<int, 1>{});
}

/// y = sum_e w[e] m_rows[e] over e in [0,n), of whole packs; even and odd e are summed apart, for shorter chains.
template <class T>
void listed_sum(const T* w, const std::int32_t* rows, index_t n, const packed_rows<T>& m, T* y) {
  using vec = pack<T, native_lanes<T>>;
  constexpr int lanes = native_lanes<T>;
  for_each_strip<T>(m.width, [=](index_t c, auto packs) {
    constexpr int count = decltype(packs)::value;
    vec even[count] = {}, odd[count] = {};
    index_t e = 0;
    for (; e + 2 <= n; e += 2) {
      const T *const a = m.row(rows[e]) + c, *const b = m.row(rows[e + 1]) + c;
      const vec x = broadcast<vec>(w[e]), z = broadcast<vec>(w[e + 1]);
      HEADRED_UNROLL
      for (int p = 0; p < count; ++p) {
        even[p] += x * load<vec>(a + p * lanes);
        odd[p] += z * load<vec>(b + p * lanes);
      }
    }
    if (e < n) {
      const T* const a = m.row(rows[e]) + c;
      HEADRED_UNROLL
      for (int p = 0; p < count; ++p) even[p] += load<vec>(a + p * lanes) * w[e];
    }
    HEADRED_UNROLL
    for (int p = 0; p < count; ++p) store(y + c + p * lanes, even[p] + odd[p]);
  });
}

/// y = sum_e w[at_e] m_rows[e] and x = sum_e u[at_e] l_rows[e], at_e = places[e] - first: a column of two sparse
/// matrices that lie row by row, with two dense ones of one shape.
template <class T>
void listed_column_sums(const std::int32_t* rows, const std::int32_t* places, index_t n, index_t first, const T* w,
                        const packed_rows<T>& m, T* y, const T* u, const packed_rows<T>& l, T* x) {
  using vec = pack<T, native_lanes<T>>;
  constexpr int lanes = native_lanes<T>;
  for_each_strip<T>(m.width, [=](index_t c, auto packs) {
    constexpr int count = decltype(packs)::value;
    vec a[count] = {}, b[count] = {};
    for (index_t e = 0; e < n; ++e) {
      const index_t at = places[e] - first;
      const T *const from = m.row(rows[e]) + c, *const other = l.row(rows[e]) + c;
      const vec by = broadcast<vec>(w[at]), with = broadcast<vec>(u[at]);
      HEADRED_UNROLL
      for (int p = 0; p < count; ++p) {
        a[p] += by * load<vec>(from + p * lanes);
        b[p] += with * load<vec>(other + p * lanes);
      }
    }
    HEADRED_UNROLL
    for (int p = 0; p < count; ++p) {
      store(y + c + p * lanes, a[p]);
      store(x + c + p * lanes, b[p]);
    }
  });
}

/// y += x factor.
template <class T>
void add_scaled_to(const T* x, index_t n, T factor, T* y) {
  for_each_pack<T>(n, [=](index_t c, auto zero) {
    using vec = decltype(zero);
    store(y + c, load<vec>(y + c) + load<vec>(x + c) * factor);
  });
}

/// Rows that are asked for ahead of their use: those of one head lie a page apart, where no prefetcher of a processor
/// follows.
inline constexpr index_t rows_ahead = 8;
template <class T>
HEADRED_INLINE void prefetch_row([[maybe_unused]] const T* row, [[maybe_unused]] index_t n) {
#if defined(__GNUC__) || defined(__clang__)
  for (index_t c = 0; c < n; c += 64 / static_cast<index_t>(sizeof(T))) __builtin_prefetch(row + c);
#endif
}

/// Rows of `size` entries, scaled, to rows [begin, begin + rows) of `to`, the rest of whose packs is 0.
template <class T>
void pack_rows(const T* from, index_t stride, index_t rows, index_t size, T factor, const packed_rows<T>& to,
               index_t begin) {
  for (index_t r = 0; r < rows; ++r, from += stride) {
    if (r + rows_ahead < rows) prefetch_row(from + rows_ahead * stride, size);
    T* const row = to.row(begin + r);
    scale_to(from, size, factor, row);
    std::fill(row + size, row + to.width, T(0));
  }
}

}  // namespace headred::detail
