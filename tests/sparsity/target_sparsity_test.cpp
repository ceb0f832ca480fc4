#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/as_view.hpp>
#include <headred/sparsity/gate_report.hpp>
#include <headred/sparsity/hard_concrete.hpp>
#include <headred/sparsity/target_sparsity.hpp>

#include "environment.hpp"

namespace hr = headred;

namespace {

struct outcome {
  hr::index_t open;
  double price;
  std::vector<double> log_a;
};

// Heads of different worth: the loss is sum_h worth_h (1 - g_h), learned by Adam on log_a from samples.
outcome land(const std::vector<double>& worth, double target, std::uint64_t seed, hr::index_t steps) {
  hr::cpu be{{.threads = 1}};
  const hr::hard_concrete policy;
  const std::size_t n = worth.size();
  std::vector<double> log_a(n, 2), gates(n), dgates(n), d(n), first(n, 0), second(n, 0);
  hr::target_sparsity controller({.open = target, .gates = static_cast<double>(n), .warm_up = steps / 4});
  for (hr::index_t t = 1; t <= steps; ++t) {
    const hr::random_stream draws(seed, static_cast<std::uint64_t>(t));
    hr::hard_concrete_sample(be, policy, hr::as_view(log_a), draws, hr::as_view(gates));
    double open = 0;
    for (std::size_t h = 0; h < n; ++h) {
      dgates[h] = -worth[h];
      d[h] = 0;
      open += log_a[h] > 0;
    }
    hr::hard_concrete_gradient(be, policy, hr::as_view(log_a), draws, hr::as_view(dgates), hr::as_view(d));
    hr::hard_concrete_penalty_gradient(be, policy, hr::as_view(log_a), controller.price(open), hr::as_view(d));
    controller.update(open);
    const auto s = static_cast<double>(t);
    for (std::size_t h = 0; h < n; ++h) {
      first[h] += .1 * (d[h] - first[h]);
      second[h] += .001 * (d[h] * d[h] - second[h]);
      log_a[h] -= .05 * first[h] / (1 - std::pow(.9, s)) / (std::sqrt(second[h] / (1 - std::pow(.999, s))) + 1e-8);
      log_a[h] = std::clamp(log_a[h], -4., 4.);
    }
  }
  outcome done{0, controller.multiplier(), log_a};
  for (const double a : log_a) done.open += a > 0;
  return done;
}

}  // namespace

TEST_SUITE("sparsity") {
  TEST_CASE("target_sparsity: lands within one head of the target, whatever the loss is measured in") {
    for (const double unit : {.1, 1., 10.}) {
      std::vector<double> worth;
      const hr::random_stream draws(headred_test::seed());
      for (std::uint64_t h = 0; h < 48; ++h) worth.push_back(unit * .001 * std::exp(4 * draws.uniform(h)));
      auto order = worth;
      std::sort(order.begin(), order.end(), std::greater<>());
      for (const double target : {4., 10., 24., 40.}) {
        const outcome done = land(worth, target, headred_test::seed(), 8000);
        INFO("unit " << unit << ", target " << target << ", open " << done.open << ", price " << done.price);
        CHECK(std::abs(static_cast<double>(done.open) - target) <= 1);
        // and nearly all of those that stay are the worthiest
        double right = 0;
        for (std::size_t h = 0; h < 48; ++h)
          right += done.log_a[h] > 0 && worth[h] >= order[static_cast<std::size_t>(target) - 1];
        CHECK(right >= target - 3);
      }
    }
  }

  TEST_CASE("target_sparsity: price, multiplier and warm-up by hand") {
    hr::target_sparsity c({.open = 2, .gates = 10, .first = .5, .strength = 4, .rate = .1, .warm_up = 4});
    CHECK(c.target() == 10);
    CHECK(c.price(10) == .5);
    c.update(10);
    CHECK(c.target() == 8);
    CHECK(c.multiplier() == .5);
    CHECK(c.price(9) == doctest::Approx(.5 * std::exp(.4)));
    c.update(9);
    CHECK(c.multiplier() == doctest::Approx(.5 * std::exp(.01)));
    c.update(1);
    CHECK(c.target() == 4);
    CHECK(c.multiplier() == doctest::Approx(.5 * std::exp(.01 - .05)));
    CHECK(c.price(1) == doctest::Approx(.5 * std::exp(.01 - .05 - 1.2)));
    c.update(4);
    c.update(2);
    CHECK(c.target() == 2);
    hr::target_sparsity other(c.settings());
    other.resume(c.multiplier(), c.step());
    CHECK(other.price(3.25) == c.price(3.25));
    // neither 0 nor infinity, however long nothing helps
    hr::target_sparsity stuck({.open = 0, .gates = 1, .rate = 1});
    for (int i = 0; i < 1000; ++i) stuck.update(1);
    CHECK(stuck.multiplier() == 1e30);
  }

  TEST_CASE("target_sparsity: options out of range") {
    CHECK_THROWS_WITH_AS(hr::target_sparsity({.open = 3, .gates = 2}),
                         "target_sparsity: open is 3, expected 0 to all gates", hr::argument_error);
    CHECK_THROWS_AS(hr::target_sparsity({.open = -1, .gates = 2}), hr::argument_error);
    CHECK_THROWS_AS(hr::target_sparsity({.open = std::nan(""), .gates = 2}), hr::argument_error);
    CHECK_THROWS_AS(hr::target_sparsity({.gates = 0}), hr::argument_error);
    CHECK_THROWS_AS(hr::target_sparsity({.first = 0}), hr::argument_error);
    CHECK_THROWS_AS(hr::target_sparsity({.rate = 0}), hr::argument_error);
    CHECK_THROWS_AS(hr::target_sparsity({.strength = -1}), hr::argument_error);
    CHECK_THROWS_AS(hr::target_sparsity({.warm_up = -1}), hr::argument_error);
    hr::target_sparsity c({.open = 1, .gates = 2});
    CHECK_THROWS_AS(c.update(std::nan("")), hr::argument_error);
    CHECK_THROWS_AS(c.update(3), hr::argument_error);
    CHECK_THROWS_AS(c.resume(std::nan(""), 1), hr::argument_error);
    CHECK_THROWS_AS(c.resume(0, 1), hr::argument_error);
    CHECK_THROWS_AS(c.resume(1, -1), hr::argument_error);
  }

  TEST_CASE("gate_report: collapsed gates") {
    const std::vector<double> log_a{-9, 0, 9, -5, 3, -50};
    const auto r = hr::report_gates({}, log_a);
    CHECK(r.closed == std::vector<hr::index_t>{0, 5});
    CHECK(r.open == std::vector<hr::index_t>{2});
    CHECK(r.undecided == std::vector<hr::index_t>{1, 3, 4});  // P(0 < g < 1) = .0116 at -5
    CHECK(r.size() == 6);
    CHECK(hr::report_gates({}, log_a, .02).closed == std::vector<hr::index_t>{0, 3, 5});
    CHECK(r.expected_open == doctest::Approx(.0002718 + .6881116 + .9999440 + .0146480 + .9779319).epsilon(1e-4));
    CHECK_FALSE(r.all_closed());
    CHECK(hr::report_gates({}, std::vector<double>{-20, -9}).all_closed());
    CHECK_FALSE(hr::report_gates({}, std::vector<double>{}).all_closed());
    CHECK_THROWS_AS(hr::report_gates({}, std::vector<double>{std::nan("")}), hr::argument_error);
    CHECK_THROWS_AS(hr::report_gates({}, log_a, 0), hr::argument_error);
  }
}
