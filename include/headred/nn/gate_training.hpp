// gate_training: learns which heads of a model to keep, by a Hard-Concrete gate on every head and a price for open ones.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headred/nn/training_step.hpp>
#include <headred/sparsity/gate_report.hpp>
#include <headred/sparsity/hard_concrete.hpp>
#include <headred/sparsity/target_sparsity.hpp>

namespace headred {

/// What lambda multiplies.
enum class gate_penalty {
  sum,         ///< the sum of P(g != 0) over all gates: Voita's paper
  layer_mean,  ///< the mean over the gated layers of each layer's sum: Voita's code
};

/// How gates are trained.
struct gate_options {
  hard_concrete gate = {};  ///< its temperature is the first one if the temperature is learned
  double lambda = 0;        ///< price of an open gate, in nats a token; at least 0
  gate_penalty penalty = gate_penalty::sum;
  std::vector<attention_kind> kinds = {};  ///< whose heads get gates; empty: all kinds of the model
  double initial = 2;                      ///< first log_a: P(g = 1) = .77, so that a converged model still works
  std::uint64_t seed = 0;                  ///< of the noise
  std::optional<annealed_temperature> temperature = {};  ///< instead of the gate's; by the step
  bool learn_temperature = false;                        ///< by gradient descent on its logarithm, one for all gates
  std::optional<target_sparsity::options> target = {};   ///< sets the price instead of lambda; `gates` is filled in
  std::optional<double> limit = {};  ///< log_a is kept within +-limit, above 0; without it 4 with a target, else 50
};

/// Gates on the heads of a model (Voita et al. 2019, section 6). They are parameters log_a (H) of every gated layer, trained
/// along with the model:
///   Loss = cross-entropy + lambda sum_h P(g_h != 0),  g_h = hard_concrete_sample(log_a_h), one draw a step.
/// A step is `sample`, the model's passes with `gates()`, `pull_back`, the optimiser; `attach` and `step` do this with a
/// trainer. Heads of other kinds keep a gate of 1. Noise is a pure function of seed, step, layer and head: training that
/// is resumed at the same step goes on bit by bit.
/// The backend must outlive it; trainers and parameter lists point into it, so it stays where it is.
template <class T, host_backend Backend>
class gate_training {
 public:
  using gate_parameter = parameter<T, 1, Backend>;

  /// Throws argument_error for an option out of range, a kind that the model does not have or that is named twice.
  gate_training(Backend& be, const transformer_config& config, gate_options options)
      : backend_(&be), options_(std::move(options)), gates_(be, config), log_temperature_(be, {1}) {
    require(options_.lambda >= 0 && std::isfinite(options_.lambda), "lambda", options_.lambda, "at least 0");
    require(std::isfinite(options_.initial), "initial", options_.initial, "a finite number");
    options_.gate.template rule<T>("gate_training");
    if (!options_.limit) options_.limit = options_.target ? 4 : 50;
    require(*options_.limit > 0 && *options_.limit <= 50, "limit", *options_.limit, "(0,50]");
    if (options_.temperature) options_.temperature->at(0);
    if (options_.temperature && options_.learn_temperature)
      throw argument_error("gate_training: the temperature is annealed and learned, expected one of both");
    if (options_.kinds.empty()) options_.kinds = attention_kinds(config);
    for (const attention_kind kind : options_.kinds) {
      const auto blocks = attention_blocks(config, kind);
      if (blocks.empty())
        throw argument_error("gate_training: the model has no attention of kind " + std::string(to_string(kind)));
      for (std::size_t l = 0; l < blocks.size(); ++l) add_layer(kind, static_cast<index_t>(l), blocks[l]->heads);
    }
    log_temperature_.value.data()[0] = static_cast<T>(std::log(options_.gate.temperature));
    log_temperature_.train(be, options_.learn_temperature);
    if (options_.target) {
      options_.target->gates = static_cast<double>(size());
      target_.emplace(*options_.target);
    }
  }
  gate_training(const gate_training&) = delete;
  gate_training& operator=(const gate_training&) = delete;

