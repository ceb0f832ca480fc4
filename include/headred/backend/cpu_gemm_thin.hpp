// Products with few rows: both operands are read where they lie, since packing would cost more than multiplying.
#pragma once

#include <algorithm>

#include <headred/backend/cpu_gemm.hpp>
#include <headred/simd/partial_pack.hpp>

namespace headred::detail {

/// to(r, c) = alpha a_r . b_c + beta to(r, c) + row(c): rows of A and columns of B with entries side by side.
template <int Rows, int Cols, class T>
void gemm_dot_tile(const gemm_operands<T>& g, index_t i, index_t j) {
  constexpr int lanes = native_lanes<T>;
  using vec = pack<T, lanes>;
  const T* const a = g.a.data + i * g.a.row;
  const T* const b = g.b.data + j * g.b.column;
  vec sum[Rows][Cols] = {};
  index_t k = 0;
  for (; k + lanes <= g.k; k += lanes) {
    vec y[Cols];
    for (int c = 0; c < Cols; ++c) y[c] = load<vec>(b + c * g.b.column + k);
    for (int r = 0; r < Rows; ++r) {
      const vec x = load<vec>(a + r * g.a.row + k);
      for (int c = 0; c < Cols; ++c) sum[r][c] += x * y[c];
    }
  }
  for (int r = 0; r < Rows; ++r)
    for (int c = 0; c < Cols; ++c) {
      T total = lane_total<T, lanes>(sum[r][c]);
      for (index_t q = k; q < g.k; ++q) total += a[r * g.a.row + q] * b[c * g.b.column + q];
      T* const to = g.c + (i + r) * g.c_row + j + c;
      total *= g.alpha;
      if (g.row != nullptr) total += g.row[j + c];
      if (g.beta != T(0)) total += g.beta * *to;
      *to = total;
    }
}

/// Columns [begin, end) of C for B with columns side by side (b.row == 1).
template <class T>
void gemm_dots(const gemm_operands<T>& g, index_t begin, index_t end) {
  index_t j = begin;
  for (; j + 4 <= end; j += 4) {
    index_t i = 0;
    for (; i + 4 <= g.m; i += 4) gemm_dot_tile<4, 4>(g, i, j);
    for (; i < g.m; ++i) gemm_dot_tile<1, 4>(g, i, j);
  }
  for (; j < end; ++j)
    for (index_t i = 0; i < g.m; ++i) gemm_dot_tile<1, 1>(g, i, j);
}

/// Columns [begin, end) of C for B with rows side by side (b.column == 1).
template <class T>
void gemm_direct(const gemm_operands<T>& g, index_t begin, index_t end) {
  block_product<T>(g.m, end - begin, g.k, g.alpha, g.a, g.b.data + begin, g.b.row, g.beta, g.c + begin, g.c_row);
  if (g.row == nullptr) return;
  for (index_t i = 0; i < g.m; ++i)
    for (index_t j = begin; j < end; ++j) g.c[i * g.c_row + j] += g.row[j];
}

/// Whether a product is done without packing, and then all of it by `gemm_columns`, columns apart.
template <class T>
bool thin_gemm(const gemm_operands<T>& g) {
  if (g.b.column == 1) return g.m <= 16 || g.m * g.n * g.k <= 32 * 32 * 32;
  return g.b.row == 1 && g.a.column == 1 && g.m <= 16;
}

/// Whether B has so few columns that a tile of rows of A passes through once: A is read where it lies, which is what counts.
template <class T>
bool narrow_gemm(const gemm_operands<T>& g) {
  return g.a.column == 1 && g.b.column == 1 && g.n <= 32 && g.m >= 64 && g.k >= 512;
}

/// Rows [begin, end) of C, a part of the depth at a time so that this part of B stays in the cache.
template <class T>
void gemm_narrow_rows(const gemm_operands<T>& g, index_t begin, index_t end) {
  constexpr index_t part = 512;
  for (index_t k = 0; k < g.k; k += part)
    block_product<T>(end - begin, g.n, std::min(part, g.k - k), g.alpha,
                     {g.a.data + begin * g.a.row + k, g.a.row, g.a.column}, g.b.data + k * g.b.row, g.b.row,
                     k == 0 ? g.beta : T(1), g.c + begin * g.c_row, g.c_row);
  if (g.row == nullptr) return;
  for (index_t i = begin; i < end; ++i)
    for (index_t j = 0; j < g.n; ++j) g.c[i * g.c_row + j] += g.row[j];
}

template <class T>
void gemm_columns(const gemm_operands<T>& g, index_t begin, index_t end) {
  if (g.b.column == 1)
    gemm_direct(g, begin, end);
  else
    gemm_dots(g, begin, end);
}

}  // namespace headred::detail
