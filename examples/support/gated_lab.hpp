// One model with gates, cut and trained further; and what it is compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/io/load_transformer.hpp>
#include <headred/io/save_transformer.hpp>
#include <headred/nn/freeze_decoder.hpp>
#include <headred/nn/gate_training.hpp>
#include <headred/nn/initialize.hpp>
#include <headred/nn/model_cost.hpp>
#include <headred/prune/gated_plan.hpp>
#include <headred/prune/plan_algebra.hpp>
#include <headred/prune/random_plan.hpp>

#include "gated_settings.hpp"
#include "pruning_task.hpp"

namespace examples {

using headred::attention_kind;
using model_type = headred::transformer<float, headred::cpu>;

/// A model at the checkpoint that did best on the sentences to select by.
struct trained_score {
  score eval;
  double select = NAN;  ///< NLL
  index_t updates = 0;  ///< at that checkpoint, since the model had converged
};

/// What one run with gates came to.
struct gated_outcome {
  headred::prune_plan plan;  ///< the heads whose gates are open
  index_t undecided = 0;     ///< gates strictly between 0 and 1 in a tenth of the samples or more, at last
  double difference = 0;     ///< largest, of any logit, between gates of 0 and the saved model without these heads
  double parameters = 0;     ///< share that is left
  score cut;                 ///< before further updates
  trained_score trained;
};

/// As many heads of each kind as the plan keeps, chosen by chance.
inline headred::prune_plan random_like(const headred::prune_plan& plan, std::uint64_t seed) {
  headred::prune_plan found(plan.layout());
  for (const attention_kind kind : plan.layout().kinds())
    found = headred::plan_intersection(found, headred::random_plan(plan.layout(), plan.count(kind), seed, kind));
  return found;
}

/// Copies a model and trains the copies; a pure function of settings, model, task and seed.
class gated_lab {
 public:
  gated_lab(headred::cpu& be, const gated_settings& s, const pruning_task& task, const model_type& model)
      : be_(be), settings_(s), task_(task), model_(model) {}

  /// The plan's heads alone, for all updates, without gates: the control if the plan keeps everything.
  trained_score plain(const headred::prune_plan& plan, std::uint64_t seed) const {
    model_type m = left_of(plan, model_);
    trainable(m);
    headred::batch_order order = batches(seed);
    checkpoints best(task_, every());
    update(m, order, settings_.updates, gated_rate(), seed, nullptr, nullptr);
    best.offer(m, settings_.updates);  // no earlier than a model with gates can be
    update(m, order, settings_.further, further_rate(), seed, nullptr, &best, settings_.updates);
    return best.result();
  }

  /// A model of the plan's shape that never saw the old weights.
  trained_score from_scratch(const headred::prune_plan& plan, std::uint64_t seed) const {
    model_type m = left_of(plan, model_);
    headred::initialize(be_, m.weights(), seed);
    m.train();
    const index_t all = settings_.train + settings_.updates + settings_.further;
    headred::batch_order order = batches(seed);
    checkpoints best(task_, std::max(every(), all / 20));
    update(m, order, all, headred::learning_rate::linear(settings_.scratch_rate, all / 10, all + 1), seed, nullptr,
           &best);
    return best.result();
  }

  /// Gates at a price; the pruned model is saved in the folder, as cut and then as trained, and measured as loaded.
  gated_outcome gated(double price, std::uint64_t seed, const std::filesystem::path& folder) const {
    model_type m = left_of(headred::prune_plan(headred::model_layout(model_.config())), model_);
    trainable(m);
    gates_type gates(be_, m.config(), options(price, seed));
    headred::batch_order order = batches(seed);
    update(m, order, settings_.updates, gated_rate(), seed, &gates, nullptr);
    gated_outcome found;
    for (const attention_kind kind : gates.options().kinds)
      for (index_t l = 0; l < headred::model_layout(m.config()).heads(kind).layers(); ++l)
        found.undecided += static_cast<index_t>(gates.report(kind, l, .1).undecided.size());
    gates.finalize();
    found.plan = headred::gated_plan(be_, m.config(), gates.gates());
    model_type cut = reloaded(left_of(found.plan, m), found.plan, folder);
    found.difference = largest_difference(m, gates.gates(), cut);
    found.parameters =
        headred::parameter_count(cut.config()).total() / headred::parameter_count(model_.config()).total();
    found.cut = task_.measure(cut, task_.eval, true);
    trainable(cut);
    checkpoints best(task_, every());
    best.offer(cut, settings_.updates);
    update(cut, order, settings_.further, further_rate(), seed, nullptr, &best, settings_.updates);
    model_type last = reloaded(best.model(), found.plan, folder);
    found.trained = best.result(last);
    return found;
  }

  score converged() const {
    model_type m = left_of(headred::prune_plan(headred::model_layout(model_.config())), model_);
    return task_.measure(m, task_.eval, true);
  }

 private:
  using gates_type = headred::gate_training<float, headred::cpu>;

  /// The best of the models that it is shown.
  class checkpoints {
   public:
    checkpoints(const pruning_task& task, index_t every) : task_(task), every_(every) {}

