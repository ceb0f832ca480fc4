// Products of small matrices in place: no packing, no scratch memory, one thread.
#pragma once

#include <headred/simd/pack.hpp>

namespace headred::detail {

/// A matrix operand read element by element: (i, k) at data[i * row + k * column].
template <class T>
struct strided_matrix {
  const T* data;
  index_t row;
  index_t column;
};

/// C tile (Rows, Packs * lanes) at c: alpha A B + beta C; beta = 0 does not read C.
template <class Vec, int Rows, int Packs, class T>
HEADRED_INLINE void block_product_tile(T alpha, const strided_matrix<T>& a, const T* b, index_t b_row, T beta, T* c,
                                       index_t c_row, index_t depth) {
  constexpr int lanes = static_cast<int>(sizeof(Vec) / sizeof(T));
  Vec sum[Rows][Packs] = {};
  for (index_t k = 0; k < depth; ++k) {
    Vec y[Packs];
    HEADRED_UNROLL
    for (int p = 0; p < Packs; ++p) y[p] = load<Vec>(b + k * b_row + p * lanes);
    HEADRED_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const Vec x = broadcast<Vec>(a.data[r * a.row + k * a.column]);
      HEADRED_UNROLL
      for (int p = 0; p < Packs; ++p) sum[r][p] += x * y[p];
    }
  }
  HEADRED_UNROLL
  for (int r = 0; r < Rows; ++r) {
    HEADRED_UNROLL
    for (int p = 0; p < Packs; ++p) {
      T* const to = c + r * c_row + p * lanes;
      Vec result = sum[r][p] * alpha;
      if (beta != T(0)) result += load<Vec>(to) * beta;
      store(to, result);
    }
  }
}

/// One column of tiles, all rows.
template <class Vec, int Packs, class T>
void block_product_column(index_t rows, index_t depth, T alpha, strided_matrix<T> a, const T* b, index_t b_row, T beta,
                          T* c, index_t c_row) {
  constexpr int tile = native_vector_bytes == 64 ? 8 : 4;
  index_t i = 0;
  const auto at = [&](index_t r) { return strided_matrix<T>{a.data + r * a.row, a.row, a.column}; };
  for (; i + tile <= rows; i += tile)
    block_product_tile<Vec, tile, Packs>(alpha, at(i), b, b_row, beta, c + i * c_row, c_row, depth);
  for (; i + 4 <= rows; i += 4)
    block_product_tile<Vec, 4, Packs>(alpha, at(i), b, b_row, beta, c + i * c_row, c_row, depth);
  for (; i < rows; ++i) block_product_tile<Vec, 1, Packs>(alpha, at(i), b, b_row, beta, c + i * c_row, c_row, depth);
}

/// C = alpha A B + beta C. A (rows, depth) of any strides, B (depth, cols) and C (rows, cols) with entries of a row side
/// by side, rows b_row and c_row apart. The sum over depth runs from 0 up in every entry. beta = 0 does not read C.
template <class T>
void block_product(index_t rows, index_t cols, index_t depth, T alpha, strided_matrix<T> a, const T* b, index_t b_row,
                   T beta, T* c, index_t c_row) {
  constexpr int lanes = native_lanes<T>;
  index_t j = 0;
  for (; j + 2 * lanes <= cols; j += 2 * lanes)
    block_product_column<pack<T, lanes>, 2>(rows, depth, alpha, a, b + j, b_row, beta, c + j, c_row);
  for (; j + lanes <= cols; j += lanes)
    block_product_column<pack<T, lanes>, 1>(rows, depth, alpha, a, b + j, b_row, beta, c + j, c_row);
  if constexpr (lanes > 8)
    for (; j + 8 <= cols; j += 8)
      block_product_column<pack<T, 8>, 1>(rows, depth, alpha, a, b + j, b_row, beta, c + j, c_row);
  if constexpr (lanes > 4)
    for (; j + 4 <= cols; j += 4)
      block_product_column<pack<T, 4>, 1>(rows, depth, alpha, a, b + j, b_row, beta, c + j, c_row);
  for (; j < cols; ++j) block_product_column<pack<T, 1>, 1>(rows, depth, alpha, a, b + j, b_row, beta, c + j, c_row);
}

}  // namespace headred::detail
