// model_importance: the heads of a transformer scored on data, by attention and by gradient.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <headred/importance/confidence.hpp>
#include <headred/importance/taylor.hpp>
#include <headred/nn/batches.hpp>
#include <headred/nn/for_each_attention.hpp>
#include <headred/nn/op/select_rows.hpp>
#include <headred/nn/op/softmax_cross_entropy.hpp>
#include <headred/prune/model_layout.hpp>

namespace headred {

/// How a model is run while it is scored.
template <class T, backend Backend>
struct scoring_options {
  model_gates<T, Backend>* gates = nullptr;        ///< a masked model: as in forward_options
  const model_masks<T, Backend>* masks = nullptr;  ///< likewise
  /// Called before each unit of work with the number of units done and in all; false ends the call with `cancelled`.
  std::function<bool(index_t done, index_t all)> progress = {};
};

struct model_confidence_options {
  confidence_options confidence = {};
  bool target_ends = false;  ///< targets of an encoder-decoder hold their end token (decoder inputs do not)
  attention_pass_options pass = {};
};

namespace detail {

/// Loss slots of one batch on a tape: cross-entropy of its labels, weighted by `weight`.
template <class T, host_backend Backend>
cross_entropy_slots batch_loss(transformer<T, Backend>& model, tape<T, Backend>& t, const training_batch& batch,
                               const forward_options<T, Backend>& options, T weight) {
  const slot hidden = model.hidden(t, batch.source, batch.target, options);
  const slot rows = batch.rows.empty() ? hidden : select_rows(t, hidden, batch.rows);
  return softmax_cross_entropy(t, model.logits(t, rows), batch.labels, 0, weight);
}

/// Labels that count in each sentence of the stack that makes the logits.
inline std::vector<index_t> labels_of_sentences(const training_batch& batch, bool has_cross) {
  const auto& sentences = has_cross ? batch.target.sentences : batch.source.sentences;
  const index_t tokens = has_cross ? batch.target.tokens() : batch.source.tokens();
  std::vector<char> counts(static_cast<std::size_t>(tokens), 0);
  for (std::size_t i = 0; i < batch.labels.size(); ++i) {
    const index_t row = batch.rows.empty() ? static_cast<index_t>(i) : batch.rows[i];
    counts[static_cast<std::size_t>(row)] = batch.labels[i] >= 0 ? 1 : 0;
  }
  std::vector<index_t> found;
  for (const sequence& s : sentences)
    found.push_back(std::count(counts.begin() + s.begin, counts.begin() + s.begin + s.length, 1));
  return found;
}

template <class T, host_backend Backend>
void zero_all_gradients(transformer<T, Backend>& model, model_gates<T, Backend>* gates) {
  const auto zero = [](auto& p) {
    if (p.trained()) std::fill_n(p.gradient.data(), p.gradient.size(), T(0));
  };
  visit_parameters(model.weights(), [&](const std::string&, auto& p) { zero(p); });
  if (gates == nullptr) return;
  for (const attention_kind kind : attention_kinds(model.config()))
    for (index_t l = 0; l < static_cast<index_t>(attention_blocks(model.config(), kind).size()); ++l)
      zero(gates->of(kind, l));
  for (const model_stack stack : {model_stack::encoder, model_stack::decoder}) {
    if (gates->gates_layers(stack)) zero(gates->layers(stack));
    if (!gates->gates_neurons(stack)) continue;
    for (index_t l = 0; l < static_cast<index_t>(find_stack(model.config(), stack)->layers.size()); ++l)
      zero(gates->neurons(stack, l));
  }
}

}  // namespace detail

/// Confidence of every head, kind by kind; kinds that have lost all heads are left out. source, target : as for
/// for_each_attention. The end policy speaks of tokens that are there: decoder inputs hold no end token, so that without
/// `target_ends` the decoder's self-attention keeps all tokens and cross-attention leaves out the source's end as a key.
/// Throws what for_each_attention and confidence throw.
template <class T, host_backend Backend>
head_scores model_confidence(transformer<T, Backend>& model, const token_batch& source, const token_batch& target = {},
                             const model_confidence_options& options = {}) {
  const plan_layout layout = model_layout(model.config());
  std::map<attention_kind, confidence<Backend>> sums;
  for (const attention_kind kind : layout.kinds()) {
    if (layout.heads(kind).size() == 0) continue;
    confidence_options own = options.confidence;
    if (model.config().has_cross() && kind != attention_kind::encoder_self && !options.target_ends) {
      const bool no_key = !end_is_candidate(own.end);
      own.end = kind == attention_kind::cross && no_key ? end_token::excluded_as_key : end_token::included;
    }
    sums.emplace(kind, confidence<Backend>(model.backend(), layout.heads(kind), own));
  }
  for_each_attention(
      model, source, target,
      [&](attention_kind kind, index_t, const auto& layers) {
        if (const auto found = sums.find(kind); found != sums.end()) found->second.add(layers);
      },
      options.pass);
  head_scores result("confidence");
  for (const auto& [kind, sum] : sums) sum.add_to(result, kind);
  return result;
}

/// Taylor importance of every head on batches with labels (pairs, causal or masked texts): one pass forward and back a
/// batch. Each sentence is an example, its loss the mean over its labels; sentences without a label are skipped. The
/// model stays as it is; gradients that its weights or the gates collect are zero afterwards. The gradient of a sentence
/// does not depend on the others in its batch, but for rounding.
///   options.gates : dL/dgate at these gates, those of 0 included
/// Throws argument_error for a model without output head, and what its passes throw. Michel et al. 2019.
template <class T, host_backend Backend>
head_scores model_taylor(transformer<T, Backend>& model, std::span<const training_batch> batches,
                         taylor_absolute absolute = taylor_absolute::per_example,
                         const scoring_options<T, Backend>& options = {}) {
  const plan_layout layout = model_layout(model.config());
  std::map<attention_kind, taylor> sums;
  for (const attention_kind kind : layout.kinds())
    if (layout.heads(kind).size() > 0) sums.emplace(kind, taylor(layout.heads(kind), absolute));
  std::vector<attention_record<T>> trace;
  forward_options<T, Backend> pass;
  pass.gates = options.gates;
  pass.masks = options.masks;
  pass.trace = &trace;
  struct clean_up {
    transformer<T, Backend>& model;
    model_gates<T, Backend>* gates;
    ~clean_up() { detail::zero_all_gradients(model, gates); }
  } const at_end{model, options.gates};
  tape<T, Backend> t(model.backend());
  std::vector<row_span> rows;
  std::vector<double> scale;
  index_t done = 0;
  for (const training_batch& batch : batches) {
    if (options.progress && !options.progress(done++, static_cast<index_t>(batches.size()))) throw cancelled();
    t.clear();
    trace.clear();
    const auto loss = detail::batch_loss(model, t, batch, pass, T(1));
    *t.gradient(loss.total).data() += T(1);
    t.backward();
    const auto labels = detail::labels_of_sentences(batch, model.config().has_cross());
    for (const attention_record<T>& record : trace) {
      const auto found = sums.find(record.kind);
      if (found == sums.end()) continue;
      rows.clear();
      scale.clear();
      for (std::size_t b = 0; b < labels.size(); ++b) {
        const sequence& s = record.kept.queries[b];
        rows.push_back({s.begin, labels[b] == 0 ? 0 : s.length});
        scale.push_back(1 / static_cast<double>(std::max<index_t>(1, labels[b])));
      }
      found->second.template add<T>(record.layer, t.input(record.context), t.gradient(record.out), rows, scale);
    }
  }
  head_scores result("taylor");
  for (const auto& [kind, sum] : sums) sum.add_to(result, kind);
  return result;
}

}  // namespace headred
