// Compiler differences, in one place. Nothing here changes a user's flags.
#pragma once

#include <cstddef>

#if defined(__CUDACC__)
#define HEADRED_FUNCTION __host__ __device__
#else
#define HEADRED_FUNCTION
#endif

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "headred needs C++20: compile with -std=c++20"
#endif

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error \
    "headred needs IEEE arithmetic (NaN checks, compensated sums): compile without -ffast-math and -ffinite-math-only"
#endif

// Before a loop over a register tile: g++ -O2 would leave it a loop, and the tile in memory. clang unrolls it anyway.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define HEADRED_UNROLL _Pragma("GCC unroll 16")
#else
#define HEADRED_UNROLL
#endif

/// The library. What lies in headred::detail is its own and may change with any version.
namespace headred {

/// Extents, strides and indices: signed, as wide as a pointer.
using index_t = std::ptrdiff_t;

}  // namespace headred
