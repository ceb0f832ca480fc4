#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/as_view.hpp>
#include <headred/sparsity/gumbel_sigmoid.hpp>

#include "environment.hpp"
#include "oracle/gates.hpp"
#include "sparsity/serial_backend.hpp"

namespace hr = headred;
namespace oracle = headred_test::oracle;

namespace {

template <class T>
std::vector<T> numbers(hr::index_t n, std::uint64_t seed, double width) {
  const hr::random_stream draws(seed);
  std::vector<T> v;
  for (hr::index_t i = 0; i < n; ++i)
    v.push_back(static_cast<T>(width * (2 * draws.uniform(static_cast<std::uint64_t>(i)) - 1)));
  return v;
}

// The two noise numbers of entry i.
std::uint64_t first_of(std::uint64_t i) { return i / 16 * 32 + i % 16; }
long double sample(std::uint64_t seed, std::uint64_t i, long double a, long double tau, bool single = false) {
  return oracle::gumbel_sigmoid(a, oracle::noise(seed, 0, first_of(i), single),
                                oracle::noise(seed, 0, first_of(i) + 16, single), tau);
}

}  // namespace

TEST_SUITE("sparsity") {
  TEST_CASE("gumbel_sigmoid: the worked value of definitions.md, section 5") {
    const hr::gumbel_sigmoid g{.temperature = .5};
    CHECK(std::abs(g.sample(.4, .3, .8) - .0710194848136) <= .50001e-13);
    CHECK(std::abs(g.sample_slope(.4, .3, .8) - .131951435181) <= .50001e-12);
    CHECK(g.evaluate(.4) == 1);
    CHECK(g.evaluate(0) == 0);
    CHECK(g.evaluate(-1e-300) == 0);
    CHECK(g.open(0) == .5);
    CHECK(g.open(.4) == doctest::Approx(1 / (1 + std::exp(-.4))));
  }

  TEST_CASE_TEMPLATE("gumbel_sigmoid: samples against the oracle", T, float, double) {
    hr::cpu be{{.threads = 2}};
    const auto a = numbers<T>(1000, headred_test::seed(), 3);
    for (const double tau : {1., .3}) {
      std::vector<T> m(a.size()), hard(a.size());
      hr::gumbel_sigmoid_sample(be, {tau}, hr::as_view(a), hr::random_stream(8), hr::as_view(m));
      hr::gumbel_sigmoid_sample(be, {tau, true}, hr::as_view(a), hr::random_stream(8), hr::as_view(hard));
      double worst = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        const long double expected = sample(8, i, a[i], tau, std::is_same_v<T, float>);
        worst = std::max(worst, std::abs(static_cast<double>(m[i] - expected)));
        CHECK(hard[i] == (expected > .5L ? T(1) : T(0)));
      }
      CHECK(worst < (std::is_same_v<T, float> ? 2e-6 : 1e-14));
    }
  }

  TEST_CASE("gumbel_sigmoid: the share of open entries is sigmoid(a), whatever the temperature") {
    hr::cpu be{{.threads = 2}};
    for (const double a : {-1.5, 0., .7}) {
      const std::vector<double> all(100000, a);
      std::vector<double> m(all.size()), p(all.size());
      hr::gumbel_sigmoid_sample(be, {.4, true}, hr::as_view(all), hr::random_stream(headred_test::seed()),
                                hr::as_view(m));
      hr::gumbel_sigmoid_open(be, hr::as_view(all), hr::as_view(p));
      double open = 0;
      for (const double x : m) open += x;
      const double n = static_cast<double>(all.size());
      CHECK(std::abs(open / n - p[0]) < 4.5 * std::sqrt(p[0] * (1 - p[0]) / n));
      CHECK(p[0] == doctest::Approx(1 / (1 + std::exp(-a))));
    }
  }

  TEST_CASE("gumbel_sigmoid: pull-backs against 4-point differences, straight-through is the soft one") {
    hr::cpu be{{.threads = 2}};
    const auto a = numbers<double>(300, headred_test::seed() + 1, 2), dm = numbers<double>(300, 6, 1);
    const double tau = .6;
    for (const bool hard : {false, true}) {
      std::vector<double> da(a.size(), 0), dt(1, 0);
      hr::gumbel_sigmoid_gradient(be, {tau, hard}, hr::as_view(a), hr::random_stream(8), hr::as_view(dm),
                                  hr::as_view(da), hr::as_view(dt));
      double worst = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        const auto slope = oracle::difference([&](long double x) { return dm[i] * sample(8, i, x, tau); }, a[i], 1e-3L);
        worst = std::max(worst, std::abs(static_cast<double>(da[i] - slope)));
      }
      CHECK(worst < 1e-11);
      const auto loss = [&](long double log_tau) {
        long double sum = 0;
        for (std::size_t i = 0; i < a.size(); ++i) sum += dm[i] * sample(8, i, a[i], std::exp(log_tau));
        return sum;
      };
      CHECK(std::abs(static_cast<double>(dt[0] - oracle::difference(loss, std::log(.6L), 1e-3L))) < 1e-9);
    }
  }

  TEST_CASE("gumbel_sigmoid: wrong temperatures are errors, small ones finite") {
    hr::cpu be{{.threads = 1}};
    const std::vector<float> a{-1, 0, 1, std::numeric_limits<float>::infinity(), -3e38f};
    std::vector<float> m(5), d(5, 0.f), t(1, 0.f);
    for (const double tau : {0., -.5, std::nan(""), std::numeric_limits<double>::infinity(), 1e-50})
      CHECK_THROWS_AS(hr::gumbel_sigmoid_sample(be, {tau}, hr::as_view(a), hr::random_stream(1), hr::as_view(m)),
                      hr::argument_error);
    CHECK_THROWS_WITH_AS(
        hr::gumbel_sigmoid_gradient(be, {0}, hr::as_view(a), hr::random_stream(1), hr::as_view(a), hr::as_view(d)),
        "gumbel_sigmoid_gradient: the temperature is 0, expected a number above 0", hr::argument_error);
    hr::gumbel_sigmoid_sample(be, {1e-6}, hr::as_view(a), hr::random_stream(1), hr::as_view(m));
    hr::gumbel_sigmoid_gradient(be, {1e-6}, hr::as_view(a), hr::random_stream(1), hr::as_view(m), hr::as_view(d),
                                hr::as_view(t));
    for (std::size_t i = 0; i < 5; ++i) {
      CHECK((m[i] >= 0 && m[i] <= 1));
      CHECK(std::isfinite(d[i]));
    }
    CHECK(std::isfinite(t[0]));
    CHECK(m[3] == 1);
    CHECK(m[4] == 0);
  }

  TEST_CASE("gumbel_sigmoid: noise of 0 and 1, NaN and shapes") {
    const hr::gumbel_sigmoid g;
    for (const double u : {0., 1.})
      for (const double v : {0., 1.}) CHECK((g.sample(0, u, v) >= 0 && g.sample(0, u, v) <= 1));
    CHECK(g.sample(0, 0, 0) == .5);
    CHECK(g.sample(0, 1, 0) > .999);
    CHECK_THROWS_WITH_AS(g.sample(0, -.1, .5), "gumbel_sigmoid: the noise is -0.1, expected [0,1]", hr::argument_error);
    CHECK_THROWS_AS(g.sample(std::nan(""), .1, .5), hr::argument_error);
    hr::cpu be{{.threads = 1}};
    const std::vector<double> a{0, std::nan("")};
    std::vector<double> m(2), one(1);
    CHECK_THROWS_WITH_AS(hr::gumbel_sigmoid_evaluate(be, hr::as_view(a), hr::as_view(m)),
                         "gumbel_sigmoid_evaluate: element 1 of a is NaN, expected a number", hr::argument_error);
    CHECK_THROWS_WITH_AS(
        hr::gumbel_sigmoid_gradient(be, {}, hr::as_view(m), hr::random_stream(1), hr::as_view(one), hr::as_view(m)),
        "gumbel_sigmoid_gradient: dmask is (1), expected (2)", hr::shape_error);
    CHECK_THROWS_WITH_AS(hr::gumbel_sigmoid_gradient(be, {}, hr::as_view(m), hr::random_stream(1), hr::as_view(m),
                                                     hr::as_view(m), hr::as_view(m)),
                         "gumbel_sigmoid_gradient: dlog_temperature is (2), expected (1)", hr::shape_error);
  }

  TEST_CASE("gumbel_sigmoid: the same bits on any number of threads and another backend") {
    const auto a = numbers<float>(5000, 4, 5);
    std::vector<float> expected(a.size()), m(a.size());
    headred_test::serial_backend serial;
    hr::gumbel_sigmoid_sample(serial, {.7}, hr::as_view(a), hr::random_stream(2, 1), hr::as_view(expected));
    for (const int threads : {1, 3}) {
      hr::cpu be{{.threads = threads}};
      hr::gumbel_sigmoid_sample(be, {.7}, hr::as_view(a), hr::random_stream(2, 1), hr::as_view(m));
      CHECK(std::memcmp(m.data(), expected.data(), m.size() * sizeof(float)) == 0);
    }
  }
}
