// The sum over the lanes of a pack, without a way through memory.
#pragma once

#include <utility>

#include <headred/simd/pack.hpp>

namespace headred::detail {

// nvcc hands g++ the built-in function without its pack of indices
#if defined(__has_builtin) && !defined(__CUDACC__)
#if __has_builtin(__builtin_shufflevector)
#define HEADRED_SHUFFLE 1
#endif
#endif

/// The lower or the upper half of a pack.
template <class T, int Lanes, int Half>
HEADRED_INLINE pack<T, Lanes / 2> half_of(const pack<T, Lanes>& x) {
#if defined(HEADRED_SHUFFLE)
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return __builtin_shufflevector(x, x, (static_cast<int>(I) + Half * Lanes / 2)...);
  }(std::make_index_sequence<static_cast<std::size_t>(Lanes / 2)>{});
#else
  pack<T, Lanes / 2> half;
  for (int l = 0; l < Lanes / 2; ++l) half[l] = x[l + Half * Lanes / 2];
  return half;
#endif
}

/// Sum of the lanes, by halves.
template <class T, int Lanes>
HEADRED_INLINE T lane_total(const pack<T, Lanes>& x) {
  if constexpr (Lanes == 1) {
    return x[0];
  } else if constexpr (Lanes == 2) {
    return x[0] + x[1];
  } else {
    return lane_total<T, Lanes / 2>(half_of<T, Lanes, 0>(x) + half_of<T, Lanes, 1>(x));
  }
}

#undef HEADRED_SHUFFLE

}  // namespace headred::detail
