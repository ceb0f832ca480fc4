// The work of attention on one row of scores, and products of few queries with many keys.
#pragma once

#include <cstring>
#include <limits>
#include <utility>

#include <headred/numeric/exponential.hpp>
#include <headred/simd/partial_pack.hpp>
#include <headred/simd/transpose.hpp>

namespace headred::detail {

/// f(j, a pack) for j in [0,n): whole packs, then one of each smaller power of two that is left. Such tails cost less
/// than partial packs, which go through memory.
template <class T, int Lanes = native_lanes<T>, class F>
HEADRED_INLINE void for_each_pack(index_t n, const F& f, index_t j = 0) {
  if constexpr (Lanes == native_lanes<T>)
    for (; j + Lanes <= n; j += Lanes) f(j, pack<T, Lanes>{});
  else if (n - j >= Lanes) {
    f(j, pack<T, Lanes>{});
    j += Lanes;
  }
  if constexpr (Lanes > 1) for_each_pack<T, Lanes / 2>(n, f, j);
}

/// The lanes of `sum` folded in halves; n < Lanes products of what is left join in as soon as they fill a half.
template <class T, int Lanes>
HEADRED_INLINE T fold_products(const pack<T, Lanes>& sum, const T* a, const T* b, index_t n) {
  if constexpr (Lanes == 1) {
    return sum[0];
  } else {
    using half = pack<T, Lanes / 2>;
    half halves[2];
    std::memcpy(halves, &sum, sizeof(sum));
    half folded = halves[0] + halves[1];
    if (n < Lanes / 2) return fold_products<T, Lanes / 2>(folded, a, b, n);
    folded += load<half>(a) * load<half>(b);
    return fold_products<T, Lanes / 2>(folded, a + Lanes / 2, b + Lanes / 2, n - Lanes / 2);
  }
}

/// Sum of products, in an order fixed by n.
template <class T>
HEADRED_INLINE T row_dot(const T* a, const T* b, index_t n) {
  constexpr int lanes = native_lanes<T>;
  using vec = pack<T, lanes>;
  vec sum{};
  index_t i = 0;
  for (; i + lanes <= n; i += lanes) sum += load<vec>(a + i) * load<vec>(b + i);
  return fold_products<T, lanes>(sum, a + i, b + i, n - i);
}

/// s += bias, s -= (1 - mask) penalty, kept finite; -infinity where mask = 0. bias or mask may be absent (nullptr).
template <class T>
void mask_scores(T* s, index_t n, const T* bias, const T* mask, T penalty) {
  for_each_pack<T>(n, [=](index_t j, auto zero) {
    using vec = decltype(zero);
    const vec lowest = broadcast<vec>(std::numeric_limits<T>::lowest());
    vec x = load<vec>(s + j);
    if (bias != nullptr) x += load<vec>(bias + j);
    x = select_less(x, lowest, lowest, x);
    if (mask != nullptr) {
      const vec m = load<vec>(mask + j), excluded = broadcast<vec>(-std::numeric_limits<T>::infinity());
      x -= (T(1) - m) * penalty;
      x = select_less(x, lowest, lowest, x);
      x = select_less(zero, m, x, select_less(m, zero, x, excluded));
    }
    store(s + j, x);
  });
}

/// y = x factor.
template <class T>
void scale_to(const T* x, index_t n, T factor, T* y) {
  for_each_pack<T>(n, [=](index_t j, auto zero) { store(y + j, load<decltype(zero)>(x + j) * factor); });
}

/// A row of scores, with room for whole packs, and where its softmax goes.
template <class T>
struct score_row {
  T* scores;
  T* to;
  index_t n;
};

/// Lane r of the result is pack r with its lanes folded in halves; the packs are used up.
template <class T, int Lanes, class Fold>
HEADRED_INLINE pack<T, Lanes> fold_each(pack<T, Lanes> (&packs)[Lanes], const Fold& fold) {
#if defined(__has_builtin) && !defined(__CUDACC__)  // see simd/transpose.hpp
#if __has_builtin(__builtin_shufflevector)
#define HEADRED_FOLD_BY_SHUFFLES 1
#endif
#endif
#if defined(HEADRED_FOLD_BY_SHUFFLES)
  // Perfect shuffles as in a transposition, but each step leaves half of the packs.
  using vec = pack<T, Lanes>;
  using lanes = std::make_index_sequence<static_cast<std::size_t>(Lanes)>;
  for (int half = Lanes / 2; half > 0; half /= 2)
    for (int r = 0; r < half; ++r)
      packs[r] = fold(interleave<vec, 0>(packs[r], packs[r + half], lanes{}),
                      interleave<vec, 1>(packs[r], packs[r + half], lanes{}));
  return packs[0];
#else
  pack<T, Lanes> result{};
  for (int r = 0; r < Lanes; ++r) result[r] = fold_lanes<T, Lanes>(packs[r], fold);
  return result;
#endif
#undef HEADRED_FOLD_BY_SHUFFLES
}

/// The softmax of each row, 0 throughout where all scores are -infinity; the scores are used up. Rows go together, so
/// that none waits for the maximum and the sum of another.
template <class T>
void softmax_rows(const score_row<T>* rows, index_t count) {
  constexpr int lanes = native_lanes<T>;
  using vec = pack<T, lanes>;
  const vec lowest = broadcast<vec>(-std::numeric_limits<T>::infinity());
  vec lane{};
  for (int i = 0; i < lanes; ++i) lane[i] = T(i);
  for (; count > 0; rows += lanes, count -= lanes) {
    const index_t group = count < lanes ? count : lanes;
    vec parts[lanes];
    for (index_t r = group; r < lanes; ++r) parts[r] = vec{};
    T shift[lanes], factor[lanes];
    for (index_t r = 0; r < group; ++r) {
      T* const s = rows[r].scores;
      const index_t last = rows[r].n / lanes * lanes;
      vec most = lowest;
      for (index_t j = 0; j < last; j += lanes) most = fold_greater{}(most, load<vec>(s + j));
      if (last < rows[r].n) {
        const vec x = select_less(lane, broadcast<vec>(T(rows[r].n - last)), load<vec>(s + last), lowest);
        store(s + last, x);
        most = fold_greater{}(most, x);
      }
      parts[r] = most;
    }
    const vec most = fold_each<T, lanes>(parts, fold_greater{});
    store(shift, select_less(lowest, most, most, vec{}));
    for (index_t r = 0; r < group; ++r) {
      T* const s = rows[r].scores;
      vec sum{};
      for (index_t j = 0; j < rows[r].n; j += lanes) {
        const vec e = exp_of<lanes>(load<vec>(s + j) - shift[r]);
        store(s + j, e);
        sum += e;
      }
      parts[r] = sum;
    }
    // Where nothing is seen the sum is 0; a NaN stays one.
    const vec sum = fold_each<T, lanes>(parts, fold_sum{});
    store(factor, select_less(vec{}, sum, T(1) / sum, sum));
    for (index_t r = 0; r < group; ++r) scale_to(rows[r].scores, rows[r].n, factor[r], rows[r].to);
  }
}

/// d <- w d - p sum(w d): the gradient of the scores; w, which is p after dropout, weighed the values.
template <class T>
void score_gradient_row(const T* p, const T* w, T* d, index_t n) {
  const T mean = row_dot(w, d, n);
  for_each_pack<T>(n, [=](index_t j, auto zero) {
    using vec = decltype(zero);
    store(d + j, load<vec>(w + j) * load<vec>(d + j) - load<vec>(p + j) * mean);
  });
}

/// s[j] = scale (q . k_j) for n keys, k_row apart; whole packs of s are written. size is a multiple of Lanes.
template <class T, int Lanes>
void score_keys_by(const T* q, const T* k, index_t k_row, index_t n, index_t size, T scale, T* s) {
  using vec = pack<T, Lanes>;
  for (index_t j = 0; j < n; j += Lanes) {
    vec sums[Lanes] = {};
    for (int r = 0; r < Lanes; ++r) {
      const T* const key = k + (j + r < n ? j + r : n - 1) * k_row;
      for (index_t c = 0; c < size; c += Lanes) sums[r] += load<vec>(q + c) * load<vec>(key + c);
    }
    store(s + j, fold_each<T, Lanes>(sums, fold_sum{}) * scale);
  }
}

/// The same for any size.
template <class T, int Lanes = native_lanes<T>>
void score_keys(const T* q, const T* k, index_t k_row, index_t n, index_t size, T scale, T* s) {
  if (size % Lanes == 0) return score_keys_by<T, Lanes>(q, k, k_row, n, size, scale, s);
  if constexpr (Lanes > 1) score_keys<T, Lanes / 2>(q, k, k_row, n, size, scale, s);
}

}  // namespace headred::detail
