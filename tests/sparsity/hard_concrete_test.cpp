#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/as_view.hpp>
#include <headred/sparsity/hard_concrete.hpp>

#include "environment.hpp"
#include "oracle/gates.hpp"
#include "sparsity/serial_backend.hpp"

namespace hr = headred;
namespace oracle = headred_test::oracle;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

template <class T>
std::vector<T> numbers(hr::index_t n, std::uint64_t seed, double width) {
  const hr::random_stream draws(seed);
  std::vector<T> v;
  for (hr::index_t i = 0; i < n; ++i)
    v.push_back(static_cast<T>(width * (2 * draws.uniform(static_cast<std::uint64_t>(i)) - 1)));
  return v;
}

}  // namespace

TEST_SUITE("sparsity") {
  TEST_CASE("hard_concrete: the worked values of definitions.md, section 4") {
    const hr::hard_concrete g;
    const auto near = [](double x, double printed) { return std::abs(x - printed) <= .5000001e-10; };
    CHECK(std::abs(g.open(-5) - .01464801) <= .5e-8);
    CHECK(near(g.open(-3), .0989724273));
    CHECK(near(g.open(0), .6881115651));
    CHECK(near(g.open(.5), .7843680665));
    CHECK(near(g.open(3), .9779318683));
    CHECK(near(g.full(-3), .0220681317));
    CHECK(near(g.full(0), .3118884349));
    CHECK(near(g.full(.5), .4276843038));
    CHECK(near(g.full(3), .9010275727));
    CHECK(g.evaluate(-5) == 0);
    CHECK(g.evaluate(-3) == 0);
    CHECK(std::abs(g.evaluate(0) - .5) < 1e-15);
    CHECK(near(g.evaluate(.5), .6469511974));
    CHECK(g.evaluate(3) == 1);
    CHECK(g.sample(-3, .3) == 0);
    CHECK(g.sample(0, .3) == 0);
    CHECK(near(g.sample(.5, .3), .2105133141));
    CHECK(g.sample(3, .3) == 1);
    // exactly 0 (1) iff log_a <= -2.3978952728 (>= 2.3978952728)
    CHECK(g.evaluate(-2.3978952728 - 1e-10) == 0);
    CHECK(g.evaluate(-2.3978952728 + 1e-10) > 0);
    CHECK(g.evaluate(2.3978952728 + 1e-10) == 1);
    CHECK(g.evaluate(2.3978952728 - 1e-10) < 1);
  }

  TEST_CASE("hard_concrete: the values of failures.md, line 54") {
    const hr::hard_concrete g;
    const double log_a[] = {-5, -2, 0, 2, 5}, closed[] = {.98535199, .77006788, .31188843, .05779583, .00304469},
                 gate[] = {0, .04304351, .5, .95695649, 1};
    for (int i = 0; i < 5; ++i) {
      CHECK(std::abs(1 - g.open(log_a[i]) - closed[i]) <= .5000001e-8);
      CHECK(std::abs(g.evaluate(log_a[i]) - gate[i]) <= .5000001e-8);
    }
  }

  TEST_CASE("hard_concrete: the paper's rule opens above 0") {
    hr::hard_concrete g;
    g.evaluation = hr::gate_evaluation::threshold;
    CHECK(g.evaluate(0) == 0);
    CHECK(g.evaluate(1e-300) == 1);
    CHECK(g.evaluate(-1) == 0);
    CHECK(g.evaluate(inf) == 1);
  }

  TEST_CASE_TEMPLATE("hard_concrete: samples, evaluation and probabilities against the oracle", T, float, double) {
    hr::cpu be{{.threads = 2}};
    hr::hard_concrete g;
    const oracle::hard_concrete naive;
    const double eps = std::is_same_v<T, float> ? 4e-6 : 1e-13;
    const hr::index_t n = 1000;
    const auto log_a = numbers<T>(n, headred_test::seed(), 8);
    std::vector<T> gates(log_a.size()), still(log_a.size()), open(log_a.size()), full(log_a.size());
    hr::hard_concrete_sample(be, g, hr::as_view(log_a), hr::random_stream(5, 9), hr::as_view(gates));
    hr::hard_concrete_evaluate(be, g, hr::as_view(log_a), hr::as_view(still));
    hr::hard_concrete_open(be, g, hr::as_view(log_a), hr::as_view(open));
    hr::hard_concrete_full(be, g, hr::as_view(log_a), hr::as_view(full));
    double worst = 0;
    long double penalty = 0;
    int zeros = 0, ones = 0;
    for (std::size_t i = 0; i < log_a.size(); ++i) {
      const long double a = log_a[i];
      const long double u = 1e-6L + (1 - 2e-6L) * oracle::noise(5, 9, i, std::is_same_v<T, float>);
      worst = std::max(worst, std::abs(static_cast<double>(gates[i] - naive.sample(a, u))));
      worst = std::max(worst, std::abs(static_cast<double>(still[i] - naive.evaluate(a))));
      worst = std::max(worst, std::abs(static_cast<double>(open[i] / naive.open(a) - 1)));
      worst = std::max(worst, std::abs(static_cast<double>(full[i] / naive.full(a) - 1)));
      penalty += naive.open(a);
      zeros += gates[i] == 0;
      ones += gates[i] == 1;
    }
    CHECK(worst < eps);
    CHECK(zeros > 300);
    CHECK(ones > 300);
    CHECK(std::abs(hr::hard_concrete_penalty(be, g, hr::as_view(log_a)) / static_cast<double>(penalty) - 1) < eps);
  }

  TEST_CASE("hard_concrete: shares of zeros and ones are the probabilities") {
    hr::cpu be{{.threads = 2}};
    const hr::hard_concrete g;
    for (const double log_a : {-2., 0., .5, 2.}) {
      const std::vector<double> all(200000, log_a);
      std::vector<double> gates(all.size());
      hr::hard_concrete_sample(be, g, hr::as_view(all), hr::random_stream(headred_test::seed()), hr::as_view(gates));
      double open = 0, full = 0;
      for (const double x : gates) open += x != 0, full += x == 1;
      const double n = static_cast<double>(all.size());
      const auto deviations = [n](double share, double p) { return std::abs(share - p) / std::sqrt(p * (1 - p) / n); };
      CHECK(deviations(open / n, g.open(log_a)) < 4.5);
      CHECK(deviations(full / n, g.full(log_a)) < 4.5);
    }
  }

  TEST_CASE("hard_concrete: pull-backs against 4-point differences") {
    hr::cpu be{{.threads = 2}};
    const hr::hard_concrete g{.temperature = .5, .lower = -.3, .upper = 1.2};
    const auto log_a = numbers<double>(400, headred_test::seed() + 1, 2);
    const auto dgates = numbers<double>(400, headred_test::seed() + 2, 1);
    std::vector<double> dlog_a(log_a.size(), 0), dpenalty(log_a.size(), 0), dtemperature(1, 0), dpenalty_t(1, 0);
    const hr::random_stream draws(3);
    hr::hard_concrete_gradient(be, g, hr::as_view(log_a), draws, hr::as_view(dgates), hr::as_view(dlog_a),
                               hr::as_view(dtemperature));
    hr::hard_concrete_penalty_gradient(be, g, hr::as_view(log_a), .7, hr::as_view(dpenalty), hr::as_view(dpenalty_t));
    const auto loss = [&](long double log_temperature, std::size_t only, long double log_a_of_it) {
      const oracle::hard_concrete at{std::exp(log_temperature), -.3L, 1.2L};
      long double sum = 0;
      for (std::size_t i = 0; i < log_a.size(); ++i) {
        if (only < log_a.size() && i != only) continue;
        const long double u = 1e-6L + (1 - 2e-6L) * oracle::noise(3, 0, i);
        sum += dgates[i] * at.sample(only < log_a.size() ? log_a_of_it : log_a[i], u);
      }
      return sum;
    };
    const long double log_t = std::log(.5L);
    int clipped = 0, alive = 0;
    for (std::size_t i = 0; i < log_a.size(); ++i) {
      const long double expected =
          oracle::difference([&](long double x) { return loss(log_t, i, x); }, log_a[i], 1e-3L);
      const long double u = 1e-6L + (1 - 2e-6L) * oracle::noise(3, 0, i),
                        gate = oracle::hard_concrete{.5L, -.3L, 1.2L}.sample(log_a[i], u);
      // a kink within the reach of the difference is not for it
      if (gate > 0 && gate < .005L) continue;
      if (gate < 1 && gate > .995L) continue;
      if (gate == 0 || gate == 1) {
        CHECK(dlog_a[i] == 0);
        ++clipped;
      } else {
        CHECK(std::abs(static_cast<double>(dlog_a[i] - expected)) < 1e-9);
        ++alive;
      }
      const oracle::hard_concrete at{.5L, -.3L, 1.2L};
      const long double slope = oracle::difference([&](long double x) { return at.open(x); }, log_a[i], 1e-3L);
      CHECK(std::abs(static_cast<double>(dpenalty[i] - .7L * slope)) < 1e-11);
    }
    CHECK(clipped > 50);
    CHECK(alive > 50);
    // a step so small that no gate passes a kink
    const long double by_t = oracle::difference([&](long double x) { return loss(x, log_a.size(), 0); }, log_t, 1e-7L);
    CHECK(std::abs(static_cast<double>(dtemperature[0] - by_t)) < 1e-8);
    const auto penalty = [&](long double x) {
      long double sum = 0;
      for (const double a : log_a) sum += .7L * oracle::hard_concrete{std::exp(x), -.3L, 1.2L}.open(a);
      return sum;
    };
    CHECK(std::abs(static_cast<double>(dpenalty_t[0] - oracle::difference(penalty, log_t, 1e-3L))) < 1e-9);
  }

  TEST_CASE("hard_concrete: gradients are added, weights of both signs") {
    hr::cpu be{{.threads = 1}};
    const hr::hard_concrete g;
    const std::vector<double> log_a{.5};
    std::vector<double> d{10};
    hr::hard_concrete_penalty_gradient(be, g, hr::as_view(log_a), -2, hr::as_view(d));
    CHECK(d[0] == doctest::Approx(10 - 2 * .7843680665 * (1 - .7843680665)).epsilon(1e-9));
    CHECK(g.sample_slope(.5, .3) ==
          doctest::Approx(static_cast<double>(
              oracle::difference([](long double x) { return oracle::hard_concrete().sample(x, .3L); }, .5L, 1e-3L))));
    CHECK(g.sample_slope(3, .3) == 0);
  }

  TEST_CASE_TEMPLATE("hard_concrete: extreme log_a gives no NaN, and the penalty's gradient is alive", T, float,
                     double) {
    hr::cpu be{{.threads = 1}};
    const hr::hard_concrete g;
    const T far = std::numeric_limits<T>::max(), inf_t = std::numeric_limits<T>::infinity();
    const std::vector<T> log_a{T(-50), T(50), far, -far, inf_t, -inf_t, T(0)};
    std::vector<T> gates(7), d(7, T(0)), dt(1, T(0)), p(7, T(0)), pt(1, T(0));
    const std::vector<T> ones(7, T(1));
    hr::hard_concrete_sample(be, g, hr::as_view(log_a), hr::random_stream(1), hr::as_view(gates));
    hr::hard_concrete_gradient(be, g, hr::as_view(log_a), hr::random_stream(1), hr::as_view(ones), hr::as_view(d),
                               hr::as_view(dt));
    hr::hard_concrete_penalty_gradient(be, g, hr::as_view(log_a), 1, hr::as_view(p), hr::as_view(pt));
    for (std::size_t i = 0; i < 6; ++i) {
      CHECK(gates[i] == (log_a[i] > 0 ? T(1) : T(0)));
      CHECK(d[i] == 0);
      CHECK(std::isfinite(p[i]));
    }
    CHECK(std::isfinite(dt[0]));
    CHECK(std::isfinite(pt[0]));
    CHECK(p[0] > 0);
    CHECK(p[1] > 0);
    for (double a = -50; a <= 50; a += .25) {
      std::vector<T> one{static_cast<T>(a)}, slope{T(0)};
      hr::hard_concrete_penalty_gradient(be, g, hr::as_view(one), 1, hr::as_view(slope));
      const long double shift = .33L * std::log(.1L / 1.1L),
                        e = std::exp(-std::abs(static_cast<long double>(a) - shift));
      CHECK(slope[0] > 0);
      CHECK(std::abs(static_cast<double>(slope[0] / (e / ((1 + e) * (1 + e))) - 1)) <
            (std::is_same_v<T, float> ? 1e-5 : 1e-13));
    }
    CHECK(hr::hard_concrete_penalty(be, g, hr::as_view(log_a)) == doctest::Approx(3 + .6881115651));
  }

  TEST_CASE("hard_concrete: noise of exactly 0 and 1 is finite") {
    const hr::hard_concrete g;
    CHECK(g.sample(0, 0) == 0);
    CHECK(g.sample(0, 1) == 1);
    CHECK(g.sample(13.8155, 0) == doctest::Approx(.5).epsilon(1e-4));
    CHECK_THROWS_WITH_AS(g.sample(0, 1.5), "hard_concrete: the noise is 1.5, expected [0,1]", hr::argument_error);
    CHECK_THROWS_WITH_AS(g.sample(0, std::nan("")), "hard_concrete: the noise is nan, expected [0,1]",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(g.open(std::nan("")), "hard_concrete: log_a is NaN, expected a number", hr::argument_error);
  }

  TEST_CASE("hard_concrete: settings and data that are wrong") {
    hr::cpu be{{.threads = 1}};
    std::vector<float> a{0, 1, std::nanf("")}, out(3), two(2);
    const auto sample = [&](const hr::hard_concrete& g) {
      std::vector<float> good{0, 1, 2};
      hr::hard_concrete_sample(be, g, hr::as_view(good), hr::random_stream(1), hr::as_view(out));
    };
    for (const double tau : {0., -1., std::nan(""), inf, 1e-60}) {
      CHECK_THROWS_AS(sample({.temperature = tau}), hr::argument_error);
    }
    CHECK_THROWS_WITH_AS(sample({.temperature = -1}),
                         "hard_concrete_sample: the temperature is -1, expected a number above 0", hr::argument_error);
    CHECK_THROWS_WITH_AS(
        sample({.lower = .1}),
        "hard_concrete_sample: the stretch is (0.1,1.1), expected to contain [0,1] with room on both sides",
        hr::argument_error);
    CHECK_THROWS_AS(sample({.lower = 0}), hr::argument_error);
    CHECK_THROWS_AS(sample({.upper = 1}), hr::argument_error);
    CHECK_THROWS_AS(sample({.upper = inf}), hr::argument_error);
    CHECK_THROWS_AS(sample({.lower = std::nan("")}), hr::argument_error);
    CHECK_THROWS_WITH_AS(sample({.epsilon = 0}), "hard_concrete_sample: epsilon is 0, expected (0,1/2)",
                         hr::argument_error);
    CHECK_THROWS_AS(sample({.epsilon = .5}), hr::argument_error);
    sample({.temperature = 1e-6});
    for (const float x : out) CHECK((x >= 0 && x <= 1));
    CHECK_THROWS_WITH_AS(hr::hard_concrete_sample(be, {}, hr::as_view(a), hr::random_stream(1), hr::as_view(out)),
                         "hard_concrete_sample: element 2 of log_a is NaN, expected a number", hr::argument_error);
    CHECK_THROWS_AS(hr::hard_concrete_penalty(be, {}, hr::as_view(a)), hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::hard_concrete_evaluate(be, {}, hr::as_view(a), hr::as_view(two)),
                         "hard_concrete_evaluate: the result is (2), expected (3)", hr::shape_error);
    CHECK_THROWS_AS(hr::hard_concrete_penalty_gradient(be, {}, hr::as_view(a), inf, hr::as_view(out)),
                    hr::argument_error);
  }

  TEST_CASE_TEMPLATE("hard_concrete: the same bits for any threads, strides and backend", T, float, double) {
    const hr::index_t n = 3001;
    const auto log_a = numbers<T>(n, 4, 5);
    std::vector<T> expected(log_a.size()), d_expected(log_a.size(), T(0)), t_expected(1, T(0));
    hr::cpu one{{.threads = 1}};
    const hr::random_stream draws(77, 3);
    hr::hard_concrete_sample(one, {}, hr::as_view(log_a), draws, hr::as_view(expected));
    hr::hard_concrete_gradient(one, {}, hr::as_view(log_a), draws, hr::as_view(log_a), hr::as_view(d_expected),
                               hr::as_view(t_expected));
    for (const int threads : {2, 3}) {
      hr::cpu be{{.threads = threads}};
      std::vector<T> gates(log_a.size()), d(log_a.size(), T(0)), t(1, T(0));
      hr::hard_concrete_sample(be, {}, hr::as_view(log_a), draws, hr::as_view(gates));
      hr::hard_concrete_gradient(be, {}, hr::as_view(log_a), draws, hr::as_view(log_a), hr::as_view(d), hr::as_view(t));
      CHECK(std::memcmp(gates.data(), expected.data(), gates.size() * sizeof(T)) == 0);
      CHECK(std::memcmp(d.data(), d_expected.data(), d.size() * sizeof(T)) == 0);
      CHECK(t[0] == t_expected[0]);
    }
    // rank 2, transposed in memory
    std::vector<T> memory(log_a.size()), out(log_a.size());
    const hr::tensor_view<T, 2> across(memory.data(), {n / 3, 3}, {1, n / 3}),
        result(out.data(), {n / 3, 3}, {1, n / 3});
    for (hr::index_t i = 0; i < n / 3; ++i)
      for (hr::index_t j = 0; j < 3; ++j) across(i, j) = log_a[static_cast<std::size_t>(3 * i + j)];
    headred_test::serial_backend serial;
    hr::hard_concrete_sample(serial, {}, across, draws, result);
    bool same = true;
    for (hr::index_t i = 0; i < n / 3; ++i)
      for (hr::index_t j = 0; j < 3; ++j) same = same && result(i, j) == expected[static_cast<std::size_t>(3 * i + j)];
    CHECK(same);
  }

  TEST_CASE("annealed_temperature: falls by equal factors") {
    const hr::annealed_temperature t{2, .5, 4};
    CHECK(t.at(0) == 2);
    CHECK(t.at(2) == doctest::Approx(1));
    CHECK(t.at(4) == .5);
    CHECK(t.at(400) == .5);
    CHECK(hr::annealed_temperature{.first = 1, .last = .3, .steps = 0}.at(0) == .3);
    CHECK_THROWS_AS((hr::annealed_temperature{0, 1, 3}.at(1)), hr::argument_error);
    CHECK_THROWS_AS((hr::annealed_temperature{1, -1, 3}.at(1)), hr::argument_error);
    CHECK_THROWS_AS(t.at(-1), hr::argument_error);
    CHECK(hr::learned_temperature(std::log(.33)) == doctest::Approx(.33));
    CHECK(hr::learned_temperature(-1e9) == doctest::Approx(1e-4));
    CHECK(hr::learned_temperature(1e9) == doctest::Approx(1e4));
    CHECK_THROWS_AS(hr::learned_temperature(std::nan("")), hr::argument_error);
  }
}
