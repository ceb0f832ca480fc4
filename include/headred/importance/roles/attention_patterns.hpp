// attention_patterns: keys that heads look at whatever the words are: separators, neighbours, the own block.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include <headred/core/error.hpp>
#include <headred/importance/roles/key_targets.hpp>

namespace headred {

/// For each of `queries` tokens the separators, keys with separator[s] != 0: heads that look there do nothing for the
/// token ("no-op"). Use end_token::included. Clark et al. (BlackboxNLP 2019), section 3.2.
inline void delimiter_targets(std::span<const std::uint8_t> separator, index_t queries, key_targets& targets) {
  targets.clear();
  for (index_t t = 0; t < queries; ++t) {
    for (std::size_t s = 0; s < separator.size(); ++s)
      if (separator[s] != 0) targets.add(static_cast<index_t>(s));
    targets.end_query();
  }
}

/// For each of `queries` tokens the keys at offsets [least, most]: the diagonal pattern. Kovaleva et al. (EMNLP 2019).
/// A query whose band lies outside of the keys is not asked. Throws argument_error for least > most.
inline void band_targets(index_t queries, index_t keys, index_t least, index_t most, key_targets& targets) {
  if (least > most)
    throw argument_error("band_targets: offsets from " + std::to_string(least) + " to " + std::to_string(most) +
                         ", expected the smaller first");
  targets.clear();
  queries = std::max<index_t>(queries, 0);
  keys = std::max<index_t>(keys, 0);
  // beyond the map offsets mean nothing more; cut, the sums below cannot overflow
  least = std::clamp(least, -queries, keys);
  most = std::clamp(most, -queries, keys);
  for (index_t t = 0; t < queries; ++t) {
    for (index_t s = std::max<index_t>(0, t + least); s <= std::min(keys - 1, t + most); ++s) targets.add(s);
    targets.end_query();
  }
}

/// For each token the keys of its own block: block[s] = block[t]; a token of block -1 is in none. Segments, sentences of a
/// document, the sides of a reaction. Kovaleva et al. (EMNLP 2019). Cost O(T^2) for blocks as long as the sentence.
inline void block_targets(std::span<const index_t> block, key_targets& targets) {
  targets.clear();
  for (const index_t own : block) {
    for (std::size_t s = 0; own >= 0 && s < block.size(); ++s)
      if (block[s] == own) targets.add(static_cast<index_t>(s));
    targets.end_query();
  }
}

}  // namespace headred
