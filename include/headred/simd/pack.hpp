// Fixed-width packs of numbers that the compiler maps to the vector registers its flags allow.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include <headred/core/config.hpp>

#if defined(__GNUC__) || defined(__clang__)
#define HEADRED_INLINE inline __attribute__((always_inline))
#else
#define HEADRED_INLINE inline
#endif

namespace headred {

/// Bytes of the widest vector register that the compiler was told to use. As with Eigen, all translation units of a
/// program must be compiled for the same processor.
#if defined(__AVX512F__)
inline constexpr int native_vector_bytes = 64;
#elif defined(__AVX__)
inline constexpr int native_vector_bytes = 32;
#else
inline constexpr int native_vector_bytes = 16;
#endif

/// Numbers of type T in one such register.
template <class T>
inline constexpr int native_lanes = native_vector_bytes / static_cast<int>(sizeof(T));

namespace detail {

#if defined(__GNUC__) || defined(__clang__)
template <class T, int Lanes>
struct pack_of {
  typedef T type __attribute__((vector_size(sizeof(T) * Lanes)));
};
#else
// Plain loops that any compiler understands; comparisons give all-ones or zero lanes as the vector extension does.
template <class T, int Lanes>
struct array_pack {
  T lane[Lanes];
  T operator[](int i) const { return lane[i]; }
  T& operator[](int i) { return lane[i]; }
#define HEADRED_PACK_OPERATOR(op)                                                  \
  friend array_pack operator op(array_pack a, const array_pack& b) {               \
    for (int i = 0; i < Lanes; ++i) a.lane[i] = T(a.lane[i] op b.lane[i]);         \
    return a;                                                                      \
  }                                                                                \
  friend array_pack operator op(const array_pack& a, T b) { return a op fill(b); } \
  friend array_pack operator op(T a, const array_pack& b) { return fill(a) op b; } \
  array_pack& operator op##=(const array_pack& b) { return *this = *this op b; }
  static array_pack fill(T value) {
    array_pack p;
    for (int i = 0; i < Lanes; ++i) p.lane[i] = value;
    return p;
  }
  HEADRED_PACK_OPERATOR(+)
  HEADRED_PACK_OPERATOR(-)
  HEADRED_PACK_OPERATOR(*)
  HEADRED_PACK_OPERATOR(/)
#undef HEADRED_PACK_OPERATOR
};
template <class T, int Lanes>
struct pack_of {
  using type = array_pack<T, Lanes>;
};
#endif

template <class T, int Lanes>
using pack = typename pack_of<T, Lanes>::type;

/// The type of a pack's lanes.
template <class Pack>
using lane_type = std::remove_cvref_t<decltype(std::declval<Pack&>()[0])>;

template <class T>
using integer_of = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

template <class Pack, class T>
HEADRED_INLINE Pack load(const T* from) {
  Pack p;
  std::memcpy(&p, from, sizeof(Pack));
  return p;
}

template <class Pack, class T>
HEADRED_INLINE void store(T* to, const Pack& p) {
  std::memcpy(to, &p, sizeof(Pack));
}

template <class Pack, class T>
HEADRED_INLINE Pack broadcast(T value) {
#if defined(__GNUC__) || defined(__clang__)
  return value - Pack{};  // x - 0 is x, -0 included, so nothing is left to compute; 0 + x is not
#else
  return Pack::fill(value);
#endif
}

/// A pack of other numbers than those in memory, converted lane by lane.
template <class Pack, class T>
HEADRED_INLINE Pack load_converted(const T* from) {
#if defined(__GNUC__) || defined(__clang__)
  return __builtin_convertvector(load<pack<T, int(sizeof(Pack) / sizeof(Pack{}[0]))>>(from), Pack);
#else
  Pack p;
  for (int i = 0; i < int(sizeof(p.lane) / sizeof(p.lane[0])); ++i) p.lane[i] = from[i];
  return p;
#endif
}

template <class T, class Pack>
HEADRED_INLINE void store_converted(T* to, const Pack& p) {
#if defined(__GNUC__) || defined(__clang__)
  store(to, __builtin_convertvector(p, pack<T, int(sizeof(Pack) / sizeof(Pack{}[0]))>));
#else
  for (int i = 0; i < int(sizeof(p.lane) / sizeof(p.lane[0])); ++i) to[i] = static_cast<T>(p.lane[i]);
#endif
}

/// n rounded up to whole packs.
template <class T, int Lanes>
constexpr index_t padded(index_t n) {
  return (n + Lanes - 1) / Lanes * Lanes;
}

/// a < b ? x : y, lane by lane.
template <class Pack>
HEADRED_INLINE Pack select_less(const Pack& a, const Pack& b, const Pack& x, const Pack& y) {
#if defined(__GNUC__) || defined(__clang__)
  return a < b ? x : y;
#else
  Pack p;
  for (int i = 0; i < int(sizeof(p.lane) / sizeof(p.lane[0])); ++i)
    p.lane[i] = a.lane[i] < b.lane[i] ? x.lane[i] : y.lane[i];
  return p;
#endif
}

}  // namespace detail
}  // namespace headred
