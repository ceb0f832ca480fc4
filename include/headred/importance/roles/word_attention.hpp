// word_attention: attention between words whose tokens are pieces of words.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <headred/importance/roles/attention_rows.hpp>

namespace headred {

/// How attention between word pieces is read as attention between words.
enum class word_policy {
  word_mean_sum_words_only,  ///< mean over the query word's pieces, sum over the key word's; candidates: words
  word_mean_sum,             ///< the same; tokens of no word but the end token are candidates too
  first_piece                ///< from a word's first piece, to any token but the end token; right at the first piece
};

/// A dependency tree over words and the words of the tokens; views, which must outlive the call they are passed to.
struct word_tree {
  std::span<const index_t> heads;          ///< of each word: the word it depends on; -1: none
  std::span<const std::string> relations;  ///< of each word
  std::span<const index_t> word_of_token;  ///< of each valid token: its word, -1 for none ("[CLS]"); not decreasing
  index_t words() const noexcept { return static_cast<index_t>(heads.size()); }
};

namespace detail {

/// One sentence's attention by words. Keeps its memory from sentence to sentence.
class word_attention {
 public:
  static constexpr index_t nothing = -1;

  template <class Attention>
  void assign(const head_layout& layout, Attention&& attention, const word_tree& tree, const sentence_options& options,
              word_policy policy, bool has_end) {
    rows_.assign(layout, attention, options, has_end ? end_token::excluded_as_key : end_token::included);
    require(tree);
    policy_ = policy;
    const auto n = static_cast<std::size_t>(tree.words());
    first_.assign(n, nothing);
    last_.assign(n, nothing);
    candidate_of_word_.assign(n, nothing);
    candidate_of_token_.assign(tree.word_of_token.size(), nothing);
    candidates_ = 0;
    index_t before = -1;
    for (index_t t = 0; t < rows_.all_keys(); ++t) {
      const index_t w = tree.word_of_token[static_cast<std::size_t>(t)];
      const bool end = t >= rows_.candidates();
      const bool candidate = w >= 0 || (policy != word_policy::word_mean_sum_words_only && !end);
      if (w >= 0 && w == before && policy != word_policy::first_piece) {
        candidate_of_token_[static_cast<std::size_t>(t)] = candidates_ - 1;
      } else if (candidate && !end) {
        candidate_of_token_[static_cast<std::size_t>(t)] = candidates_++;
      }
      if (w >= 0 && !end) {
        const auto word = static_cast<std::size_t>(w);
        if (first_[word] == nothing) {
          first_[word] = t;
          candidate_of_word_[word] = candidate_of_token_[static_cast<std::size_t>(t)];
        }
        last_[word] = t;
      }
      before = end ? -1 : w;
    }
    share_.assign(static_cast<std::size_t>(candidates_), 0);
  }

  bool has_token(index_t word) const { return first_[static_cast<std::size_t>(word)] != nothing; }
  index_t candidate(index_t word) const { return candidate_of_word_[static_cast<std::size_t>(word)]; }
  /// Where offsets are counted: in words, or in tokens for first_piece.
  index_t place(index_t word) const {
    return policy_ == word_policy::first_piece ? first_[static_cast<std::size_t>(word)] : word;
  }

  /// The candidate with the greatest share of the word's attention in head h, the first of equals; `nothing` where the
  /// rows are zero.
  index_t argmax(index_t h, index_t word) {
    if (candidates_ == 0) return nothing;
    const auto w = static_cast<std::size_t>(word);
    const index_t last = policy_ == word_policy::first_piece ? first_[w] : last_[w];
    std::fill(share_.begin(), share_.end(), 0.0);
    bool any = false;  // the sum over the pieces has the same argmax as their mean
    for (index_t t = first_[w]; t <= last; ++t) {
      const double* row = rows_.row(h, t);
      if (row == nullptr) continue;
      any = true;
      for (index_t s = 0; s < rows_.candidates(); ++s)
        if (const index_t c = candidate_of_token_[static_cast<std::size_t>(s)]; c >= 0)
          share_[static_cast<std::size_t>(c)] += row[s];
    }
    return any ? attention_rows::argmax(share_.data(), candidates_) : nothing;
  }

 private:
  void require(const word_tree& tree) const {
    const auto fail = [](const std::string& what) { throw argument_error("word_tree: " + what); };
    if (rows_.all_queries() != rows_.all_keys())
      fail("attention of " + std::to_string(rows_.all_queries()) + " queries and " + std::to_string(rows_.all_keys()) +
           " keys, expected self-attention");
    if (static_cast<index_t>(tree.word_of_token.size()) != rows_.all_keys())
      fail("words of " + std::to_string(tree.word_of_token.size()) + " tokens, expected " +
           std::to_string(rows_.all_keys()));
    if (tree.relations.size() != tree.heads.size())
      fail(std::to_string(tree.relations.size()) + " relations for " + std::to_string(tree.heads.size()) + " words");
    for (std::size_t w = 0; w < tree.heads.size(); ++w)
      if (tree.heads[w] < -1 || tree.heads[w] >= tree.words() || tree.heads[w] == static_cast<index_t>(w))
        fail("word " + std::to_string(w) + " has head " + std::to_string(tree.heads[w]) + ", expected another one of " +
             std::to_string(tree.words()) + " words, or -1");
    index_t word = -1, before = -1;  // the last word, and that of the token before
    for (std::size_t t = 0; t < tree.word_of_token.size(); before = tree.word_of_token[t++]) {
      const index_t w = tree.word_of_token[t];
      if (w == -1) continue;
      if (w < word || w >= tree.words() || (w == word && before != w))
        fail("token " + std::to_string(t) + " is of word " + std::to_string(w) + ", expected -1 or one from " +
             std::to_string(word) + " on and below " + std::to_string(tree.words()) + ", its tokens side by side");
      word = w;
    }
  }

  attention_rows rows_;
  word_policy policy_ = word_policy::word_mean_sum_words_only;
  std::vector<index_t> first_, last_, candidate_of_word_;  // of each word
  std::vector<index_t> candidate_of_token_;
  std::vector<double> share_;
  index_t candidates_ = 0;
};

}  // namespace detail
}  // namespace headred
