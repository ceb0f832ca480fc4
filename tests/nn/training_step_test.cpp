#include <limits>

#include "nn/training_support.hpp"

using namespace training_test;

namespace {

template <class T>
struct run {
  hr::cpu be;
  hr::transformer<T, hr::cpu> model;
  hr::adam<T, hr::cpu> optimizer;
  hr::trainer<T, hr::cpu> trainer;

  using options = typename hr::trainer<T, hr::cpu>::options;
  explicit run(const hr::transformer_config& c, options o = {.rate = hr::learning_rate::constant(1e-2)},
               int threads = 2)
      : be({.threads = threads}),
        model(seeded_model<T>(be, c)),
        optimizer(be, hr::parameter_list<T, hr::cpu>(model.weights())),
        trainer(model, optimizer, std::move(o)) {}
};

hr::training_batch pairs(const std::vector<hr::index_t>& numbers) {
  hr::training_batch b;
  hr::fill_pairs(b, small_corpus(20, 11, 5), small_corpus(20, 13, 6), numbers, 1, 2);
  return b;
}

template <class T>
double greatest_difference(const std::vector<T>& a, const std::vector<T>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(a[i] - b[i])));
  return worst;
}

template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const hr::error& problem) {
    return problem.what();
  }
  return "";
}

}  // namespace

