// Packs at the ragged end of a row, and what the lanes of a pack add up to.
#pragma once

#include <headred/simd/pack.hpp>

namespace headred::detail {

template <class Pack>
inline constexpr int lanes_of = static_cast<int>(sizeof(Pack) / sizeof(lane_type<Pack>));

/// The first n lanes from memory, n < lanes; the others are `fill`.
template <class Pack, class T>
HEADRED_INLINE Pack load_part(const T* from, index_t n, T fill) {
  Pack p = broadcast<Pack>(fill);
  std::memcpy(&p, from, static_cast<std::size_t>(n) * sizeof(T));
  return p;
}

/// The first n lanes to memory.
template <class Pack, class T>
HEADRED_INLINE void store_part(T* to, const Pack& p, index_t n) {
  std::memcpy(to, &p, static_cast<std::size_t>(n) * sizeof(T));
}

/// The lanes folded in halves, in an order fixed by their number.
template <class T, int Lanes, class Fold>
HEADRED_INLINE T fold_lanes(const pack<T, Lanes>& p, const Fold& fold) {
  if constexpr (Lanes == 1) {
    return p[0];
  } else {
    using half = pack<T, Lanes / 2>;
    half halves[2];
    std::memcpy(halves, &p, sizeof(p));
    return fold_lanes<T, Lanes / 2>(fold(halves[0], halves[1]), fold);
  }
}

struct fold_sum {
  template <class Pack>
  HEADRED_INLINE Pack operator()(const Pack& a, const Pack& b) const {
    return a + b;
  }
};
struct fold_greater {
  template <class Pack>
  HEADRED_INLINE Pack operator()(const Pack& a, const Pack& b) const {
    return select_less(a, b, b, a);
  }
};

template <class T, int Lanes>
HEADRED_INLINE T sum_of_lanes(const pack<T, Lanes>& p) {
  return fold_lanes<T, Lanes>(p, fold_sum{});
}
template <class T, int Lanes>
HEADRED_INLINE T greatest_lane(const pack<T, Lanes>& p) {
  return fold_lanes<T, Lanes>(p, fold_greater{});
}

}  // namespace headred::detail
