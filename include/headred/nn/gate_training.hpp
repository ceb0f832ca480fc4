// gate_training: learns which heads, neurons and layers of a model to keep, by Hard-Concrete gates and a price for open
// ones.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
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
  layer_mean,  ///< the mean over the gated blocks of each one's sum: Voita's code
};

/// How gates are trained.
struct gate_options {
  hard_concrete gate = {};  ///< its temperature is the first one if the temperature is learned
  double lambda = 0;        ///< price of an open gate, in nats a token; at least 0
  gate_penalty penalty = gate_penalty::sum;
  bool heads = true;                       ///< whether heads get gates
  std::vector<attention_kind> kinds = {};  ///< whose heads; empty: all kinds of the model
  std::vector<model_stack> neurons = {};   ///< whose feed-forward neurons get gates
  std::vector<model_stack> layers = {};    ///< whose layers, each as a whole, get gates
  double neuron_weight = 1;  ///< what an open neuron counts, in heads: 1 / (2 head_size) goes by parameters; above 0
  double layer_weight = 1;   ///< what an open layer counts, in heads; above 0
  double initial = 2;        ///< first log_a: P(g = 1) = .77, so that a converged model still works
  std::uint64_t seed = 0;    ///< of the noise
  std::optional<annealed_temperature> temperature = {};  ///< instead of the gate's; by the step
  bool learn_temperature = false;                        ///< by gradient descent on its logarithm, one for all gates
  std::optional<target_sparsity::options> target = {};   ///< sets the price instead of lambda; `gates` is filled in
  std::optional<double> limit = {};  ///< log_a is kept within +-limit, above 0; without it 4 with a target, else 50
};

/// Gates on the heads of a model (Voita et al. 2019, section 6), on feed-forward neurons and on layers. They are
/// parameters log_a (H, F or layers) of every gated block, trained along with the model:
///   Loss = cross-entropy + lambda sum_i weight_i P(g_i != 0),  g_i = hard_concrete_sample(log_a_i), one draw a step.
/// A step is `sample`, the model's passes with `gates()`, `pull_back`, the optimiser; `attach` does this with a
/// trainer. What has no gate of its own keeps a gate of 1 (see model_gates for what each does). Noise is a pure
/// function of seed, step and place: training that is resumed at the same step goes on bit by bit.
/// The backend must outlive it; trainers and parameter lists point into it, so it stays where it is.
template <class T, host_backend Backend>
class gate_training {
 public:
  using gate_parameter = parameter<T, 1, Backend>;

  /// Throws argument_error for an option out of range, a kind or stack that the model does not have or that is named
  /// twice.
  gate_training(Backend& be, const transformer_config& config, gate_options options)
      : backend_(&be),
        options_(std::move(options)),
        gates_(be, config, {options_.neurons, options_.layers}),
        log_temperature_(be, {1}) {
    for (const auto& [name, weight] :
         {std::pair("neuron_weight", options_.neuron_weight), std::pair("layer_weight", options_.layer_weight)})
      require(weight > 0 && std::isfinite(weight), name, weight, "above 0");
    require(options_.lambda >= 0 && std::isfinite(options_.lambda), "lambda", options_.lambda, "at least 0");
    require(std::isfinite(options_.initial), "initial", options_.initial, "a finite number");
    options_.gate.template rule<T>("gate_training");
    if (!options_.limit) options_.limit = options_.target ? 4 : 50;
    require(*options_.limit > 0 && *options_.limit <= 50, "limit", *options_.limit, "(0,50]");
    if (options_.temperature) options_.temperature->at(0);
    if (options_.temperature && options_.learn_temperature)
      throw argument_error("gate_training: the temperature is annealed and learned, expected one of both");
    if (!options_.heads && !options_.kinds.empty())
      throw argument_error("gate_training: kinds of heads are named, expected none where heads get no gates");
    if (options_.heads && options_.kinds.empty()) options_.kinds = attention_kinds(config);
    for (const attention_kind kind : options_.kinds) {
      const auto blocks = attention_blocks(config, kind);
      if (blocks.empty())
        throw argument_error("gate_training: the model has no attention of kind " + std::string(to_string(kind)));
      for (std::size_t l = 0; l < blocks.size(); ++l)
        add(std::string(to_string(kind)) + "." + std::to_string(l), streams_of_heads(kind, l), 1,
            gates_.of(kind, static_cast<index_t>(l)), std::string(to_string(kind)) + " is named twice");
    }
    for (const model_stack stack : options_.neurons)
      for (std::size_t l = 0; l < find_stack(config, stack)->layers.size(); ++l)
        add(neurons_of(stack, static_cast<index_t>(l)), other_streams(stack, l + 1), options_.neuron_weight,
            gates_.neurons(stack, static_cast<index_t>(l)),
            "the neurons of the " + std::string(to_string(stack)) + " are named twice");
    for (const model_stack stack : options_.layers)
      add(layers_of(stack), other_streams(stack, 0), options_.layer_weight, gates_.layers(stack),
          "the layers of the " + std::string(to_string(stack)) + " are named twice");
    log_temperature_.value.data()[0] = static_cast<T>(std::log(options_.gate.temperature));
    log_temperature_.train(be, options_.learn_temperature);
    if (options_.target) {
      options_.target->gates = weight_of([](const gated_block& own) { return own.log_a.value.size(); });
      target_.emplace(*options_.target);
    }
  }
  gate_training(const gate_training&) = delete;
  gate_training& operator=(const gate_training&) = delete;

