// C = X^T Y for one X against as many Y as there are vector lanes.
#pragma once

#include <headred/simd/pack.hpp>

namespace headred::detail {

template <class T, int Lanes, int Rows, int Columns>
HEADRED_INLINE void cross_product_tile(const T* x, const T* y, index_t tokens, index_t n, index_t row, index_t column,
                                       T* c) {
  using vec = pack<T, Lanes>;
  vec sum[Columns][Rows]{};
  for (index_t t = 0; t < tokens; ++t) {
    const T* left = x + t * n + row;
    const T* right = y + (t * n + column) * Lanes;
    for (int b = 0; b < Columns; ++b) {
      const vec value = load<vec>(right + b * Lanes);
      for (int a = 0; a < Rows; ++a) sum[b][a] += left[a] * value;
    }
  }
  for (int b = 0; b < Columns; ++b)
    for (int a = 0; a < Rows; ++a) store(c + ((column + b) * n + row + a) * Lanes, sum[b][a]);
}

/// c[column][row][lane] = sum_t x(t, row) y[t][column][lane]: x (tokens, n), y (tokens, n, Lanes), c (n, n, Lanes).
template <class T, int Lanes>
void cross_product(const T* x, const T* y, index_t tokens, index_t n, T* c) {
  constexpr int rows = Lanes * sizeof(T) == 64 ? 8 : 4, columns = 3;
  const auto strip = [&]<int Columns>(index_t column) {
    index_t row = 0;
    for (; row + rows <= n; row += rows) cross_product_tile<T, Lanes, rows, Columns>(x, y, tokens, n, row, column, c);
    for (; row + 2 <= n; row += 2) cross_product_tile<T, Lanes, 2, Columns>(x, y, tokens, n, row, column, c);
    if (row < n) cross_product_tile<T, Lanes, 1, Columns>(x, y, tokens, n, row, column, c);
  };
  index_t column = 0;
  for (; column + columns <= n; column += columns) strip.template operator()<columns>(column);
  for (; column < n; ++column) strip.template operator()<1>(column);
}

}  // namespace headred::detail
