// Trains models under masks, and measures them without some positions.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <headred/io/load_transformer.hpp>
#include <headred/nn/initialize.hpp>
#include <headred/nn/mask_training.hpp>
#include <headred/nn/metrics/masked_tokens.hpp>

#include "interrupt.hpp"
#include "mask_task.hpp"

namespace examples {

using headred::attention_kind;
using model_type = headred::transformer<float, headred::cpu>;
using masks_type = headred::mask_training<float, headred::cpu>;
using mask_map = headred::model_masks<float, headred::cpu>;

/// Numbers that several runs, or sentences, came to.
struct readings {
  std::vector<double> values;

  void add(double x) { values.push_back(x); }
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
  /// Of the mean.
  double error() const { return deviation() / std::sqrt(static_cast<double>(values.size())); }
};

/// Whether query i may look at key j in a sentence of n tokens.
using position_rule = std::function<bool(index_t i, index_t j, index_t n)>;

/// One mask for all layers and heads.
class one_mask {
 public:
  one_mask(headred::cpu& be, const headred::transformer_config& c, index_t length, const position_rule& sees)
      : mask_(be, {1, length, length}) {
    for (index_t i = 0; i < length; ++i)
      for (index_t j = 0; j < length; ++j) mask_(0, i, j) = sees(i, j, length) ? 1.f : 0.f;
    for (std::size_t l = 0; l < c.encoder.layers.size(); ++l)
      masks_[{attention_kind::encoder_self, static_cast<index_t>(l)}] = std::as_const(mask_).view();
  }
  one_mask(const one_mask&) = delete;
  one_mask& operator=(const one_mask&) = delete;
  const mask_map& masks() const { return masks_; }
  double sparsity(headred::cpu& be) { return headred::mask_sparsity(be, mask_.view()); }

 private:
  headred::tensor<float, 3, headred::cpu> mask_;
  mask_map masks_;
};

/// How a model is trained.
struct mask_run {
  index_t updates = 0;
  std::uint64_t seed = 1;
  const mask_map* fixed = nullptr;  ///< the masks it is trained under,
  masks_type* learned = nullptr;    ///< or those that learn with it
};

class mask_lab {
 public:
  using weights = std::vector<float>;

  mask_lab(headred::cpu& be, const mask_settings& s) : be_(be), settings_(s) {
    if (s.model.empty()) {
      config_ = language_model();
      task_ = language_task(s);
      model_.emplace(be, config_);
    } else {
      auto loaded = headred::load_transformer<float>(be, s.model);
      config_ = loaded.config;
      task_ = file_task(s, config_);
      model_.emplace(be, config_, std::move(loaded.weights));
      loaded_ = values();
    }
  }

  headred::cpu& backend() const { return be_; }
  const headred::transformer_config& config() const { return config_; }
  const mask_task& task() const { return task_; }

  /// Puts the model back to what a seed starts from: the weights of the file, or those of a seed's own training.
  void start(std::uint64_t seed) {
    if (loaded_) return put(*loaded_);
    auto& known = bases_[seed];
    if (known.empty()) {
      from_scratch(seed, nullptr);
      known = values();
    }
    put(known);
  }
  /// Trains the model from the beginning, under masks or not.
  void from_scratch(std::uint64_t seed, const mask_map* fixed) {
    headred::initialize(be_, model_->weights(), seed);
    train({settings_.train, seed, fixed, nullptr});
  }

  void train(const mask_run& run) {
    if (task_.train.empty())
      throw headred::file_error(
          settings_.data, "has no sentence of at most " + std::to_string(settings_.length) + " tokens to train on");
    model_->train();
    headred::parameter_list<float, headred::cpu> list(model_->weights());
    if (run.learned != nullptr) run.learned->add_to(list);
    headred::adam<float, headred::cpu> adam(be_, std::move(list), {.beta2 = .98},
                                            {masks_type::group(settings_.mask_rate)});
    headred::trainer<float, headred::cpu>::options options;
    options.rate = headred::learning_rate::linear(settings_.rate, std::max<index_t>(1, run.updates / 10),
                                                  run.updates + 1, settings_.rate / 10);
    // No clipping: the gradients of masks are 10000 times those of scores, and would leave nothing of the others.
    options.seed = run.seed;
    options.forward.masks = run.fixed;
    if (run.learned != nullptr) run.learned->attach(options);
    headred::trainer<float, headred::cpu> trainer(*model_, adam, std::move(options));
    headred::batch_order order(headred::sentence_lengths(task_.train),
                               {.tokens = settings_.batch_tokens, .seed = run.seed});
    headred::masking_options masking = task_.masking;
    masking.seed = run.seed;
    headred::training_batch batch;
    for (index_t step = 1; step <= run.updates; ++step) {
      stop_if_interrupted();
      const index_t epoch = order.position().epoch;
      const auto numbers = order.next();
      headred::fill_masked(batch, task_.train, numbers, masking, epoch);
      if (run.learned != nullptr)
        run.learned->step(trainer, batch);
      else
        trainer.step(batch);
    }
  }

