// log2 and square root over packs, without branches: the two functions that the token distances live on.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include <headred/simd/pack.hpp>

namespace headred::detail {

template <class To, class From>
HEADRED_INLINE To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

#if defined(__GNUC__) || defined(__clang__)

/// Base-2 logarithm of positive normal numbers, relative error about 1.5e-7 near 1 and absolute 2^-24 |log2 x| beyond;
/// a finite number for 0, so that 0 log2 0 needs no branch. Shift is added to it.
template <int Lanes, int Shift = 0>
HEADRED_INLINE pack<float, Lanes> log2_of(const pack<float, Lanes>& x) {
  using floats = pack<float, Lanes>;
  using ints = pack<std::int32_t, Lanes>;
  const ints ix = bits_as<ints>(x);
  const ints exponent = (ix - 0x3f3504f3) >> 23;  // mantissa in [sqrt(1/2), sqrt(2))
  const floats t = bits_as<floats>(ix - (exponent << 23)) - 1.f;
  // relative minimax of log2(1+t)/t, degree 8
  floats p = broadcast<floats>(.125837051f);
  p = p * t - .207269762f;
  p = p * t + .215715601f;
  p = p * t - .238944819f;
  p = p * t + .287916248f;
  p = p * t - .360703683f;
  p = p * t + .480910643f;
  p = p * t - .721347347f;
  p = p * t + 1.442695f;
  return p * t + __builtin_convertvector(exponent + Shift, floats);
}

/// The same in double, relative error a few 1e-16: log2 m = 2/ln 2 (s + s^3/3 + s^5/5 + ...), s = (m-1)/(m+1).
template <int Lanes, int Shift = 0>
HEADRED_INLINE pack<double, Lanes> log2_of(const pack<double, Lanes>& x) {
  using doubles = pack<double, Lanes>;
  using ints = pack<std::uint64_t, Lanes>;
  const ints ix = bits_as<ints>(x);
  const ints exponent = (ix - 0x3fe6a09e667f3bcdull + 0x3ff0000000000000ull) >> 52;  // biased by 1023
  const doubles m = bits_as<doubles>(ix - (exponent << 52) + 0x3ff0000000000000ull);
  const doubles s = (m - 1.) / (m + 1.);
  const doubles u = s * s;
  doubles p = broadcast<doubles>(1. / 23);
  p = p * u + 1. / 21;
  p = p * u + 1. / 19;
  p = p * u + 1. / 17;
  p = p * u + 1. / 15;
  p = p * u + 1. / 13;
  p = p * u + 1. / 11;
  p = p * u + 1. / 9;
  p = p * u + 1. / 7;
  p = p * u + 1. / 5;
  p = p * u + 1. / 3;
  const doubles log_m = s + s * u * p;
  // integer to double through the mantissa of 2^52: no vector instruction is needed for it
  const doubles e = bits_as<doubles>(exponent | 0x4330000000000000ull) - (4503599627370496. + 1023. - Shift);
  return log_m * 2.8853900817779268147 + e;
}

/// Square root of numbers >= 0, relative error at most 1 ulp, 0 for 0 (and below the smallest normal number).
template <int Lanes>
HEADRED_INLINE pack<float, Lanes> sqrt_of(const pack<float, Lanes>& x) {
  using floats = pack<float, Lanes>;
  using ints = pack<std::int32_t, Lanes>;
  floats r = bits_as<floats>(0x5f3759df - (bits_as<ints>(x) >> 1));  // 1/sqrt(x) to 3 %
  for (int i = 0; i < 2; ++i) r = r * (1.5f - .5f * x * r * r);
  const floats y = x * r;
  const floats root = y + .5f * r * (x - y * y);
  return select_less(x, broadcast<floats>(0x1p-126f), x - x, root);
}

template <int Lanes>
HEADRED_INLINE pack<double, Lanes> sqrt_of(const pack<double, Lanes>& x) {
  using doubles = pack<double, Lanes>;
  using ints = pack<std::uint64_t, Lanes>;
  doubles r = bits_as<doubles>(0x5fe6eb50c7b537a9ull - (bits_as<ints>(x) >> 1));
  for (int i = 0; i < 3; ++i) r = r * (1.5 - .5 * x * r * r);
  const doubles y = x * r;
  const doubles root = y + .5 * r * (x - y * y);
  return select_less(x, broadcast<doubles>(0x1p-1022), x - x, root);
}

#else  // other compilers: the standard functions, lane by lane

template <int Lanes, int Shift = 0, class T>
array_pack<T, Lanes> log2_of(array_pack<T, Lanes> x) {
  for (T& lane : x.lane)
    lane = std::log2(lane > std::numeric_limits<T>::min() ? lane : std::numeric_limits<T>::min()) + T(Shift);
  return x;
}
template <int Lanes, class T>
array_pack<T, Lanes> sqrt_of(array_pack<T, Lanes> x) {
  for (T& lane : x.lane) lane = std::sqrt(lane);
  return x;
}

#endif

}  // namespace headred::detail
