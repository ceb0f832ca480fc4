// grammar_roles: what the roles want to know of sentences of the translation grammar.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <headred/importance/roles/word_attention.hpp>
#include <headred/nn/translation_grammar.hpp>

namespace headred {

/// A source sentence as the roles take it: each token is a word, the end token none.
struct grammar_words {
  std::vector<index_t> heads;
  std::vector<std::string> relations;
  std::vector<index_t> word_of_token;
  /// For syntactic_heads; a view of this object.
  word_tree tree() const { return {heads, relations, word_of_token}; }
};

inline grammar_words words_of(const grammar_sentence& sentence) {
  grammar_words words;
  for (std::size_t t = 0; t < sentence.source.size(); ++t) {
    const bool end = sentence.source[t] == translation_grammar::end_id;
    words.word_of_token.push_back(end ? -1 : static_cast<index_t>(words.heads.size()));
    if (end) continue;
    words.heads.push_back(sentence.heads[t]);
    words.relations.emplace_back(sentence.relations[t]);
  }
  return words;
}

/// The place of each source token among all, the most frequent first, counted over the sentences [0, sentences); of equals
/// the lower number first; -1 for padding, begin and end. For rare_token_targets: ranks[id] of each token.
inline std::vector<index_t> grammar_ranks(const translation_grammar& grammar, std::uint64_t sentences) {
  const auto size = static_cast<std::size_t>(grammar.source_vocabulary());
  std::vector<std::uint64_t> counts(size);
  for (std::uint64_t i = 0; i < sentences; ++i)
    for (const std::int32_t id : grammar.sentence(i).source) ++counts[static_cast<std::size_t>(id)];
  std::vector<std::size_t> order(size - 3);
  std::iota(order.begin(), order.end(), std::size_t{3});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return counts[a] != counts[b] ? counts[a] > counts[b] : a < b; });
  std::vector<index_t> ranks(size, -1);
  for (std::size_t i = 0; i < order.size(); ++i) ranks[order[i]] = static_cast<index_t>(i);
  return ranks;
}

}  // namespace headred
