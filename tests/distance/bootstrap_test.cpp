#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/matrix.hpp>
#include <headred/distance/bootstrap.hpp>

#include "environment.hpp"

namespace hr = headred;
using counts_t = std::span<const hr::index_t>;

TEST_SUITE("distance") {
  TEST_CASE("bootstrap: every resample draws as many sentences as there are") {
    hr::cpu be{{.threads = 2}};
    const auto sum = [](counts_t counts) {
      return std::vector<double>{static_cast<double>(std::accumulate(counts.begin(), counts.end(), hr::index_t{0})),
                                 static_cast<double>(counts.size())};
    };
    const auto r = hr::bootstrap(be, 37, sum);
    CHECK(r.estimate == std::vector<double>{37, 37});
    CHECK(r.lower == r.estimate);
    CHECK(r.upper == r.estimate);
  }

  TEST_CASE("bootstrap: percentiles of the resampled values, linear between neighbours") {
    hr::cpu be{{.threads = 2}};
    const std::vector<double> values = {3, 1, 4, 1, 5, 9, 2, 6};
    const auto mean = [&](counts_t counts) {
      double total = 0;
      for (std::size_t i = 0; i < values.size(); ++i) total += static_cast<double>(counts[i]) * values[i];
      return std::vector<double>{total / 8};
    };
    const auto r = hr::bootstrap(be, 8, mean, {.resamples = 200, .level = 0.9, .seed = 11});
    std::vector<double> drawn;  // the documented draws, by hand
    for (std::uint64_t k = 0; k < 200; ++k) {
      const hr::random_stream random(11, k);
      double total = 0;
      for (std::uint64_t i = 0; i < 8; ++i) total += values[random.below(i, 8)];
      drawn.push_back(total / 8);
    }
    std::sort(drawn.begin(), drawn.end());
    // 0.05 * 199 = 9.95, 0.95 * 199 = 189.05
    CHECK(r.estimate[0] == 31.0 / 8);
    CHECK(r.lower[0] == doctest::Approx(0.05 * drawn[9] + 0.95 * drawn[10]).epsilon(1e-14));
    CHECK(r.upper[0] == doctest::Approx(0.95 * drawn[189] + 0.05 * drawn[190]).epsilon(1e-14));

    const std::vector<double> sorted = {1, 2, 4, 8};
    CHECK(hr::detail::quantile_of_sorted(sorted, 0) == 1);
    CHECK(hr::detail::quantile_of_sorted(sorted, 1) == 8);
    CHECK(hr::detail::quantile_of_sorted(sorted, 0.5) == 3);
    CHECK(hr::detail::quantile_of_sorted(sorted, 0.25) == 1.75);
  }

  TEST_CASE("bootstrap_mean: bit-identical for any number of threads; seeds differ; width as theory says") {
    const hr::index_t n = 400;
    hr::matrix values(n, 3);
    const hr::random_stream random(headred_test::seed(), 5);
    for (hr::index_t i = 0; i < n; ++i)
      for (hr::index_t q = 0; q < 3; ++q) values(i, q) = random.uniform(static_cast<std::uint64_t>(3 * i + q));
    hr::cpu one{{.threads = 1}};
    const auto r = hr::bootstrap_mean(one, values, {.resamples = 2000});
    for (const int threads : {2, 3, 7}) {
      hr::cpu be{{.threads = threads}};
      const auto other = hr::bootstrap_mean(be, values, {.resamples = 2000});
      CHECK(other.estimate == r.estimate);
      CHECK(other.lower == r.lower);
      CHECK(other.upper == r.upper);
    }
    CHECK(hr::bootstrap_mean(one, values, {.resamples = 2000, .seed = 1}).lower != r.lower);
    for (std::size_t q = 0; q < 3; ++q) {
      double square = 0;
      for (hr::index_t i = 0; i < n; ++i) square += std::pow(values(i, static_cast<hr::index_t>(q)) - r.estimate[q], 2);
      const double width = 2 * 1.959964 * std::sqrt(square) / static_cast<double>(n);
      CHECK(r.upper[q] - r.lower[q] == doctest::Approx(width).epsilon(0.1));
    }
  }

  TEST_CASE("bootstrap_mean: intervals cover the true mean about as often as their level says") {
    hr::cpu be{{.threads = 2}};
    int covered = 0;
    for (std::uint64_t trial = 0; trial < 200; ++trial) {
      const hr::random_stream random(headred_test::seed(), 1000 + trial);
      hr::matrix values(50, 1);
      for (int i = 0; i < 50; ++i) values(i, 0) = random.uniform(static_cast<std::uint64_t>(i));
      const auto r = hr::bootstrap_mean(be, values, {.resamples = 300, .level = 0.9, .seed = trial});
      covered += r.lower[0] <= 0.5 && 0.5 <= r.upper[0];
    }
    CHECK(covered >= 160);  // Binomial(200, 0.9) less 4.7 standard deviations; percentile intervals cover a little less
    CHECK(covered <= 197);
  }

  TEST_CASE("bootstrap: one sentence, one resample, no numbers") {
    hr::cpu be{{.threads = 1}};
    hr::matrix one(1, 2);
    one(0, 0) = 3;
    const auto r = hr::bootstrap_mean(be, one, {.resamples = 5});
    CHECK(r.estimate == std::vector<double>{3, 0});
    CHECK(r.lower == r.estimate);
    CHECK(r.upper == r.estimate);
    const auto single = hr::bootstrap_mean(be, hr::matrix(4, 1), {.resamples = 1});
    CHECK(single.lower == single.upper);
    CHECK(hr::bootstrap_mean(be, hr::matrix(4, 0)).estimate.empty());
  }

  TEST_CASE("bootstrap: bad options and bad statistics") {
    hr::cpu be{{.threads = 2}};
    const auto constant = [](counts_t) { return std::vector<double>{1}; };
    CHECK_THROWS_WITH_AS(hr::bootstrap(be, 0, constant), "bootstrap: sentences is 0, expected at least 1",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::bootstrap(be, 1, constant, {.resamples = 0}),
                         "bootstrap: resamples is 0, expected at least 1", hr::argument_error);
    for (const double level : {0.0, 1.0, -1.0, std::numeric_limits<double>::quiet_NaN()})
      CHECK_THROWS_AS(hr::bootstrap(be, 1, constant, {.level = level}), hr::argument_error);
    const auto not_finite = [](counts_t counts) {
      return std::vector<double>{counts[0] == 1 ? 1.0 : std::numeric_limits<double>::quiet_NaN()};
    };
    CHECK_THROWS_AS(hr::bootstrap(be, 3, not_finite), hr::argument_error);
    const auto changing = [](counts_t counts) { return std::vector<double>(static_cast<std::size_t>(counts[0])); };
    CHECK_THROWS_AS(hr::bootstrap(be, 3, changing), hr::argument_error);
    const auto throwing = [](counts_t counts) -> std::vector<double> {
      if (counts[0] != 1) throw std::runtime_error("mine");
      return {1};
    };
    CHECK_THROWS_WITH_AS(hr::bootstrap(be, 3, throwing), "mine", std::runtime_error);
    hr::matrix bad(2, 2);
    bad(1, 0) = std::numeric_limits<double>::infinity();
    CHECK_THROWS_WITH_AS(hr::bootstrap_mean(be, bad), "bootstrap_mean: values(1,0) is inf, expected a finite number",
                         hr::argument_error);
  }
}
