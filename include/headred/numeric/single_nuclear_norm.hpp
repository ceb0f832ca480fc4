// The nuclear norm of one product of matrices at a time, its rows in the vector lanes: for matrices so large that one in each
// lane would not stay in the cache.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include <headred/numeric/nuclear_norm.hpp>
#include <headred/simd/lane_total.hpp>

namespace headred::detail {

/// Rows of a matrix with n columns are this far apart: an odd number of packs, since rows a power of two apart would share
/// few lines of the first cache.
template <class T, int Lanes>
constexpr index_t single_stride(index_t n) {
  const index_t packs = (n + Lanes - 1) / Lanes;
  return (packs + 1 - packs % 2) * Lanes;
}

/// Tokens that are summed before a total is touched.
inline constexpr index_t single_chunk = 64;

template <class T, int Lanes, int Columns, int Packs>
HEADRED_INLINE void single_product_tile(const T* x, const T* y, index_t stride, index_t count, bool first, T* c) {
  using vec = pack<T, Lanes>;
  vec sum[Columns][Packs]{};
  for (index_t t = 0; t < count; ++t) {
    vec left[Packs];
    for (int p = 0; p < Packs; ++p) left[p] = load<vec>(x + t * stride + p * Lanes);
    for (int b = 0; b < Columns; ++b) {
      const vec right = broadcast<vec>(y[t * stride + b]);
      for (int p = 0; p < Packs; ++p) sum[b][p] += left[p] * right;
    }
  }
  for (int b = 0; b < Columns; ++b)
    for (int p = 0; p < Packs; ++p) {
      T* to = c + b * stride + p * Lanes;
      store(to, first ? sum[b][p] : load<vec>(to) + sum[b][p]);
    }
}

/// c[column][row] = sum_t x(t, row) y(t, column): x, y (tokens, n), c (n, n), rows single_stride apart; the rows of x are
/// zero from n on to a whole pack.
template <class T, int Lanes>
void single_product(const T* x, const T* y, index_t tokens, index_t n, T* c) {
  constexpr int block = Lanes * sizeof(T) == 64 ? 8 : 4;
  const index_t stride = single_stride<T, Lanes>(n), end = padded<T, Lanes>(n);
  const auto strip = [&]<int Packs>(index_t row) {
    for (index_t t = 0; t < tokens; t += single_chunk) {
      const index_t count = std::min(single_chunk, tokens - t);
      const T* left = x + t * stride + row;
      const T* right = y + t * stride;
      index_t j = 0;
      for (; j + block <= n; j += block)
        single_product_tile<T, Lanes, block, Packs>(left, right + j, stride, count, t == 0, c + j * stride + row);
      for (; j < n; ++j)
        single_product_tile<T, Lanes, 1, Packs>(left, right + j, stride, count, t == 0, c + j * stride + row);
    }
  };
  index_t row = 0;
  for (; row + 3 * Lanes <= end; row += 3 * Lanes) strip.template operator()<3>(row);
  if (row + 2 * Lanes <= end) {
    strip.template operator()<2>(row);
  } else if (row + Lanes <= end) {
    strip.template operator()<1>(row);
  }
}

/// Householder bidiagonalisation of one matrix[column][row] (n, n), columns single_stride apart, their rows zero from n on to
/// a whole pack; in place. The squares of diagonal and superdiagonal go to diagonal2, above2 (n). scratch: 3 strides + n.
/// The steps are those of `bidiagonalise` (nuclear_norm.hpp); vectors over rows are zero above the row at which a step
/// begins, so that whole packs can be taken.
template <class T, int Lanes>
void single_bidiagonalise(T* matrix, index_t n, T* diagonal2, T* above2, T* scratch) {
  using vec = pack<T, Lanes>;
  const index_t stride = single_stride<T, Lanes>(n), end = padded<T, Lanes>(n);
  T* z = scratch;          // pending update from the right: a_j -= z u_j
  T* z_next = z + stride;  // the same of the next step, in the making
  T* v = z_next + stride;  // reflector from the left
  T* u = v + stride;       // by column
  std::fill(scratch, scratch + 3 * stride + n, T(0));
  const vec zero{};
  vec lane{};
  for (int l = 0; l < Lanes; ++l) lane[l] = static_cast<T>(l);

  // v with entries x below its head: I - c v v^T maps x onto its first axis; returns c, 0 for a zero vector
  const auto reflector = [](T first, T tail2, T& changed) {
    const T norm = std::sqrt(first * first + tail2);
    changed = first < 0 ? first - norm : first + norm;
    const T denominator = norm * (norm + std::abs(first));
    return denominator < std::numeric_limits<T>::min() ? T(0) : 1 / denominator;
  };

  for (index_t k = 0; k < n; ++k) {
    T* column = matrix + k * stride;
    const index_t begin = k / Lanes * Lanes;
    const vec at = broadcast<vec>(static_cast<T>(k - begin));  // lane of row k in the first pack
    // finish column k, make its reflector
    const T uk = u[k];
    const vec top = load<vec>(column + begin) - load<vec>(z + begin) * uk;
    store(column + begin, top);
    const vec below = select_less(at, lane, top, zero);
    vec squares = below * below;
    for (index_t i = begin + Lanes; i < end; i += Lanes) {
      const vec x = load<vec>(column + i) - load<vec>(z + i) * uk;
      store(v + i, x);
      squares += x * x;
    }
    const T head = column[k], tail2 = lane_total<T, Lanes>(squares);
    diagonal2[k] = head * head + tail2;
    if (k + 1 == n) return;
    T changed = 0;
    const T c = reflector(head, tail2, changed);
    store(v + begin, select_less(lane, at, zero, select_less(at, lane, top, broadcast<vec>(changed))));

    for (index_t i = begin; i < end; i += Lanes) store(z_next + i, zero);
    T row2 = 0;
    const auto columns = [&]<int Count>(index_t j) {
      T* a[Count];
      T uj[Count], dot[Count], row[Count];
      vec sum[Count]{};
      for (int b = 0; b < Count; ++b) {
        a[b] = matrix + (j + b) * stride;
        uj[b] = u[j + b];
      }
      for (index_t i = begin; i < end; i += Lanes) {
        const vec zi = load<vec>(z + i), vi = load<vec>(v + i);
        for (int b = 0; b < Count; ++b) {
          const vec x = load<vec>(a[b] + i) - zi * uj[b];
          store(a[b] + i, x);
          sum[b] += x * vi;
        }
      }
      for (int b = 0; b < Count; ++b) {
        dot[b] = c * lane_total<T, Lanes>(sum[b]);
        row[b] = a[b][k] - dot[b] * changed;
        u[j + b] = row[b];  // row k, right of the diagonal: the next u but for its head
        if (j + b > k + 1) row2 += row[b] * row[b];
      }
      for (index_t i = begin; i < end; i += Lanes) {
        const vec vi = load<vec>(v + i);
        vec zi = load<vec>(z_next + i);
        for (int b = 0; b < Count; ++b) {
          const vec x = load<vec>(a[b] + i) - dot[b] * vi;
          store(a[b] + i, x);
          zi += x * row[b];
        }
        store(z_next + i, zi);
      }
    };
    constexpr int block = 4;
    index_t j = k + 1;
    for (; j + block <= n; j += block) columns.template operator()<block>(j);
    for (; j < n; ++j) columns.template operator()<1>(j);

    const T next = u[k + 1];
    above2[k] = next * next + row2;
    T changed_row = 0;
    const T c2 = reflector(next, row2, changed_row), shift = changed_row - next;
    u[k + 1] = changed_row;
    const T* first = matrix + (k + 1) * stride;
    for (index_t i = begin; i < end; i += Lanes) {
      const vec pending = c2 * (load<vec>(z_next + i) + load<vec>(first + i) * shift);
      store(z + i, i == begin ? select_less(at, lane, pending, zero) : pending);
    }
  }
}

/// |X^T Y|_* of x, y (tokens, n), laid out as `single_product` asks. product: n strides; scratch: 3 strides + 3 n;
/// line: 2 n.
template <class T, int Lanes = native_lanes<T>>
double single_nuclear_norm(const T* x, const T* y, index_t tokens, index_t n, T* product, T* scratch, double* line) {
  T* diagonal2 = scratch + 3 * single_stride<T, Lanes>(n) + n;
  T* above2 = diagonal2 + n;
  single_product<T, Lanes>(x, y, tokens, n, product);
  single_bidiagonalise<T, Lanes>(product, n, diagonal2, above2, scratch);
  for (index_t i = 0; i < n; ++i) {
    line[i] = static_cast<double>(diagonal2[i]);
    line[n + i] = i + 1 < n ? static_cast<double>(above2[i]) : 0;
  }
  return bidiagonal_norm<norm_poles<T>>(line, line + n, n, norm_least<T>);
}

}  // namespace headred::detail
