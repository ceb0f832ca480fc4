// training_step: forward, loss, backward, clipping and one step of the optimiser.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headred/nn/adam.hpp>
#include <headred/nn/batches.hpp>
#include <headred/nn/clip_gradients.hpp>
#include <headred/nn/learning_rate.hpp>
#include <headred/nn/op/select_rows.hpp>
#include <headred/nn/op/softmax_cross_entropy.hpp>
#include <headred/nn/transformer.hpp>

namespace headred {

/// What `trainer` needs of an optimiser.
template <class Optimizer, class T>
concept optimizer_of = requires(Optimizer& o, const Optimizer& c) {
  o.step(1., 1., true);
  c.parameters().values();
  { c.steps() } -> std::convertible_to<index_t>;
  { c.description() } -> std::convertible_to<std::string>;
};

/// What one training step came to.
struct step_result {
  double loss = 0;           ///< mean over the tokens, in nats, without `extra_loss`
  double extra = 0;          ///< sum of what `extra_loss` returned
  index_t tokens = 0;        ///< labels that counted
  double gradient_norm = 0;  ///< before clipping
  double learning_rate = 0;
  bool applied = true;  ///< false: the norm was not finite and the weights stay as they were
};

/// What a pass leaves on the tape for hooks.
struct pass_slots {
  slot hidden;  ///< (tokens, width)
  slot logits;  ///< (rows, vocabulary)
  cross_entropy_slots loss;
};

/// State of a run beside its tensors and its trainer's own: checkpoints keep it under its name.
struct training_state {
  std::string name;
  std::function<std::vector<double>()> save;
  /// Throws argument_error for values that cannot be, changing nothing.
  std::function<void(std::span<const double>)> load;
};

/// Trains a model. One step is: `before_step`; every micro-batch forward and backward, gradients added up;
/// `before_update`; clipping; the optimiser. The loss is the cross-entropy's mean over all tokens of all micro-batches,
/// so that how a batch is cut makes no difference but rounding. Dropout draws are a function of seed, step and
/// micro-batch. Model and optimiser must outlive it. Once every shape of batch has been seen, a step allocates nothing.
template <class T, host_backend Backend, class Optimizer = adam<T, Backend>>
  requires optimizer_of<Optimizer, T>
class trainer {
 public:
  /// How a trainer takes a step.
  struct options {
    learning_rate rate = {};
    double label_smoothing = 0;
    double longest_gradient = 0;  ///< clips the norm of all gradients to this; 0 does not
    std::uint64_t seed = 0;       ///< of the dropout
    /// Gates, masks, a trace of the attention: passed on; `training`, `seed` and `step` are set by the trainer, the
    /// trace is emptied before each pass.
    forward_options<T, Backend> forward = {};
    /// Called with the number of each step, from 1 on, before its first pass: to draw gates or masks, say.
    std::function<void(index_t step)> before_step = {};
    /// Called after each forward pass: may add ops, and gradients where it adds to the loss (they must already be
    /// weighted by `weight`, this micro-batch's tokens over all). Returns what it added to the loss.
    std::function<double(tape<T, Backend>&, const pass_slots&, double weight)> extra_loss = {};
    /// Called when all gradients are there, before they are clipped; may add to the gradients of parameters.
    std::function<void(index_t step)> before_update = {};
    std::vector<training_state> states = {};  ///< what checkpoints keep besides
  };

  /// Throws argument_error for an option out of range.
  trainer(transformer<T, Backend>& model, Optimizer& optimizer, options o)
      : model_(&model), optimizer_(&optimizer), tape_(model.backend()), options_(std::move(o)) {
    learning_rate::checked(options_.rate);
    const auto require = [](bool right, const char* name, double value, const char* expected) {
      if (!right)
        throw argument_error(std::string("trainer: ") + name + " is " + number_text(value) + ", expected " + expected);
    };
    require(options_.label_smoothing >= 0 && options_.label_smoothing < 1, "label_smoothing", options_.label_smoothing,
            "[0,1)");
    require(options_.longest_gradient >= 0 && std::isfinite(options_.longest_gradient), "longest_gradient",
            options_.longest_gradient, "at least 0");
    zero_gradients(model.backend(), optimizer.parameters());
  }