  /// The factors that the model's passes take: those of the last sample, evaluate or finalize.
  model_gates<T, Backend>& gates() noexcept { return gates_; }
  const model_gates<T, Backend>& gates() const noexcept { return gates_; }
  /// log_a (H) of a gated layer. Throws argument_error if the layer has no gates.
  gate_parameter& log_a(attention_kind kind, index_t layer) {
    for (auto& own : layers_)
      if (own.kind == kind && own.layer == layer) return own.log_a;
    throw argument_error("gate_training: layer " + std::to_string(layer) + " of " + std::string(to_string(kind)) +
                         " has no gates");
  }
  /// Number of gates.
  index_t size() const noexcept {
    index_t n = 0;
    for (const auto& own : layers_) n += own.log_a.value.size();
    return n;
  }
  /// The temperature of the next sample is that of the gate, of the schedule or the learned one.
  double temperature(index_t step) const {
    if (options_.temperature) return options_.temperature->at(step);
    if (options_.learn_temperature) return learned_temperature(static_cast<double>(log_temperature_.value.data()[0]));
    return options_.gate.temperature;
  }
  gate_parameter& log_temperature() noexcept { return log_temperature_; }
  /// The controller, if there is a target: its state belongs into a checkpoint.
  target_sparsity* target() noexcept { return target_ ? &*target_ : nullptr; }
  const gate_options& options() const noexcept { return options_; }

  /// Adds log_a as "log_a.cross.2", and "log_a.temperature" if it is learned.
  void add_to(parameter_list<T, Backend>& parameters) {
    for (auto& own : layers_) parameters.add(name_of(own), own.log_a);
    parameters.add("log_a.temperature", log_temperature_);
  }
  /// The optimiser's settings for what add_to adds: a learning rate of its own, no weight decay.
  static adam_group group(double learning_rate) {
    return {[](const std::string& name) { return name.starts_with("log_a."); }, 0., 1, learning_rate};
  }

  /// Moves log_a into its limits, draws the gates of a step, from 1 on, and forgets what was not pulled back. Throws
  /// argument_error for a NaN in log_a.
  void sample(index_t step) {
    drawn_ = options_.gate;
    drawn_.temperature = temperature(step);
    step_ = step;
    const T limit = static_cast<T>(*options_.limit);
    for (auto& own : layers_) {
      auto& g = gates_.of(own.kind, own.layer);
      if (g.value.size() == 0) continue;
      for (T& a : values(own.log_a)) a = a < -limit ? -limit : a > limit ? limit : a;
      g.train(*backend_);
      std::fill_n(g.gradient.data(), g.gradient.size(), T(0));
      hard_concrete_sample(*backend_, drawn_, own.log_a.value.view(), draws(own), g.value.view());
    }
  }

  /// Adds to the gradients of log_a what the gates' gradients and the penalty come to; the former are then 0. Ends the
  /// target's step.
  void pull_back() {
    const double weight = price();
    tensor_view<T, 1> dtemperature;
    if (log_temperature_.trained()) dtemperature = log_temperature_.gradient.view();
    for (auto& own : layers_) {
      auto& g = gates_.of(own.kind, own.layer);
      if (g.value.size() == 0) continue;
      const auto log_a = own.log_a.value.view();
      hard_concrete_gradient(*backend_, drawn_, log_a, draws(own), g.gradient.view(), own.log_a.gradient.view(),
                             dtemperature);
      hard_concrete_penalty_gradient(*backend_, drawn_, log_a, weight, own.log_a.gradient.view(), dtemperature);
      std::fill_n(g.gradient.data(), g.gradient.size(), T(0));
    }
    if (target_) target_->update(static_cast<double>(open()));
  }

  /// Makes a trainer of these options use the gates and pull back before each update; a hook that is there runs first.
  /// The trainer's optimiser must hold what add_to adds.
  template <class TrainerOptions>
  void attach(TrainerOptions& o) {
    o.forward.gates = &gates_;
    o.before_update = [this, before = std::move(o.before_update)](index_t step) {
      if (before) before(step);
      pull_back();
    };
  }
  /// One step of a trainer that the gates are attached to, on a batch or a span of them. step_result::extra is left alone:
  /// see penalty().
  template <class Trainer, class Batches>
  step_result step(Trainer& trainer, const Batches& batches) {
    sample(trainer.steps() + 1);
    return trainer.step(batches);
  }