  /// Nats a masked token, sentence by sentence, under masks that serve all lengths, or under none.
  readings measure(const mask_map* masks = nullptr) {
    return measure_by([&](index_t) { return masks; });
  }
  /// The same where only what the rule allows is seen.
  readings measure_rule(const position_rule& sees) {
    std::map<index_t, one_mask> known;
    return measure_by([&](index_t n) { return &known.try_emplace(n, be_, config_, n, sees).first->second.masks(); });
  }
  /// Share of masked tokens found in the last measurement.
  double accuracy() const { return accuracy_; }

 private:
  weights values() {
    weights all;
    visit_parameters(model_->weights(), [&](const std::string&, auto& p) {
      all.insert(all.end(), p.value.data(), p.value.data() + p.value.size());
    });
    return all;
  }
  void put(const weights& all) {
    const float* at = all.data();
    visit_parameters(model_->weights(), [&](const std::string&, auto& p) {
      std::copy_n(at, p.value.size(), p.value.data());
      at += p.value.size();
    });
  }

  /// Sentences of one length go together.
  template <class MasksOf>
  readings measure_by(const MasksOf& masks_of) {
    constexpr index_t most = 2048;
    std::vector<std::size_t> order(task_.eval.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t s) { return task_.eval[s].size(); });
    readings found;
    found.values.assign(task_.eval.size(), NAN);
    headred::tape<float, headred::cpu> tape(be_, headred::tape_mode::inference);
    headred::token_batch batch;
    std::vector<index_t> rows;
    std::vector<token_id> answers;
    std::vector<std::size_t> owners;
    index_t right = 0, all = 0;
    const auto flush = [&] {
      if (rows.empty()) return;
      stop_if_interrupted();
      headred::forward_options<float, headred::cpu> options;
      options.masks = masks_of(batch.sentences.front().length);
      const auto predicted = headred::predict_masked<float>(*model_, tape, batch, rows, answers, options);
      for (std::size_t r = 0; r < rows.size(); ++r) {
        if (!std::isfinite(predicted[r].nats))
          throw headred::error("the model's losses are not finite, expected a lower --rate or other weights");
        double& sum = found.values[owners[r]];
        sum = (std::isnan(sum) ? 0 : sum) + predicted[r].nats / static_cast<double>(task_.places[owners[r]].size());
        right += predicted[r].best == answers[r] ? 1 : 0;
        ++all;
      }
      batch.clear();
      rows.clear();
      answers.clear();
      owners.clear();
    };
    for (const std::size_t s : order) {
      const auto& text = task_.eval[s];
      for (const index_t place : task_.places[s]) {
        const auto length = static_cast<index_t>(text.size());
        if (!rows.empty() && (batch.tokens() + length > most || batch.sentences.front().length != length)) flush();
        rows.push_back(batch.tokens() + place);
        answers.push_back(text[static_cast<std::size_t>(place)]);
        owners.push_back(s);
        batch.add(text);
        batch.ids[static_cast<std::size_t>(rows.back())] = task_.masking.mask_id;
      }
    }
    flush();
    std::erase_if(found.values, [](double x) { return std::isnan(x); });
    accuracy_ = static_cast<double>(right) / static_cast<double>(all);
    return found;
  }

  headred::cpu& be_;
  const mask_settings& settings_;
  headred::transformer_config config_;
  mask_task task_;
  std::optional<model_type> model_;
  std::optional<weights> loaded_;
  std::map<std::uint64_t, weights> bases_;
  double accuracy_ = NAN;
};

}  // namespace examples