  /// One step on one batch, or on several whose gradients are added up. Throws argument_error for no label to learn
  /// from, and what the model throws; nothing has changed then but what `before_step` did.
  step_result step(const training_batch& batch) { return step(std::span(&batch, 1)); }
  /// The same on several, whose gradients are added up.
  step_result step(std::span<const training_batch> batches) {
    step_result done;
    for (const auto& batch : batches) done.tokens += batch.tokens();
    if (done.tokens == 0) throw argument_error("trainer: the batch has no label, expected at least 1");
    if (batches.size() > most_batches)
      throw argument_error("trainer: " + std::to_string(batches.size()) + " micro-batches, expected at most " +
                           std::to_string(most_batches));
    const index_t number = steps_ + 1;
    done.learning_rate = options_.rate.at(number);
    auto& be = model_->backend();
    const auto& parameters = optimizer_->parameters();
    if (options_.before_step) options_.before_step(number);
    try {
      for (std::size_t m = 0; m < batches.size(); ++m) accumulate(batches[m], m, done);
      if (options_.before_update) options_.before_update(number);
      done.gradient_norm = gradient_norm(be, parameters, partials_);
    } catch (...) {
      zero_gradients(be, parameters);
      throw;
    }
    done.loss /= static_cast<double>(done.tokens);
    done.applied = std::isfinite(done.gradient_norm);
    if (done.applied) {
      optimizer_->step(done.learning_rate, clip_factor(done.gradient_norm, options_.longest_gradient), true);
    } else {
      zero_gradients(be, parameters);
      ++skipped_;
    }
    steps_ = number;
    return done;
  }

  /// Mean cross-entropy over the tokens of a batch, in nats, without dropout or label smoothing; changes nothing.
  step_result evaluate(const training_batch& batch) {
    step_result found;
    found.tokens = batch.tokens();
    if (found.tokens == 0) throw argument_error("trainer: the batch has no label, expected at least 1");
    tape_.clear(tape_mode::inference);
    forward_options<T, Backend> o = options_.forward;
    o.training = false;
    if (o.trace != nullptr) o.trace->clear();
    const pass_slots pass = forward(batch, o, 0, T(1));
    found.loss = loss_of(pass) / static_cast<double>(found.tokens);
    return found;
  }

  transformer<T, Backend>& model() const noexcept { return *model_; }
  Optimizer& optimizer() const noexcept { return *optimizer_; }
  /// May be changed between steps.
  options& settings() noexcept { return options_; }
  const options& settings() const noexcept { return options_; }
  /// The recording of the last pass.
  tape<T, Backend>& recording() noexcept { return tape_; }
  /// Steps taken, those skipped included.
  index_t steps() const noexcept { return steps_; }
  /// Steps whose gradients were not finite.
  index_t skipped() const noexcept { return skipped_; }
  /// Goes on as after these steps: what a checkpoint restores.
  void resume(index_t steps, index_t skipped) {
    if (skipped < 0 || steps < skipped)
      throw argument_error("trainer: " + std::to_string(skipped) + " of " + std::to_string(steps) +
                           " steps skipped, expected 0 to all of them");
    steps_ = steps;
    skipped_ = skipped;
  }

 private:
  static constexpr std::size_t most_batches = 4096;

  pass_slots forward(const training_batch& batch, const forward_options<T, Backend>& o, double smoothing, T weight) {
    pass_slots pass;
    pass.hidden = model_->hidden(tape_, batch.source, batch.target, o);
    const slot rows = batch.rows.empty() ? pass.hidden : select_rows(tape_, pass.hidden, batch.rows);
    pass.logits = model_->logits(tape_, rows);
    pass.loss = softmax_cross_entropy(tape_, pass.logits, batch.labels, smoothing, weight);
    return pass;
  }

  void accumulate(const training_batch& batch, std::size_t number, step_result& done) {
    tape_.clear(tape_mode::recording);
    forward_options<T, Backend> o = options_.forward;
    o.training = true;
    o.seed = options_.seed;
    o.step = static_cast<std::uint64_t>(steps_) * most_batches + number;
    if (o.trace != nullptr) o.trace->clear();
    const double share = 1 / static_cast<double>(done.tokens);
    const pass_slots pass = forward(batch, o, options_.label_smoothing, static_cast<T>(share));
    done.loss += loss_of(pass);
    if (options_.extra_loss)
      done.extra += options_.extra_loss(tape_, pass, static_cast<double>(batch.tokens()) * share);
    *tape_.gradient(pass.loss.total).data() += T(1);
    tape_.backward();
  }

  double loss_of(const pass_slots& pass) const {
    const auto losses = tape_.input(pass.loss.losses);
    double sum = 0;
    for (index_t r = 0; r < losses.extent(0); ++r) sum += static_cast<double>(losses.data()[r]);
    return sum;
  }

  transformer<T, Backend>* model_;
  Optimizer* optimizer_;
  tape<T, Backend> tape_;
  options options_;
  std::vector<double> partials_;
  index_t steps_ = 0, skipped_ = 0;
};

}  // namespace headred
