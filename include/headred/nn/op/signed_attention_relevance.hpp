// Relevance by sign through one head of attention, query by query.
#pragma once

#include <algorithm>

#include <headred/lrp/factor_row.hpp>
#include <headred/nn/op/attention_rows.hpp>
#include <headred/simd/transpose.hpp>

namespace headred::detail {

/// A query of a head: its rows, and those of its n keys from the first of the sentence on.
template <class T>
struct attention_place {
  index_t n, size, k_row, v_row, to_k_row, to_v_row;
  const T *p, *q, *k, *v, *y, *relevance;
  T *to_q, *to_k, *to_v;
};

/// The sum of f(get), get(p) being a pack of p's entries [0,n), zeros beyond them.
template <class T, class F>
HEADRED_INLINE T sum_of_packs(index_t n, const F& f) {
  pack<T, native_lanes<T>> sum{};
  in_packs<T>(n, [&](const auto& get, const auto&) { sum += f(get); });
  return lane_total<T, native_lanes<T>>(sum);
}

/// Contributions to output c: A_j v_jc; q_d scale sum_j slope_jc k_jd; k_jd q_d scale slope_jc, which has the sign of a
/// product, so that its sums by sign come from those of its factors. slope_jc = A_j (v_jc - y_c) says how output c moves
/// with score j. What is summed over a key's entries goes with the keys side by side, what is summed over keys with the
/// entries side by side: no sum has to be gathered from the lanes of a pack.
template <class T>
class signed_attention_head {
  static constexpr index_t lanes = native_lanes<T>, most = 4;
  using vec = pack<T, lanes>;

 public:
  static index_t scratch(index_t size, index_t keys) {
    return padded<T, lanes>(keys) * (3 * size + 3) + size * (keys + size + 2);
  }

  signed_attention_head(index_t size, index_t keys, T scale, T* memory)
      : size_(size), keys_(keys), row_(padded<T, lanes>(keys)), scale_(scale), memory_(memory) {}

  /// Before the first query, where queries and keys receive relevance, too.
  void begin(const T* k, index_t k_row, const T* v, index_t v_row) {
    std::fill_n(memory_, row_ * (3 * size_ + 3), T(0));
    transpose(k, k_row, keys_, size_, k_across_, row_);
    transpose(v, v_row, keys_, size_, v_across_, row_);
  }
  /// After the last one: adds what the keys receive.
  void end(T* to_k, index_t to_row) const {
    for (index_t j = 0; j < keys_; ++j)
      for (index_t d = 0; d < size_; ++d) to_k[j * to_row + d] += to_k_across_[d * row_ + j];
  }

  /// Returns what is lost.
  template <class Rule>
  double row(const Rule& rule, const attention_place<T>& w, bool joint) {
    if (joint) {
      std::copy_n(w.p, w.n, p_);
      std::fill(p_ + w.n, p_ + padded<T, lanes>(w.n), T(0));
      in_blocks(w.n, [&](index_t j, auto packs) { score_sums<decltype(packs)::value>(w, j); });
    }
    for_each_pack<T>(size_, [&](index_t c, auto zero) {
      if (joint)
        sums_over_keys(w, c, zero);
      else
        sums_of_values(w, c, zero);
    });
    if (joint) {
      index_t c = 0;
      for (; c + 2 * lanes <= size_; c += 2 * lanes) across_all_queries<2>(w, c, vec{});
      for_each_pack<T>(
          size_, [&](index_t at, auto zero) { across_all_queries<1>(w, at, zero); }, c);
    }
    const double lost = factor_row<T>(rule, w.relevance, nullptr, plus_, minus_, size_).eps;
    for (index_t j = 0; j < w.n; ++j) to_values(w, j);
    if (!joint) return lost;
    in_blocks(w.n, [&](index_t j, auto packs) { to_keys<decltype(packs)::value>(w, j); });
    for (index_t d = 0; d < size_; ++d)
      w.to_q[d] += sum_of_packs<T>(size_, [&](const auto& get) {
        const vec z = get(across_ + d * size_);
        return select_less(vec{}, z, get(plus_), get(minus_)) * z;
      });
    return lost;
  }

 private:
  /// f(first key, number of packs) for blocks of packs that together are n keys, and some zeros.
  template <class F>
  static void in_blocks(index_t n, const F& f) {
    index_t j = 0;
    for (; j + most * lanes <= n; j += most * lanes) f(j, std::integral_constant<int, most>{});
    for (; j < n; j += lanes) f(j, std::integral_constant<int, 1>{});
  }

  /// Sums by sign of the terms of some scores.
  template <int Packs>
  void score_sums(const attention_place<T>& w, index_t j) {
    vec rising[Packs] = {}, falling[Packs] = {};
    for (index_t d = 0; d < size_; ++d) {
      const T q = w.q[d] * scale_;
      for (int r = 0; r < Packs; ++r) {
        const vec s = load<vec>(k_across_ + d * row_ + j + r * lanes) * q, up = select_less(vec{}, s, s, vec{});
        rising[r] += up;
        falling[r] += s - up;
      }
    }
    for (int r = 0; r < Packs; ++r) {
      store(rising_ + j + r * lanes, rising[r]);
      store(falling_ + j + r * lanes, falling[r]);
    }
  }

