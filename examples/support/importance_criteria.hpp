// The criteria by which heads of a model are scored, and the plans that follow from them.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headred/lrp/relevance_ledger.hpp>
#include <headred/prune/ablation.hpp>
#include <headred/prune/model_importance.hpp>
#include <headred/prune/model_relevance.hpp>
#include <headred/prune/schedule.hpp>
#include <headred/prune/zero_shot.hpp>

#include "importance_settings.hpp"
#include "progress_bar.hpp"
#include "pruning_study.hpp"

namespace examples {

/// Sentences to score on, as they are and as batches with labels.
struct scoring_sample {
  headred::token_batch source, target;
  std::vector<headred::training_batch> batches;
};

/// Samples of a set: parts of one seeded order, which begins anew where the set is too small for different ones.
class sampler {
 public:
  sampler(const pruning_task& task, const text_set& set, index_t sentences, std::uint64_t seed)
      : task_(task), set_(set), sentences_(std::min(sentences, set.size())) {
    for (index_t i = 0; i < set.size(); ++i) order_.push_back(i);
    const headred::random_stream random(seed, 1);
    for (std::size_t i = order_.size() - 1; i > 0; --i) std::swap(order_[i], order_[random.below(i, i + 1)]);
  }
  index_t sentences() const { return sentences_; }

  scoring_sample sample(index_t number) const {
    text_set chosen;
    for (index_t i = 0; i < sentences_; ++i)
      chosen.add(set_,
                 static_cast<std::size_t>(order_[static_cast<std::size_t>((number * sentences_ + i) % set_.size())]));
    scoring_sample found;
    headred::batch_order order(task_.lengths(chosen), {.tokens = 1024, .shuffle = false});
    for (index_t b = 0; b < order.batches(); ++b) task_.fill(found.batches.emplace_back(), chosen, order.next(), 0);
    for (const auto& s : chosen.sources) found.source.add(s);
    std::vector<headred::token_id> input;
    for (const auto& t : chosen.targets) {
      input.assign(1, task_.begin_id);
      input.insert(input.end(), t.begin(), t.end());
      found.target.add(input);
    }
    return found;
  }

 private:
  const pruning_task& task_;
  const text_set& set_;
  index_t sentences_;
  std::vector<index_t> order_;
};

/// Whether all sources end in one and the same special token.
inline bool sources_end(const pruning_task& task, const headred::token_batch& source) {
  if (source.size() == 0) return false;
  const auto last = [&](const headred::sequence& s) {
    return source.ids[static_cast<std::size_t>(s.begin + s.length - 1)];
  };
  const headred::token_id id = last(source.sentences.front());
  if (std::find(task.special_source.begin(), task.special_source.end(), id) == task.special_source.end()) return false;
  return std::all_of(source.sentences.begin(), source.sentences.end(), [&](const auto& s) { return last(s) == id; });
}

/// What one criterion found on one sample.
struct criterion {
  std::string method;
  headred::head_scores scores;
  std::optional<headred::zero_shot<headred::cpu>> clusters;  ///< of redundancy, whose plans keep one head of each

  /// Removes so many heads of one kind.
  headred::prune_plan plan(const headred::plan_layout& layout, attention_kind kind, index_t removed) const {
    const index_t heads = layout.heads(kind).size();
    if (clusters)
      return clusters->prune({.ratio = static_cast<double>(removed) / static_cast<double>(heads), .kinds = {kind}})
          .plan;
    return headred::keep_highest(scores, layout, heads - removed, {.kinds = {kind}});
  }
  /// Removes a share of the heads of these kinds together; by redundancy, of each kind.
  headred::prune_plan plan(const headred::plan_layout& layout, const std::vector<attention_kind>& kinds,
                           double ratio) const {
    if (clusters) return clusters->prune({.ratio = ratio, .kinds = kinds}).plan;
    index_t heads = 0;
    for (const attention_kind kind : kinds) heads += layout.heads(kind).size();
    return headred::keep_highest(scores, layout, headred::cluster_count(heads, ratio), {.kinds = kinds});
  }
};

namespace detail {

inline headred::attention_pass_options interruptible_pass() {
  return {.progress = [](index_t) {
    stop_if_interrupted();
    return true;
  }};
}
inline headred::scoring_options<float, headred::cpu> shown_progress(const char* what,
                                                                    std::optional<progress_bar>& bar) {
  headred::scoring_options<float, headred::cpu> options;
  options.progress = [what, &bar](index_t done, index_t all) {
    stop_if_interrupted();
    if (!bar) bar.emplace(what, static_cast<long>(all));
    bar->advance(static_cast<long>(done));
    return true;
  };
  return options;
}

/// Distance of each head to the one of its kind that is most like it: 0 for a head that has a twin.
inline headred::head_scores nearest_distances(const headred::zero_shot<headred::cpu>& clusters,
                                              const std::vector<attention_kind>& kinds, index_t sentences) {
  headred::head_scores scores("redundancy");
  for (const attention_kind kind : kinds) {
    const auto& d = clusters.distances(kind);
    std::vector<double> nearest;
    for (index_t i = 0; i < d.rows(); ++i) {
      double least = 1;
      for (index_t j = 0; j < d.cols(); ++j)
        if (i != j) least = std::min(least, d(i, j));
      nearest.push_back(least);
    }
    scores.add(kind, clusters.layout().heads(kind), std::move(nearest), {sentences, 0, 0});
  }
  return scores;
}

}  // namespace detail

/// Scores the heads of the kinds. `ends`: sources end in an end token. ledger : takes the accounts of one sweep of lrp.
inline criterion score_heads(const std::string& method, model_type& model, const scoring_sample& sample, bool ends,
                             const std::vector<attention_kind>& kinds, headred::relevance_ledger* ledger = nullptr) {
  std::optional<progress_bar> bar;
  const auto options = detail::shown_progress(method.c_str(), bar);
  criterion found{method, {}, {}};
  if (method == "confidence") {
    headred::model_confidence_options own;
    own.confidence.end = ends ? headred::end_token::excluded : headred::end_token::included;
    own.pass = detail::interruptible_pass();
    found.scores = headred::model_confidence(model, sample.source, sample.target, own);
  } else if (method == "taylor") {
    found.scores = headred::model_taylor(model, std::span<const headred::training_batch>(sample.batches),
                                         headred::taylor_absolute::per_example, options);
  } else if (method == "ablation") {
    found.scores =
        headred::model_ablation(model, std::span<const headred::training_batch>(sample.batches), kinds, options);
  } else if (method == "lrp") {
    found.scores = headred::model_relevance(model, std::span<const headred::training_batch>(sample.batches),
                                            headred::relevance_rules<float>(), options, ledger);
  } else {
    headred::model_redundancy<headred::cpu> sums(model.backend(), model.config());
    sums.add(model, sample.source, sample.target, detail::interruptible_pass());
    found.clusters.emplace(model.backend(), sums);
    found.scores = detail::nearest_distances(*found.clusters, sums.kinds(), sample.source.size());
  }
  headred::head_scores chosen(found.scores.criterion());
  for (const attention_kind kind : kinds) {
    const auto values = found.scores.of(kind);
    chosen.add(kind, found.scores.layout(kind), {values.begin(), values.end()}, found.scores.counts(kind));
  }
  found.scores = std::move(chosen);
  return found;
}

}  // namespace examples
