// model_relevance: the heads of a transformer scored by the relevance that flows through them.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include <headred/importance/head_relevance.hpp>
#include <headred/nn/relevance_sweep.hpp>
#include <headred/nn/start_relevance.hpp>
#include <headred/prune/model_importance.hpp>

namespace headred {

/// Relevance of every head for the greatest logit at each label of the batches: one pass forward a batch, and one sweep back
/// for each generation step, in which every sentence starts at its own label. ledger : if given, the accounts of the first
/// sweep. The model stays as it is.
/// Throws argument_error for a model without output head or batches without a label, `cancelled`, and what sweeps throw.
/// Cost: labels of the longest sentence of each batch, in sweeps. Voita et al. 2019, section 4.
template <class T, host_backend Backend>
head_scores model_relevance(transformer<T, Backend>& model, std::span<const training_batch> batches,
                            const relevance_rules<T>& rules = {}, const scoring_options<T, Backend>& options = {},
                            relevance_ledger* ledger = nullptr) {
  const plan_layout layout = model_layout(model.config());
  std::map<attention_kind, head_relevance> sums;
  for (const attention_kind kind : layout.kinds())
    if (layout.heads(kind).size() > 0) sums.emplace(kind, head_relevance(layout.heads(kind)));
  std::vector<attention_record<T>> trace;
  forward_options<T, Backend> pass;
  pass.gates = options.gates;
  pass.masks = options.masks;
  pass.trace = &trace;
  tape<T, Backend> t(model.backend());
  std::vector<relevance_start> starts;
  std::vector<row_span> rows;
  index_t done = 0;
  for (const training_batch& batch : batches) {
    if (options.progress && !options.progress(done++, static_cast<index_t>(batches.size()))) throw cancelled();
    t.clear();
    trace.clear();
    const slot hidden = model.hidden(t, batch.source, batch.target, pass);
    const slot logits = model.logits(t, batch.rows.empty() ? hidden : select_rows(t, hidden, batch.rows));
    // of each sentence: the rows of the logits that have a label
    const auto& sentences = model.config().has_cross() ? batch.target.sentences : batch.source.sentences;
    std::vector<std::vector<index_t>> steps(sentences.size());
    std::size_t longest = 0, b = 0;
    for (std::size_t i = 0; i < batch.labels.size(); ++i) {
      if (batch.labels[i] < 0) continue;
      const index_t row = batch.rows.empty() ? static_cast<index_t>(i) : batch.rows[i];
      while (row >= sentences[b].begin + sentences[b].length) ++b;
      steps[b].push_back(static_cast<index_t>(i));
      longest = std::max(longest, steps[b].size());
    }
    for (std::size_t k = 0; k < longest; ++k) {
      starts.clear();
      for (const auto& own : steps)
        if (k < own.size()) starts.push_back({own[k], -1});
      start_relevance<T>(t, logits, starts);
      t.sweep(rules, ledger);
      ledger = nullptr;
      for (const attention_record<T>& record : trace) {
        const auto found = sums.find(record.kind);
        if (found == sums.end()) continue;
        rows.clear();
        for (std::size_t s = 0; s < steps.size(); ++s)
          if (k < steps[s].size()) rows.push_back({record.kept.queries[s].begin, record.kept.queries[s].length});
        const tensor_view<const T, 2> relevance = t.relevance(record.context);
        found->second.add(record.layer, relevance, rows);
      }
    }
  }
  head_scores result("relevance");
  for (const auto& [kind, sum] : sums) sum.add_to(result, kind);
  return result;
}

}  // namespace headred
