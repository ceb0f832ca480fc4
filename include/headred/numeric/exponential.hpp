// exp, tanh and erf over packs, without branches: what softmax and the activations live on.
#pragma once

#include <cmath>
#include <limits>

#include <headred/numeric/vector_math.hpp>

namespace headred::detail {

#if defined(__GNUC__) || defined(__clang__)

/// e^x = 2^k (1 + m), k an integer, m in [2^-1/2 - 1, 2^1/2 - 1]; `bits` holds k in its lowest bits, ready to be
/// shifted to where an exponent stands.
template <class Reals, class Bits>
struct split_exponential {
  Reals m;
  Bits bits;
};

template <int Lanes>
HEADRED_INLINE split_exponential<pack<float, Lanes>, pack<std::uint32_t, Lanes>> split_exp(
    const pack<float, Lanes>& x) {
  using floats = pack<float, Lanes>;
  using bits = pack<std::uint32_t, Lanes>;
  const floats shifted = x * 1.44269504f + 12582912.f;  // 1.5 2^23: rounds to an integer, kept in the lowest bits
  const floats k = shifted - 12582912.f;
  const floats r = (x - k * .693359375f) - k * -2.12194440e-4f;  // ln 2 in two parts, the first exact times k
  // minimax of (e^r - 1 - r) / r^2
  floats p = broadcast<floats>(.00138145383f);
  p = p * r + .00836874545f;
  p = p * r + .041668389f;
  p = p * r + .166665211f;
  p = p * r + .49999994f;
  return {p * (r * r) + r, bits_as<bits>(shifted)};
}

template <int Lanes>
HEADRED_INLINE split_exponential<pack<double, Lanes>, pack<std::uint64_t, Lanes>> split_exp(
    const pack<double, Lanes>& x) {
  using doubles = pack<double, Lanes>;
  using bits = pack<std::uint64_t, Lanes>;
  const doubles shifted = x * 1.4426950408889634074 + 6755399441055744.;
  const doubles k = shifted - 6755399441055744.;
  const doubles r = (x - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33;
  // Taylor series: its remainder is below 2^-57 on |r| <= ln(2)/2
  doubles p = broadcast<doubles>(1. / 6227020800);
  p = p * r + 1. / 479001600;
  p = p * r + 1. / 39916800;
  p = p * r + 1. / 3628800;
  p = p * r + 1. / 362880;
  p = p * r + 1. / 40320;
  p = p * r + 1. / 5040;
  p = p * r + 1. / 720;
  p = p * r + 1. / 120;
  p = p * r + 1. / 24;
  p = p * r + 1. / 6;
  p = p * r + .5;
  return {p * (r * r) + r, bits_as<bits>(shifted)};
}

/// e^x, relative error at most 9e-8; 0 where e^x is below 2^-126, infinity where it overflows, NaN for NaN.
template <int Lanes>
HEADRED_INLINE pack<float, Lanes> exp_of(const pack<float, Lanes>& x) {
  using floats = pack<float, Lanes>;
  const auto e = split_exp<Lanes>(x);
  const floats y = bits_as<floats>(bits_as<pack<std::uint32_t, Lanes>>(1.f + e.m) + (e.bits << 23));
  const floats large = select_less(x, broadcast<floats>(88.722839f), y, x + std::numeric_limits<float>::infinity());
  return select_less(x, broadcast<floats>(-87.336544f), floats{}, large);
}

/// The same in double, relative error at most 1.6e-16; 0 below 2^-1022.
template <int Lanes>
HEADRED_INLINE pack<double, Lanes> exp_of(const pack<double, Lanes>& x) {
  using doubles = pack<double, Lanes>;
  const auto e = split_exp<Lanes>(x);
  const doubles y = bits_as<doubles>(bits_as<pack<std::uint64_t, Lanes>>(1. + e.m) + (e.bits << 52));
  const doubles large =
      select_less(x, broadcast<doubles>(709.78271289338409), y, x + std::numeric_limits<double>::infinity());
  return select_less(x, broadcast<doubles>(-708.39641853226408), doubles{}, large);
}

template <class Bits, class Reals>
HEADRED_INLINE Reals absolute(const Reals& x) {
  return bits_as<Reals>(bits_as<Bits>(x) & (~Bits{} >> 1));
}
/// |x| with the sign of `sign`; x >= 0.
template <class Bits, class Reals>
HEADRED_INLINE Reals with_sign(const Reals& x, const Reals& sign) {
  return bits_as<Reals>(bits_as<Bits>(x) | (bits_as<Bits>(sign) & ~(~Bits{} >> 1)));
}

/// tanh x = E / (E + 2), E = e^2|x| - 1 without cancellation; relative error at most 1.8e-7, NaN for NaN.
template <int Lanes>
HEADRED_INLINE pack<float, Lanes> tanh_of(const pack<float, Lanes>& x) {
  using floats = pack<float, Lanes>;
  using bits = pack<std::uint32_t, Lanes>;
  const floats a = absolute<bits>(x), limit = broadcast<floats>(10.f);
  const auto e = split_exp<Lanes>(2.f * select_less(limit, a, limit, a));
  const floats power = bits_as<floats>((e.bits << 23) + 0x3f800000u);
  const floats expm1 = power * e.m + (power - 1.f);
  return with_sign<bits>(expm1 / (expm1 + 2.f), x);
}

/// The same in double, relative error at most 3.6e-16.
template <int Lanes>
HEADRED_INLINE pack<double, Lanes> tanh_of(const pack<double, Lanes>& x) {
  using doubles = pack<double, Lanes>;
  using bits = pack<std::uint64_t, Lanes>;
  const doubles a = absolute<bits>(x), limit = broadcast<doubles>(20.);
  const auto e = split_exp<Lanes>(2. * select_less(limit, a, limit, a));
  const doubles power = bits_as<doubles>((e.bits << 52) + 0x3ff0000000000000u);
  const doubles expm1 = power * e.m + (power - 1.);
  return with_sign<bits>(expm1 / (expm1 + 2.), x);
}

/// erf x for |x| < 1 (inner) and erfc |x| beyond (tail).
template <int Lanes>
struct split_error_function {
  pack<float, Lanes> inner, tail;
};

template <int Lanes>
HEADRED_INLINE split_error_function<Lanes> split_erf(const pack<float, Lanes>& x) {
  using floats = pack<float, Lanes>;
  const floats u = x * x;
  // minimax of erf(sqrt u) / sqrt u on [0,1]
  floats p = broadcast<floats>(7.85386146e-05f);
  p = p * u - .000801019371f;
  p = p * u + .00518832775f;
  p = p * u - .0268538129f;
  p = p * u + .112835854f;
  p = p * u - .37612626f;
  p = p * u + 1.12837911f;
  // minimax of -ln erfc on [1,10]; erfc 10 is below the smallest normal number
  const floats limit = broadcast<floats>(10.f), a = absolute<pack<std::uint32_t, Lanes>>(x);
  const floats z = select_less(limit, a, limit, a);
  floats q = broadcast<floats>(3.16729789e-08f);
  q = q * z - 1.62755828e-06f;
  q = q * z + 3.66309687e-05f;
  q = q * z - .000478611968f;
  q = q * z + .00407358445f;
  q = q * z - .0241784807f;
  q = q * z + .105748028f;
  q = q * z + .636702478f;
  q = q * z + 1.12728846f;
  q = q * z + .000414988783f;
  return {p * x, exp_of<Lanes>(-q)};
}

/// erf x, relative error at most 1.9e-7, NaN for NaN.
template <int Lanes>
HEADRED_INLINE pack<float, Lanes> erf_of(const pack<float, Lanes>& x) {
  using floats = pack<float, Lanes>;
  using bits = pack<std::uint32_t, Lanes>;
  const auto e = split_erf<Lanes>(x);
  return select_less(absolute<bits>(x), broadcast<floats>(1.f), e.inner, with_sign<bits>(1.f - e.tail, x));
}

/// 1 + erf x without cancellation, absolute error at most 1.4e-7; relative 1e-6 for x > -1,
/// 2e-5 for x > -3, 2e-4 down to the smallest normal number; 0 below.
template <int Lanes>
HEADRED_INLINE pack<float, Lanes> one_plus_erf_of(const pack<float, Lanes>& x) {
  using floats = pack<float, Lanes>;
  const auto e = split_erf<Lanes>(x);
  const floats outer = select_less(x, floats{}, e.tail, 2.f - e.tail);
  return select_less(absolute<pack<std::uint32_t, Lanes>>(x), broadcast<floats>(1.f), 1.f + e.inner, outer);
}

#else  // other compilers: the standard functions, lane by lane

template <int Lanes, class T>
array_pack<T, Lanes> exp_of(array_pack<T, Lanes> x) {
  for (T& lane : x.lane) lane = lane < std::log(std::numeric_limits<T>::min()) ? T(0) : std::exp(lane);
  return x;
}
template <int Lanes, class T>
array_pack<T, Lanes> tanh_of(array_pack<T, Lanes> x) {
  for (T& lane : x.lane) lane = std::tanh(lane);
  return x;
}

template <int Lanes>
array_pack<float, Lanes> erf_of(array_pack<float, Lanes> x) {
  for (float& lane : x.lane) lane = std::erf(lane);
  return x;
}
template <int Lanes>
array_pack<float, Lanes> one_plus_erf_of(array_pack<float, Lanes> x) {
  for (float& lane : x.lane) lane = std::erfc(-lane);
  return x;
}

#endif

/// erf x and 1 + erf x in double: the standard functions, lane by lane.
template <int Lanes>
HEADRED_INLINE pack<double, Lanes> erf_of(pack<double, Lanes> x) {
  for (int i = 0; i < Lanes; ++i) x[i] = std::erf(x[i]);
  return x;
}
template <int Lanes>
HEADRED_INLINE pack<double, Lanes> one_plus_erf_of(pack<double, Lanes> x) {
  for (int i = 0; i < Lanes; ++i) x[i] = std::erfc(-x[i]);
  return x;
}

}  // namespace headred::detail