  /// Sums by sign of the contributions of values and of keys to a pack of outputs; keeps the slopes.
  template <class Vec>
  void sums_over_keys(const attention_place<T>& w, index_t c, const Vec& zero) {
    const Vec y = load<Vec>(w.y + c);
    Vec above{}, below{}, with{}, against{};
    for (index_t j = 0; j < w.n; ++j) {
      const Vec v = load<Vec>(w.v + j * w.v_row + c), z = v * w.p[j], s = (v - y) * w.p[j];
      above = select_less(zero, z, above + z, above);
      below = select_less(zero, z, below, below + z);
      const Vec rising = broadcast<Vec>(rising_[j]), falling = broadcast<Vec>(falling_[j]);
      with += select_less(zero, s, rising, falling) * s;
      against += select_less(zero, s, falling, rising) * s;
      store(slope_ + j * size_ + c, s);
    }
    store(plus_ + c, above + with);
    store(minus_ + c, below + against);
  }
  template <class Vec>
  void sums_of_values(const attention_place<T>& w, index_t c, const Vec& zero) {
    Vec above{}, below{};
    for (index_t j = 0; j < w.n; ++j) {
      const Vec z = load<Vec>(w.v + j * w.v_row + c) * w.p[j];
      above = select_less(zero, z, above + z, above);
      below = select_less(zero, z, below, below + z);
    }
    store(plus_ + c, above);
    store(minus_ + c, below);
  }

  template <int Packs, class Vec>
  void across_all_queries(const attention_place<T>& w, index_t c, const Vec& zero) {
    constexpr int at_once = native_vector_bytes == 64 ? 8 : 4;
    index_t d = 0;
    for (; d + at_once <= size_; d += at_once) across_queries<at_once, Packs>(w, c, d, zero);
    for (; d < size_; ++d) across_queries<1, Packs>(w, c, d, zero);
  }

  /// q_d scale sum_j slope_jc k_jd for some d and some packs of outputs: kept, and added to the sums by sign.
  template <int Count, int Packs, class Vec>
  void across_queries(const attention_place<T>& w, index_t c, index_t d, const Vec& zero) {
    constexpr int width = lanes_of<Vec>;
    Vec sum[Count][Packs] = {};
    const T *k = w.k + d, *slope = slope_ + c;
    for (index_t j = 0; j < w.n; ++j, k += w.k_row, slope += size_) {
      Vec s[Packs];
      for (int e = 0; e < Packs; ++e) s[e] = load<Vec>(slope + e * width);
      HEADRED_UNROLL
      for (int r = 0; r < Count; ++r)
        for (int e = 0; e < Packs; ++e) sum[r][e] += s[e] * k[r];
    }
    for (int e = 0; e < Packs; ++e, c += width) {
      Vec above = load<Vec>(plus_ + c), below = load<Vec>(minus_ + c);
      for (int r = 0; r < Count; ++r) {
        const Vec z = sum[r][e] * (scale_ * w.q[d + r]);
        above = select_less(zero, z, above + z, above);
        below = select_less(zero, z, below, below + z);
        store(across_ + (d + r) * size_ + c, z);
      }
      store(plus_ + c, above);
      store(minus_ + c, below);
    }
  }

  void to_values(const attention_place<T>& w, index_t j) const {
    for_each_pack<T>(
        size_, [=, this, p = w.p[j], v = w.v + j * w.v_row, to = w.to_v + j * w.to_v_row](index_t c, auto zero) {
          using part = decltype(zero);
          const part z = load<part>(v + c) * p;
          store(to + c, load<part>(to + c) + select_less(zero, z, load<part>(plus_ + c), load<part>(minus_ + c)) * z);
        });
  }

  /// Some keys: the relevance of a rising and of a falling term of their scores, then each term's.
  template <int Packs>
  void to_keys(const attention_place<T>& w, index_t j) {
    vec with[Packs] = {}, against[Packs] = {}, p[Packs];
    for (int r = 0; r < Packs; ++r) p[r] = load<vec>(p_ + j + r * lanes);
    for (index_t c = 0; c < size_; ++c) {
      const vec plus = broadcast<vec>(plus_[c]), minus = broadcast<vec>(minus_[c]);
      for (int r = 0; r < Packs; ++r) {
        const vec s = (load<vec>(v_across_ + c * row_ + j + r * lanes) - w.y[c]) * p[r];
        with[r] += select_less(vec{}, s, plus, minus) * s;
        against[r] += select_less(vec{}, s, minus, plus) * s;
      }
    }
    for (index_t d = 0; d < size_; ++d) {
      const T q = w.q[d] * scale_;
      for (int r = 0; r < Packs; ++r) {
        const index_t at = d * row_ + j + r * lanes;
        const vec s = load<vec>(k_across_ + at) * q;
        store(to_k_across_ + at, load<vec>(to_k_across_ + at) + select_less(vec{}, s, with[r], against[r]) * s);
      }
    }
  }

  index_t size_, keys_, row_;
  T scale_;
  T* memory_;
  T *k_across_ = memory_, *v_across_ = k_across_ + size_ * row_,
    *to_k_across_ = v_across_ + size_ * row_,                                                 // (size,row)
        *p_ = to_k_across_ + size_ * row_, *rising_ = p_ + row_, *falling_ = rising_ + row_,  // (row)
                                                                     *slope_ = falling_ + row_,
    *across_ = slope_ + keys_ * size_,                              // (.,size)
        *plus_ = across_ + size_ * size_, *minus_ = plus_ + size_;  // (size)
};

}  // namespace headred::detail