    /// Every so many updates, and after the last.
    bool due(index_t step, index_t last) const { return step % every_ == 0 || step == last; }
    void offer(model_type& m, index_t updates) {
      const double now = task_.measure(m, task_.select, false).nll;
      if (best_ && !(now < found_.select)) return;
      found_.select = now;
      found_.updates = updates;
      best_.emplace(left_of(headred::prune_plan(headred::model_layout(m.config())), m));
    }
    model_type& model() { return *best_; }
    trained_score result(model_type& m) {
      found_.eval = task_.measure(m, task_.eval, true);
      return found_;
    }
    trained_score result() { return result(*best_); }

   private:
    const pruning_task& task_;
    index_t every_;
    std::optional<model_type> best_;
    trained_score found_;
  };

  static model_type left_of(const headred::prune_plan& plan, const model_type& model) {
    return headred::apply(plan, model,
                          {.shared = headred::shared_layers::untie, .uneven = headred::uneven_groups::repeat});
  }
  void trainable(model_type& m) const {
    m.train();
    if (settings_.freeze_decoder) headred::freeze_decoder(m);
  }
  index_t every() const { return std::max<index_t>(1, settings_.further / 5); }
  headred::learning_rate gated_rate() const {
    return headred::learning_rate::constant(settings_.rate, settings_.updates / 10);
  }
  headred::learning_rate further_rate() const {
    return headred::learning_rate::linear(settings_.rate, 0, settings_.further + 1);
  }
  headred::batch_order batches(std::uint64_t seed) const {
    return headred::batch_order(task_.lengths(task_.train), {.tokens = settings_.batch_tokens, .seed = seed});
  }

  /// By default a head too many raises the price by an eighth in a tenth of the updates, however many heads there are.
  double target_rate() const {
    if (settings_.target_rate > 0) return settings_.target_rate;
    const headred::plan_layout layout = headred::model_layout(model_.config());
    const index_t gates = settings_.encoder_only ? layout.heads(attention_kind::encoder_self).size() : layout.size();
    return std::clamp(1.25 * static_cast<double>(gates) / static_cast<double>(settings_.updates), 1e-3, 1.);
  }
  headred::gate_options options(double price, std::uint64_t seed) const {
    headred::gate_options o;
    o.penalty = settings_.method;
    if (settings_.encoder_only) o.kinds = {attention_kind::encoder_self};
    o.seed = seed;
    if (!settings_.to_target) o.lambda = price;
    if (settings_.to_target) o.target = {.open = price, .rate = target_rate(), .warm_up = settings_.updates / 2};
    return o;
  }

  /// `count` updates; checkpoints are numbered from `before` on.
  void update(model_type& m, headred::batch_order& order, index_t count, const headred::learning_rate& rate,
              std::uint64_t seed, gates_type* gates, checkpoints* best, index_t before = 0) const {
    if (count == 0) return;
    headred::parameter_list<float, headred::cpu> parameters(m.weights());
    std::vector<headred::adam_group> groups;
    if (gates != nullptr) {
      gates->add_to(parameters);
      groups.push_back(gates->group(settings_.gate_rate));
    }
    headred::adam<float, headred::cpu> adam(be_, parameters, {}, groups);
    headred::trainer<float, headred::cpu>::options options;
    options.rate = rate;
    options.longest_gradient = 1;
    options.seed = seed;
    if (gates != nullptr) gates->attach(options);
    headred::trainer<float, headred::cpu> trainer(m, adam, options);
    headred::training_batch batch;
    for (index_t step = 1; step <= count; ++step) {
      stop_if_interrupted();
      const index_t epoch = order.position().epoch;
      const auto numbers = order.next();
      task_.fill(batch, task_.train, numbers, 1 + epoch);
      if (gates != nullptr)
        gates->step(trainer, batch);
      else
        trainer.step(batch);
      if (best != nullptr && best->due(step, count)) best->offer(m, before + step);
    }
  }

  model_type reloaded(const model_type& m, const headred::prune_plan& plan, const std::filesystem::path& folder) const {
    headred::save_transformer(folder, m.config(), m.weights(), plan);
    auto loaded = headred::load_transformer<float>(be_, folder);
    return model_type(be_, std::move(loaded.config), std::move(loaded.weights));
  }

  double largest_difference(model_type& gated, headred::model_gates<float, headred::cpu>& gates,
                            model_type& cut) const {
    headred::batch_order order(task_.lengths(task_.eval), {.tokens = 2048, .shuffle = false});
    headred::tape<float, headred::cpu> one(be_, headred::tape_mode::inference),
        other(be_, headred::tape_mode::inference);
    headred::training_batch batch;
    double largest = 0;
    for (index_t b = 0; b < std::min<index_t>(order.batches(), 4); ++b) {
      task_.fill(batch, task_.eval, order.next(), 0);
      one.clear();
      other.clear();
      model_type::options with;
      with.gates = &gates;
      const auto x = one.input(gated.logits(one, gated.hidden(one, batch.source, batch.target, with)));
      const auto y = other.input(cut.logits(other, cut.hidden(other, batch.source, batch.target)));
      for (index_t r = 0; r < x.extent(0); ++r)
        for (index_t c = 0; c < x.extent(1); ++c)
          largest = std::max(largest, std::abs(static_cast<double>(x(r, c)) - static_cast<double>(y(r, c))));
    }
    return largest;
  }

  headred::cpu& be_;
  const gated_settings& settings_;
  const pruning_task& task_;
  const model_type& model_;
};

}  // namespace examples
