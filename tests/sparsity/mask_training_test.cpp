#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <vector>

#include <headred/io/checkpoint.hpp>
#include <headred/nn/fixed_masks.hpp>
#include <headred/nn/initialize.hpp>
#include <headred/nn/mask_training.hpp>
#include <headred/nn/uniform_config.hpp>
#include <headred/sparsity/patterns.hpp>

#include "nn/training_support.hpp"

namespace hr = headred;
using hr::attention_kind;
using training_test::seeded_model;
using training_test::small_batch;
using training_test::small_config;

namespace {

template <class T>
using masks_of = hr::mask_training<T, hr::cpu>;

/// Texts of `vocabulary` tokens in which every token is to be answered by the one before it, the first by 0.
struct echo_task {
  hr::training_batch batch;
  void fill(std::uint64_t seed) {
    const auto texts = training_test::small_corpus(40, 11, seed);
    batch.clear();
    for (const auto& text : texts) {
      batch.source.add(text);
      for (std::size_t i = 0; i < text.size(); ++i) batch.labels.push_back(i == 0 ? 0 : text[i - 1]);
    }
  }
  static hr::transformer_config config() {
    return hr::uniform_config({.kind = hr::architecture::encoder,
                               .layers = 1,
                               .width = 32,
                               .heads = 4,
                               .source_vocabulary = 11,
                               .max_positions = 6});
  }
};

}  // namespace

