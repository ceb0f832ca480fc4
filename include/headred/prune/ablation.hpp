// ablation: what the loss rises by when one head is left out.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headred/prune/model_importance.hpp>

namespace headred {

/// Mean cross-entropy over the labels of all batches, in nats, without dropout; changes nothing. Throws argument_error
/// if no label counts, and what the model's passes throw.
template <class T, host_backend Backend>
double mean_loss(transformer<T, Backend>& model, tape<T, Backend>& t, std::span<const training_batch> batches,
                 const forward_options<T, Backend>& options = {}) {
  double nats = 0;
  index_t tokens = 0;
  for (const training_batch& batch : batches) {
    t.clear(tape_mode::inference);
    const auto losses = t.input(detail::batch_loss(model, t, batch, options, T(1)).losses);
    for (index_t r = 0; r < losses.extent(0); ++r) nats += static_cast<double>(losses.data()[r]);
    tokens += batch.tokens();
  }
  if (tokens == 0) throw argument_error("mean_loss: the batches have no label, expected at least 1");
  return nats / static_cast<double>(tokens);
}

/// Leave-one-out scores, the truth that other criteria stand in for: the mean loss with the head's gate at 0, minus the
/// loss of the model as it is (with options.gates, if given), over the whole evaluation set; below 0 where the model is
/// better without the head. No gradients. kinds : which heads to try, none named: all.
/// options.progress counts heads. Cost: heads + 1 passes over the data. Throws argument_error for a kind that the model
/// does not have, `cancelled`, and what mean_loss throws. Michel et al. 2019, section 3.2.
template <class T, host_backend Backend>
head_scores model_ablation(transformer<T, Backend>& model, std::span<const training_batch> batches,
                           std::vector<attention_kind> kinds = {}, const scoring_options<T, Backend>& options = {}) {
  const plan_layout layout = model_layout(model.config());
  if (kinds.empty()) kinds = layout.kinds();
  index_t all = 0, done = 0;
  for (const attention_kind kind : kinds) all += layout.heads(kind).size();
  gated_stacks also;
  for (const model_stack stack : {model_stack::encoder, model_stack::decoder}) {
    if (options.gates == nullptr) break;
    if (options.gates->gates_neurons(stack)) also.neurons.push_back(stack);
    if (options.gates->gates_layers(stack)) also.layers.push_back(stack);
  }
  model_gates<T, Backend> gates(model.backend(), model.config(), also);
  const auto copy = [](const std::string& what, const auto& from, auto& to) {
    if (from.value.size() != to.value.size())
      throw shape_error("model_ablation: " + what + " has " + std::to_string(from.value.size()) + " gates, expected " +
                        std::to_string(to.value.size()));
    std::copy_n(from.value.data(), from.value.size(), to.value.data());
  };
  if (options.gates != nullptr)
    for (const attention_kind kind : layout.kinds())
      for (index_t l = 0; l < layout.heads(kind).layers(); ++l)
        copy("layer " + std::to_string(l) + " of " + std::string(to_string(kind)), options.gates->of(kind, l),
             gates.of(kind, l));
  for (const model_stack stack : also.neurons)
    for (index_t l = 0; l < static_cast<index_t>(find_stack(model.config(), stack)->layers.size()); ++l)
      copy("the feed-forward block of " + std::string(to_string(stack)) + " layer " + std::to_string(l),
           options.gates->neurons(stack, l), gates.neurons(stack, l));
  for (const model_stack stack : also.layers)
    copy("the " + std::string(to_string(stack)), options.gates->layers(stack), gates.layers(stack));
  forward_options<T, Backend> pass;
  pass.gates = &gates;
  pass.masks = options.masks;
  tape<T, Backend> t(model.backend(), tape_mode::inference);
  const double base = mean_loss(model, t, batches, pass);
  score_counts counts;
  for (const training_batch& batch : batches) {
    counts.examples += batch.source.size();
    counts.tokens += batch.tokens();
  }
  head_scores result("ablation");
  for (const attention_kind kind : kinds) {
    const head_layout& heads = layout.heads(kind);
    std::vector<double> rise;
    for (index_t n = 0; n < heads.size(); ++n) {
      if (options.progress && !options.progress(done++, all)) throw cancelled();
      const head_id id = heads.id(n);
      T& gate = gates.of(kind, id.layer).value.data()[id.head];
      const T before = gate;
      gate = T(0);
      rise.push_back(mean_loss(model, t, batches, pass) - base);
      gate = before;
    }
    result.add(kind, heads, std::move(rise), counts);
  }
  return result;
}

}  // namespace headred
