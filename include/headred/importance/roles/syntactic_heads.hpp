// syntactic_heads: heads that look from a word to the word it depends on, or back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/backend/task_runner.hpp>
#include <headred/importance/roles/head_roles.hpp>
#include <headred/importance/roles/word_attention.hpp>

namespace headred {

/// Which of two related words is asked.
enum class dependency_direction { dependent_to_head, head_to_dependent };

/// The name of a direction.
constexpr std::string_view to_string(dependency_direction d) noexcept {
  return d == dependency_direction::dependent_to_head ? "dependent_to_head" : "head_to_dependent";
}

/// Which relations are counted, and when a head counts as syntactic.
struct syntactic_options {
  std::vector<std::string> relations{"nsubj", "obj", "amod", "advmod"};
  word_policy words = word_policy::word_mean_sum_words_only;
  bool fold_subtypes = false;          ///< "nsubj:pass" counts as nsubj; else labels are exact
  bool has_end = true;                 ///< the last valid token ends the sentence and is never a candidate
  verdict_rule rule{.threshold = .1};  ///< the threshold is what the accuracy must have above the baseline
};

/// Heads whose attention is greatest on the related word at least 10 points more often than guessing the relation's most
/// frequent offset, relation by relation, in both directions.
///   accuracy = hits / pairs, a hit: the argmax of the query word is the related word; baseline = pairs at the most
///   frequent offset (related minus query, in words; in tokens for first_piece; of equals the smallest) / pairs
/// Both over the same pairs, in all sentences. A query whose row is zero, or whose word has no token, makes no pair.
/// Words whose sums over pieces are equal but for rounding are told apart by the rounding.
/// Every head has its own pairs and baseline for this reason; they are the same for all unless rows are zero.
/// The interval is of the accuracy; the baseline is taken as known. Counts: merging is exact, whatever the order.
/// Cost O(N T S) a sentence that has a pair. Voita et al. (ACL 2019), section 5.2.
class syntactic_heads {
 public:
  /// Throws argument_error for no relation, one given twice, and a rule out of range.
  explicit syntactic_heads(head_layout layout, syntactic_options options = {})
      : layout_(std::move(layout)), options_(std::move(options)) {
    detail::require_rule("syntactic_heads", options_.rule);
    std::vector<std::string> names = options_.relations;
    std::sort(names.begin(), names.end());
    if (names.empty()) throw argument_error("syntactic_heads: no relation, expected at least one");
    if (std::adjacent_find(names.begin(), names.end()) != names.end())
      throw argument_error("syntactic_heads: a relation is given twice");
    cells_.resize(static_cast<std::size_t>(layout_.size()) * options_.relations.size() * 2);
    offsets_.resize(options_.relations.size() * 2);
  }

  const head_layout& layout() const noexcept { return layout_; }
  const std::vector<std::string>& relations() const noexcept { return options_.relations; }
  /// Related words of which one had no token.
  index_t unaligned() const noexcept { return unaligned_; }

  /// One sentence: attention (L,H,T,T), or a range of its layers (H_l,T,T), its tree and its tokens' words.
  /// Throws argument_error for a tree or tokens that do not fit together (word_tree), shape_error, and data_error for
  /// rows that are not attention; the accumulator is then as it was.
  template <class Attention>
  void add(Attention&& attention, const word_tree& tree, const sentence_options& options = {}) {
    words_.assign(layout_, attention, tree, options, options_.words, options_.has_end);
    add_pairs(detail::serial_runner{}, tree);
  }
  /// The same on the backend's threads, with the same counts.
  template <host_backend Backend, class Attention>
  void add(Backend& be, Attention&& attention, const word_tree& tree, const sentence_options& options = {}) {
    words_.assign(layout_, attention, tree, options, options_.words, options_.has_end);
    add_pairs(task_runner<Backend>(be), tree);
  }

  /// Adds what another accumulator of the same layout, relations and policies has seen.
  void merge(const syntactic_heads& other) {
    detail::require_same_layout("syntactic_heads", layout_, other.layout_);
    if (options_.relations != other.options_.relations || options_.words != other.options_.words ||
        options_.fold_subtypes != other.options_.fold_subtypes || options_.has_end != other.options_.has_end)
      throw argument_error("syntactic_heads: merge of accumulators with different relations or policies");
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      cells_[i].pairs += other.cells_[i].pairs;
      cells_[i].hits += other.cells_[i].hits;
      for (const auto& [offset, count] : other.cells_[i].missing) cells_[i].missing[offset] += count;
    }
    for (std::size_t i = 0; i < offsets_.size(); ++i)
      for (const auto& [offset, count] : other.offsets_[i]) offsets_[i][offset] += count;
    unaligned_ += other.unaligned_;
  }

  /// What one head came to for one relation and direction.
  struct result {
    role_evidence evidence;       ///< count = hits, tokens = pairs, threshold = baseline + .1
    index_t baseline_offset = 0;  ///< 0 without a pair
    index_t baseline_count = 0;
  };
  /// Throws argument_error for a relation that was not asked for, or a head that is not there.
  result of(head_id id, std::string_view relation, dependency_direction direction) const {
    const auto name = std::find(options_.relations.begin(), options_.relations.end(), relation);
    if (name == options_.relations.end())
      throw argument_error("syntactic_heads: relation \"" + std::string(relation) + "\" was not asked for");
    return of_cell(layout_.flat(id), static_cast<index_t>(name - options_.relations.begin()),
                   direction == dependency_direction::dependent_to_head ? 0 : 1);
  }