TEST_SUITE("sparsity") {
  TEST_CASE("mask_training: the gradient of a and temperature through a whole model, by 4-point differences") {
    hr::cpu be{{.threads = 2}};
    auto model = seeded_model<double>(be, small_config());
    const auto batch = small_batch(4, 7);
    for (int variant = 0; variant < 8; ++variant) {
      CAPTURE(variant);
      const bool unstructured = variant % 2 == 1, expected = variant / 2 % 2 == 1, apart = variant / 4 == 1;
      // scores lose 10000 (1 - M), so that only at such a temperature are they as smooth as differences need it
      masks_of<double> masks(be, model.config(),
                             {.entry = {.temperature = 5e3},
                              .form = unstructured ? hr::mask_form::unstructured : hr::mask_form::structured,
                              .length = 7,
                              .by_layer = apart,
                              .by_head = apart,
                              .diagonal = variant % 3 != 0,
                              .lambda = .002,
                              .price = expected ? hr::mask_price::expected : hr::mask_price::sampled,
                              .initial = -.4,
                              .spread = 1,
                              .seed = 4,
                              .learn_temperature = true});
      hr::parameter_list<double, hr::cpu> list(model.weights());
      masks.add_to(list);
      hr::adam<double, hr::cpu> optimizer(be, list);
      hr::trainer<double, hr::cpu>::options o{.rate = {hr::decay_kind::constant, 0, 0}};
      masks.attach(o);
      const auto each = [&](const auto& f) {
        for (const auto kind : masks.options().kinds)
          for (hr::index_t l = 0; l < (apart ? 2 : 1); ++l) f(masks.a(kind, l));
      };
      std::vector<double> found;
      o.before_update = [&, pull_back = o.before_update](hr::index_t step) {
        pull_back(step);
        each([&](auto& a) { found.insert(found.end(), a.gradient.data(), a.gradient.data() + a.gradient.size()); });
        found.push_back(masks.log_temperature().gradient(0));
      };
      hr::trainer<double, hr::cpu> trainer(model, optimizer, std::move(o));
      masks.step(trainer, batch);
      const auto difference = [&](double& x) {
        const double at = x, h = 1e-2;
        const auto loss = [&](double moved) {
          x = moved;
          masks.sample(1);
          return trainer.evaluate(batch).loss + masks.penalty();
        };
        const double d = (loss(at - 2 * h) - 8 * loss(at - h) + 8 * loss(at + h) - loss(at + 2 * h)) / (12 * h);
        x = at;
        return d;
      };
      std::size_t k = 0;
      double worst = 0, largest = 0;
      each([&](auto& a) {
        for (hr::index_t i = 0; i < a.value.size(); ++i, ++k) {
          if (unstructured && i % 5 != 0) continue;
          const double d = difference(a.value.data()[i]);
          worst = std::max(worst, std::abs(found[k] - d));
          largest = std::max(largest, std::abs(d));
        }
      });
      REQUIRE(found.size() == k + 1);
      CHECK(worst < 1e-8);
      CHECK(largest > 1e-3);
      CHECK(std::abs(found[k] - difference(masks.log_temperature().value(0))) < 1e-7);
    }
  }

  TEST_CASE("mask_training: what matters stays open, and what it cost is closed") {
    std::vector<float> first;
    for (const int threads : {2, 1}) {
      hr::cpu be{{.threads = threads}};
      hr::transformer<float, hr::cpu> model(be, echo_task::config());
      hr::initialize(be, model.weights(), 1);
      model.train();
      masks_of<float> masks(be, model.config(),
                            {.entry = {.straight_through = true}, .by_head = false, .lambda = 3e-3, .seed = 2});
      hr::parameter_list<float, hr::cpu> list(model.weights());
      masks.add_to(list);
      hr::adam<float, hr::cpu> optimizer(be, list, {}, {masks_of<float>::group(.03)});
      hr::trainer<float, hr::cpu>::options o{.rate = {hr::decay_kind::constant, 5e-3, 10}};
      masks.attach(o);
      hr::trainer<float, hr::cpu> trainer(model, optimizer, std::move(o));
      echo_task task;
      for (std::uint64_t s = 1; s <= 250; ++s) {
        task.fill(s);
        masks.step(trainer, task.batch);
      }
      masks.evaluate();
      task.fill(0);
      CHECK(trainer.evaluate(task.batch).loss < .1);
      const auto mask = masks.mask(attention_kind::encoder_self, 0);
      for (hr::index_t d = 0; d < 6; ++d) CHECK(mask(0, 0, d) == (d == 1 ? 1 : 0));
      CHECK(masks.sparsity() == doctest::Approx(1 - 10. / 36));
      CHECK(masks.sparsity(2) == .5);
      auto bits = training_test::all_values(model.weights());
      const auto& a = masks.a(attention_kind::encoder_self, 0).value;
      bits.insert(bits.end(), a.data(), a.data() + a.size());
      if (threads == 2) first = bits;
      CHECK(training_test::same_bits(first, bits));
    }
  }

  TEST_CASE("mask_training: masked places have probability 0, a row without an open place a head output of 0") {
    hr::cpu be{{.threads = 2}};
    const auto config = echo_task::config();
    auto model = seeded_model<float>(be, config, 3);
    masks_of<float> masks(be, config,
                          {.entry = {.straight_through = true},
                           .form = hr::mask_form::unstructured,
                           .diagonal = false,
                           .spread = 1,
                           .seed = 8});
    hr::training_batch batch;
    for (const int length : {1, 4, 6}) batch.source.add(std::vector<hr::token_id>(static_cast<std::size_t>(length), 5));
    hr::tape<float, hr::cpu> tape(be, hr::tape_mode::inference);
    std::vector<hr::attention_record<float>> trace;
    for (const bool sampled : {true, false}) {
      if (sampled)
        masks.sample(1);
      else
        masks.evaluate();
      trace.clear();
      tape.clear();
      model.encode(tape, batch.source, {.masks = &masks.masks(), .keep_attention = true, .trace = &trace});
      REQUIRE(trace.size() == 1);
      const auto mask = masks.mask(attention_kind::encoder_self, 0);
      double zeros = 0, places = 0;
      for (hr::index_t b = 0; b < 3; ++b) {
        const auto p = trace[0].probabilities(b);
        for (hr::index_t h = 0; h < 4; ++h)
          for (hr::index_t i = 0; i < p.extent(1); ++i)
            for (hr::index_t j = 0; j < p.extent(2); ++j) {
              CHECK((p(h, i, j) == 0) == (mask(h, i, j) == 0));
              CHECK(mask(h, i, j) == mask(h, j, i));
              if (b == 2) zeros += p(h, i, j) == 0, ++places;
            }
      }
      CHECK(masks.sparsity() == doctest::Approx(zeros / places));
      const auto alone = tape.input(trace[0].context)[0];
      for (hr::index_t c = 0; c < alone.size(); ++c) CHECK(alone(c) == 0);
    }
  }

  TEST_CASE("mask_training: killed and resumed, bit by bit") {
    const auto file = std::filesystem::temp_directory_path() / "headred_mask_training_test.safetensors";
    const auto run = [&](int from, int to, bool load) {
      hr::cpu be{{.threads = 2}};
      auto model = seeded_model<float>(be, small_config());
      masks_of<float> masks(be, model.config(),
                            {.entry = {.straight_through = true},
                             .form = hr::mask_form::unstructured,
                             .length = 7,
                             .by_layer = true,
                             .lambda = 1e-4,
                             .seed = 4,
                             .temperature = {{1, .3, 10}}});
      hr::parameter_list<float, hr::cpu> list(model.weights());
      masks.add_to(list);
      hr::adam<float, hr::cpu> optimizer(be, list, {}, {masks_of<float>::group(.1)});
      hr::trainer<float, hr::cpu>::options o{.rate = {hr::decay_kind::constant, .01, 0}};
      masks.attach(o);
      hr::trainer<float, hr::cpu> trainer(model, optimizer, std::move(o));
      hr::batch_order order({3, 4, 5, 6}, {.tokens = 8});
      if (load) hr::load_checkpoint(file, trainer, order);
      for (int s = from; s < to; ++s) masks.step(trainer, small_batch(4, static_cast<std::uint64_t>(s)));
      hr::save_checkpoint(file, trainer, order);
      std::vector<float> all = training_test::all_values(model.weights());
      for (const auto kind : masks.options().kinds)
        for (hr::index_t l = 0; l < 2; ++l) {
          const auto& a = masks.a(kind, l).value;
          all.insert(all.end(), a.data(), a.data() + a.size());
        }
      return all;
    };
    const auto whole = run(0, 8, false);
    run(0, 5, false);
    CHECK(training_test::same_bits(whole, run(5, 8, true)));
    std::filesystem::remove(file);
  }

  TEST_CASE("mask_training: sample, evaluate, sparsity, penalty") {
    hr::cpu be{{.threads = 1}};
    auto config = echo_task::config();
    for (const auto price : {hr::mask_price::sampled, hr::mask_price::expected}) {
      masks_of<double> masks(be, config, {.length = 4, .by_head = false, .lambda = 1, .price = price, .spread = 0});
      CHECK(masks.size() == 4);
      CHECK(masks.sparsity() == 1);  // a = 0 is closed
      auto& a = masks.a(attention_kind::encoder_self, 0).value;
      const double values[] = {-1, 1, -2, 3};
      for (hr::index_t d = 0; d < 4; ++d) a(0, 0, d) = values[d];
      masks.evaluate();
      CHECK(masks.sparsity() == .5);  // definitions.md: v = [0,1,0,1], n = 4
      if (price == hr::mask_price::sampled) CHECK(masks.penalty() == 8);
      const auto p = [](double x) { return 1 / (1 + std::exp(-x)); };
      if (price == hr::mask_price::expected)
        CHECK(masks.penalty() == doctest::Approx(4 * p(-1) + 6 * p(1) + 4 * p(-2) + 2 * p(3)));
      CHECK(masks.masks().at({attention_kind::encoder_self, 0}).gradient.data() == nullptr);
      masks.evaluate(2);
      CHECK(masks.sparsity() == 1 - 2. / 16);
      masks.evaluate(-INFINITY);
      CHECK(masks.sparsity() == 0);
      masks.sample(3);
      CHECK(masks.masks().at({attention_kind::encoder_self, 0}).gradient.data() != nullptr);
      const auto m = masks.mask(attention_kind::encoder_self, 0);
      for (hr::index_t d = 0; d < 4; ++d) {
        CHECK(m(0, 0, d) == m(0, 3, 3 - d));
        CHECK((m(0, 0, d) > 0 && m(0, 0, d) < 1));
      }
      hr::tensor<double, 3, hr::cpu> open(be, {1, 1, 4});
      masks.open(attention_kind::encoder_self, 0, open.view());
      CHECK(open(0, 0, 3) == doctest::Approx(p(3)));
      CHECK_THROWS_AS(masks.sparsity(5), hr::argument_error);
      CHECK_THROWS_AS(masks.evaluate(std::nan("")), hr::argument_error);
    }
    // the upper triangle of each head; without the diagonal
    masks_of<float> pairs(be, config,
                          {.form = hr::mask_form::unstructured, .diagonal = false, .spread = .5, .seed = 3});
    CHECK(pairs.size() == 4 * 15);
    double sum = 0, squares = 0;
    const auto& a = pairs.a(attention_kind::encoder_self, 0).value;
    for (hr::index_t i = 0; i < a.size(); ++i) {
      sum += static_cast<double>(a.data()[i]);
      squares += static_cast<double>(a.data()[i]) * static_cast<double>(a.data()[i]);
    }
    const auto n = static_cast<double>(a.size());
    CHECK(std::abs(sum / n) < 4 * .5 / std::sqrt(n));
    CHECK(std::sqrt(squares / n) == doctest::Approx(.5).epsilon(.2));
    // layers that share a mask share its parameters
    config.encoder.layers.push_back(config.encoder.layers.front());
    masks_of<float> shared(be, config, {}), apart(be, config, {.by_layer = true});
    CHECK(&shared.a(attention_kind::encoder_self, 0) == &shared.a(attention_kind::encoder_self, 1));
    CHECK(&apart.a(attention_kind::encoder_self, 0) != &apart.a(attention_kind::encoder_self, 1));
    CHECK(shared.size() * 2 == apart.size());
  }

  TEST_CASE("fixed_masks: a model's loss and gradients are those of dense attention under the same masks") {
    using parameters = hr::parameter_list<double, hr::cpu>;
    hr::cpu be{{.threads = 2}};
    const hr::index_t n = 64;
    const auto config = hr::uniform_config({.layers = 2,
                                            .width = 64,
                                            .heads = 2,
                                            .feed_forward = 16,
                                            .source_vocabulary = 11,
                                            .target_vocabulary = 13,
                                            .max_positions = n});
    auto model = training_test::seeded_model<double>(be, config);
    hr::tensor<double, 2, hr::cpu> near(be, {n, n});
    hr::pattern_mask(be, hr::logsparse_pattern{}, near.view());
    hr::tensor<double, 3, hr::cpu> half(be, {2, n, n});  // too dense for lists; the first query sees nothing
    for (hr::index_t i = 2 * n; i < half.size(); ++i)
      half.data()[i] = hr::random_stream(5).uniform(static_cast<std::uint64_t>(i)) < .7 ? 1 : 0;
    hr::model_masks<double, hr::cpu> masks;
    for (const hr::index_t l : {0, 1}) masks[{attention_kind::encoder_self, l}] = near.view();
    masks[{attention_kind::decoder_self, 1}] = near.view();
    masks[{attention_kind::cross, 0}] = half.view();
    hr::fixed_masks<double, hr::cpu> fixed(be, masks);
    CHECK(fixed.find(attention_kind::encoder_self, 0) == fixed.find(attention_kind::decoder_self, 1));
    CHECK(fixed.find(attention_kind::decoder_self, 0) == nullptr);

    hr::training_batch batch;
    hr::corpus sources, targets;
    for (const std::uint64_t length : {60u, 1u, 41u}) {
      sources.emplace_back();
      targets.emplace_back();
      for (std::uint64_t i = 0; i < length; ++i) {
        sources.back().push_back(static_cast<hr::token_id>(hr::random_stream(length).below(i, 11)));
        targets.back().push_back(static_cast<hr::token_id>(3 + hr::random_stream(length + 1).below(i, 10)));
      }
    }
    hr::fill_pairs(batch, sources, targets, std::vector<hr::index_t>{0, 1, 2}, 1, 2);
    hr::model_gates<double, hr::cpu> gates(be, config);
    gates.of(attention_kind::encoder_self, 0).value(1) = .3;
    gates.train();
    struct outcome {
      double loss, evaluated;
      std::vector<double> gradients;
    };
    const auto run = [&](const hr::model_masks<double, hr::cpu>* dense, hr::fixed_masks<double, hr::cpu>* lists,
                         std::vector<hr::attention_record<double>>* trace = nullptr) {
      outcome found{};
      hr::trainer<double, hr::cpu>::options o{.rate = {hr::decay_kind::constant, 0, 0}};
      o.forward.masks = dense;
      o.forward.attention = lists;
      o.forward.gates = &gates;
      o.forward.trace = trace;
      o.before_update = [&](hr::index_t) {
        const auto add = [&](auto& p) {
          found.gradients.insert(found.gradients.end(), p.gradient.data(), p.gradient.data() + p.gradient.size());
          std::fill_n(p.gradient.data(), p.gradient.size(), 0.);
        };
        for (const auto kind : {attention_kind::encoder_self, attention_kind::cross}) add(gates.of(kind, 0));
        hr::visit_parameters(model.weights(), [&](const std::string&, auto& p) { add(p); });
      };
      hr::adam<double, hr::cpu> optimizer(be, parameters(model.weights()));
      hr::trainer<double, hr::cpu> trainer(model, optimizer, std::move(o));
      found.loss = trainer.step(batch).loss;
      found.evaluated = trainer.evaluate(batch).loss;
      return found;
    };
    const auto dense = run(&masks, nullptr), sparse = run(nullptr, &fixed), whole = run(nullptr, nullptr);
    CHECK_FALSE(training_test::same_bits(sparse.gradients, dense.gradients));  // another way was taken
    CHECK(std::abs(sparse.loss - dense.loss) < 1e-12);
    CHECK(std::abs(sparse.evaluated - dense.evaluated) < 1e-12);
    CHECK(std::abs(whole.loss - dense.loss) > 1e-4);
    double most = 0, largest = 0;
    REQUIRE(sparse.gradients.size() == dense.gradients.size());
    for (std::size_t i = 0; i < dense.gradients.size(); ++i) {
      most = std::max(most, std::abs(sparse.gradients[i] - dense.gradients[i]));
      largest = std::max(largest, std::abs(dense.gradients[i]));
    }
    CHECK(most < 1e-12 * largest);
    // who wants to see probabilities gets them, from dense attention: the same bits as without lists
    std::vector<hr::attention_record<double>> trace;
    const auto seen = run(nullptr, &fixed, &trace);
    CHECK(training_test::same_bits(seen.gradients, dense.gradients));
    CHECK(trace.size() == 6);
    // masks that are given apart go before
    const auto both = run(&masks, &fixed);
    CHECK(training_test::same_bits(both.gradients, dense.gradients));

    half.data()[5] = .5;
    CHECK_THROWS_WITH_AS((hr::fixed_masks<double, hr::cpu>(be, masks)),
                         "sparse_mask: entry (0,0,5) is 0.5, expected 0 or 1", hr::argument_error);
    // what a soft mask takes off a score
    for (hr::index_t i = 0; i < half.size(); ++i) half.data()[i] = .5 + .25 * static_cast<double>(i % 3 > 0);
    const auto logits = [&](const hr::model_masks<double, hr::cpu>* m, double penalty) {
      hr::tape<double, hr::cpu> t(be, hr::tape_mode::inference);
      hr::forward_options<double, hr::cpu> o;
      o.masks = m;
      o.mask_penalty = penalty;
      const auto out = t.input(model.hidden(t, batch.source, batch.target, o));
      return std::vector<double>(out.data(), out.data() + out.size());
    };
    masks = {{{attention_kind::cross, 0}, half.view()}};
    CHECK(training_test::same_bits(logits(&masks, 0), logits(nullptr, 0)));
    CHECK_FALSE(training_test::same_bits(logits(&masks, 1), logits(nullptr, 1)));
    CHECK_THROWS_AS(logits(&masks, std::numeric_limits<double>::infinity()), hr::argument_error);
  }

  TEST_CASE("mask_training: options and masks that are wrong") {
    hr::cpu be{{.threads = 1}};
    const auto config = small_config();
    const auto make = [&](hr::mask_options o) {
      if (!o.by_layer) o.by_head = false;
      masks_of<float> m(be, config, std::move(o));
    };
    CHECK_THROWS_WITH_AS(make({.lambda = -1}), "mask_training: lambda is -1, expected at least 0", hr::argument_error);
    CHECK_THROWS_AS(make({.lambda = std::nan("")}), hr::argument_error);
    CHECK_THROWS_WITH_AS(make({.entry = {.temperature = 0}}),
                         "mask_training: the temperature is 0, expected a number above 0", hr::argument_error);
    CHECK_THROWS_AS(make({.entry = {.temperature = -1}}), hr::argument_error);
    CHECK_THROWS_AS(make({.entry = {.temperature = std::nan("")}}), hr::argument_error);
    CHECK_THROWS_AS(make({.temperature = {{0, 1, 5}}}), hr::argument_error);
    CHECK_THROWS_AS(make({.temperature = {{1, .5, 5}}, .learn_temperature = true}), hr::argument_error);
    CHECK_THROWS_AS(make({.initial = std::nan("")}), hr::argument_error);
    CHECK_THROWS_AS(make({.spread = -1}), hr::argument_error);
    CHECK_THROWS_WITH_AS(make({.length = -1}), "mask_training: length is -1, expected [0,32768]", hr::argument_error);
    CHECK_THROWS_AS(make({.length = hr::index_t{1} << 40}), hr::argument_error);
    CHECK_THROWS_WITH_AS(make({.kinds = {attention_kind::cross, attention_kind::cross}}),
                         "mask_training: cross is named twice", hr::argument_error);
    CHECK_THROWS_WITH_AS(masks_of<float>(be, config, {}),
                         "mask_training: layers of decoder_self have 2 and 4 heads, expected as many, or masks by "
                         "layer, or one for all heads",
                         hr::argument_error);
    const auto alone = small_config(hr::architecture::encoder);
    CHECK_THROWS_WITH_AS((masks_of<float>(be, alone, {.kinds = {attention_kind::cross}})),
                         "mask_training: the model has no attention of kind cross", hr::argument_error);

    masks_of<float> masks(be, alone, {.length = 3});
    CHECK_THROWS_WITH_AS(masks.a(attention_kind::encoder_self, 2), "mask_training: layer 2 of encoder_self has no mask",
                         hr::argument_error);
    auto model = seeded_model<float>(be, alone);
    hr::tape<float, hr::cpu> tape(be);
    hr::token_batch batch;
    batch.add(std::vector<hr::token_id>{3, 4, 5, 6});
    CHECK_THROWS_WITH_AS(model.encode(tape, batch, {.masks = &masks.masks()}),
                         "attention: mask is (2,3,3), expected (2,4,4) at least, or 1 for the heads", hr::shape_error);
    masks.a(attention_kind::encoder_self, 0).value(1, 0, 1) = std::nanf("");
    CHECK_THROWS_AS(masks.sample(1), hr::argument_error);
    CHECK_THROWS_AS(masks.evaluate(), hr::argument_error);

    hr::tensor<float, 3, hr::cpu> mask(be, {2, 4, 4}), gradient(be, {2, 4, 5});
    const hr::model_masks<float, hr::cpu> other{{{attention_kind::encoder_self, 0}, {mask.view(), gradient.view()}}};
    tape.clear();
    CHECK_THROWS_WITH_AS(model.encode(tape, batch, {.masks = &other}),
                         "attention: the gradient of the mask is (2,4,5), expected (2,4,4)", hr::shape_error);
  }
}
