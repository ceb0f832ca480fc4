// Packs at the ragged end of a row, and what the lanes of a pack add up to.
#pragma once

#include <headred/simd/lane_total.hpp>
#include <headred/simd/pack.hpp>

namespace headred::detail {

template <class Pack>
inline constexpr int lanes_of = static_cast<int>(sizeof(Pack) / sizeof(lane_type<Pack>));

// Loads and stores under a mask, where the processor has them: without, a ragged end costs more than the row before it.
#if defined(__AVX512F__)
HEADRED_INLINE pack<float, 16> load_masked(const float* from, index_t n, const pack<float, 16>& fill) {
  return __builtin_ia32_loadups512_mask(from, fill, static_cast<unsigned short>((1u << n) - 1));
}
HEADRED_INLINE pack<double, 8> load_masked(const double* from, index_t n, const pack<double, 8>& fill) {
  return __builtin_ia32_loadupd512_mask(from, fill, static_cast<unsigned char>((1u << n) - 1));
}
HEADRED_INLINE void store_masked(float* to, const pack<float, 16>& p, index_t n) {
  __builtin_ia32_storeups512_mask(to, p, static_cast<unsigned short>((1u << n) - 1));
}
HEADRED_INLINE void store_masked(double* to, const pack<double, 8>& p, index_t n) {
  __builtin_ia32_storeupd512_mask(to, p, static_cast<unsigned char>((1u << n) - 1));
}
#elif defined(__AVX__)
HEADRED_INLINE pack<int, 8> first_lanes(const pack<float, 8>&, index_t n) {
  return pack<int, 8>{0, 1, 2, 3, 4, 5, 6, 7} < static_cast<int>(n);
}
HEADRED_INLINE pack<long long, 4> first_lanes(const pack<double, 4>&, index_t n) {
  return pack<long long, 4>{0, 1, 2, 3} < static_cast<long long>(n);
}
HEADRED_INLINE pack<float, 8> load_masked(const float* from, index_t n, const pack<float, 8>& fill) {
  const auto mask = first_lanes(fill, n);
  return mask ? __builtin_ia32_maskloadps256(reinterpret_cast<const pack<float, 8>*>(from), mask) : fill;
}
HEADRED_INLINE pack<double, 4> load_masked(const double* from, index_t n, const pack<double, 4>& fill) {
  const auto mask = first_lanes(fill, n);
  return mask ? __builtin_ia32_maskloadpd256(reinterpret_cast<const pack<double, 4>*>(from), mask) : fill;
}
HEADRED_INLINE void store_masked(float* to, const pack<float, 8>& p, index_t n) {
  __builtin_ia32_maskstoreps256(reinterpret_cast<pack<float, 8>*>(to), first_lanes(p, n), p);
}
HEADRED_INLINE void store_masked(double* to, const pack<double, 4>& p, index_t n) {
  __builtin_ia32_maskstorepd256(reinterpret_cast<pack<double, 4>*>(to), first_lanes(p, n), p);
}
#endif

/// The first n lanes from memory, 0 <= n < lanes; the others are `fill`. Nothing beyond them is read.
template <class Pack, class T>
HEADRED_INLINE Pack load_part(const T* from, index_t n, std::type_identity_t<T> fill) {
  Pack p = broadcast<Pack>(fill);
  if constexpr (requires { load_masked(from, n, p); }) {
    return load_masked(from, n, p);
  } else {
    std::memcpy(&p, from, static_cast<std::size_t>(n) * sizeof(T));
    return p;
  }
}

/// The first n lanes to memory, 0 <= n < lanes.
template <class Pack, class T>
HEADRED_INLINE void store_part(T* to, const Pack& p, index_t n) {
  if constexpr (requires { store_masked(to, p, n); })
    store_masked(to, p, n);
  else
    std::memcpy(to, &p, static_cast<std::size_t>(n) * sizeof(T));
}

/// The lanes folded in halves, in an order fixed by their number; with a sum it is lane_total.
template <class T, int Lanes, class Fold>
HEADRED_INLINE T fold_lanes(const pack<T, Lanes>& p, const Fold& fold) {
  if constexpr (Lanes == 1) {
    return p[0];
  } else {
    return fold_lanes<T, Lanes / 2>(fold(half_of<T, Lanes, 0>(p), half_of<T, Lanes, 1>(p)), fold);
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
HEADRED_INLINE T greatest_lane(const pack<T, Lanes>& p) {
  return fold_lanes<T, Lanes>(p, fold_greater{});
}

}  // namespace headred::detail
