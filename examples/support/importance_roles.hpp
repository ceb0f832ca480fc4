// The roles of the heads of one attention kind, as far as what is known of the tokens allows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headred/importance/roles/attention_patterns.hpp>
#include <headred/importance/roles/head_roles.hpp>
#include <headred/importance/roles/positional_heads.hpp>
#include <headred/importance/roles/rare_tokens.hpp>
#include <headred/importance/roles/repeated_tokens.hpp>
#include <headred/importance/roles/syntactic_heads.hpp>
#include <headred/importance/roles/target_heads.hpp>

namespace examples {

using headred::index_t;

/// What is known of the tokens of one sentence; a list that is empty is not known.
struct sentence_facts {
  std::vector<std::int32_t> ids;        ///< equal tokens have equal numbers
  std::vector<std::uint8_t> separator;  ///< not 0: a token of no word
  std::vector<index_t> heads;           ///< of each word, as in word_tree
  std::vector<std::string> relations;   ///< of each word
  std::vector<index_t> word_of_token;
  std::vector<index_t> ranks;  ///< of each token: its word's place among the most frequent ones; -1: no word
};

/// What the roles of a kind are counted on.
struct role_settings {
  bool has_end = true;          ///< the last key of a sentence is its end token
  bool queries_end = true;      ///< so is the last query
  bool self = true;             ///< queries are the keys
  bool words = false;           ///< trees are known
  bool ranks = false;           ///< frequencies are known
  bool tokens = false;          ///< ids are known
  bool separators = true;       ///< there are tokens of no word
  index_t most_frequent = 500;  ///< words that are never rare
};

/// Positional, diagonal and delimiter heads of any maps; duplicate-token and induction heads where tokens are known;
/// syntactic and rare-word heads where words are.
class role_finder {
 public:
  role_finder(headred::attention_kind kind, const headred::head_layout& layout, const role_settings& s)
      : kind_(kind), settings_(s), positional_(layout, {.end = end_use(s)}) {
    diagonal_.emplace(layout, "diagonal", headred::target_options{.end = end_use(s)});
    if (s.separators) delimiter_.emplace(layout, "delimiter");
    if (s.self && s.tokens) {
      duplicate_.emplace(layout, "duplicate_token");
      induction_.emplace(layout, "induction");
    }
    if (s.self && s.words) syntactic_.emplace(layout, headred::syntactic_options{.has_end = s.has_end});
    if (s.self && s.ranks) rare_.emplace(layout, "rare_word", headred::target_options{.end = end_use(s)});
  }

  /// One sentence: maps (L,H,T,S), or a range of layers (H_l,T,S), of `queries` and `keys` valid tokens.
  template <class Attention>
  void add(const Attention& attention, index_t queries, index_t keys, const sentence_facts& facts,
           const headred::sentence_options& options = {}) {
    positional_.add(attention, options);
    headred::band_targets(queries, keys, -1, 1, targets_);
    diagonal_->add(attention, targets_, options);
    if (delimiter_) {
      std::vector<std::uint8_t> separator = facts.separator;
      if (separator.empty()) {
        separator.assign(static_cast<std::size_t>(keys), 0);
        if (settings_.has_end && keys > 0) separator.back() = 1;
      }
      headred::delimiter_targets(separator, queries, targets_);
      delimiter_->add(attention, targets_, options);
    }
    if (duplicate_ && !facts.ids.empty()) {
      headred::duplicate_targets(facts.ids, targets_);
      duplicate_->add(attention, targets_, options);
      headred::induction_targets(facts.ids, targets_);
      induction_->add(attention, targets_, options);
    }
    if (syntactic_ && !facts.heads.empty())
      syntactic_->add(attention, headred::word_tree{facts.heads, facts.relations, facts.word_of_token}, options);
    if (rare_ && !facts.ranks.empty()) {
      headred::rare_token_targets(facts.ranks, queries, targets_, {.most_frequent = settings_.most_frequent});
      rare_->add(attention, targets_, options);
    }
  }

  headred::head_roles roles() const {
    headred::head_roles all{kind_, positional_.layout(), positional_.roles()};
    if (syntactic_) all.append(syntactic_->roles());
    for (const auto* found : {&rare_, &duplicate_, &induction_, &delimiter_, &diagonal_})
      if (*found) all.append((*found)->roles());
    return all;
  }

 private:
  static headred::end_token end_use(const role_settings& s) {
    if (!s.has_end) return headred::end_token::included;
    return s.queries_end ? headred::end_token::excluded : headred::end_token::excluded_as_key;
  }

  headred::attention_kind kind_;
  role_settings settings_;
  headred::positional_heads positional_;
  std::optional<headred::syntactic_heads> syntactic_;
  std::optional<headred::target_heads> rare_, duplicate_, induction_, delimiter_, diagonal_;
  headred::key_targets targets_;
};

/// The letter that marks a role on a grid.
inline char role_letter(const std::string& role) {
  const std::pair<const char*, char> letters[] = {{"positional", 'P'},      {"syntactic", 'S'}, {"rare_word", 'R'},
                                                  {"duplicate_token", 'U'}, {"induction", 'I'}, {"delimiter", 'D'},
                                                  {"diagonal", 'N'}};
  for (const auto& [name, letter] : letters)
    if (role == name) return letter;
  return '?';
}
inline constexpr const char* role_legend =
    "P positional: one offset for 90 % of the tokens. S syntactic: 10 points above the relation's most frequent "
    "offset. "
    "For half of the tokens: R the rarest word, U an earlier token like it, I the token after that one, D a delimiter, "
    "N itself or a neighbour.";

}  // namespace examples