  /// Gates without noise, by the policy's rule: what to look at before a trainer evaluates.
  void evaluate() {
    for (auto& own : layers_)
      hard_concrete_evaluate(*backend_, options_.gate, own.log_a.value.view(),
                             gates_.of(own.kind, own.layer).value.view());
  }
  /// Gates that are exactly 0 or 1: open where log_a > 0, whatever the policy's rule. Returns how many are open.
  index_t finalize() {
    hard_concrete rule = options_.gate;
    rule.evaluation = gate_evaluation::threshold;
    for (auto& own : layers_)
      hard_concrete_evaluate(*backend_, rule, own.log_a.value.view(), gates_.of(own.kind, own.layer).value.view());
    return open();
  }

  /// Gates with log_a > 0: how many finalize would leave open.
  index_t open() const noexcept {
    index_t n = 0;
    for (const auto& own : layers_)
      for (index_t h = 0; h < own.log_a.value.size(); ++h) n += own.log_a.value.data()[h] > T(0);
    return n;
  }

  /// Sum of P(g != 0) over all gates, at the temperature of the last sample.
  double expected_open() const {
    double open = 0;
    for (const auto& own : layers_) open += hard_concrete_penalty(*backend_, drawn_, own.log_a.value.view());
    return open;
  }
  /// What the gates add to the loss now: lambda times the sum or the mean over layers; with a target, its price.
  double penalty() const { return price() * expected_open(); }
  /// The gates of a layer that have collapsed, and those that have not.
  gate_report report(attention_kind kind, index_t layer, double alive = .01) {
    const auto& values = log_a(kind, layer).value;
    const std::vector<double> host(values.data(), values.data() + values.size());
    return report_gates(drawn_, host, alive);
  }

 private:
  struct gated_layer {
    attention_kind kind;
    index_t layer;
    gate_parameter log_a;
  };

  static void require(bool right, const char* name, double value, const char* expected) {
    if (!right)
      throw argument_error(std::string("gate_training: ") + name + " is " + number_text(value) + ", expected " +
                           expected);
  }
  static std::string name_of(const gated_layer& own) {
    return "log_a." + std::string(to_string(own.kind)) + "." + std::to_string(own.layer);
  }

  void add_layer(attention_kind kind, index_t layer, index_t heads) {
    for (const auto& other : layers_)
      if (other.kind == kind && other.layer == layer)
        throw argument_error("gate_training: " + std::string(to_string(kind)) + " is named twice");
    layers_.push_back({kind, layer, gate_parameter(*backend_, {heads})});
    auto& own = layers_.back().log_a;
    std::fill_n(own.value.data(), heads, static_cast<T>(options_.initial));
    own.train(*backend_, heads > 0);
  }

  static std::span<T> values(gate_parameter& p) { return {p.value.data(), static_cast<std::size_t>(p.value.size())}; }

  double price() const {
    if (target_) return target_->price(static_cast<double>(open()));
    if (options_.penalty == gate_penalty::sum || layers_.empty()) return options_.lambda;
    return options_.lambda / static_cast<double>(layers_.size());
  }

  /// Every layer of every kind has streams of its own, whichever kinds have gates, and none is one of the dropout's.
  random_stream draws(const gated_layer& own) const {
    constexpr std::uint64_t gate_streams = std::uint64_t{1} << 63, most_layers = 1 << 16;
    return random_stream(
        options_.seed,
        gate_streams + (static_cast<std::uint64_t>(step_) * 3 + static_cast<std::uint64_t>(own.kind)) * most_layers +
            static_cast<std::uint64_t>(own.layer));
  }

  Backend* backend_;
  gate_options options_;
  model_gates<T, Backend> gates_;
  std::vector<gated_layer> layers_;
  gate_parameter log_temperature_;
  std::optional<target_sparsity> target_;
  hard_concrete drawn_ = options_.gate;
  index_t step_ = 0;
};

}  // namespace headred
