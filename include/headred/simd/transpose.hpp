// Transposing blocks of numbers inside vector registers.
#pragma once

#include <utility>

#include <headred/simd/pack.hpp>
#include <headred/simd/partial_pack.hpp>

namespace headred::detail {

// nvcc hands g++ the built-in function without its pack of indices
#if defined(__has_builtin) && !defined(__CUDACC__)
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

/// v[c][r] becomes v[r][c].
template <class T, int Lanes>
HEADRED_INLINE void transpose_packs(pack<T, Lanes> (&v)[Lanes]) {
  using vec = pack<T, Lanes>;
  vec w[Lanes];
#if defined(HEADRED_SHUFFLE)
  using lanes = std::make_index_sequence<static_cast<std::size_t>(Lanes)>;
  // log2(Lanes) perfect shuffles of the rows with those half a block away
  for (int step = 1; step < Lanes; step *= 2) {
    for (int r = 0; r < Lanes / 2; ++r) {
      w[2 * r] = interleave<vec, 0>(v[r], v[r + Lanes / 2], lanes{});
      w[2 * r + 1] = interleave<vec, 1>(v[r], v[r + Lanes / 2], lanes{});
    }
    for (int r = 0; r < Lanes; ++r) v[r] = w[r];
  }
#else
  for (int r = 0; r < Lanes; ++r) w[r] = v[r];
  for (int r = 0; r < Lanes; ++r)
    for (int c = 0; c < Lanes; ++c) v[c][r] = w[r][c];
#endif
}

/// to[c * to_stride + r] = from[r * from_stride + c] for r, c in [0, Lanes).
template <class T, int Lanes>
HEADRED_INLINE void transpose_block(const T* from, index_t from_stride, T* to, index_t to_stride) {
  using vec = pack<T, Lanes>;
  vec v[Lanes];
  for (int r = 0; r < Lanes; ++r) v[r] = load<vec>(from + r * from_stride);
  transpose_packs<T, Lanes>(v);
  for (int c = 0; c < Lanes; ++c) store(to + c * to_stride, v[c]);
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

/// sink(c, column c) for c in [0, count): the packs of entries c of Lanes rows; calls come block by block of Lanes columns,
/// after each of which sink.flush() is called.
template <class T, int Lanes, class Sink>
HEADRED_INLINE void transpose_rows(const T* const* rows, index_t count, Sink& sink) {
  using vec = pack<T, Lanes>;
  vec v[Lanes];
  index_t c = 0;
  for (; c + Lanes <= count; c += Lanes) {
    for (int r = 0; r < Lanes; ++r) v[r] = load<vec>(rows[r] + c);
    transpose_packs<T, Lanes>(v);
    for (int i = 0; i < Lanes; ++i) sink(c + i, v[i]);
    sink.flush();
  }
  if (c == count) return;
  // the rest: the last Lanes entries once more, or what there is
  const index_t begin = count < Lanes ? 0 : count - Lanes;
  for (int r = 0; r < Lanes; ++r)
    v[r] = count < Lanes ? load_part<vec>(rows[r], count, T(0)) : load<vec>(rows[r] + begin);
  transpose_packs<T, Lanes>(v);
  for (int i = static_cast<int>(c - begin); i < Lanes && begin + i < count; ++i) sink(begin + i, v[i]);
  sink.flush();
}

}  // namespace headred::detail
