// gate_noise: the random numbers that gates and masks are sampled with.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include <headred/core/random.hpp>
#include <headred/simd/philox_blocks.hpp>

namespace headred {

/// Noise number i is a pure function of the stream and i, in (0,1): 32 bits of a Philox block, (2 k + 1) / 2^33 of the
/// 32-bit word k in double, (2 k + 1) / 2^24 of its upper 23 bits in float; 1 minus it is exact, and a float's number is
/// within 2^-23 of the double's. Numbers 32 c to 32 c + 31 share the blocks 8 c to 8 c + 7 of the stream.
class gate_noise {
 public:
  /// Elements whose noise is drawn together.
  static constexpr index_t block = 32;

  HEADRED_FUNCTION constexpr explicit gate_noise(random_stream stream) : stream_(stream) {}

  /// Noise of element i, for gates with one number each: number i.
  template <class T>
  HEADRED_FUNCTION constexpr T one(std::uint64_t i) const {
    const auto e = static_cast<unsigned>(i % 32);
    return number<T>(words(i / 32 * 8 + e % 16 / 2)[e % 2 + e / 16 * 2]);
  }
  /// Noise of element i, for gates with two numbers each: numbers 32 (i / 16) + i % 16 and 16 more.
  template <class T>
  HEADRED_FUNCTION constexpr std::array<T, 2> two(std::uint64_t i) const {
    const auto e = static_cast<unsigned>(i % 16);
    const auto both = words(i / 16 * 8 + e / 2);
    return {number<T>(both[e % 2]), number<T>(both[e % 2 + 2])};
  }

  /// The same for the elements 32 b to 32 b + 31: to[0] of one, to[0] and to[1] of two numbers.
  template <int Numbers, class T>
  void draw_block(std::uint64_t b, T (*to)[block]) const {
    std::uint32_t drawn[block];
    for (std::uint64_t half = 0; half < Numbers; ++half) {
      detail::philox_chunk(stream_, Numbers * b + half, drawn);
      if constexpr (Numbers == 1) {
        for (int i = 0; i < 32; ++i) to[0][i] = number<T>(drawn[i]);
      } else {
        for (int i = 0; i < 16; ++i) to[0][16 * half + static_cast<std::uint64_t>(i)] = number<T>(drawn[i]);
        for (int i = 0; i < 16; ++i) to[1][16 * half + static_cast<std::uint64_t>(i)] = number<T>(drawn[16 + i]);
      }
    }
  }

  /// The number that a word of the stream stands for.
  template <class T>
  HEADRED_FUNCTION static constexpr T number(std::uint32_t word) {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
    // Through signed integers, for which there are vector instructions everywhere.
    if constexpr (std::is_same_v<T, float>)
      return static_cast<float>(static_cast<std::int32_t>((word >> 9) * 2 + 1)) * 0x1p-24f;
    else
      return (static_cast<double>(static_cast<std::int32_t>(word ^ 0x80000000u)) + 2147483648.5) * 0x1p-32;
  }

  HEADRED_FUNCTION constexpr random_stream stream() const { return stream_; }

 private:
  HEADRED_FUNCTION constexpr std::array<std::uint32_t, 4> words(std::uint64_t number) const {
    const std::uint64_t seed = stream_.seed(), stream = stream_.stream();
    return philox({static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32),
                   static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                  {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  }

  random_stream stream_;
};

}  // namespace headred
