#include <headred/nn/adam.hpp>
#include <headred/nn/clip_gradients.hpp>
#include <limits>

#include "nn/training_support.hpp"
#include "oracle/optimizer.hpp"

using namespace training_test;

namespace {

// Gradients of very different sizes, some zero.
long double gradient_of(int step, std::size_t i, std::uint64_t seed) {
  const hr::random_stream draws(seed, static_cast<std::uint64_t>(step));
  const double u = draws.uniform(i) - .5;
  if (i % 11 == 10) return 0;
  return std::pow(10., static_cast<int>(i % 7) - 4) * u;
}

template <class T>
void compare(hr::adam_options o, hr::index_t rows, hr::index_t cols, std::uint64_t seed, double tolerance) {
  hr::cpu be{{.threads = 2}};
  few_parameters<T> w(be, rows, cols);
  fill_values(w, seed);
  hr::adam<T, hr::cpu> optimizer(be, hr::parameter_list<T, hr::cpu>(w), o);
  std::vector<std::pair<T*, T*>> entries;  // value, gradient
  visit_parameters(w, [&](const std::string&, auto& p) {
    for (hr::index_t i = 0; i < p.value.size(); ++i) entries.emplace_back(p.value.data() + i, p.gradient.data() + i);
  });
  std::vector<long double> start;
  for (const auto& e : entries) start.push_back(*e.first);
  oracle::adam_reference reference(start, o.beta1, o.beta2, o.epsilon, o.weight_decay, o.decoupled);
  for (int step = 0; step < 12; ++step) {
    std::vector<long double> g(entries.size());
    for (std::size_t i = 0; i < g.size(); ++i) {
      *entries[i].second = static_cast<T>(gradient_of(step, i, seed));
      g[i] = *entries[i].second;
    }
    const double rate = .01 * (step + 1);
    optimizer.step(rate, 1, step % 2 == 0);
    reference.step(g, rate);
    for (std::size_t i = 0; i < g.size(); ++i)
      CHECK(*entries[i].second == (step % 2 == 0 ? T(0) : static_cast<T>(g[i])));
  }
  double worst = 0;
  for (std::size_t i = 0; i < entries.size(); ++i)
    worst = std::max(worst, static_cast<double>(std::abs(*entries[i].first - reference.w[i])));
  CHECK(worst <= tolerance);
  CHECK(optimizer.steps() == 12);
}

// A backend whose memory the library takes for a device's.
struct far_cpu : hr::cpu {
  using space = hr::device_space;
  using hr::cpu::cpu;
};

template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const hr::argument_error& problem) {
    return problem.what();
  }
  return "";
}

}  // namespace

