// One small model, trained with dropout of one sort at one rate, and how far apart its heads are then.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/nn/initialize.hpp>
#include <headred/nn/training_step.hpp>
#include <headred/prune/model_redundancy.hpp>

#include "distance_names.hpp"
#include "dropout_settings.hpp"
#include "pruning_task.hpp"

namespace examples {

using headred::attention_kind;

/// Where dropout acts: on embeddings and the outputs of blocks, or on attention weights.
enum class dropout_sort { hidden, attention };

inline const char* to_string(dropout_sort sort) { return sort == dropout_sort::hidden ? "hidden" : "attention"; }

/// What one model came to.
struct dropout_outcome {
  score eval;  ///< without dropout, on sentences that it was not trained on
  /// Mean over the pairs of heads of a kind, in the order of distance_names; each in [0,1], 0 for heads that are alike.
  std::map<attention_kind, std::array<double, distance_names.size()>> distances;
};

/// Trains and measures; a pure function of settings, sort, rate and seed.
class dropout_lab {
 public:
  dropout_lab(headred::cpu& be, const dropout_settings& s) : be_(be), settings_(s), task_(grammar_task(s.train)) {
    const headred::translation_grammar grammar;
    const index_t words = grammar.source_vocabulary();
    config_ = headred::uniform_config(
        {.kind = s.masked ? headred::architecture::encoder : headred::architecture::encoder_decoder,
         .layers = s.layers,
         .width = s.width,
         .heads = s.heads,
         .source_vocabulary = words + (s.masked ? 1 : 0),
         .target_vocabulary = s.masked ? 0 : grammar.target_vocabulary(),
         .max_positions = 64});
    if (!s.masked) return;
    task_.masked = true;
    task_.masking = {.mask_id = static_cast<token_id>(words),
                     .vocabulary = words,
                     .lowest = headred::translation_grammar::end_id + 1,
                     .never = task_.special_source};
    for (text_set* set : {&task_.train, &task_.select, &task_.eval}) set->targets.clear();
  }

  std::vector<attention_kind> kinds() const { return headred::model_layout(config_).kinds(); }

  dropout_outcome measure(dropout_sort sort, double rate, std::uint64_t seed) const {
    headred::transformer_config c = config_;
    (sort == dropout_sort::hidden ? c.dropout : c.attention_dropout) = rate;
    headred::transformer<float, headred::cpu> model(be_, c);
    headred::initialize(be_, model.weights(), seed);
    train(model, seed);
    model.train(false);
    dropout_outcome found;
    found.eval = task_.measure(model, task_.eval, false);
    const headred::training_batch held_out = sentences();
    std::size_t d = 0;
    for_each_distance([&]<class Distance>(const Distance& distance) {
      stop_if_interrupted();
      headred::model_redundancy<headred::cpu, Distance> sums(be_, c, distance);
      sums.add(model, held_out.source, held_out.target);
      for (const attention_kind kind : sums.kinds()) found.distances[kind][d] = mean_of_pairs(sums.matrix(kind));
      ++d;
    });
    return found;
  }

 private:
  void train(headred::transformer<float, headred::cpu>& model, std::uint64_t seed) const {
    model.train();
    headred::adam<float, headred::cpu> adam(be_, headred::parameter_list<float, headred::cpu>(model.weights()));
    headred::trainer<float, headred::cpu>::options options;
    options.rate = headred::learning_rate::linear(settings_.rate, std::max<index_t>(1, settings_.updates / 10),
                                                  settings_.updates + 1);
    options.longest_gradient = 1;
    options.seed = seed;
    headred::trainer<float, headred::cpu> trainer(model, adam, options);
    headred::batch_order order(task_.lengths(task_.train), {.tokens = settings_.batch_tokens, .seed = seed});
    pruning_task own;  // the seed's masks; those of task_ stay the same for all seeds, to measure by
    own.masked = task_.masked;
    own.masking = task_.masking;
    own.masking.seed = seed;
    headred::training_batch batch;
    for (index_t step = 1; step <= settings_.updates; ++step) {
      stop_if_interrupted();
      const index_t epoch = 1 + order.position().epoch;
      own.fill(batch, task_.train, order.next(), epoch);
      trainer.step(batch);
    }
  }

  /// Held-out sentences as they are: nothing is masked.
  headred::training_batch sentences() const {
    headred::training_batch batch;
    std::vector<index_t> numbers(static_cast<std::size_t>(std::min(settings_.sentences, task_.eval.size())));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<index_t>(i);
    if (task_.masked) {
      for (const index_t i : numbers) batch.source.add(task_.eval.sources[static_cast<std::size_t>(i)]);
    } else {
      task_.fill(batch, task_.eval, numbers, 0);
    }
    return batch;
  }

  static double mean_of_pairs(const headred::matrix& m) {
    double sum = 0;
    for (index_t i = 0; i < m.rows(); ++i)
      for (index_t j = 0; j < i; ++j) sum += m(i, j);
    return sum / (.5 * static_cast<double>(m.rows() * (m.rows() - 1)));
  }

  headred::cpu& be_;
  const dropout_settings& settings_;
  pruning_task task_;
  headred::transformer_config config_;
};

}  // namespace examples
