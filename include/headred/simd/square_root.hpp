// The square root of packs, correctly rounded: the processor's own instruction.
#pragma once

#include <cmath>

#include <headred/simd/pack.hpp>

namespace headred::detail {

/// sqrt of each lane, correctly rounded; NaN below zero. Compilers call the library for each lane of the plain loop,
/// since the standard has sqrt report errors.
template <class T, int Lanes>
HEADRED_INLINE pack<T, Lanes> square_root(const pack<T, Lanes>& x) {
#if (defined(__GNUC__) || defined(__clang__)) && defined(__SSE2__)
  constexpr bool single = sizeof(T) == 4;
  if constexpr (sizeof(x) == 16 && single) return __builtin_ia32_sqrtps(x);
  if constexpr (sizeof(x) == 16 && !single) return __builtin_ia32_sqrtpd(x);
#if defined(__AVX__)
  if constexpr (sizeof(x) == 32 && single) return __builtin_ia32_sqrtps256(x);
  if constexpr (sizeof(x) == 32 && !single) return __builtin_ia32_sqrtpd256(x);
#endif
#if defined(__AVX512F__) && !defined(__clang__)
  if constexpr (sizeof(x) == 64 && single)
    return __builtin_ia32_sqrtps512_mask(x, x, static_cast<unsigned short>(-1), 4);
  if constexpr (sizeof(x) == 64 && !single)
    return __builtin_ia32_sqrtpd512_mask(x, x, static_cast<unsigned char>(-1), 4);
#elif defined(__AVX512F__)
  if constexpr (sizeof(x) == 64 && single) return __builtin_ia32_sqrtps512(x, 4);
  if constexpr (sizeof(x) == 64 && !single) return __builtin_ia32_sqrtpd512(x, 4);
#endif
#endif
  pack<T, Lanes> root = x;
  for (int lane = 0; lane < Lanes; ++lane) root[lane] = std::sqrt(x[lane]);
  return root;
}

}  // namespace headred::detail
