// head_scores: one number a head, by whatever criterion it was found; the higher, the more important.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <headred/core/head_layout.hpp>

namespace headred {

/// What a score rests on.
struct score_counts {
  index_t examples = 0;  ///< sentences, words or generation steps in the mean
  index_t tokens = 0;    ///< tokens in the mean; 0 where the criterion does not count them
  index_t skipped = 0;   ///< examples that had nothing to say
  friend bool operator==(const score_counts&, const score_counts&) = default;
};

/// One number for each head of each attention kind, in the head numbers of the model that was scored: what confidence,
/// taylor, head_relevance and ablation all return, and what plans and rank comparisons take.
class head_scores {
 public:
  head_scores() = default;
  explicit head_scores(std::string criterion) : criterion_(std::move(criterion)) {}

  /// Adds a kind. values : one a head, layer after layer. Throws argument_error for an unknown or repeated kind,
  /// another
  /// number of values, a value that is not finite (it is named) and negative counts.
  head_scores& add(attention_kind kind, head_layout heads, std::vector<double> values, score_counts counts = {}) {
    const std::string name(to_string(kind));
    if (name == "unknown") throw argument_error("head_scores: unknown attention kind " + std::to_string(int(kind)));
    if (contains(kind)) throw argument_error("head_scores: " + name + " is given twice");
    if (static_cast<index_t>(values.size()) != heads.size())
      throw argument_error("head_scores: " + std::to_string(values.size()) + " values for " + name + ", expected " +
                           std::to_string(heads.size()));
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!std::isfinite(values[i])) {
        const head_id id = heads.id(static_cast<index_t>(i));
        throw argument_error("head_scores: the " + criterion_ + " of " + name + " head (" + std::to_string(id.layer) +
                             "," + std::to_string(id.head) + ") is not finite");
      }
    if (counts.examples < 0 || counts.tokens < 0 || counts.skipped < 0)
      throw argument_error("head_scores: a count of " + name + " is negative");
    const auto later = [&](const entry& e) { return e.kind > kind; };
    entries_.insert(std::find_if(entries_.begin(), entries_.end(), later),
                    {kind, std::move(heads), std::move(values), counts});
    return *this;
  }

  /// "confidence", "taylor", ...
  const std::string& criterion() const noexcept { return criterion_; }
  /// Whether the kind was scored.
  bool contains(attention_kind kind) const noexcept {
    return std::any_of(entries_.begin(), entries_.end(), [&](const entry& e) { return e.kind == kind; });
  }
  /// The kinds scored, in the order of the enumeration.
  std::vector<attention_kind> kinds() const {
    std::vector<attention_kind> all;
    for (const entry& e : entries_) all.push_back(e.kind);
    return all;
  }
  /// The rest throw argument_error for a kind, or head, that was not scored.
  const head_layout& layout(attention_kind kind) const& { return find(kind).heads; }
  head_layout layout(attention_kind kind) && { return find(kind).heads; }
  /// One a head, layer after layer; of scores that are about to end a copy.
  std::span<const double> of(attention_kind kind) const& { return find(kind).values; }
  std::vector<double> of(attention_kind kind) && { return find(kind).values; }
  /// The score of one head.
  double value(attention_kind kind, head_id id) const {
    const entry& e = find(kind);
    return e.values[static_cast<std::size_t>(e.heads.flat(id))];
  }
  /// What the kind's scores rest on.
  const score_counts& counts(attention_kind kind) const { return find(kind).counts; }

  friend bool operator==(const head_scores&, const head_scores&) = default;

 private:
  struct entry {
    attention_kind kind;
    head_layout heads;
    std::vector<double> values;
    score_counts counts;
    friend bool operator==(const entry&, const entry&) = default;
  };

  const entry& find(attention_kind kind) const {
    for (const entry& e : entries_)
      if (e.kind == kind) return e;
    throw argument_error("head_scores: the " + criterion_ + " of " + std::string(to_string(kind)) + " was not scored");
  }

  std::string criterion_;
  std::vector<entry> entries_;  // by kind
};

/// The values of each layer divided by their l2 norm: value / sqrt(sum value^2 + 1e-20). A layer of zeros stays zero.
/// Michel et al. 2019, section 2.3 (their code's option; the guard is ours).
inline head_scores layer_normalised(const head_scores& scores) {
  head_scores result(scores.criterion());
  for (const attention_kind kind : scores.kinds()) {
    const head_layout& heads = scores.layout(kind);
    std::vector<double> values(scores.of(kind).begin(), scores.of(kind).end());
    auto at = values.begin();
    for (const index_t n : heads.heads_per_layer()) {
      double most = 0, squares = 0;
      for (index_t h = 0; h < n; ++h) most = std::max(most, std::abs(at[h]));
      // Scaled where squares would overflow; otherwise the guard is the formula's.
      const double unit = most > 1e150 ? most : 1;
      for (index_t h = 0; h < n; ++h) squares += (at[h] / unit) * (at[h] / unit);
      const double norm = std::sqrt(squares + 1e-20);
      for (index_t h = 0; h < n; ++h) at[h] = at[h] / unit / norm;
      at += n;
    }
    result.add(kind, heads, std::move(values), scores.counts(kind));
  }
  return result;
}

/// One place of a ranking.
struct ranked_head {
  attention_kind kind = attention_kind::encoder_self;
  head_id id = {};
  double value = 0;
  friend bool operator==(const ranked_head&, const ranked_head&) = default;
};

/// The heads of some kinds (none named: all that were scored) from the most important to the least; of equal values the
/// lowest (layer, head) comes first, then the kinds in the order of the enumeration. Throws argument_error for a kind
/// that was not scored or is named twice. Cost O(heads log heads).
inline std::vector<ranked_head> ranking(const head_scores& scores, std::vector<attention_kind> kinds = {}) {
  if (kinds.empty()) kinds = scores.kinds();
  std::sort(kinds.begin(), kinds.end());
  if (const auto twice = std::adjacent_find(kinds.begin(), kinds.end()); twice != kinds.end())
    throw argument_error("ranking: " + std::string(to_string(*twice)) + " is named twice");
  std::vector<ranked_head> all;
  for (const attention_kind kind : kinds) {
    const auto values = scores.of(kind);
    for (std::size_t i = 0; i < values.size(); ++i)
      all.push_back({kind, scores.layout(kind).id(static_cast<index_t>(i)), values[i]});
  }
  std::sort(all.begin(), all.end(), [](const ranked_head& a, const ranked_head& b) {
    if (a.value != b.value) return a.value > b.value;
    return std::tie(a.id, a.kind) < std::tie(b.id, b.kind);
  });
  return all;
}

}  // namespace headred
