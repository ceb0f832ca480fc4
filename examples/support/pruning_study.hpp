// Plans from redundancy against plans by chance: scores with and without further training.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <headred/headred.hpp>
#include <headred/nn/initialize.hpp>
#include <headred/nn/model_cost.hpp>
#include <headred/nn/training_step.hpp>
#include <headred/prune/apply.hpp>
#include <headred/prune/plan_algebra.hpp>
#include <headred/prune/random_tokens.hpp>
#include <headred/prune/zero_shot.hpp>

#include "pruning_settings.hpp"
#include "pruning_task.hpp"

namespace examples {

using headred::attention_kind;
using model_type = headred::transformer<float, headred::cpu>;

/// Numbers that several plans came to.
struct spread {
  std::vector<double> values;

  double mean() const {
    double sum = 0;
    for (const double x : values) sum += x;
    return values.empty() ? NAN : sum / static_cast<double>(values.size());
  }
  /// Standard deviation of a sample.
  double deviation() const {
    if (values.size() < 2) return NAN;
    double sum = 0;
    for (const double x : values) sum += (x - mean()) * (x - mean());
    return std::sqrt(sum / static_cast<double>(values.size() - 1));
  }
};

/// The scores of the plans of one sort.
struct outcomes {
  spread nll, exact, edits;
  void add(const score& s) {
    nll.values.push_back(s.nll);
    exact.values.push_back(s.exact);
    edits.values.push_back(s.edits);
  }
};

/// One point of the curves.
struct curve_point {
  std::string kinds;  ///< "encoder_self", ..., "all"
  double ratio = 0;
  index_t removed = 0, heads = 0;               ///< of the kinds in question
  double parameters = 0;                        ///< share that is left, mean over the redundancy plans
  outcomes redundancy, random;                  ///< as pruned
  outcomes trained_redundancy, trained_random;  ///< after the same further updates
  outcomes scratch;                             ///< the same shapes trained from the beginning

  /// How far redundancy plans are ahead of random ones, in standard deviations of these; and its standard error.
  std::pair<double, double> lead(const outcomes& mine, const outcomes& others) const {
    const double unit = others.nll.deviation();
    const auto n = static_cast<double>(mine.nll.values.size()), m = static_cast<double>(others.nll.values.size());
    const double error = n > 1 ? mine.nll.deviation() : 0;
    return {(others.nll.mean() - mine.nll.mean()) / unit, std::sqrt(error * error / n + unit * unit / m) / unit};
  }
};

/// Copies, prunes, trains and measures.
class pruning_lab {
 public:
  pruning_lab(headred::cpu& be, const pruning_settings& s, const pruning_task& task, const model_type& model)
      : be_(be), settings_(s), task_(task), model_(model) {}

  model_type pruned(const headred::prune_plan& plan) const {
    return headred::apply(plan, model_, {.shared = headred::shared_layers::untie});
  }
  /// The score on eval as it is; plans that keep the same heads are measured once.
  score measure(const headred::prune_plan& plan) { return measure(plan, 0); }
  /// The same after further updates, at the best of the checkpoints on `select`.
  score trained(const headred::prune_plan& plan) { return measure(plan, settings_.updates); }
  /// A model of the plan's shape that never saw the old weights, trained for both phases.
  score from_scratch(const headred::prune_plan& plan) const {
    model_type fresh = pruned(plan);
    headred::initialize(be_, fresh.weights(), settings_.seed);
    return train(fresh, settings_.scratch);
  }

  score train(model_type& model, index_t updates) const {
    model.train();
    headred::adam<float, headred::cpu> adam(be_, headred::parameter_list<float, headred::cpu>(model.weights()));
    headred::trainer<float, headred::cpu>::options options;
    options.rate = headred::learning_rate::linear(settings_.rate, std::max<index_t>(1, updates / 10), updates + 1);
    options.longest_gradient = 1;
    options.seed = settings_.seed;
    headred::trainer<float, headred::cpu> trainer(model, adam, options);
    headred::batch_order order(task_.lengths(task_.train), {.tokens = settings_.batch_tokens, .seed = settings_.seed});
    headred::training_batch batch;
    double best = INFINITY;
    score found;
    const index_t every = std::max<index_t>(1, updates / 3);
    for (index_t step = 1; step <= updates; ++step) {
      stop_if_interrupted();
      const index_t epoch = order.position().epoch;
      const auto numbers = order.next();
      task_.fill(batch, task_.train, numbers, 1 + epoch);
      trainer.step(batch);
      if (step % every != 0 && step != updates) continue;
      const double now = task_.measure(model, task_.select, false).nll;
      if (!(now < best)) continue;
      best = now;
      found = task_.measure(model, task_.eval, settings_.decode);
    }
    return found;
  }

 private:
  score measure(const headred::prune_plan& plan, index_t updates) {
    const auto key = std::pair(updates, headred::to_text(plan));
    if (const auto known = scores_.find(key); known != scores_.end()) return known->second;
    model_type model = pruned(plan);
    const score found = updates > 0 ? train(model, updates) : task_.measure(model, task_.eval, settings_.decode);
    scores_.emplace(key, found);
    return found;
  }

  headred::cpu& be_;
  const pruning_settings& settings_;
  const pruning_task& task_;
  const model_type& model_;
  std::map<std::pair<index_t, std::string>, score> scores_;
};

}  // namespace examples
