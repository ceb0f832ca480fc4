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

#if defined(__FAST_MATH__)
#error "headred needs IEEE arithmetic (NaN checks, compensated sums): compile without -ffast-math"
#endif

namespace headred {

/// Extents, strides and indices: signed, as wide as a pointer.
using index_t = std::ptrdiff_t;

}  // namespace headred
