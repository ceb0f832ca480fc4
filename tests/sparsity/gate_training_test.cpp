#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include <headred/core/as_view.hpp>
#include <headred/io/checkpoint.hpp>
#include <headred/nn/freeze_decoder.hpp>
#include <headred/nn/gate_training.hpp>
#include <headred/nn/initialize.hpp>
#include <headred/nn/translation_grammar.hpp>
#include <headred/nn/uniform_config.hpp>
#include <headred/prune/gated_plan.hpp>

#include "nn/training_support.hpp"

namespace hr = headred;
using hr::attention_kind;
using training_test::seeded_model;
using training_test::small_batch;
using training_test::small_config;

namespace {

template <class T>
using gates_of = hr::gate_training<T, hr::cpu>;

/// Everything of a run on the translation grammar: a small model trained for a while, then with gates.
struct grammar_run {
  hr::cpu be;
  hr::corpus sources, targets;
  hr::transformer<float, hr::cpu> model;
  hr::training_batch held_out;

  explicit grammar_run(int threads) : be({.threads = threads}), model(be, config()) {
    const hr::translation_grammar grammar(3);
    for (std::uint64_t i = 0; i < 2048; ++i) {
      auto pair = grammar.sentence(i);
      pair.source.pop_back();
      sources.push_back(std::move(pair.source));
      targets.push_back(std::move(pair.target));
    }
    fill(held_out, 0);
    hr::initialize(be, model.weights(), 1);
    model.train();
  }
  static hr::transformer_config config() {
    const hr::translation_grammar grammar(3);
    return hr::uniform_config({.layers = 2,
                               .width = 32,
                               .heads = 4,
                               .feed_forward = 64,
                               .source_vocabulary = grammar.source_vocabulary(),
                               .target_vocabulary = grammar.target_vocabulary(),
                               .max_positions = 64});
  }
  void fill(hr::training_batch& batch, hr::index_t number) {
    std::vector<hr::index_t> numbers;
    for (hr::index_t i = 0; i < 10; ++i) numbers.push_back((number * 10 + i) % 2048);
    hr::fill_pairs(batch, sources, targets, numbers, model.config().begin_id, model.config().end_id);
  }
  void converge(hr::index_t steps) {
    hr::adam<float, hr::cpu> optimizer(be, hr::parameter_list<float, hr::cpu>(model.weights()), {.beta2 = .98});
    hr::trainer<float, hr::cpu> trainer(model, optimizer,
                                        {.rate = {hr::decay_kind::constant, .005, 20}, .longest_gradient = 1});
    hr::training_batch batch;
    for (hr::index_t s = 1; s <= steps; ++s) {
      fill(batch, s);
      trainer.step(batch);
    }
  }
  struct outcome {
    hr::index_t open;
    double loss;
    std::vector<float> log_a;
    hr::prune_plan plan;
  };
  outcome with_gates(hr::gate_options options, hr::index_t steps) {
    gates_of<float> gates(be, model.config(), options);
    hr::parameter_list<float, hr::cpu> list(model.weights());
    gates.add_to(list);
    hr::adam<float, hr::cpu> optimizer(be, list, {.beta2 = .98}, {gates_of<float>::group(.05)});
    hr::trainer<float, hr::cpu>::options o{.rate = {hr::decay_kind::constant, .002, 1}, .longest_gradient = 1};
    gates.attach(o);
    hr::trainer<float, hr::cpu> trainer(model, optimizer, std::move(o));
    hr::training_batch batch;
    for (hr::index_t s = 1; s <= steps; ++s) {
      fill(batch, s);
      gates.step(trainer, batch);
    }
    outcome done{
        gates.finalize(), trainer.evaluate(held_out).loss, {}, hr::gated_plan(be, model.config(), gates.gates())};
    for (const auto kind : gates.options().kinds)
      for (hr::index_t l = 0; l < 2; ++l)
        for (hr::index_t h = 0; h < 4; ++h) done.log_a.push_back(gates.log_a(kind, l).value(h));
    return done;
  }
};

}  // namespace

