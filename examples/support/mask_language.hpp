// An invented language for masked language models in which it is known which positions matter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <headred/core/random.hpp>
#include <headred/nn/token_batch.hpp>

namespace examples {

using headred::index_t;
using headred::token_id;

/// Sentences of 24 tokens: [CLS], a dialect, 21 words, [SEP]; each a pure function of (seed, index). A word follows from
/// the one before it by a rule of the dialect (probability .55), or from the third before it by a rule of the language
/// (.3), or from nothing. So what helps to find a masked word are its neighbours, the words three places away and the
/// dialect; its own place holds nothing but the mask.
struct mask_language {
  static constexpr token_id pad = 0, first = 1, last = 2, mask = 3, dialect = 4, word = 6;
  static constexpr index_t length = 24, words = 24, vocabulary = word + words;

  std::uint64_t seed = 0;

  std::vector<token_id> sentence(std::uint64_t index) const {
    const headred::random_stream draws(seed, index);
    std::uint64_t n = 0;
    const auto which = static_cast<token_id>(draws.below(n++, 2));
    std::vector<token_id> all{first, dialect + which};
    while (static_cast<index_t>(all.size()) < length - 1) {
      const std::size_t t = all.size();
      const double u = draws.uniform(n++);
      token_id next = static_cast<token_id>(draws.below(n++, static_cast<std::uint64_t>(words)));
      if (u < .55 && t > 2)
        next = follower(all[t - 1] - word, which);
      else if (u < .85 && t > 4)
        next = static_cast<token_id>(words) - 1 - (all[t - 3] - word);
      all.push_back(word + next);
    }
    all.push_back(last);
    return all;
  }

 private:
  /// A permutation of the words: 5 and 7 have no divisor in common with their number.
  static token_id follower(token_id w, token_id which) {
    return (which == 0 ? 5 * w + 3 : 7 * w + 10) % static_cast<token_id>(words);
  }
};

}  // namespace examples
