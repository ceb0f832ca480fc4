// positional_heads: heads that look at a fixed distance.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <headred/backend/task_runner.hpp>
#include <headred/importance/roles/attention_rows.hpp>
#include <headred/importance/roles/head_roles.hpp>

namespace headred {

/// When a head counts as positional.
struct positional_options {
  end_token end = end_token::excluded;
  verdict_rule rule{.threshold = .9};
};

/// Heads whose attention is greatest at one offset (key minus query) for at least 90 % of the tokens.
///   count(offset) = tokens t with argmax_s A[t,s] = t + offset, ties to the lowest s; tokens = rows that attend at all
/// Any offset, also in cross-attention (T,S). A row of zeros is not a token; one whose candidates are all 0 is, and its
/// argmax is the first key. Sentences of the end token alone add nothing. Counts: merging is exact, whatever the order.
/// Cost O(N T S) a sentence; memory O(N (T + S)) of the longest one. Voita et al. (ACL 2019), section 5.1.
class positional_heads {
 public:
  /// Throws argument_error for a threshold outside [0,1] or min_tokens < 1.
  explicit positional_heads(head_layout layout, positional_options options = {})
      : layout_(std::move(layout)), options_(options), tokens_(static_cast<std::size_t>(layout_.size())) {
    detail::require_rule("positional_heads", options_.rule);
  }

  const head_layout& layout() const noexcept { return layout_; }

  /// One sentence: attention (L,H,T,S), or a range of its layers (H_l,T,S). Throws shape_error, and data_error for rows
  /// that are not attention; the accumulator is then as it was.
  template <class Attention>
  void add(Attention&& attention, const sentence_options& options = {}) {
    rows_.assign(layout_, attention, options, options_.end);
    add_rows(detail::serial_runner{});
  }
  /// The same on the backend's threads, with the same counts.
  template <host_backend Backend, class Attention>
  void add(Backend& be, Attention&& attention, const sentence_options& options = {}) {
    rows_.assign(layout_, attention, options, options_.end);
    add_rows(task_runner<Backend>(be));
  }

  /// Adds what another accumulator of the same layout and end-token policy has seen.
  void merge(const positional_heads& other) {
    detail::require_same_layout("positional_heads", layout_, other.layout_);
    if (options_.end != other.options_.end)
      throw argument_error("positional_heads: merge of accumulators with different end-token policies");
    reach(other.reach_);
    for (index_t h = 0; h < layout_.size(); ++h) {
      for (index_t o = -other.reach_; o <= other.reach_; ++o) counts_[at(h, o)] += other.counts_[other.at(h, o)];
      tokens_[static_cast<std::size_t>(h)] += other.tokens_[static_cast<std::size_t>(h)];
    }
  }

  /// Tokens of the head that were asked.
  index_t tokens(head_id id) const { return tokens_[static_cast<std::size_t>(layout_.flat(id))]; }
  /// Tokens whose argmax lies at the offset; 0 for offsets beyond every sentence.
  index_t count(head_id id, index_t offset) const {
    const index_t h = layout_.flat(id);
    return offset < -reach_ || offset > reach_ ? 0 : counts_[at(h, offset)];
  }
  /// The most frequent offset, the smallest of equally frequent ones; 0 for a head without a token.
  index_t best_offset(head_id id) const {
    index_t best = 0;
    if (tokens(id) > 0)
      for (index_t o = best = -reach_; o <= reach_; ++o)
        if (count(id, o) > count(id, best)) best = o;
    return best;
  }
  /// How much speaks for a head that looks this far away.
  role_evidence evidence(head_id id, index_t offset) const {
    return judge(count(id, offset), tokens(id), options_.rule);
  }

  /// Each head at its best offset.
  std::vector<head_role> roles() const {
    std::vector<head_role> all;
    for (index_t h = 0; h < layout_.size(); ++h) {
      const head_id id = layout_.id(h);
      const index_t offset = best_offset(id);
      all.push_back({"positional", "offset " + std::to_string(offset), id, evidence(id, offset)});
    }
    return all;
  }

 private:
  template <class Runner>
  void add_rows(Runner runner) {
    const index_t queries = rows_.queries(), keys = rows_.candidates();
    if (queries <= 0 || keys <= 0) return;
    asked_.resize(static_cast<std::size_t>(queries));
    std::iota(asked_.begin(), asked_.end(), index_t{0});
    chosen_.resize(static_cast<std::size_t>(layout_.size() * queries));
    scratch_.resize(static_cast<std::size_t>(runner.workers()));
    detail::run_heads(runner, rows_.maps(), [&](index_t h, int worker) {
      index_t* const chosen = chosen_.data() + h * queries;
      std::fill_n(chosen, queries, index_t{-1});
      rows_.each_peak(h, asked_, scratch_[static_cast<std::size_t>(worker)],
                      [chosen](std::size_t t, const auto*, double, index_t s) { chosen[t] = s; });
    });
    reach(std::max(queries, keys) - 1);
    detail::run_heads(runner, rows_.maps(), [&](index_t h, int) {
      const index_t* const chosen = chosen_.data() + h * queries;
      index_t* const counts = counts_.data() + at(h, 0);
      index_t tokens = 0;
      for (index_t t = 0; t < queries; ++t) {
        if (chosen[t] < 0) continue;
        ++counts[chosen[t] - t];
        ++tokens;
      }
      tokens_[static_cast<std::size_t>(h)] += tokens;
    });
  }

  std::size_t at(index_t h, index_t offset) const {
    return static_cast<std::size_t>(h * (2 * reach_ + 1) + reach_ + offset);
  }
  /// Makes room for offsets in [-most, most].
  void reach(index_t most) {
    if (most <= reach_) return;
    std::vector<index_t> wider(static_cast<std::size_t>(layout_.size() * (2 * most + 1)));
    for (index_t h = 0; h < layout_.size() && reach_ >= 0; ++h)
      for (index_t o = -reach_; o <= reach_; ++o)
        wider[static_cast<std::size_t>(h * (2 * most + 1) + most + o)] = counts_[at(h, o)];
    counts_ = std::move(wider);
    reach_ = most;
  }

  head_layout layout_;
  positional_options options_;
  std::vector<index_t> tokens_;  // (N)
  std::vector<index_t> counts_;  // (N, 2 reach + 1)
  index_t reach_ = -1;
  detail::attention_rows rows_;
  // scratch
  std::vector<index_t> asked_, chosen_;
  std::vector<detail::attention_rows::scratch> scratch_;
};

}  // namespace headred
