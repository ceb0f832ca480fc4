// target_heads: heads that look at keys which somebody names: the rest of the roles.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <headred/backend/task_runner.hpp>
#include <headred/distance/fixed_sum.hpp>
#include <headred/importance/roles/attention_rows.hpp>
#include <headred/importance/roles/head_roles.hpp>
#include <headred/importance/roles/key_targets.hpp>

namespace headred {

/// When a head has the role that its targets stand for.
struct target_options {
  end_token end = end_token::included;
  verdict_rule rule{.threshold = .5};
};

/// Heads whose attention is greatest on a target key for at least half of the queries that have targets. What the targets
/// are makes the role: rare_token_targets, induction_targets, duplicate_targets, delimiter_targets, band_targets,
/// block_targets, or the caller's own.
///   hits   = queries with argmax_s A[t,s] in targets(t), ties to the lowest s
///   mass   = mean over the same queries of sum of A[t,s] over s in targets(t), rows divided by their sums; in [0,1]
///   chance = the mass of uniform attention: mean of |targets(t)| / candidates
/// Queries beyond the targets' and rows of zeros are not asked; targets that are no candidates do not count, and a query
/// without another is not asked. Counts and 128-bit fixed-point sums: merging is exact, whatever the order.
/// Cost O(N T S) a sentence; memory O(N).
class target_heads {
 public:
  /// `role` names the result. Throws argument_error for a threshold outside [0,1] or min_tokens < 1.
  target_heads(head_layout layout, std::string role, target_options options = {})
      : layout_(std::move(layout)),
        role_(std::move(role)),
        options_(options),
        sums_(static_cast<std::size_t>(layout_.size())) {
    detail::require_rule("target_heads", options_.rule);
  }

  const head_layout& layout() const noexcept { return layout_; }
  const std::string& role() const noexcept { return role_; }

  /// One sentence: attention (L,H,T,S), or a range of its layers (H_l,T,S), and the targets of its valid queries.
  /// Throws argument_error for targets outside of its valid tokens, shape_error, and data_error for rows that are not
  /// attention; the accumulator is then as it was.
  template <class Attention>
  void add(Attention&& attention, const key_targets& targets, const sentence_options& options = {}) {
    rows_.assign(layout_, attention, options, options_.end);
    add_rows(detail::serial_runner{}, targets);
  }
  /// The same on the backend's threads, with the same bits.
  template <host_backend Backend, class Attention>
  void add(Backend& be, Attention&& attention, const key_targets& targets, const sentence_options& options = {}) {
    rows_.assign(layout_, attention, options, options_.end);
    add_rows(task_runner<Backend>(be), targets);
  }

  /// Adds what another accumulator of the same layout, role and end-token policy has seen.
  void merge(const target_heads& other) {
    detail::require_same_layout("target_heads", layout_, other.layout_);
    if (role_ != other.role_ || options_.end != other.options_.end)
      throw argument_error("target_heads: merge of " + role_ + " with " + other.role_ +
                           ", or with another end-token policy");
    for (std::size_t h = 0; h < sums_.size(); ++h) sums_[h] += other.sums_[h];
  }

  role_evidence evidence(head_id id) const { return judge(of(id).hits, of(id).tokens, options_.rule); }
  /// Mean attention on the targets, in [0,1]; 0 for a head without a token.
  double mass(head_id id) const { return mean(of(id).mass, of(id).tokens); }
  /// The same of uniform attention.
  double chance(head_id id) const { return mean(of(id).chance, of(id).tokens); }

  std::vector<head_role> roles() const {
    std::vector<head_role> all;
    for (index_t h = 0; h < layout_.size(); ++h) {
      const head_id id = layout_.id(h);
      all.push_back({role_, "", id, evidence(id), mass(id), chance(id)});
    }
    return all;
  }

 private:
  struct sums {
    index_t tokens = 0, hits = 0;
    fixed_sum mass, chance;
    sums& operator+=(const sums& other) {
      tokens += other.tokens;
      hits += other.hits;
      mass += other.mass;
      chance += other.chance;
      return *this;
    }
  };

  const sums& of(head_id id) const { return sums_[static_cast<std::size_t>(layout_.flat(id))]; }
  static double mean(const fixed_sum& sum, index_t n) { return n > 0 ? sum.value() / static_cast<double>(n) : 0; }

  template <class Runner>
  void add_rows(Runner runner, const key_targets& targets) {
    require_targets(targets);
    const index_t queries = std::min(rows_.queries(), targets.queries()), keys = rows_.candidates();
    asked_.clear();
    chances_.clear();
    for (index_t t = 0; t < queries && keys > 0; ++t) {
      index_t valid = 0;
      for (const index_t s : targets.of(t)) valid += s < keys ? 1 : 0;
      if (valid == 0) continue;
      asked_.push_back(t);
      chances_.emplace_back() += static_cast<double>(valid) / static_cast<double>(keys);
    }
    added_.assign(sums_.size(), sums{});
    scratch_.resize(static_cast<std::size_t>(runner.workers()));
    if (!asked_.empty())
      detail::run_heads(runner, rows_.maps(), [&](index_t h, int worker) {
        sums all;
        rows_.each_peak(h, asked_, scratch_[static_cast<std::size_t>(worker)],
                        [&](std::size_t i, const auto* row, double sum, index_t best) {
                          double mass = 0;
                          bool hit = false;
                          for (const index_t s : targets.of(asked_[i])) {
                            if (s >= keys) continue;
                            mass += static_cast<double>(row[s]);
                            hit = hit || s == best;
                          }
                          ++all.tokens;
                          all.hits += hit ? 1 : 0;
                          // a negative entry, which is about to be refused, may make it so
                          all.mass += std::clamp(mass / sum, 0., 1.);
                          all.chance += chances_[i];
                        });
        added_[static_cast<std::size_t>(h)] = all;
      });
    for (std::size_t h = 0; h < sums_.size(); ++h) sums_[h] += added_[h];
  }

  void require_targets(const key_targets& targets) {
    if (targets.queries() > rows_.all_queries())
      throw argument_error("target_heads: targets for " + std::to_string(targets.queries()) +
                           " queries, expected at most " + std::to_string(rows_.all_queries()));
    seen_.assign(static_cast<std::size_t>(rows_.all_keys()), -1);
    for (index_t t = 0; t < targets.queries(); ++t)
      for (const index_t s : targets.of(t)) {
        if (s < 0 || s >= rows_.all_keys())
          throw argument_error("target_heads: query " + std::to_string(t) + " has target " + std::to_string(s) +
                               ", expected a key in [0," + std::to_string(rows_.all_keys()) + ")");
        if (std::exchange(seen_[static_cast<std::size_t>(s)], t) == t)
          throw argument_error("target_heads: query " + std::to_string(t) + " has target " + std::to_string(s) +
                               " twice");
      }
  }

  std::vector<index_t> seen_;  // the query that named a key last
  head_layout layout_;
  std::string role_;
  target_options options_;
  std::vector<sums> sums_, added_;  // (N)
  detail::attention_rows rows_;
  // scratch
  std::vector<index_t> asked_;      // queries that have targets
  std::vector<fixed_sum> chances_;  // of each of them
  std::vector<detail::attention_rows::scratch> scratch_;
};

}  // namespace headred
