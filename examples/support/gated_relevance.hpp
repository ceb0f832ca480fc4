// Relevance of a converged model's heads, and how much of it the heads have that stay.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <headred/prune/model_relevance.hpp>

#include "gated_lab.hpp"

namespace examples {

/// Of each head for the greatest logits, on the first sentences to report on.
inline headred::head_scores relevance_of(model_type& model, const pruning_task& task) {
  constexpr index_t most = 128, at_once = 32;
  const index_t sentences = std::min(most, task.eval.size());
  std::vector<headred::training_batch> batches;
  std::vector<index_t> numbers;
  for (index_t i = 0; i < sentences; ++i) {
    numbers.push_back(i);
    if (i + 1 < sentences && i % at_once != at_once - 1) continue;
    task.fill(batches.emplace_back(), task.eval, numbers, 0);
    numbers.clear();
  }
  headred::scoring_options<float, headred::cpu> options;
  options.progress = [](index_t, index_t) {
    stop_if_interrupted();
    return true;
  };
  return headred::model_relevance(model, std::span<const headred::training_batch>(batches),
                                  headred::relevance_rules<float>(), options);
}

/// Share of a kind's relevance that the plan's heads have; .5 where chance would expect it if half of the heads stay.
inline double relevance_kept(const headred::head_scores& relevance, const headred::prune_plan& plan,
                             attention_kind kind) {
  const headred::head_layout& heads = relevance.layout(kind);
  double kept = 0, all = 0;
  for (index_t h = 0; h < heads.size(); ++h) {
    const double x = relevance.value(kind, heads.id(h));
    all += x;
    kept += plan.is_kept(kind, heads.id(h)) ? x : 0;
  }
  return all > 0 ? kept / all : 0;
}

}  // namespace examples
