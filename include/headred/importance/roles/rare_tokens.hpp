// rare_tokens: what rare-word heads look at.
#pragma once

#include <algorithm>
#include <span>
#include <string>

#include <headred/core/error.hpp>
#include <headred/importance/roles/key_targets.hpp>

namespace headred {

/// Which tokens of a sentence count as rare.
struct rare_token_options {
  index_t rarest = 1;           ///< 1: the rarest token; 2: the two rarest; ...
  index_t most_frequent = 500;  ///< sentences whose rarest token is among so many are not asked
};

/// For each of `queries` tokens, the sentence's rarest tokens; nothing for a sentence without a rare one. With
/// target_heads and end_token::excluded, Voita et al. (ACL 2019), section 5.3.
///   ranks : of each key, its place in a frequency list from 0 (the most frequent) on; -1: no word (an end token)
/// All keys as rare as the last one that counts, count too: equal words and words that the list lacks are told apart by
/// nothing. Throws argument_error for rarest < 1 or most_frequent < 0. Cost O((T + rarest) S).
inline void rare_token_targets(std::span<const index_t> ranks, index_t queries, key_targets& targets,
                               const rare_token_options& options = {}) {
  if (options.rarest < 1 || options.most_frequent < 0)
    throw argument_error("rare_token_targets: the " + std::to_string(options.rarest) + " rarest and the " +
                         std::to_string(options.most_frequent) + " most frequent, expected at least 1 and 0");
  targets.clear();
  // Down from the rarest, rank by rank, until enough keys are as rare; the last rank reached counts whole.
  const index_t rarest = ranks.empty() ? -1 : *std::max_element(ranks.begin(), ranks.end());
  const bool asked = rarest >= 0 && rarest >= options.most_frequent;
  index_t least = rarest;
  for (index_t next = rarest, found = 0; asked && next >= 0 && found < options.rarest;) {
    least = next;
    found += static_cast<index_t>(std::count(ranks.begin(), ranks.end(), least));
    next = -1;
    for (const index_t rank : ranks)
      if (rank < least) next = std::max(next, rank);
  }
  for (index_t t = 0; t < queries; ++t) {
    for (std::size_t s = 0; asked && s < ranks.size(); ++s)
      if (ranks[s] >= least) targets.add(static_cast<index_t>(s));
    targets.end_query();
  }
}

}  // namespace headred
