// mask_training: learns which keys the queries of a model need, by attention masks of few parameters and a price for
// open entries.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <headred/nn/learned_mask.hpp>
#include <headred/nn/training_step.hpp>

namespace headred {

/// Attention masks of a model (Shi et al. 2021, SparseBERT, sections 3.2 and 3.3). Their parameters a are trained along
/// with the model, or alone:
///   Loss = cross-entropy + lambda sum |M|,  M = the mask of v = gumbel_sigmoid_sample(a), one draw a step.
/// a : (H,1,N) structured, (H,N,N) unstructured (see learned_mask); H = 1 where heads share a mask.
/// A step is `sample`, the model's passes with `masks()`, `pull_back`, the optimiser; `attach` does this with a
/// trainer. Noise is a pure function of seed, step, kind and layer: training that is resumed at the same step goes on
/// bit by bit. In attention a sampled entry m takes mask_penalty (1 - m) off a score, by default 10000 (1 - m), so that
/// soft entries exclude as well: with straight_through the model is trained under masks like those that it will be used
/// with. The backend must outlive it; trainers and parameter lists point into it, so it stays where it is.
template <class T, host_backend Backend>
class mask_training {
 public:
  using mask_parameter = parameter<T, 3, Backend>;

  /// Throws argument_error for an option out of range, a kind that the model does not have or that is named twice, and
  /// where layers of different head counts are to share a mask by head.
  mask_training(Backend& be, const transformer_config& config, mask_options options)
      : backend_(&be), options_(std::move(options)), log_temperature_(be, {1}) {
    require(options_.lambda >= 0 && std::isfinite(options_.lambda), "lambda", options_.lambda, "at least 0");
    require(std::isfinite(options_.initial), "initial", options_.initial, "a finite number");
    require(options_.spread >= 0 && std::isfinite(options_.spread), "spread", options_.spread, "at least 0");
    require(options_.length >= 0 && options_.length <= longest, "length", static_cast<double>(options_.length),
            "[0,32768]");
    options_.entry.template rule<T>("mask_training");
    if (options_.temperature) options_.temperature->at(0);
    if (options_.temperature && options_.learn_temperature)
      throw argument_error("mask_training: the temperature is annealed and learned, expected one of both");
    if (options_.kinds.empty()) options_.kinds = attention_kinds(config);
    for (const attention_kind kind : options_.kinds) add_kind(config, kind);
    log_temperature_.value.data()[0] = static_cast<T>(std::log(options_.entry.temperature));
    log_temperature_.train(be, options_.learn_temperature);
    evaluate();
  }
  mask_training(const mask_training&) = delete;
  mask_training& operator=(const mask_training&) = delete;

  /// What the model's passes take: the masks of the last sample or evaluate; at first those of evaluate(0).
  const model_masks<T, Backend>& masks() const noexcept { return masks_; }
  /// The mask (H or 1, N, N) of a layer. Throws argument_error if the layer has none.
  tensor_view<const T, 3> mask(attention_kind kind, index_t layer) const { return of(kind, layer).mask(); }
  /// The parameters of a layer's mask, which other layers may share. Throws argument_error if the layer has no mask.
  mask_parameter& a(attention_kind kind, index_t layer) { return const_cast<mask_type&>(of(kind, layer)).a(); }
  /// P(M > 1/2) of what a layer's parameters stand for, in their shape. Throws argument_error, shape_error.
  void open(attention_kind kind, index_t layer, tensor_view<T, 3> probability) {
    gumbel_sigmoid_open(*backend_, of(kind, layer).a().value.view(), probability);
  }

  /// Number of parameters that count.
  index_t size() const noexcept {
    index_t n = 0;
    for (const auto& own : sets_) n += own.mask.size();
    return n;
  }
  /// The temperature of a step: that of the entry, of the schedule or the learned one.
  double temperature(index_t step) const {
    if (options_.temperature) return options_.temperature->at(step);
    if (options_.learn_temperature) return learned_temperature(static_cast<double>(log_temperature_.value.data()[0]));
    return options_.entry.temperature;
  }
  parameter<T, 1, Backend>& log_temperature() noexcept { return log_temperature_; }
  const mask_options& options() const noexcept { return options_; }

  /// Adds a as "mask.encoder_self", or "mask.encoder_self.2" by layer, and "mask.temperature" if it is learned.
  void add_to(parameter_list<T, Backend>& parameters) {
    for (auto& own : sets_)
      parameters.add("mask." + std::string(to_string(own.kind)) +
                         (options_.by_layer ? "." + std::to_string(own.layer) : std::string()),
                     own.mask.a());
    parameters.add("mask.temperature", log_temperature_);
  }
  /// The optimiser's settings for what add_to adds: a learning rate of its own, no weight decay.
  static adam_group group(double learning_rate) {
    return {[](const std::string& name) { return name.starts_with("mask."); }, 0., 1, learning_rate};
  }

  /// Draws the masks of a step, from 1 on, and forgets what was not pulled back. Throws argument_error for a NaN in a.
  void sample(index_t step) {
    drawn_ = options_.entry;
    drawn_.temperature = temperature(step);
    step_ = step;
    for (auto& own : sets_) own.mask.sample(*backend_, drawn_, draws(own.kind, own.layer, step));
    bind(true);
  }

  /// Adds to the gradients of a what the masks' gradients and the price come to; the former are then 0.
  void pull_back() {
    tensor_view<T, 1> dtemperature;
    if (log_temperature_.trained()) dtemperature = log_temperature_.gradient.view();
    for (auto& own : sets_) own.mask.pull_back(*backend_, drawn_, draws(own.kind, own.layer, step_), dtemperature);
  }

