// word_attention: attention between words whose tokens are pieces of words.
#pragma once

#include <algorithm>
#include <cmath>
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
      if (w >= 0 && w == before && !end && policy != word_policy::first_piece) {
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
    list_pieces();
  }

  const sentence_maps& maps() const { return rows_.maps(); }
  bool has_token(index_t word) const { return first_[static_cast<std::size_t>(word)] != nothing; }
  index_t candidate(index_t word) const { return candidate_of_word_[static_cast<std::size_t>(word)]; }
  index_t first_token(index_t word) const { return first_[static_cast<std::size_t>(word)]; }
  /// Where offsets are counted: in words, or in tokens for first_piece.
  index_t place(index_t word) const {
    return policy_ == word_policy::first_piece ? first_[static_cast<std::size_t>(word)] : word;
  }

  /// Memory of one thread.
  struct scratch {
    attention_rows::scratch rows;
    std::vector<double> share;
  };

  /// chosen[i] = the candidate with the greatest share of words[i]'s attention in head h, the first of equals; `nothing`
  /// where the rows are zero, or where there is no candidate. Throws data_error for a bad row.
  void choose(index_t h, std::span<const index_t> words, scratch& s, index_t* chosen) const {
    std::fill_n(chosen, words.size(), nothing);
    if (candidates_ == 0 || words.empty()) return;
    if (!rows_.single()) {
      for (std::size_t i = 0; i < words.size(); ++i) chosen[i] = by_shares(h, words[i], s);
      return;
    }
    // Floats that differ do so after the division by the row's sum: where no sum over pieces comes close to the greatest,
    // the row tells as it is.
    const index_t keys = rows_.all_keys();
    if (s.rows.single.size() < static_cast<std::size_t>(keys)) s.rows.single.resize(static_cast<std::size_t>(keys));
    row_peaks<float> peaks;
    row_prefetch ahead(
        static_cast<index_t>(words.size()),
        h + 1 < rows_.heads() ? maps().row_in<float>(h + 1, first_token(words[0]), s.rows.single.data()) : nullptr);
    for (std::size_t i = 0; i < words.size(); ++i) {
      const auto w = static_cast<std::size_t>(words[i]);
      const index_t t = first_[w];
      const float* const row = maps().row_in<float>(h, t, s.rows.single.data());
      ahead.ask(row, keys);
      chosen[i] = undecided;
      if (policy_ == word_policy::first_piece || last_[w] == t) chosen[i] = by_row(h, t, row, peaks);
      if (chosen[i] == undecided) chosen[i] = by_shares(h, words[i], s);
    }
    if (peaks.negative())
      for (const index_t w : words) maps().checked_sum(h, first_token(w));
  }

 private:
  static constexpr index_t undecided = -2;

  /// The tokens that are candidates of their own, and the runs of tokens that are one together.
  void list_pieces() {
    const std::size_t n = candidate_of_token_.size();
    alone_.assign(n, 0.f);
    runs_.clear();
    for (std::size_t t = 0, end = 0; t < n; t = end) {
      const index_t c = candidate_of_token_[t];
      for (end = t + 1; end < n && c >= 0 && candidate_of_token_[end] == c;) ++end;
      if (c >= 0 && end == t + 1) alone_[t] = 1;
      if (end > t + 1) runs_.push_back({t, end, c});
    }
  }

  /// What the row of a word's only token chooses; `undecided` where rounding might decide.
  index_t by_row(index_t h, index_t t, const float* row, row_peaks<float>& peaks) const {
    const index_t keys = rows_.all_keys();
    if (keys > row_peaks<float>::longest) return undecided;
    const row_peak<float> peak = peaks.of<true>(row, keys, rows_.candidates(), alone_.data());
    if (!(std::abs(peak.sum - 1) <= maps().tolerance()) && maps().checked_sum(h, t) == 0) return nothing;
    double best = static_cast<double>(peak.most), second = 0;
    index_t chosen = best > 0 ? candidate_of_token_[static_cast<std::size_t>(peak.place)] : 0;
    for (const run& r : runs_) {
      double share = 0;
      for (std::size_t s = r.begin; s < r.end; ++s) share += static_cast<double>(row[s]);
      if (share > best) {
        second = best;
        best = share;
        chosen = r.candidate;
      } else {
        second = std::max(second, share);
      }
    }
    constexpr double close = 1 - 1e-9;
    return second > 0 && second >= close * best ? undecided : chosen;
  }

  /// The same by the sums themselves, over all of the word's rows.
  index_t by_shares(index_t h, index_t word, scratch& s) const {
    const auto w = static_cast<std::size_t>(word);
    const index_t last = policy_ == word_policy::first_piece ? first_[w] : last_[w];
    s.share.assign(static_cast<std::size_t>(candidates_), 0);
    bool any = false;  // the sum over the pieces has the same argmax as their mean
    for (index_t t = first_[w]; t <= last; ++t) {
      const double* const row = rows_.row(h, t, s.rows.row);
      if (row == nullptr) continue;
      any = true;
      for (index_t k = 0; k < rows_.candidates(); ++k)
        if (const index_t c = candidate_of_token_[static_cast<std::size_t>(k)]; c >= 0)
          s.share[static_cast<std::size_t>(c)] += row[k];
    }
    return any ? attention_rows::argmax(s.share.data(), candidates_) : nothing;
  }

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
  struct run {
    std::size_t begin, end;  // tokens
    index_t candidate;
  };
  std::vector<float> alone_;  // 1 for a token that is a candidate of its own
  std::vector<run> runs_;     // tokens that are one candidate together
  index_t candidates_ = 0;
};

}  // namespace detail
}  // namespace headred