TEST_SUITE("nn") {
  TEST_CASE("adam: the reference's steps") {
    for (const bool decoupled : {false, true})
      for (const double decay : {0., .1})
        for (const hr::index_t cols : {1, 7, 33, 600}) {
          const hr::adam_options o{.9, .98, 1e-9, decay, decoupled};
          compare<double>(o, 3, cols, 5, 2e-14);
          compare<float>(o, 3, cols, 5, 4e-6);
        }
    compare<double>({0, 0, 1e-8, 0, false}, 2, 5, 6, 2e-14);
  }

  TEST_CASE("adam: the first step has the size of the rate whatever the gradient") {
    hr::cpu be{{.threads = 1}};
    few_parameters<double> w(be);
    hr::adam<double, hr::cpu> optimizer(be, hr::parameter_list<double, hr::cpu>(w), {.epsilon = 0});
    visit_parameters(w, [](const std::string&, auto& p) {
      for (hr::index_t i = 0; i < p.value.size(); ++i) p.gradient.data()[i] = i % 2 == 0 ? 1e-12 : -1e12;
    });
    optimizer.step(.25);
    visit_parameters(w, [](const std::string&, auto& p) {
      for (hr::index_t i = 0; i < p.value.size(); ++i)
        CHECK(p.value.data()[i] == doctest::Approx(i % 2 == 0 ? -.25 : .25).epsilon(1e-14));
    });
  }

  TEST_CASE("adam: groups by name have decay, factor and rate of their own") {
    hr::cpu be{{.threads = 1}};
    few_parameters<double> w(be);
    fill_values(w, 3);
    const double matrix = w.matrix.value(1, 2), bias = w.bias.value(1), gate = w.gates.value(1);
    const std::vector<hr::adam_group> groups{
        {.holds = [](const std::string& n) { return n == "gates"; }, .weight_decay = 0., .learning_rate = .5},
        {.holds = hr::is_bias_or_norm, .weight_decay = 0., .rate_factor = 2}};
    hr::adam<double, hr::cpu> optimizer(be, hr::parameter_list<double, hr::cpu>(w),
                                        {.weight_decay = .1, .decoupled = true}, groups);
    CHECK(optimizer.description() ==
          "adamw beta1 0.9 beta2 0.999 epsilon 1e-08, 1 parameter: weight_decay 0 learning_rate 0.5, 1 parameter: "
          "weight_decay 0 rate_factor 2, 1 parameter: weight_decay 0.1");
    optimizer.step(.01);  // gradients are zero: only the decay acts
    CHECK(w.matrix.value(1, 2) == doctest::Approx(matrix * (1 - .001)).epsilon(1e-15));
    CHECK(w.bias.value(1) == bias);
    CHECK(w.gates.value(1) == gate);
    w.matrix.gradient(1, 2) = w.bias.gradient(1) = w.gates.gradient(1) = 1;
    hr::adam<double, hr::cpu> fresh(be, hr::parameter_list<double, hr::cpu>(w), {.epsilon = 0}, groups);
    fresh.step(.01);
    CHECK(w.bias.value(1) == doctest::Approx(bias - .02).epsilon(1e-14));
    CHECK(w.gates.value(1) == doctest::Approx(gate - .5).epsilon(1e-14));
  }

  TEST_CASE("adam: gradients are scaled on the way") {
    hr::cpu be{{.threads = 1}};
    few_parameters<double> a(be), b(be);
    fill_values(a, 3);
    fill_values(b, 3);
    hr::adam<double, hr::cpu> first(be, hr::parameter_list<double, hr::cpu>(a), {.weight_decay = .1}),
        second(be, hr::parameter_list<double, hr::cpu>(b), {.weight_decay = .1});
    for (int step = 0; step < 3; ++step) {
      for (hr::index_t i = 0; i < a.matrix.value.size(); ++i) {
        a.matrix.gradient.data()[i] = .25 * static_cast<double>(i);
        b.matrix.gradient.data()[i] = static_cast<double>(i);
      }
      first.step(.1);
      second.step(.1, .25);
    }
    CHECK(std::memcmp(a.matrix.value.data(), b.matrix.value.data(), a.matrix.value.bytes()) == 0);
  }

  TEST_CASE_TEMPLATE("adam: same bits for any number of threads, and wherever an entry stands", T, float, double) {
    const auto run = [](int threads, hr::index_t rows, hr::index_t cols) {
      hr::cpu be{{.threads = threads}};
      few_parameters<T> w(be, rows, cols);
      hr::adam<T, hr::cpu> optimizer(be, hr::parameter_list<T, hr::cpu>(w), {.weight_decay = .01});
      for (int step = 0; step < 3; ++step) {
        for (hr::index_t i = 0; i < w.matrix.value.size(); ++i)
          w.matrix.gradient.data()[i] = static_cast<T>(
              hr::random_stream(4, static_cast<std::uint64_t>(step)).uniform(static_cast<std::uint64_t>(i) % 37));
        optimizer.step(.01);
      }
      return std::vector<T>(w.matrix.value.data(), w.matrix.value.data() + w.matrix.value.size());
    };
    const auto one = run(1, 300, 200);
    CHECK(same_bits(one, run(2, 300, 200)));
    CHECK(same_bits(one, run(3, 300, 200)));
    for (std::size_t i = 37; i < one.size(); ++i) CHECK_MESSAGE(one[i] == one[i - 37], i);
  }

  TEST_CASE("adam: a squared gradient beyond float does not poison its weight") {
    hr::cpu be{{.threads = 1}};
    few_parameters<float> w(be);
    hr::adam<float, hr::cpu> optimizer(be, hr::parameter_list<float, hr::cpu>(w));
    for (hr::index_t i = 0; i < w.matrix.value.size(); ++i) w.matrix.gradient.data()[i] = 1e25f;
    optimizer.step(.1);
    for (hr::index_t i = 0; i < w.matrix.value.size(); ++i) CHECK(w.matrix.value.data()[i] == 0);
  }

  TEST_CASE_TEMPLATE("adam and clipping: the same on a device", T, float, double) {
    far_cpu far{{.threads = 1}};
    hr::cpu near{{.threads = 1}};
    few_parameters<T, far_cpu> a(far);
    few_parameters<T> b(near);
    const hr::adam_options o{.weight_decay = .1, .decoupled = true};
    visit_parameters(a, [](const std::string&, auto& p) { std::fill_n(p.gradient.data(), p.gradient.size(), T(0)); });
    fill_values(a, 3);
    fill_values(b, 3);
    hr::adam<T, far_cpu> first(far, hr::parameter_list<T, far_cpu>(a), o);
    hr::adam<T, hr::cpu> second(near, hr::parameter_list<T, hr::cpu>(b), o);
    for (int step = 0; step < 3; ++step) {
      for (hr::index_t i = 0; i < a.matrix.value.size(); ++i)
        a.matrix.gradient.data()[i] = b.matrix.gradient.data()[i] = static_cast<T>(i - 5 * step);
      const auto clipped = hr::clip_gradients(far, first.parameters(), 2);
      CHECK(clipped.norm == doctest::Approx(hr::clip_gradients(near, second.parameters(), 2).norm).epsilon(1e-14));
      CHECK(hr::gradient_norm(far, first.parameters()) == doctest::Approx(2).epsilon(1e-6));
      first.step(.1, 1, true);
      second.step(.1, 1, true);
      CHECK(a.matrix.gradient.data()[3] == 0);
    }
    for (hr::index_t i = 0; i < a.matrix.value.size(); ++i)
      CHECK(a.matrix.value.data()[i] ==
            doctest::Approx(b.matrix.value.data()[i]).epsilon(sizeof(T) == 4 ? 1e-6 : 1e-14));
    hr::zero_gradients(far, first.parameters());
    CHECK(hr::gradient_norm(far, first.parameters()) == 0);
  }

  TEST_CASE("adam and parameter_list: what they refuse") {
    hr::cpu be{{.threads = 1}};
    few_parameters<double> w(be);
    using list = hr::parameter_list<double, hr::cpu>;
    using adam = hr::adam<double, hr::cpu>;
    CHECK(message_of([&] { adam(be, list(w), {.beta1 = 1}); }) == "adam: beta1 is 1, expected [0,1)");
    CHECK(message_of([&] { adam(be, list(w), {.beta2 = -.5}); }) == "adam: beta2 is -0.5, expected [0,1)");
    CHECK(message_of([&] { adam(be, list(w), {.epsilon = -1}); }) == "adam: epsilon is -1, expected at least 0");
    CHECK(message_of([&] { adam(be, list(w), {.weight_decay = -1}); }) ==
          "adam: weight_decay is -1, expected at least 0");
    CHECK(message_of([&] { adam(be, list()); }) == "adam: no parameter is trained, expected at least 1");
    adam optimizer(be, list(w));
    CHECK(message_of([&] { optimizer.step(std::numeric_limits<double>::quiet_NaN()); }) ==
          "adam: learning_rate is nan, expected at least 0");
    CHECK(optimizer.steps() == 0);
    CHECK(message_of([&] { optimizer.set_steps(-1); }) == "adam: -1 steps, expected at least 0");
    list twice(w);
    CHECK(message_of([&] { twice.add_all(w); }) == "parameter_list: layer.weight is given twice");
    CHECK(message_of([&] { twice.add_all(w, "x."); }) ==
          "parameter_list: x.layer.weight is the same parameter as layer.weight");
    w.bias.train(be, false);
    CHECK(list(w).size() == 2);
    CHECK(list(w).values() == 23);
  }

  TEST_CASE("parameter_list: gates of every layer by name") {
    hr::cpu be{{.threads = 1}};
    const auto config = small_config();
    hr::model_gates<double, hr::cpu> gates(be, config);
    hr::parameter_list<double, hr::cpu> list;
    list.add_gates(gates, config);
    CHECK(list.empty());
    gates.train();
    list.add_gates(gates, config);
    std::vector<std::string> names;
    for (const auto& p : list) names.push_back(p.name);
    CHECK(names == std::vector<std::string>{"gates.encoder_self.0", "gates.encoder_self.1", "gates.decoder_self.0",
                                            "gates.decoder_self.1", "gates.cross.0", "gates.cross.1"});
  }
}
