// Relevance of a model's heads against one sweep a generation step, and what must not matter: batches, threads, order.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <headred/prune/model_relevance.hpp>

#include "prune/small_models.hpp"

namespace hr = headred;
using headred::index_t;

namespace {

hr::corpus texts(index_t vocabulary, std::uint64_t seed) {
  const auto batch = headred_test::small_batch(4, vocabulary, seed);
  hr::corpus all;
  for (const auto& s : batch.sentences)
    all.emplace_back(batch.ids.begin() + s.begin, batch.ids.begin() + s.begin + s.length);
  return all;
}

hr::training_batch labelled(const hr::transformer_config& c, const std::vector<index_t>& numbers) {
  const auto sources = texts(c.source.vocabulary, 21);
  hr::training_batch batch;
  if (c.has_cross())
    hr::fill_pairs(batch, sources, texts(c.target.vocabulary, 22), numbers, c.begin_id, c.end_id);
  else if (c.kind == hr::architecture::decoder)
    hr::fill_causal(batch, sources, numbers, c.begin_id, c.end_id);
  else
    hr::fill_masked(batch, sources, numbers, {.mask_id = 3, .vocabulary = c.source.vocabulary, .chosen = .4}, 0);
  return batch;
}

using sums = std::map<hr::attention_kind, std::vector<double>>;

// A pass and a sweep for each label of each sentence alone; returns the number of steps.
index_t step_by_step(hr::transformer<double, hr::cpu>& model, const hr::relevance_rules<double>& rules, sums& mean) {
  index_t steps = 0;
  for (index_t i = 0; i < 4; ++i) {
    const auto batch = labelled(model.config(), {i});
    for (std::size_t label = 0; label < batch.labels.size(); ++label) {
      if (batch.labels[label] < 0) continue;
      hr::tape<double, hr::cpu> t(model.backend());
      std::vector<hr::attention_record<double>> trace;
      hr::forward_options<double, hr::cpu> pass;
      pass.trace = &trace;
      const auto logits = model.logits(t, model.hidden(t, batch.source, batch.target, pass));
      const index_t row = batch.rows.empty() ? static_cast<index_t>(label) : batch.rows[label];
      const hr::relevance_start start{row, -1};
      hr::start_relevance<double>(t, logits, std::span(&start, 1));
      t.sweep(rules);
      ++steps;
      const auto layout = hr::model_layout(model.config());
      for (const auto& record : trace) {
        const auto& heads = layout.heads(record.kind);
        const auto r = t.relevance(record.context);
        const index_t n = heads.heads(record.layer), width = r.extent(1) / n;
        std::vector<double> own(static_cast<std::size_t>(n), 0);
        double all = 0;
        for (index_t a = 0; a < r.extent(0); ++a)
          for (index_t b = 0; b < r.extent(1); ++b) {
            own[static_cast<std::size_t>(b / width)] += std::abs(r(a, b));
            all += std::abs(r(a, b));
          }
        auto& to = mean[record.kind];
        to.resize(static_cast<std::size_t>(heads.size()), 0);
        for (index_t h = 0; h < n; ++h)
          to[static_cast<std::size_t>(heads.flat({record.layer, h}))] += own[static_cast<std::size_t>(h)] / all;
      }
    }
  }
  return steps;
}

}  // namespace

TEST_SUITE("prune") {
  TEST_CASE("model relevance: one sweep a step, whatever the batch and the threads") {
    for (const auto& [name, config] : headred_test::small_models()) {
      CAPTURE(name);
      hr::cpu be{{.threads = 1}}, two{{.threads = 2}};
      auto model = headred_test::small_model<double>(be, config, 7);
      auto same = headred_test::small_model<double>(two, config, 7);
      const std::vector<hr::training_batch> together = {labelled(config, {0, 1, 2, 3})};
      const std::vector<hr::training_batch> apart = {labelled(config, {3}), labelled(config, {0, 1}),
                                                     labelled(config, {2})};
      for (const auto& rule : {hr::relevance_rule::alpha_beta(), hr::relevance_rule::of_epsilon()}) {
        const hr::relevance_rules<double> rules(rule);
        hr::relevance_ledger ledger;
        const auto scores = hr::model_relevance(model, std::span(together), rules, {}, &ledger);
        CHECK(ledger.entries.size() > 10);
        CHECK(ledger.worst_residual() <= 1e-12);
        CHECK(hr::model_relevance(same, std::span(together), rules) == scores);
        CHECK(hr::model_relevance(model, std::span(together), rules) == scores);
        const auto split = hr::model_relevance(model, std::span(apart), rules);
        sums mean;
        const index_t steps = step_by_step(model, rules, mean);
        CHECK(scores.criterion() == "relevance");
        for (const auto kind : scores.kinds()) {
          CHECK(scores.counts(kind).examples == steps);
          for (std::size_t i = 0; i < scores.of(kind).size(); ++i) {
            CHECK(std::abs(scores.of(kind)[i] - mean[kind][i] / static_cast<double>(steps)) <= 1e-10);
            CHECK(std::abs(scores.of(kind)[i] - split.of(kind)[i]) <= 1e-10);
          }
          for (index_t l = 0; l < scores.layout(kind).layers(); ++l) {
            double sum = 0;
            for (index_t h = 0; h < scores.layout(kind).heads(l); ++h) sum += scores.value(kind, {l, h});
            CHECK(std::abs(sum - 1) <= 1e-12);
          }
        }
      }
      hr::scoring_options<double, hr::cpu> stop;
      stop.progress = [](index_t, index_t) { return false; };
      CHECK_THROWS_AS(hr::model_relevance(model, std::span(together), {}, stop), hr::cancelled);
      CHECK_THROWS_WITH_AS(hr::model_relevance(model, std::span<const hr::training_batch>()),
                           doctest::Contains("no step was added"), hr::argument_error);
    }
  }
}
