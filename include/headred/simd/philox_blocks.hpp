// Philox blocks, a register full at a time: exactly the words of core/random.hpp.
#pragma once

#include <array>
#include <cstdint>

#include <headred/core/random.hpp>
#include <headred/simd/pack.hpp>

namespace headred::detail {

#if defined(__GNUC__) || defined(__clang__)

/// The product of the lower halves of the lanes, in full.
template <class Lanes>
HEADRED_INLINE Lanes multiply_halves(const Lanes& a, const Lanes& b) {
// GCC 12 does not see that the upper halves are zero and multiplies all 64 bits, at three times the cost.
#if !defined(__clang__) && defined(__SSE2__)
  using ints = pack<int, int(sizeof(Lanes) / 4)>;
#if defined(__AVX512F__)
  if constexpr (sizeof(Lanes) == 64)
    return (Lanes)__builtin_ia32_pmuludq512_mask((ints)a, (ints)b, pack<long long, 8>{},
                                                 static_cast<unsigned char>(-1));
#elif defined(__AVX2__)
  if constexpr (sizeof(Lanes) == 32) return (Lanes)__builtin_ia32_pmuludq256((ints)a, (ints)b);
#endif
  if constexpr (sizeof(Lanes) == 16) return (Lanes)__builtin_ia32_pmuludq128((ints)a, (ints)b);
#endif
  return (a & 0xffffffffu) * (b & 0xffffffffu);
}

/// Words 0 and 1 (first) and words 2 and 3 (second) of the blocks first ... first + Lanes - 1 of a stream, one block a
/// lane, the lower word in the lower half.
template <int Lanes>
HEADRED_INLINE std::array<pack<std::uint64_t, Lanes>, 2> philox_lanes(std::uint64_t seed, std::uint64_t stream,
                                                                      std::uint64_t first) {
  using words = pack<std::uint64_t, Lanes>;
  const words m0 = broadcast<words>(std::uint64_t{0xD2511F53u}), m1 = broadcast<words>(std::uint64_t{0xCD9E8D57u});
  words counter = broadcast<words>(first);
  for (int lane = 0; lane < Lanes; ++lane) counter[lane] += static_cast<std::uint64_t>(lane);
  // Only the lower halves count: the upper ones are left as they come.
  words c0 = counter, c1 = counter >> 32, c2 = broadcast<words>(stream), c3 = broadcast<words>(stream >> 32);
  auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const words a = multiply_halves(c0, m0), b = multiply_halves(c2, m1);
    c0 = (b >> 32) ^ c1 ^ std::uint64_t{k0};
    c1 = b;
    c2 = (a >> 32) ^ c3 ^ std::uint64_t{k1};
    c3 = a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {(c0 & 0xffffffffu) | (c1 << 32), (c2 & 0xffffffffu) | (c3 << 32)};
}

#endif

/// Eight blocks of a stream, 8 chunk to 8 chunk + 7: words 0 and 1 of block after block, then words 2 and 3.
HEADRED_INLINE void philox_chunk(const random_stream& random, std::uint64_t chunk, std::uint32_t* to) {
  const std::uint64_t seed = random.seed(), stream = random.stream();
#if defined(__GNUC__) || defined(__clang__)
  constexpr int lanes = native_lanes<std::uint64_t>;
  for (int block = 0; block < 8; block += lanes) {
    const auto words = philox_lanes<lanes>(seed, stream, 8 * chunk + static_cast<std::uint64_t>(block));
    store(to + 2 * block, words[0]);
    store(to + 16 + 2 * block, words[1]);
  }
#else
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  for (int block = 0; block < 8; ++block) {
    const std::uint64_t i = 8 * chunk + static_cast<std::uint64_t>(block);
    const auto w = philox({low(i), low(i >> 32), low(stream), low(stream >> 32)}, {low(seed), low(seed >> 32)});
    to[2 * block] = w[0];
    to[2 * block + 1] = w[1];
    to[16 + 2 * block] = w[2];
    to[16 + 2 * block + 1] = w[3];
  }
#endif
}

}  // namespace headred::detail
