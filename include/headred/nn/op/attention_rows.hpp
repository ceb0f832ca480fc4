// The work of attention on one row of scores, and products of few queries with many keys.
#pragma once

#include <cstring>
#include <limits>

#include <headred/nn/op/softmax.hpp>

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

/// to = softmax of s over [0,n), 0 where all scores are -infinity. s has room for whole packs and is used up.
template <class T>
void softmax_scores(T* s, index_t n, T* to) {
  constexpr int lanes = native_lanes<T>;
  using vec = pack<T, lanes>;
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  const index_t end = padded<T, lanes>(n);
  if (end > n) {
    vec lane{};
    for (int i = 0; i < lanes; ++i) lane[i] = T(i);
    T* const last = s + end - lanes;
    store(last, select_less(lane, broadcast<vec>(T(n - end + lanes)), load<vec>(last), broadcast<vec>(lowest)));
  }
  const T most = greatest(s, end);
  // Where nothing is seen the sum is 0, unless a NaN is there, which must stay one.
  const T sum = exponentials(s, s, end, most == lowest ? T(0) : most);
  const T factor = sum == T(0) ? T(0) : T(1) / sum;
  for_each_pack<T>(n, [=](index_t j, auto zero) { store(to + j, load<decltype(zero)>(s + j) * factor); });
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

/// y = x factor.
template <class T>
void scale_to(const T* x, index_t n, T factor, T* y) {
  for_each_pack<T>(n, [=](index_t j, auto zero) { store(y + j, load<decltype(zero)>(x + j) * factor); });
}

/// s[j] = scale (q . k_j) for n keys, k_row apart.
template <class T>
void score_keys(const T* q, const T* k, index_t k_row, index_t n, index_t size, T scale, T* s) {
  for (index_t j = 0; j < n; ++j) {
    T sum = 0;
    for (index_t c = 0; c < size; ++c) sum += q[c] * k[j * k_row + c];
    s[j] = sum * scale;
  }
}

}  // namespace headred::detail
