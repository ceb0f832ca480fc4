// Transposing blocks of numbers inside vector registers.
#pragma once

#include <utility>

#include <headred/simd/pack.hpp>

namespace headred::detail {

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define HEADRED_SHUFFLE 1
#endif
#endif

#if defined(HEADRED_SHUFFLE)
/// a0 b0 a1 b1 ... of the lower halves, or of the upper ones.
template <class Pack, int Half, std::size_t... I>
HEADRED_INLINE Pack interleave(const Pack& a, const Pack& b, std::index_sequence<I...>) {
  constexpr int lanes = static_cast<int>(sizeof...(I));
  return __builtin_shufflevector(a, b,
                                 (static_cast<int>(I) / 2 + static_cast<int>(I) % 2 * lanes + Half * lanes / 2)...);
}
#endif

/// to[c * to_stride + r] = from[r * from_stride + c] for r, c in [0, Lanes).
template <class T, int Lanes>
HEADRED_INLINE void transpose_block(const T* from, index_t from_stride, T* to, index_t to_stride) {
#if defined(HEADRED_SHUFFLE)
  using vec = pack<T, Lanes>;
  using lanes = std::make_index_sequence<static_cast<std::size_t>(Lanes)>;
  vec v[Lanes], w[Lanes];
  for (int r = 0; r < Lanes; ++r) v[r] = load<vec>(from + r * from_stride);
  // log2(Lanes) perfect shuffles of the rows with those half a block away
  for (int step = 1; step < Lanes; step *= 2) {
    for (int r = 0; r < Lanes / 2; ++r) {
      w[2 * r] = interleave<vec, 0>(v[r], v[r + Lanes / 2], lanes{});
      w[2 * r + 1] = interleave<vec, 1>(v[r], v[r + Lanes / 2], lanes{});
    }
    for (int r = 0; r < Lanes; ++r) v[r] = w[r];
  }
  for (int c = 0; c < Lanes; ++c) store(to + c * to_stride, v[c]);
#else
  for (int r = 0; r < Lanes; ++r)
    for (int c = 0; c < Lanes; ++c) to[c * to_stride + r] = from[r * from_stride + c];
#endif
}

#undef HEADRED_SHUFFLE

/// to (cols, padded_rows) = the transpose of from (rows, cols); rows beyond `rows` up to padded_rows become zero. Both
/// strides are the memory's. Cost: one read, one write.
template <class T, int Lanes = native_lanes<T>>
void transpose(const T* from, index_t from_stride, index_t rows, index_t cols, T* to, index_t to_stride) {
  for (index_t r = 0; r < to_stride; r += Lanes) {
    index_t c = 0;
    if (r + Lanes <= rows)
      for (; c + Lanes <= cols; c += Lanes)
        transpose_block<T, Lanes>(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride);
    const index_t used = rows < r ? r : (rows < r + Lanes ? rows : r + Lanes),
                  end = r + Lanes < to_stride ? r + Lanes : to_stride;
    for (; c < cols; ++c) {
      for (index_t i = r; i < used; ++i) to[c * to_stride + i] = from[i * from_stride + c];
      for (index_t i = used; i < end; ++i) to[c * to_stride + i] = 0;
    }
  }
}

}  // namespace headred::detail