TEST_SUITE("nn") {
  TEST_CASE("trainer: micro-batches add up to the batch") {
    run<double> whole(small_config()), parts(small_config());
    for (int step = 0; step < 5; ++step) {
      const auto a = whole.trainer.step(pairs({0, 1, 2, 3, 4, 5}));
      const auto b = parts.trainer.step(std::vector<hr::training_batch>{pairs({0}), pairs({1, 2, 3}), pairs({4, 5})});
      CHECK(a.loss == doctest::Approx(b.loss).epsilon(1e-12));
      CHECK(a.tokens == b.tokens);
      CHECK(a.gradient_norm == doctest::Approx(b.gradient_norm).epsilon(1e-10));
    }
    CHECK(greatest_difference(all_values(whole.model.weights()), all_values(parts.model.weights())) < 1e-7);
  }

  TEST_CASE("trainer: the loss falls, evaluation changes nothing") {
    run<float> r(small_config(), {.rate = hr::learning_rate::constant(2e-2), .longest_gradient = 1});
    const auto batch = pairs({0, 1, 2, 3, 4, 5, 6, 7});
    const double before = r.trainer.evaluate(batch).loss;
    hr::step_result done;
    for (int step = 0; step < 150; ++step) done = r.trainer.step(batch);
    CHECK(done.loss < .1 * before);
    const auto weights = all_values(r.model.weights());
    const auto after = r.trainer.evaluate(batch);
    CHECK(after.loss < done.loss * 1.1);
    CHECK(after.tokens == batch.tokens());
    CHECK(same_bits(weights, all_values(r.model.weights())));
    CHECK(r.trainer.steps() == 150);
  }

  TEST_CASE_TEMPLATE("trainer: same bits for any number of threads, dropout and clipping included", T, float, double) {
    auto c = small_config(hr::architecture::encoder_decoder, false);
    c.dropout = .1;
    c.attention_dropout = .2;
    std::vector<T> first;
    for (const int threads : {1, 2, 3}) {
      run<T> r(c, {.rate = hr::learning_rate::noam(8, 4), .label_smoothing = .1, .longest_gradient = .5, .seed = 5},
               threads);
      for (int step = 0; step < 4; ++step)
        r.trainer.step(std::vector<hr::training_batch>{pairs({0, 1, 2, step + 3}), pairs({9, 10})});
      if (threads == 1) first = all_values(r.model.weights());
      CHECK(same_bits(first, all_values(r.model.weights())));
    }
  }

  TEST_CASE("trainer: dropout draws anew each step and for each micro-batch") {
    auto c = small_config();
    c.dropout = .5;
    run<double> r(c, {.rate = hr::learning_rate::constant(0)});
    const double first = r.trainer.step(pairs({0, 1})).loss, second = r.trainer.step(pairs({0, 1})).loss;
    CHECK(first != second);
    run<double> twice(c, {.rate = hr::learning_rate::constant(0)});
    const auto both = twice.trainer.step(std::vector<hr::training_batch>{pairs({0, 1}), pairs({0, 1})});
    CHECK(std::abs(both.loss - first) > 1e-6);
  }

  TEST_CASE("trainer: only rows that have a label get logits") {
    auto c = small_config(hr::architecture::encoder, false);
    c.output = hr::output_head::masked_lm;
    const auto texts = small_corpus(6, 11, 5);
    hr::training_batch few, all;
    hr::fill_masked(few, texts, std::vector<hr::index_t>{0, 1, 2, 3}, {.mask_id = 3, .vocabulary = 11}, 0);
    all.source = few.source;
    all.labels.assign(few.source.ids.size(), -1);
    for (std::size_t k = 0; k < few.rows.size(); ++k) all.labels[static_cast<std::size_t>(few.rows[k])] = few.labels[k];
    REQUIRE(few.rows.size() < few.source.ids.size());
    run<double> a(c), b(c);
    for (int step = 0; step < 3; ++step) {
      const auto x = a.trainer.step(few), y = b.trainer.step(all);
      CHECK(x.tokens == y.tokens);
      CHECK(x.loss == doctest::Approx(y.loss).epsilon(1e-13));
    }
    CHECK(greatest_difference(all_values(a.model.weights()), all_values(b.model.weights())) < 1e-9);
  }

  TEST_CASE("trainer: hooks add to the loss and to the gradients") {
    const auto c = small_config();
    run<double>::options o{.rate = hr::learning_rate::constant(1e-3)};
    double seen_norm = 0;
    run<double>* self = nullptr;
    o.before_update = [&](hr::index_t step) {
      CHECK(step == self->trainer.steps() + 1);
      seen_norm = hr::gradient_norm(self->be, self->optimizer.parameters());
      for (const auto& p : self->optimizer.parameters())
        for (hr::index_t i = 0; i < p.size; ++i) p.gradient[i] *= 3;
    };
    // half the sum of squares of the hidden states, weighted as the loss is
    o.extra_loss = [](auto& t, const hr::pass_slots& pass, double weight) {
      const auto x = t.input(pass.hidden);
      const auto dx = t.gradient(pass.hidden);
      double sum = 0;
      for (hr::index_t i = 0; i < x.size(); ++i) {
        sum += x.data()[i] * x.data()[i] / 2;
        dx.data()[i] += weight * x.data()[i];
      }
      return weight * sum;
    };
    run<double> r(c, o);
    self = &r;
    run<double> plain(c, {.rate = hr::learning_rate::constant(1e-3)});
    const auto done = r.trainer.step(pairs({0, 1, 2})), without = plain.trainer.step(pairs({0, 1, 2}));
    CHECK(done.loss == without.loss);
    CHECK(done.extra > 1);
    CHECK(done.gradient_norm == doctest::Approx(3 * seen_norm).epsilon(1e-14));
    CHECK(std::abs(seen_norm - without.gradient_norm) > 1e-3);
    const double extra = done.extra;
    for (int step = 0; step < 60; ++step) r.trainer.step(pairs({0, 1, 2}));
    CHECK(r.trainer.step(pairs({0, 1, 2})).extra < extra);
  }

  TEST_CASE("trainer: gates are trained, the trace is that of the last pass") {
    const auto c = small_config();
    hr::cpu be{{.threads = 1}};
    auto model = seeded_model<double>(be, c);
    hr::model_gates<double, hr::cpu> gates(be, c);
    gates.train();
    hr::parameter_list<double, hr::cpu> list;
    list.add_gates(gates, c);  // the weights stay
    hr::adam<double, hr::cpu> optimizer(be, list);
    std::vector<hr::attention_record<double>> trace;
    hr::trainer<double, hr::cpu> trainer(
        model, optimizer,
        {.rate = hr::learning_rate::constant(.1),
         .forward = {.gates = &gates, .keep_attention_gradients = true, .trace = &trace}});
    const auto weights = all_values(model.weights());
    for (int step = 0; step < 3; ++step) {
      trainer.step(std::vector<hr::training_batch>{pairs({0}), pairs({1, 2})});
      CHECK(trace.size() == 6);
      CHECK(trace[0].sentences() == 2);
      CHECK(trace[5].probability_gradients(1).size() > 0);
    }
    CHECK(same_bits(weights, all_values(model.weights())));
    CHECK(std::abs(gates.of(hr::attention_kind::cross, 1).value(0) - 1) > .01);
  }

  TEST_CASE_TEMPLATE("trainer: a step whose gradients are not finite is left out", T, float, double) {
    bool poison = false;
    run<T>* self = nullptr;
    typename run<T>::options o{.rate = hr::learning_rate::constant(1e-2), .longest_gradient = 1};
    o.before_update = [&](hr::index_t) {
      if (poison) self->model.weights().encoder[1].expand.weight.gradient(2, 3) = std::numeric_limits<T>::quiet_NaN();
    };
    run<T> r(small_config(), o), clean(small_config(), o);
    self = &r;
    r.trainer.step(pairs({0, 1}));
    poison = true;
    const auto weights = all_values(r.model.weights());
    const auto done = r.trainer.step(pairs({2, 3}));
    CHECK_FALSE(done.applied);
    CHECK(std::isnan(done.gradient_norm));
    CHECK(std::isfinite(done.loss));
    CHECK(same_bits(weights, all_values(r.model.weights())));
    CHECK(r.trainer.skipped() == 1);
    CHECK(r.trainer.steps() == 2);
    CHECK(r.optimizer.steps() == 1);
    poison = false;
    CHECK(r.trainer.step(pairs({4, 5})).applied);
    clean.trainer.step(pairs({0, 1}));
    clean.trainer.step(pairs({4, 5}));
    CHECK(same_bits(all_values(r.model.weights()), all_values(clean.model.weights())));
  }

  TEST_CASE("trainer: what it refuses leaves everything as it was") {
    run<double> r(small_config());
    const auto weights = all_values(r.model.weights());
    auto bad = pairs({0, 1});
    bad.target.ids[3] = 13;
    CHECK(message_of([&] {
            r.trainer.step(std::vector<hr::training_batch>{pairs({0, 1}), bad});
          }) == "embedding_forward: id 13 at position 3, expected [0,13)");
    CHECK(hr::gradient_norm(r.be, r.optimizer.parameters()) == 0);
    auto silent = pairs({0});
    silent.labels.assign(silent.labels.size(), -1);
    CHECK(message_of([&] { r.trainer.step(silent); }) == "trainer: the batch has no label, expected at least 1");
    CHECK(message_of([&] { r.trainer.evaluate(silent); }) == "trainer: the batch has no label, expected at least 1");
    auto uneven = pairs({0});
    uneven.labels.pop_back();
    CHECK(message_of([&] { r.trainer.step(uneven); }).find("softmax_cross_entropy") == 0);
    CHECK(r.trainer.steps() == 0);
    CHECK(same_bits(weights, all_values(r.model.weights())));
    CHECK(message_of([&] { run<double>(small_config(), {.label_smoothing = 1}); }) ==
          "trainer: label_smoothing is 1, expected [0,1)");
    CHECK(message_of([&] { run<double>(small_config(), {.longest_gradient = -1}); }) ==
          "trainer: longest_gradient is -1, expected at least 0");
    CHECK(message_of([&] { r.trainer.resume(1, 2); }) == "trainer: 2 of 1 steps skipped, expected 0 to all of them");
  }

  TEST_CASE("select_rows: takes rows, gives their gradients back") {
    hr::cpu be{{.threads = 2}};
    const std::vector<double> x{0, 1, 10, 11, 20, 21};
    std::vector<double> y(4), dx(6, 1);
    const std::vector<hr::index_t> rows{0, 2};
    const hr::tensor_view<const double, 2> in(x.data(), {3, 2});
    const hr::tensor_view<double, 2> out(y.data(), {2, 2});
    hr::select_rows_forward<double>(be, in, rows, out);
    CHECK(y == std::vector<double>{0, 1, 20, 21});
    hr::select_rows_gradient<double>(be, out, rows, hr::tensor_view<double, 2>(dx.data(), {3, 2}));
    CHECK(dx == std::vector<double>{1, 2, 1, 1, 21, 22});
    for (const auto& wrong : {std::vector<hr::index_t>{1, 1}, std::vector<hr::index_t>{0, 3}})
      CHECK(message_of([&] { hr::select_rows_forward<double>(be, in, wrong, out); }) ==
            "select_rows_forward: row " + std::to_string(wrong[1]) +
                " at position 1, expected ascending rows in [0,3)");
    CHECK(message_of([&] {
            hr::select_rows_forward<double>(be, in, std::vector<hr::index_t>{-1, 0}, out);
          }).find("row -1 at position 0") != std::string::npos);
  }
}
