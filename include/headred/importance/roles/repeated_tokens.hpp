// repeated_tokens: what induction and duplicate-token heads look at, and sequences that show them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <headred/core/error.hpp>
#include <headred/core/random.hpp>
#include <headred/importance/roles/key_targets.hpp>

namespace headred {

/// For each token the keys after earlier occurrences of the same token: s < t with tokens[s-1] = tokens[t]. Their mean
/// mass is the prefix-matching score. Olsson et al. (2022), In-context Learning and Induction Heads.
/// A key that is the query itself (the token stands twice in a row) is left out. Cost O(T^2).
inline void induction_targets(std::span<const std::int32_t> tokens, key_targets& targets) {
  targets.clear();
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    for (std::size_t s = 1; s < t; ++s)
      if (tokens[s - 1] == tokens[t]) targets.add(static_cast<index_t>(s));
    targets.end_query();
  }
}

/// For each token its earlier occurrences: s < t with tokens[s] = tokens[t]. Wang et al. (2022), Interpretability in the
/// Wild (duplicate token heads). Cost O(T^2).
inline void duplicate_targets(std::span<const std::int32_t> tokens, key_targets& targets) {
  targets.clear();
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    for (std::size_t s = 0; s < t; ++s)
      if (tokens[s] == tokens[t]) targets.add(static_cast<index_t>(s));
    targets.end_query();
  }
}

/// `length` random tokens out of [first, first + count), and the same again `repeats` - 1 times; a pure function of
/// (seed, index). Throws argument_error for length < 1, repeats < 1 or an empty or too high range of tokens.
inline std::vector<std::int32_t> repeated_random_tokens(std::uint64_t seed, std::uint64_t index, index_t length,
                                                        std::int32_t first, std::int32_t count, index_t repeats = 2) {
  constexpr index_t most = index_t{1} << 24;
  if (length < 1 || length > most || repeats < 1 || repeats > most / length)
    throw argument_error("repeated_random_tokens: " + std::to_string(repeats) + " times " + std::to_string(length) +
                         " tokens, expected at least 1 and " + std::to_string(most) + " at most in all");
  if (first < 0 || count < 1 || first > INT32_MAX - count)
    throw argument_error("repeated_random_tokens: " + std::to_string(count) + " tokens from " + std::to_string(first) +
                         ", expected at least one, from 0 on");
  const random_stream random(seed, index);
  std::vector<std::int32_t> tokens;
  tokens.reserve(static_cast<std::size_t>(length * repeats));
  for (index_t i = 0; i < length * repeats; ++i) {
    const auto drawn = random.below(static_cast<std::uint64_t>(i % length), static_cast<std::uint64_t>(count));
    tokens.push_back(first + static_cast<std::int32_t>(drawn));
  }
  return tokens;
}

}  // namespace headred
