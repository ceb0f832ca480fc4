// Nuclear norms (sums of singular values) of many square matrices at once, one matrix to each vector lane.
#pragma once

#include <limits>

#include <headred/numeric/bidiagonal_norm.hpp>
#include <headred/numeric/vector_math.hpp>

namespace headred::detail {

/// Householder bidiagonalisation of Lanes n x n matrices interleaved as matrix[column][row][lane], in place; the squares
/// of diagonal and superdiagonal go to diagonal2, above2 ([n][lane]). `scratch` holds 3 n packs.
/// The reflector from the right of one step is applied together with that from the left of the next, and what the next one
/// needs is summed on the way, for four columns at once: two passes over a block of columns while it is in the first cache.
/// 8/3 n^3 operations a matrix, no branch that depends on the data.
template <class T, int Lanes>
void bidiagonalise(T* matrix, index_t n, T* diagonal2, T* above2, T* scratch) {
  using vec = pack<T, Lanes>;
  const vec zero{}, one = broadcast<vec>(T(1)), tiny = broadcast<vec>(std::numeric_limits<T>::min());
  T* z = scratch;             // pending update from the right: a_j -= z u_j
  T* u = z + n * Lanes;       // by column
  T* z_next = u + n * Lanes;  // the same of the next step, in the making
  for (index_t i = 0; i < 2 * n; ++i) store(scratch + i * Lanes, zero);

  // v with entries x below its head: I - c v v^T maps x onto its first axis; returns c, 0 for a zero vector
  const auto reflector = [&](const vec& first, const vec& tail2, vec& changed) {
    const vec norm = sqrt_of<Lanes>(first * first + tail2);
    changed = select_less(first, zero, first - norm, first + norm);
    const vec size = select_less(first, zero, zero - first, first);
    const vec denominator = norm * (norm + size);
    return select_less(denominator, tiny, zero, one / select_less(denominator, tiny, one, denominator));
  };

  for (index_t k = 0; k < n; ++k) {
    T* column = matrix + k * n * Lanes;
    // finish column k, make its reflector in place
    const vec uk = load<vec>(u + k * Lanes);
    vec tail2 = zero;
    for (index_t i = k; i < n; ++i) {
      const vec x = load<vec>(column + i * Lanes) - load<vec>(z + i * Lanes) * uk;
      store(column + i * Lanes, x);
      if (i > k) tail2 += x * x;
    }
    const vec head = load<vec>(column + k * Lanes);
    store(diagonal2 + k * Lanes, head * head + tail2);
    if (k + 1 == n) return;
    vec changed{};
    const vec c = reflector(head, tail2, changed);
    store(column + k * Lanes, changed);

    vec row2 = zero;
    for (index_t i = k + 1; i < n; ++i) store(z_next + i * Lanes, zero);
    const auto columns = [&]<int Count>(index_t j) {
      T* a[Count];
      vec uj[Count], dot[Count]{}, row[Count];
      for (int b = 0; b < Count; ++b) {
        a[b] = matrix + (j + b) * n * Lanes;
        uj[b] = load<vec>(u + (j + b) * Lanes);
      }
      for (index_t i = k; i < n; ++i) {
        const vec zi = load<vec>(z + i * Lanes), vi = load<vec>(column + i * Lanes);
        for (int b = 0; b < Count; ++b) {
          const vec x = load<vec>(a[b] + i * Lanes) - zi * uj[b];
          store(a[b] + i * Lanes, x);
          dot[b] += x * vi;
        }
      }
      for (int b = 0; b < Count; ++b) {
        dot[b] *= c;
        row[b] = load<vec>(a[b] + k * Lanes) - dot[b] * changed;
        store(u + (j + b) * Lanes, row[b]);  // row k, right of the diagonal: the next u but for its head
        if (j + b > k + 1) row2 += row[b] * row[b];
      }
      for (index_t i = k + 1; i < n; ++i) {
        const vec vi = load<vec>(column + i * Lanes);
        vec zi = load<vec>(z_next + i * Lanes);
        for (int b = 0; b < Count; ++b) {
          const vec x = load<vec>(a[b] + i * Lanes) - dot[b] * vi;
          store(a[b] + i * Lanes, x);
          zi += x * row[b];
        }
        store(z_next + i * Lanes, zi);
      }
    };
    constexpr int block = 4;
    index_t j = k + 1;
    for (; j + block <= n; j += block) columns.template operator()<block>(j);
    for (; j < n; ++j) columns.template operator()<1>(j);

    const vec next = load<vec>(u + (k + 1) * Lanes);
    store(above2 + k * Lanes, next * next + row2);
    vec changed_row{};
    const vec c2 = reflector(next, row2, changed_row);
    store(u + (k + 1) * Lanes, changed_row);
    const T* first = matrix + (k + 1) * n * Lanes;
    for (index_t i = k + 1; i < n; ++i) {
      const vec more = load<vec>(first + i * Lanes) * (changed_row - next);
      store(z + i * Lanes, c2 * (load<vec>(z_next + i * Lanes) + more));
    }
  }
}

/// Poles and their interval for matrices held in T.
template <class T>
inline constexpr int norm_poles = sizeof(T) == 8 ? 104 : 56;
template <class T>
inline constexpr double norm_least = sizeof(T) == 8 ? 1e-26 : 1e-18;

/// Nuclear norms of Lanes interleaved n x n matrices, destroyed on the way; norms[lane].
/// Relative error about 1e-14 n in double, 1e-6 at worst in float (measured: docs/numerics.md).
/// scratch: 5 n packs of T; line: 2 n doubles.
template <class T, int Lanes>
void nuclear_norms(T* matrix, index_t n, T* scratch, double* line, double* norms) {
  T* diagonal2 = scratch + 3 * n * Lanes;
  T* above2 = scratch + 4 * n * Lanes;
  bidiagonalise<T, Lanes>(matrix, n, diagonal2, above2, scratch);
  for (int l = 0; l < Lanes; ++l) {
    for (index_t i = 0; i < n; ++i) {
      line[i] = static_cast<double>(diagonal2[i * Lanes + l]);
      line[n + i] = i + 1 < n ? static_cast<double>(above2[i * Lanes + l]) : 0;
    }
    norms[l] = bidiagonal_norm<norm_poles<T>>(line, line + n, n, norm_least<T>);
  }
}

}  // namespace headred::detail
