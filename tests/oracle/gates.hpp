// Stochastic gates and attention masks, written the slow and obvious way in long double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <headred/core/random.hpp>

namespace headred_test::oracle {

using headred::index_t;

inline long double logistic(long double x) { return 1 / (1 + std::exp(-x)); }

struct hard_concrete {
  long double beta = .33L, gamma = -.1L, zeta = 1.1L;

  long double sample(long double log_a, long double u) const {
    const long double s = logistic((std::log(u) - std::log(1 - u) + log_a) / beta);
    return std::min(1.L, std::max(0.L, s * (zeta - gamma) + gamma));
  }
  long double evaluate(long double log_a) const {
    return std::min(1.L, std::max(0.L, logistic(log_a) * (zeta - gamma) + gamma));
  }
  long double open(long double log_a) const { return logistic(log_a - beta * std::log(-gamma / zeta)); }
  long double full(long double log_a) const { return logistic(log_a - beta * std::log((1 - gamma) / (zeta - 1))); }
};

inline long double gumbel(long double u) { return -std::log(-std::log(u)); }
inline long double gumbel_sigmoid(long double a, long double u1, long double u2, long double tau) {
  return logistic((a + gumbel(u1) - gumbel(u2)) / tau);
}

// Word of the noise with this number: a walk over chunks of 8 Philox blocks, words 0 and 1 of all, then words 2 and 3.
inline std::uint32_t noise_word(std::uint64_t seed, std::uint64_t stream, std::uint64_t number) {
  std::vector<std::uint32_t> chunk;
  for (const std::size_t half : {0u, 2u})
    for (std::uint64_t b = 0; b < 8; ++b) {
      const std::uint64_t block = number / 32 * 8 + b;
      const auto words = headred::philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                                          static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                                         {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
      chunk.push_back(words[half]);
      chunk.push_back(words[half + 1]);
    }
  return chunk[number % 32];
}
inline long double noise(std::uint64_t seed, std::uint64_t stream, std::uint64_t number, bool single = false) {
  const std::uint32_t word = noise_word(seed, stream, number);
  return single ? (2.L * (word >> 9) + 1) / 16777216.L : (2.L * word + 1) / 8589934592.L;
}

// f'(x) by the 4-point rule.
template <class F>
long double difference(const F& f, long double x, long double h) {
  return (f(x - 2 * h) - 8 * f(x - h) + 8 * f(x + h) - f(x + 2 * h)) / (12 * h);
}

}  // namespace headred_test::oracle