  /// Makes a trainer of these options use the masks, draw them before each step and pull back before each update; hooks
  /// that are there run first. The trainer's optimiser must hold what add_to adds.
  template <class TrainerOptions>
  void attach(TrainerOptions& o) {
    o.forward.masks = &masks_;
    o.before_step = [this, before = std::move(o.before_step)](index_t step) {
      if (before) before(step);
      sample(step);
    };
    o.before_update = [this, before = std::move(o.before_update)](index_t step) {
      if (before) before(step);
      pull_back();
    };
  }
  /// One step of a trainer that the masks are attached to, on a batch or a span of them: as `trainer.step`.
  /// step_result::extra is left alone: see penalty().
  template <class Trainer, class Batches>
  step_result step(Trainer& trainer, const Batches& batches) {
    return trainer.step(batches);
  }

  /// Masks of exactly 0 and 1, open where a > threshold, without noise: what to look at before a trainer evaluates, and
  /// what a model is used with. At 0 an entry is open where P(M > 1/2) > 1/2. Their gradients are not collected then.
  /// Throws argument_error for a NaN.
  void evaluate(double threshold = 0) {
    if (std::isnan(threshold)) throw argument_error("mask_training: the threshold is NaN, expected a number");
    for (auto& own : sets_) own.mask.evaluate(*backend_, threshold);
    bind(false);
  }

  /// Share of zeros among the first n x n entries of the present masks, in [0,1]; n = 0: all. Throws argument_error for
  /// an n that a mask does not have.
  double sparsity(index_t n = 0) const {
    double zeros = 0, all = 0;
    for (const auto& own : sets_) {
      const auto m = own.mask.mask();
      if (n < 0 || n > m.extent(1))
        throw argument_error("mask_training: a length of " + std::to_string(n) + ", expected [0," +
                             std::to_string(m.extent(1)) + "]");
      const index_t length = n == 0 ? m.extent(1) : n;
      const auto part = m.narrow(1, 0, length).narrow(2, 0, length);
      zeros += mask_sparsity(*backend_, part) * static_cast<double>(part.size());
      all += static_cast<double>(part.size());
    }
    return all > 0 ? zeros / all : 0;
  }
  /// What the masks of the last sample add to the loss: lambda times the sum of their entries, or of P(M > 1/2).
  double penalty() const {
    double sum = 0;
    for (const auto& own : sets_) sum += own.mask.penalty();
    return sum;
  }

 private:
  static constexpr index_t longest = 32768;

  using mask_type = learned_mask<T, Backend>;
  struct mask_set {
    attention_kind kind;
    index_t layer;  // the first that uses it
    mask_type mask;
  };

  static void require(bool right, const char* name, double value, const char* expected) {
    if (!right)
      throw argument_error(std::string("mask_training: ") + name + " is " + number_text(value) + ", expected " +
                           expected);
  }

  void add_kind(const transformer_config& config, attention_kind kind) {
    for (const auto& other : sets_)
      if (other.kind == kind)
        throw argument_error("mask_training: " + std::string(to_string(kind)) + " is named twice");
    const auto blocks = attention_blocks(config, kind);
    if (blocks.empty())
      throw argument_error("mask_training: the model has no attention of kind " + std::string(to_string(kind)));
    const index_t source = config.source.max_positions,
                  target = config.has_cross() ? config.target.max_positions : source;
    index_t length = options_.length;
    if (length == 0)
      length = kind == attention_kind::encoder_self   ? source
               : kind == attention_kind::decoder_self ? target
                                                      : std::max(source, target);
    mask_type* shared = nullptr;
    for (std::size_t l = 0; l < blocks.size(); ++l) {
      const index_t heads = blocks[l]->heads, own = options_.by_head ? heads : 1;
      if (heads == 0) continue;
      const auto layer = static_cast<index_t>(l);
      if (options_.by_layer || shared == nullptr)
        shared = &sets_
                      .emplace_back(
                          mask_set{kind, layer, mask_type(*backend_, options_, own, length, draws(kind, layer, 0))})
                      .mask;
      if (shared->mask().extent(0) != own)
        throw argument_error("mask_training: layers of " + std::string(to_string(kind)) + " have " +
                             std::to_string(shared->mask().extent(0)) + " and " + std::to_string(own) +
                             " heads, expected as many, or masks by layer, or one for all heads");
      users_.push_back({{kind, layer}, shared});
    }
  }

  const mask_type& of(attention_kind kind, index_t layer) const {
    for (const auto& [place, own] : users_)
      if (place == std::pair(kind, layer)) return *own;
    throw argument_error("mask_training: layer " + std::to_string(layer) + " of " + std::string(to_string(kind)) +
                         " has no mask");
  }
  /// Hands the masks out, with or without somewhere to leave their gradients.
  void bind(bool gradients) {
    for (auto& [place, own] : users_) masks_[place] = {own->mask(), gradients ? own->gradient() : tensor_view<T, 3>{}};
  }

  /// Every layer of every kind has streams of its own, apart from those of dropout, gates and batches.
  random_stream draws(attention_kind kind, index_t layer, index_t step) const {
    constexpr std::uint64_t mask_streams = std::uint64_t{1} << 62, most_layers = 1 << 16;
    return random_stream(options_.seed,
                         mask_streams +
                             (static_cast<std::uint64_t>(step) * 3 + static_cast<std::uint64_t>(kind)) * most_layers +
                             static_cast<std::uint64_t>(layer));
  }

  Backend* backend_;
  mask_options options_;
  std::deque<mask_set> sets_;  // at one address each
  std::vector<std::pair<std::pair<attention_kind, index_t>, mask_type*>> users_;
  parameter<T, 1, Backend> log_temperature_;
  model_masks<T, Backend> masks_;
  gumbel_sigmoid drawn_ = options_.entry;
  index_t step_ = 0;
};

}  // namespace headred
