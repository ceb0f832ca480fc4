// Counter-based random numbers: a pure function of seed, stream and index, so draws do not depend on threads or order.
#pragma once

#include <array>
#include <cstdint>

#include <headred/core/config.hpp>

namespace headred {

/// Philox 4x32-10 (Salmon et al., SC 2011): four 32-bit words for a 128-bit counter and a 64-bit key.
HEADRED_FUNCTION constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                                               std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// A stream of random numbers addressed by index: `random_stream{seed, stream}.uniform(i)` is the same wherever it is drawn.
class random_stream {
 public:
  /// One stream of a seed; streams of one seed are independent of each other.
  HEADRED_FUNCTION constexpr explicit random_stream(std::uint64_t seed, std::uint64_t stream = 0)
      : seed_(seed), stream_(stream) {}

  /// 64 random bits for index i.
  HEADRED_FUNCTION constexpr std::uint64_t bits(std::uint64_t i) const {
    const auto w = philox({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32),
                           static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)},
                          {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)});
    return (std::uint64_t{w[1]} << 32) | w[0];
  }
  /// Uniform in [0,1), a multiple of 2^-53.
  HEADRED_FUNCTION constexpr double uniform(std::uint64_t i) const {
    return static_cast<double>(bits(i) >> 11) * 0x1p-53;
  }
  /// Uniform in {0, ..., n-1}, n >= 1 (bias below n / 2^64).
  HEADRED_FUNCTION constexpr std::uint64_t below(std::uint64_t i, std::uint64_t n) const {
    // upper half of the 128-bit product bits * n, from 32-bit halves
    const std::uint64_t x = bits(i);
    const std::uint64_t x1 = x >> 32, x0 = x & 0xffffffffu, n1 = n >> 32, n0 = n & 0xffffffffu;
    const std::uint64_t middle = x1 * n0 + ((x0 * n0) >> 32);
    return x1 * n1 + (middle >> 32) + (((middle & 0xffffffffu) + x0 * n1) >> 32);
  }

  HEADRED_FUNCTION constexpr std::uint64_t seed() const { return seed_; }
  HEADRED_FUNCTION constexpr std::uint64_t stream() const { return stream_; }

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
};

}  // namespace headred
