// token_batch: sentences as token numbers, one after the other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <headred/nn/sequence.hpp>

namespace headred {

/// Number of a token in a vocabulary.
using token_id = std::int32_t;

/// Sentences of any lengths without padding. `types`, if not empty, holds the token type of each token.
struct token_batch {
  std::vector<token_id> ids;
  std::vector<sequence> sentences;
  std::vector<token_id> types;

  /// Tokens of all sentences.
  index_t tokens() const noexcept { return static_cast<index_t>(ids.size()); }
  /// Number of sentences.
  index_t size() const noexcept { return static_cast<index_t>(sentences.size()); }

  void clear() {
    ids.clear();
    sentences.clear();
    types.clear();
  }
  /// Appends a sentence.
  void add(std::span<const token_id> sentence) {
    sentences.push_back({tokens(), static_cast<index_t>(sentence.size())});
    ids.insert(ids.end(), sentence.begin(), sentence.end());
  }
};

/// Throws argument_error for a batch that no model can take: empty, or with an empty sentence.
inline void require_batch(std::string_view what, const token_batch& batch) {
  if (batch.size() == 0) throw argument_error(std::string(what) + ": the batch has no sentence, expected at least 1");
  for (std::size_t b = 0; b < batch.sentences.size(); ++b)
    if (batch.sentences[b].length == 0)
      throw argument_error(std::string(what) + ": sentence " + std::to_string(b) +
                           " has no token, expected at least 1");
  if (!batch.types.empty() && batch.types.size() != batch.ids.size())
    throw argument_error(std::string(what) + ": " + std::to_string(batch.types.size()) + " token types for " +
                         std::to_string(batch.ids.size()) + " tokens");
}

}  // namespace headred