  /// The factors that the model's passes take: those of the last sample, evaluate or finalize.
  model_gates<T, Backend>& gates() noexcept { return gates_; }
  const model_gates<T, Backend>& gates() const noexcept { return gates_; }
  /// log_a (H) of a layer's heads. Throws argument_error if they have no gates.
  gate_parameter& log_a(attention_kind kind, index_t layer) {
    return find(std::string(to_string(kind)) + "." + std::to_string(layer),
                "layer " + std::to_string(layer) + " of " + std::string(to_string(kind)) + " has");
  }
  /// log_a (F) of a layer's neurons. Throws argument_error if they have no gates.
  gate_parameter& log_a_neurons(model_stack stack, index_t layer) {
    return find(neurons_of(stack, layer),
                "the neurons of " + std::string(to_string(stack)) + " layer " + std::to_string(layer) + " have");
  }
  /// log_a (layers) of a stack's layers. Throws argument_error if they have no gates.
  gate_parameter& log_a_layers(model_stack stack) {
    return find(layers_of(stack), "the layers of the " + std::string(to_string(stack)) + " have");
  }
  /// Number of gates.
  index_t size() const noexcept {
    index_t n = 0;
    for (const auto& own : blocks_) n += own.log_a.value.size();
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

  /// Adds log_a as "log_a.cross.2", "log_a.encoder.neurons.0", "log_a.decoder.layers", and "log_a.temperature" if it is
  /// learned.
  void add_to(parameter_list<T, Backend>& parameters) {
    for (auto& own : blocks_) parameters.add("log_a." + own.name, own.log_a);
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
    for (auto& own : blocks_) {
      auto& g = *own.gates;
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
    for (auto& own : blocks_) {
      auto& g = *own.gates;
      if (g.value.size() == 0) continue;
      const auto log_a = own.log_a.value.view();
      hard_concrete_gradient(*backend_, drawn_, log_a, draws(own), g.gradient.view(), own.log_a.gradient.view(),
                             dtemperature);
      hard_concrete_penalty_gradient(*backend_, drawn_, log_a, weight * own.weight, own.log_a.gradient.view(),
                                     dtemperature);
      std::fill_n(g.gradient.data(), g.gradient.size(), T(0));
    }
    if (target_) target_->update(weighted_open());
  }

  /// Makes a trainer of these options use the gates, draw them before each step, pull back before each update, and keep
  /// a target's controller in checkpoints; hooks that are there run first. The trainer's optimiser must hold what
  /// add_to adds.
  template <class TrainerOptions>
  void attach(TrainerOptions& o) {
    o.forward.gates = &gates_;
    o.before_step = [this, before = std::move(o.before_step)](index_t step) {
      if (before) before(step);
      sample(step);
    };
    if (target_)
      o.states.push_back({"gates.target",
                          [this] {
                            return std::vector<double>{target_->multiplier(), static_cast<double>(target_->step())};
                          },
                          [this](std::span<const double> values) {
                            if (values.size() != 2 || !(values[1] >= 0 && values[1] < 0x1p53) ||
                                values[1] != std::floor(values[1]))
                              throw argument_error("gate_training: the target's state is not a multiplier and a step");
                            target_->resume(values[0], static_cast<index_t>(values[1]));
                          }});
    o.before_update = [this, before = std::move(o.before_update)](index_t step) {
      if (before) before(step);
      pull_back();
    };
  }
  /// One step of a trainer that the gates are attached to, on a batch or a span of them: as `trainer.step`.
  /// step_result::extra is left alone: see penalty().
  template <class Trainer, class Batches>
  step_result step(Trainer& trainer, const Batches& batches) {
    return trainer.step(batches);
  }

  /// Gates without noise, by the policy's rule: what to look at before a trainer evaluates.
  void evaluate() {
    for (auto& own : blocks_)
      hard_concrete_evaluate(*backend_, options_.gate, own.log_a.value.view(), own.gates->value.view());
  }
  /// Gates that are exactly 0 or 1: open where log_a > 0, whatever the policy's rule. Returns how many are open.
  index_t finalize() {
    hard_concrete rule = options_.gate;
    rule.evaluation = gate_evaluation::threshold;
    for (auto& own : blocks_) hard_concrete_evaluate(*backend_, rule, own.log_a.value.view(), own.gates->value.view());
    return open();
  }

  /// Gates with log_a > 0: how many finalize would leave open.
  index_t open() const noexcept {
    index_t n = 0;
    for (const auto& own : blocks_) n += open_in(own);
    return n;
  }
  /// The same, counted by weight: what a target is in.
  double weighted_open() const noexcept { return weight_of(open_in); }

  /// Sum of P(g != 0) over all gates, at the temperature of the last sample.
  double expected_open() const {
    double open = 0;
    for (const auto& own : blocks_) open += hard_concrete_penalty(*backend_, drawn_, own.log_a.value.view());
    return open;
  }
  /// What the gates add to the loss now: lambda times the sum by weight, or its mean over blocks; with a target, its
  /// price.
  double penalty() const {
    double open = 0;
    for (const auto& own : blocks_)
      open += own.weight * hard_concrete_penalty(*backend_, drawn_, own.log_a.value.view());
    return price() * open;
  }
  /// The gates of a layer's heads that have collapsed, and those that have not.
  gate_report report(attention_kind kind, index_t layer, double alive = .01) {
    return report(log_a(kind, layer), alive);
  }
  /// The same of any log_a.
  gate_report report(const gate_parameter& log_a, double alive = .01) const {
    const std::vector<double> host(log_a.value.data(), log_a.value.data() + log_a.value.size());
    return report_gates(drawn_, host, alive);
  }

 private:
  struct gated_block {
    std::string name;
    std::uint64_t streams;  // of its noise
    double weight;
    gate_parameter* gates;
    gate_parameter log_a;
  };

  static void require(bool right, const char* name, double value, const char* expected) {
    if (!right)
      throw argument_error(std::string("gate_training: ") + name + " is " + number_text(value) + ", expected " +
                           expected);
  }
  static std::string neurons_of(model_stack stack, index_t layer) {
    return std::string(to_string(stack)) + ".neurons." + std::to_string(layer);
  }
  static std::string layers_of(model_stack stack) { return std::string(to_string(stack)) + ".layers"; }

  void add(std::string name, std::uint64_t streams, double weight, gate_parameter& gates, const std::string& twice) {
    for (const auto& other : blocks_)
      if (other.name == name) throw argument_error("gate_training: " + twice);
    const index_t n = gates.value.size();
    blocks_.push_back({std::move(name), streams, weight, &gates, gate_parameter(*backend_, {n})});
    auto& own = blocks_.back().log_a;
    std::fill_n(own.value.data(), n, static_cast<T>(options_.initial));
    own.train(*backend_, n > 0);
  }
  gate_parameter& find(const std::string& name, const std::string& what) {
    for (auto& own : blocks_)
      if (own.name == name) return own.log_a;
    throw argument_error("gate_training: " + what + " no gates");
  }

  static index_t open_in(const gated_block& own) noexcept {
    index_t n = 0;
    for (index_t i = 0; i < own.log_a.value.size(); ++i) n += own.log_a.value.data()[i] > T(0);
    return n;
  }
  template <class Count>
  double weight_of(const Count& count) const noexcept {
    double sum = 0;
    for (const auto& own : blocks_) sum += own.weight * static_cast<double>(count(own));
    return sum;
  }

  static std::span<T> values(gate_parameter& p) { return {p.value.data(), static_cast<std::size_t>(p.value.size())}; }

  double price() const {
    if (target_) return target_->price(weighted_open());
    if (options_.penalty == gate_penalty::sum || blocks_.empty()) return options_.lambda;
    return options_.lambda / static_cast<double>(blocks_.size());
  }

  // Streams of a step: three kinds of heads, then neurons and layers of two stacks. Every block has streams of its own,
  // whatever else has gates, and none is one of the dropout's or of masks.
  static constexpr std::uint64_t gate_streams = std::uint64_t{1} << 63, most_layers = 1 << 16;
  static std::uint64_t streams_of_heads(attention_kind kind, std::size_t layer) {
    return gate_streams + static_cast<std::uint64_t>(kind) * most_layers + layer;
  }
  static std::uint64_t other_streams(model_stack stack, std::size_t number) {
    return gate_streams + (std::uint64_t{1} << 62) + static_cast<std::uint64_t>(stack) * most_layers + number;
  }
  random_stream draws(const gated_block& own) const {
    return random_stream(options_.seed, own.streams + static_cast<std::uint64_t>(step_) * 3 * most_layers);
  }

  Backend* backend_;
  gate_options options_;
  model_gates<T, Backend> gates_;
  std::vector<gated_block> blocks_;
  gate_parameter log_temperature_;
  std::optional<target_sparsity> target_;
  hard_concrete drawn_ = options_.gate;
  index_t step_ = 0;
};

}  // namespace headred