TEST_SUITE("sparsity") {
  TEST_CASE("gate_training: the gradient of log_a and temperature through a whole model, by 4-point differences") {
    hr::cpu be{{.threads = 2}};
    auto model = seeded_model<double>(be, small_config());
    for (const auto penalty : {hr::gate_penalty::sum, hr::gate_penalty::layer_mean}) {
      gates_of<double> gates(be, model.config(),
                             {.lambda = .3, .penalty = penalty, .initial = .2, .seed = 4, .learn_temperature = true});
      hr::parameter_list<double, hr::cpu> list(model.weights());
      gates.add_to(list);
      hr::adam<double, hr::cpu> optimizer(be, list);
      hr::trainer<double, hr::cpu>::options o{.rate = {hr::decay_kind::constant, 0, 0}};
      gates.attach(o);
      std::vector<double> found;
      o.before_update = [&, pull_back = o.before_update](hr::index_t step) {
        pull_back(step);
        for (const auto kind : gates.options().kinds)
          for (hr::index_t l = 0; l < 2; ++l)
            for (hr::index_t h = 0; h < gates.log_a(kind, l).value.size(); ++h)
              found.push_back(gates.log_a(kind, l).gradient(h));
        found.push_back(gates.log_temperature().gradient(0));
      };
      hr::trainer<double, hr::cpu> trainer(model, optimizer, std::move(o));
      const auto batch = small_batch(6, 7);
      gates.step(trainer, batch);
      REQUIRE(found.size() == static_cast<std::size_t>(gates.size()) + 1);
      REQUIRE(gates.size() == 4 + 6 + 6);
      const auto difference = [&](double& x) {
        const double at = x, h = 1e-4;
        const auto loss = [&](double moved) {
          x = moved;
          gates.sample(1);
          return trainer.evaluate(batch).loss + gates.penalty();
        };
        const double d = (loss(at - 2 * h) - 8 * loss(at - h) + 8 * loss(at + h) - loss(at + 2 * h)) / (12 * h);
        x = at;
        return d;
      };
      std::size_t k = 0;
      double alive = 0;
      for (const auto kind : gates.options().kinds)
        for (hr::index_t l = 0; l < 2; ++l)
          for (hr::index_t h = 0; h < gates.log_a(kind, l).value.size(); ++h, ++k) {
            CHECK(std::abs(found[k] - difference(gates.log_a(kind, l).value(h))) < 1e-8);
            gates.sample(1);
            const double g = gates.gates().of(kind, l).value(h);
            alive += g > 0 && g < 1;
          }
      CHECK(std::abs(found[k] - difference(gates.log_temperature().value(0))) < 1e-8);
      CHECK(alive >= 3);
    }
  }

  TEST_CASE("gate_training: neurons and layers: the gradient of log_a through a whole model, by 4-point differences") {
    hr::cpu be{{.threads = 2}};
    for (const bool pre_norm : {true, false}) {
      auto config = small_config();
      config.pre_norm = config.final_norm = pre_norm;
      auto model = seeded_model<double>(be, config);
      gates_of<double> gates(be, model.config(),
                             {.lambda = .3,
                              .kinds = {attention_kind::cross},
                              .neurons = {hr::model_stack::decoder},
                              .layers = {hr::model_stack::encoder, hr::model_stack::decoder},
                              .neuron_weight = .25,
                              .layer_weight = 3,
                              .initial = .2,
                              .seed = 10});
      hr::parameter_list<double, hr::cpu> list(model.weights());
      gates.add_to(list);
      hr::adam<double, hr::cpu> optimizer(be, list);
      hr::trainer<double, hr::cpu>::options o{.rate = {hr::decay_kind::constant, 0, 0}};
      gates.attach(o);
      auto* const neurons = &gates.log_a_neurons(hr::model_stack::decoder, 1);
      std::vector<hr::parameter<double, 1, hr::cpu>*> all{neurons, &gates.log_a_layers(hr::model_stack::encoder),
                                                          &gates.log_a_layers(hr::model_stack::decoder),
                                                          &gates.log_a(attention_kind::cross, 1)};
      std::vector<std::vector<double>> found;
      o.before_update = [&, pull_back = o.before_update](hr::index_t step) {
        pull_back(step);
        for (const auto* p : all) found.emplace_back(p->gradient.data(), p->gradient.data() + p->gradient.size());
      };
      hr::trainer<double, hr::cpu> trainer(model, optimizer, std::move(o));
      const auto batch = small_batch(6, 7);
      trainer.step(batch);  // draws by itself
      REQUIRE(found.size() == all.size());
      CHECK(gates.size() == 6 + 12 + 8 + 4);
      int alive = 0;
      for (std::size_t i = 0; i < all.size(); ++i)
        for (hr::index_t k = 0; k < std::min<hr::index_t>(8, all[i]->value.size()); ++k) {
          double& x = all[i]->value(k);
          const double at = x, h = 1e-4;
          const auto loss = [&](double moved) {
            x = moved;
            gates.sample(1);
            return trainer.evaluate(batch).loss + gates.penalty();
          };
          const double d = (loss(at - 2 * h) - 8 * loss(at - h) + 8 * loss(at + h) - loss(at + 2 * h)) / (12 * h);
          x = at;
          CAPTURE(i);
          CAPTURE(k);
          CHECK(std::abs(found[i][static_cast<std::size_t>(k)] - d) < 1e-8);
          gates.sample(1);
          const double weight = i == 0 ? .25 : i < 3 ? 3 : 1;
          const double p = 1 / (1 + std::exp(-.2 + .33 * std::log(.1 / 1.1)));
          alive += std::abs(found[i][static_cast<std::size_t>(k)] - .3 * weight * p * (1 - p)) > 1e-6;
        }
      CHECK(alive >= 8);  // more than their price moves them
    }
  }

  TEST_CASE("gate_training: neurons and layers close and go; the pruned model is the gated one, on any threads") {
    const hr::gate_options options{.lambda = .004,
                                   .neurons = {hr::model_stack::encoder, hr::model_stack::decoder},
                                   .layers = {hr::model_stack::encoder},
                                   .neuron_weight = 2,
                                   .seed = 9};
    grammar_run one(2), two(1);
    const auto a = one.with_gates(options, 120), b = two.with_gates(options, 120);
    CHECK(a.plan == b.plan);
    CHECK(training_test::same_bits(a.log_a, b.log_a));
    CHECK(a.loss == b.loss);
    CHECK(a.plan.neuron_count() < 4 * 64 / 2);
    CHECK(a.plan.neuron_count() > 0);
    CHECK(a.plan.layer_count() == 4);
    auto pruned = hr::apply(a.plan, one.model);
    pruned.train();
    hr::adam<float, hr::cpu> none(one.be, hr::parameter_list<float, hr::cpu>(pruned.weights()));
    CHECK(hr::trainer<float, hr::cpu>(pruned, none, {}).evaluate(one.held_out).loss ==
          doctest::Approx(a.loss).epsilon(1e-5));
  }

  TEST_CASE("gate_training: a large lambda closes heads, a small one does not; the pruned model is the gated one") {
    grammar_run first(2);
    first.converge(150);
    const double ungated = [&] {
      hr::adam<float, hr::cpu> none(first.be, hr::parameter_list<float, hr::cpu>(first.model.weights()));
      return hr::trainer<float, hr::cpu>(first.model, none, {}).evaluate(first.held_out).loss;
    }();
    const auto start = training_test::all_values(first.model.weights());
    const auto restore = [&](grammar_run& run) {
      std::size_t at = 0;
      hr::visit_parameters(run.model.weights(), [&](const std::string&, auto& p) {
        for (hr::index_t i = 0; i < p.value.size(); ++i) p.value.data()[i] = start[at++];
      });
    };
    const auto small = first.with_gates({.lambda = 1e-5, .seed = 9}, 120);
    CHECK(small.open == 24);
    CHECK(small.plan.removes_nothing());
    restore(first);
    const auto large = first.with_gates({.lambda = .3, .seed = 9}, 120);
    CHECK(large.open <= 8);
    CHECK(large.plan.count() == large.open);
    CHECK(small.loss < ungated);  // it went on learning
    CHECK(large.loss > small.loss);

    // physically smaller, the same loss
    auto pruned = hr::apply(large.plan, first.model);
    pruned.train();
    hr::adam<float, hr::cpu> none(first.be, hr::parameter_list<float, hr::cpu>(pruned.weights()));
    CHECK(hr::trainer<float, hr::cpu>(pruned, none, {}).evaluate(first.held_out).loss ==
          doctest::Approx(large.loss).epsilon(1e-5));

    // the same bits on another number of threads
    grammar_run second(1);
    restore(second);
    const auto again = second.with_gates({.lambda = .3, .seed = 9}, 120);
    CHECK(training_test::same_bits(large.log_a, again.log_a));
    CHECK(large.plan == again.plan);
    restore(second);
    CHECK_FALSE(training_test::same_bits(large.log_a, second.with_gates({.lambda = .3, .seed = 10}, 120).log_a));

    // encoder only, to a number of heads
    restore(first);
    hr::freeze_decoder(first.model);
    const auto frozen = training_test::all_values(first.model.weights());
    const auto encoder = first.with_gates(
        {.kinds = {attention_kind::encoder_self}, .seed = 9, .target = {{.open = 3, .rate = .05, .warm_up = 40}}}, 400);
    CHECK(encoder.plan.count(attention_kind::cross) == 8);
    CHECK(encoder.plan.count(attention_kind::decoder_self) == 8);
    CHECK(std::abs(static_cast<double>(encoder.open) - 3) <= 1);
    const auto after = training_test::all_values(first.model.weights());
    std::size_t at = 0;
    hr::visit_parameters(first.model.weights(), [&](const std::string& name, auto& p) {
      bool same = true;
      for (hr::index_t i = 0; i < p.value.size(); ++i, ++at) same = same && frozen[at] == after[at];
      INFO(name);
      CHECK(same == !(name.starts_with("encoder") || name == "source.tokens" || p.value.size() == 0));
    });
  }

  TEST_CASE("gate_training: killed and resumed, bit by bit") {
    std::vector<double> prices;
    const auto file = std::filesystem::temp_directory_path() / "headred_gate_training_test.safetensors";
    const auto run = [&](int from, int to, bool load) {
      hr::cpu be{{.threads = 2}};
      auto model = seeded_model<float>(be, small_config());
      gates_of<float> gates(be, model.config(),
                            {.neurons = {hr::model_stack::encoder},
                             .layers = {hr::model_stack::decoder},
                             .neuron_weight = .1,
                             .seed = 4,
                             .temperature = {{1, .3, 10}},
                             .target = {{.open = 3, .first = .05, .rate = .5, .warm_up = 3}}});
      hr::parameter_list<float, hr::cpu> list(model.weights());
      gates.add_to(list);
      hr::adam<float, hr::cpu> optimizer(be, list, {}, {gates_of<float>::group(.1)});
      hr::trainer<float, hr::cpu>::options o{.rate = {hr::decay_kind::constant, .01, 0}};
      gates.attach(o);
      hr::trainer<float, hr::cpu> trainer(model, optimizer, std::move(o));
      hr::batch_order order({3, 4, 5, 6}, {.tokens = 8});
      if (load) hr::load_checkpoint(file, trainer, order);
      for (int s = from; s < to; ++s) gates.step(trainer, small_batch(6, static_cast<std::uint64_t>(s)));
      hr::save_checkpoint(file, trainer, order);
      prices.push_back(gates.target()->multiplier());
      CHECK(gates.target()->step() == to);
      std::vector<float> all = training_test::all_values(model.weights());
      for (const auto kind : gates.options().kinds)
        for (hr::index_t l = 0; l < 2; ++l)
          for (hr::index_t h = 0; h < gates.log_a(kind, l).value.size(); ++h)
            all.push_back(gates.log_a(kind, l).value(h));
      return all;
    };
    const auto whole = run(0, 8, false);
    run(0, 5, false);
    CHECK(training_test::same_bits(whole, run(5, 8, true)));
    CHECK(prices[2] == prices[0]);
    CHECK(prices[1] != prices[0]);
    std::filesystem::remove(file);
  }

  TEST_CASE("gate_training: sample, evaluate, finalize, report") {
    hr::cpu be{{.threads = 1}};
    const auto config = small_config();
    gates_of<double> gates(be, config, {.kinds = {attention_kind::cross}, .learn_temperature = true});
    CHECK(gates.size() == 6);
    CHECK(gates.temperature(1) == doctest::Approx(.33));
    auto& layer = gates.log_a(attention_kind::cross, 1).value;
    const double log_a[] = {-1, 1, 60, -60};
    for (hr::index_t h = 0; h < 4; ++h) layer(h) = log_a[h];
    gates.sample(1);
    CHECK(layer(2) == 50);
    CHECK(layer(3) == -50);
    const auto report = gates.report(attention_kind::cross, 1);
    CHECK(report.open == std::vector<hr::index_t>{2});
    CHECK(report.closed == std::vector<hr::index_t>{3});
    gates.evaluate();
    auto& g = gates.gates().of(attention_kind::cross, 1).value;
    CHECK(g(0) == doctest::Approx(1.2 / (1 + std::exp(1.)) - .1));
    CHECK(g(2) == 1);
    CHECK(gates.finalize() == 4);
    for (hr::index_t h = 0; h < 4; ++h) CHECK(g(h) == (log_a[h] > 0 ? 1 : 0));
    CHECK(gates.gates().of(attention_kind::encoder_self, 0).value(0) == 1);
    const auto plan = hr::gated_plan(be, config, gates.gates());
    CHECK(plan.kept(attention_kind::cross, 1) == std::vector<hr::index_t>{1, 2});
    CHECK(plan.count(attention_kind::encoder_self) == 4);
    g(1) = std::nan("");
    CHECK_THROWS_WITH_AS(hr::gated_plan(be, config, gates.gates()),
                         "gated_plan: the gate of head 1 in layer 1 of cross is not finite", hr::argument_error);
  }

  TEST_CASE("gate_training: options that are wrong") {
    hr::cpu be{{.threads = 1}};
    const auto config = small_config();
    const auto make = [&](hr::gate_options o) { gates_of<float> g(be, config, std::move(o)); };
    CHECK_THROWS_WITH_AS(make({.lambda = -1}), "gate_training: lambda is -1, expected at least 0", hr::argument_error);
    CHECK_THROWS_AS(make({.lambda = std::nan("")}), hr::argument_error);
    CHECK_THROWS_AS(make({.gate = {.temperature = 0}}), hr::argument_error);
    CHECK_THROWS_AS(make({.gate = {.lower = 0}}), hr::argument_error);
    CHECK_THROWS_AS(make({.initial = std::nan("")}), hr::argument_error);
    CHECK_THROWS_AS(make({.temperature = {{0, 1, 5}}}), hr::argument_error);
    CHECK_THROWS_AS(make({.temperature = {{1, .5, 5}}, .learn_temperature = true}), hr::argument_error);
    CHECK_THROWS_AS(make({.limit = 0}), hr::argument_error);
    CHECK_THROWS_AS(make({.target = {{.open = 100}}}), hr::argument_error);
    CHECK_THROWS_WITH_AS(make({.kinds = {attention_kind::cross, attention_kind::cross}}),
                         "gate_training: cross is named twice", hr::argument_error);
    CHECK_THROWS_WITH_AS(make({.neurons = {hr::model_stack::encoder}, .neuron_weight = 0}),
                         "gate_training: neuron_weight is 0, expected above 0", hr::argument_error);
    CHECK_THROWS_AS(make({.layer_weight = std::nan("")}), hr::argument_error);
    CHECK_THROWS_WITH_AS(make({.heads = false, .kinds = {attention_kind::cross}}),
                         "gate_training: kinds of heads are named, expected none where heads get no gates",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(make({.neurons = {hr::model_stack::encoder, hr::model_stack::encoder}}),
                         "gate_training: the neurons of the encoder are named twice", hr::argument_error);
    CHECK_THROWS_WITH_AS(make({.layers = {hr::model_stack::decoder, hr::model_stack::decoder}}),
                         "gate_training: the layers of the decoder are named twice", hr::argument_error);
    const auto alone = small_config(hr::architecture::encoder);
    CHECK_THROWS_WITH_AS((gates_of<float>(be, alone, {.layers = {hr::model_stack::decoder}})),
                         "model_gates: the model has no decoder", hr::argument_error);
    gates_of<float> neurons(be, config, {.heads = false, .neurons = {hr::model_stack::encoder}});
    CHECK(neurons.size() == 12 + 8);
    CHECK_THROWS_WITH_AS(neurons.log_a(attention_kind::cross, 0), "gate_training: layer 0 of cross has no gates",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(neurons.log_a_layers(hr::model_stack::encoder),
                         "gate_training: the layers of the encoder have no gates", hr::argument_error);
    CHECK_THROWS_WITH_AS((gates_of<float>(be, alone, {.kinds = {attention_kind::cross}})),
                         "gate_training: the model has no attention of kind cross", hr::argument_error);
    gates_of<float> gates(be, config, {.kinds = {attention_kind::cross}});
    CHECK_THROWS_WITH_AS(gates.log_a(attention_kind::cross, 2), "gate_training: layer 2 of cross has no gates",
                         hr::argument_error);
    gates.log_a(attention_kind::cross, 0).value(1) = std::nanf("");
    CHECK_THROWS_AS(gates.sample(1), hr::argument_error);
    auto model = seeded_model<float>(be, alone);
    CHECK_THROWS_WITH_AS(hr::freeze_decoder(model), "freeze_decoder: the model is not an encoder-decoder",
                         hr::argument_error);
  }
}