  /// Each head with each relation and direction, head by head.
  std::vector<head_role> roles() const {
    std::vector<head_role> all;
    for (index_t h = 0; h < layout_.size(); ++h)
      for (const std::string& relation : options_.relations)
        for (const auto d : {dependency_direction::dependent_to_head, dependency_direction::head_to_dependent}) {
          const result r = of(layout_.id(h), relation, d);
          const double pairs = static_cast<double>(std::max<index_t>(r.evidence.tokens, 1));
          all.push_back({"syntactic", relation + " " + std::string(to_string(d)), layout_.id(h), r.evidence, -1,
                         static_cast<double>(r.baseline_count) / pairs});
        }
    return all;
  }

 private:
  using offset_counts = std::map<index_t, index_t>;
  struct pair {
    index_t relation, direction, query, key;
  };
  struct cell {
    index_t pairs = 0, hits = 0;
    offset_counts missing;  // of pairs whose query has a row of zeros in this head alone
  };

  template <class Runner>
  void add_pairs(Runner runner, const word_tree& tree) {
    index_t unaligned = 0;
    pairs_.clear();
    for (index_t w = 0; w < tree.words(); ++w) {
      const index_t relation = relation_of(tree.relations[static_cast<std::size_t>(w)]);
      const index_t head = tree.heads[static_cast<std::size_t>(w)];
      if (relation < 0 || head < 0) continue;
      if (words_.has_token(w) && words_.has_token(head)) {
        pairs_.push_back({relation, 0, w, head});
        pairs_.push_back({relation, 1, head, w});
      } else {
        ++unaligned;
      }
    }
    asked_.clear();
    for (const pair& p : pairs_) asked_.push_back(p.query);
    std::sort(asked_.begin(), asked_.end());
    asked_.erase(std::unique(asked_.begin(), asked_.end()), asked_.end());
    const auto words = static_cast<index_t>(asked_.size());
    chosen_.resize(static_cast<std::size_t>(layout_.size() * words));
    scratch_.resize(static_cast<std::size_t>(runner.workers()));
    detail::run_heads(runner, words_.maps(), [&](index_t h, int worker) {
      words_.choose(h, asked_, scratch_[static_cast<std::size_t>(worker)], chosen_.data() + h * words);
    });
    for (const pair& p : pairs_) ++offsets_[at(0, p.relation, p.direction)][offset_of(p)];
    places_.clear();
    for (const pair& p : pairs_)
      places_.push_back(std::lower_bound(asked_.begin(), asked_.end(), p.query) - asked_.begin());
    detail::run_heads(runner, words_.maps(), [&](index_t h, int) {
      const index_t* const chosen = chosen_.data() + h * words;
      for (std::size_t i = 0; i < pairs_.size(); ++i) {
        const pair& p = pairs_[i];
        cell& c = cells_[at(h, p.relation, p.direction)];
        if (chosen[places_[i]] == detail::word_attention::nothing) {
          ++c.missing[offset_of(p)];
        } else {
          ++c.pairs;
          c.hits += chosen[places_[i]] == words_.candidate(p.key) ? 1 : 0;
        }
      }
    });
    unaligned_ += unaligned;
  }
  index_t offset_of(const pair& p) const { return words_.place(p.key) - words_.place(p.query); }

  result of_cell(index_t h, index_t relation, index_t direction) const {
    const cell& c = cells_[at(h, relation, direction)];
    result r;
    for (const auto& [offset, all] : offsets_[at(0, relation, direction)]) {
      const auto found = c.missing.find(offset);
      const index_t count = found == c.missing.end() ? all : all - found->second;
      if (count > r.baseline_count) {
        r.baseline_offset = offset;
        r.baseline_count = count;
      }
    }
    r.evidence = judge(c.hits, c.pairs, options_.rule, r.baseline_count);
    return r;
  }
  /// Number of the relation that a label stands for, -1 for none. "dobj" was the name of obj in the first version of UD.
  index_t relation_of(std::string_view label) const {
    if (options_.fold_subtypes) label = label.substr(0, label.find(':'));
    for (std::size_t i = 0; i < options_.relations.size(); ++i)
      if (label == options_.relations[i] || (label == "dobj" && options_.relations[i] == "obj"))
        return static_cast<index_t>(i);
    return -1;
  }
  std::size_t at(index_t h, index_t relation, index_t direction) const {
    return (static_cast<std::size_t>(h) * options_.relations.size() + static_cast<std::size_t>(relation)) * 2 +
           static_cast<std::size_t>(direction);
  }

  head_layout layout_;
  syntactic_options options_;
  std::vector<cell> cells_;             // (N, relations, directions)
  std::vector<offset_counts> offsets_;  // (relations, directions), of all pairs
  index_t unaligned_ = 0;
  detail::word_attention words_;
  // scratch
  std::vector<pair> pairs_;
  std::vector<index_t> asked_, chosen_;  // words that are queries, and what each head's look at
  std::vector<std::ptrdiff_t> places_;   // of each pair's query among those asked
  std::vector<detail::word_attention::scratch> scratch_;
};

}  // namespace headred
