#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/distance/bootstrap.hpp>
#include <headred/distance/layer_gap.hpp>

#include "environment.hpp"
#include "oracle/compare.hpp"
#include "oracle/npy_matrix.hpp"
#include "oracle/random_distances.hpp"

namespace hr = headred;
using headred_test::oracle::random_distances;

TEST_SUITE("distance") {
  TEST_CASE("layer_gap: worked values with layers of 3, 0, 5 and 12 heads") {
    hr::matrix a(20, 20);
    for (int i = 0; i < 20; ++i)
      for (int j = i + 1; j < 20; ++j) a(i, j) = a(j, i) = (i * 7 + j * 13) % 17 / 16.0;
    const auto gaps = hr::layer_gap(a, hr::head_layout({3, 0, 5, 12}));
    CHECK(gaps.pairs == std::vector<hr::index_t>{79, 60, 15, 36});
    REQUIRE(gaps.mean.size() == 4);
    CHECK(gaps.mean[0] == doctest::Approx(0.5150316455696202).epsilon(1e-15));
    CHECK(gaps.mean[1] == doctest::Approx(0.4947916666666667).epsilon(1e-15));
    CHECK(gaps.mean[2] == 0.4625);
    CHECK(gaps.mean[3] == 0.515625);
  }

  TEST_CASE("layer_gap: agrees with the oracle; all pairs are counted once") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const hr::random_stream random(headred_test::seed(), seed);
      std::vector<hr::index_t> heads;
      for (std::uint64_t l = 0; l < 1 + seed % 7; ++l) heads.push_back(static_cast<hr::index_t>(random.below(l, 6)));
      const hr::head_layout layout(heads);
      const auto a = random_distances(layout.size(), seed);
      const auto gaps = hr::layer_gap(a, layout);
      hr::index_t pairs = 0;
      for (hr::index_t g = 0; g < layout.layers(); ++g) {
        const auto [mean, count] = headred_test::oracle::layer_gap(a, layout, g);
        CHECK(gaps.pairs[static_cast<std::size_t>(g)] == count);
        CHECK(std::abs(gaps.mean[static_cast<std::size_t>(g)] - static_cast<double>(mean)) <= 1e-16);
        pairs += count;
      }
      CHECK(pairs == layout.size() * (layout.size() - 1) / 2);
    }
  }

  TEST_CASE("layer_gap: gaps without a pair are 0; the diagonal is not read") {
    auto a = random_distances(2, 1);
    a(0, 0) = a(1, 1) = std::numeric_limits<double>::quiet_NaN();
    const auto gaps = hr::layer_gap(a, hr::head_layout({1, 0, 1}));
    CHECK(gaps.pairs == std::vector<hr::index_t>{0, 0, 1});
    CHECK(gaps.mean == std::vector<double>{0, 0, a(0, 1)});
    CHECK(hr::layer_gap(hr::matrix(), hr::head_layout()).mean.empty());
    CHECK_THROWS_WITH_AS(hr::layer_gap(a, hr::head_layout(2, 2)), "layer_gap: a is (2,2), expected (4,4)",
                         hr::shape_error);
    a(0, 1) = std::numeric_limits<double>::quiet_NaN();
    CHECK_THROWS_WITH_AS(hr::layer_gap(a, hr::head_layout(1, 2)), "layer_gap: a(0,1) is nan, expected a finite number",
                         hr::argument_error);
  }

  TEST_CASE("layer_gap with bootstrap_mean: intervals over sentences around the profile of the mean matrix") {
    hr::cpu be{{.threads = 2}};
    const hr::head_layout layout(4, 3);
    const hr::index_t sentences = 25;
    hr::matrix profiles(sentences, layout.layers()), mean(layout.size(), layout.size());
    for (hr::index_t s = 0; s < sentences; ++s) {
      const auto of_sentence = random_distances(layout.size(), static_cast<std::uint64_t>(s));
      const auto gaps = hr::layer_gap(of_sentence, layout);
      for (hr::index_t g = 0; g < layout.layers(); ++g) profiles(s, g) = gaps.mean[static_cast<std::size_t>(g)];
      for (hr::index_t i = 0; i < layout.size(); ++i)
        for (hr::index_t j = 0; j < layout.size(); ++j) mean(i, j) += of_sentence(i, j) / double(sentences);
    }
    const auto intervals = hr::bootstrap_mean(be, profiles, {.resamples = 400, .seed = 3});
    const auto of_mean = hr::layer_gap(mean, layout);
    for (std::size_t g = 0; g < 4; ++g) {
      CHECK(intervals.estimate[g] == doctest::Approx(of_mean.mean[g]).epsilon(1e-14));
      CHECK(intervals.lower[g] < intervals.estimate[g]);
      CHECK(intervals.estimate[g] < intervals.upper[g]);
    }
  }
}

TEST_SUITE("real") {
  TEST_CASE("layer_gap: same layer and six or more layers apart on BERT-base, as the references say") {
    const auto folder = headred_test::shared_dir() / "oracles" / "bert_base_sst2";
    if (headred_test::shared_dir().empty() || !std::filesystem::exists(folder / "summary.json"))
      return headred_test::leave_out("no reference matrices of BERT-base");
    const auto summary = nlohmann::json::parse(std::ifstream(folder / "summary.json"));
    for (const char* set : {"four", "all"}) {
      for (const std::string distance : summary[set]["distances"]) {
        const auto& expected = summary[set]["statistics"][distance];
        const auto gaps = hr::layer_gap(headred_test::oracle::npy_matrix(folder / set / (distance + ".npy")),
                                        hr::head_layout(12, 12));
        CAPTURE(set);
        CAPTURE(distance);
        CHECK(gaps.pairs[0] == 12 * 66);
        CHECK(std::abs(gaps.mean[0] - expected["mean_same_layer"].get<double>()) <= 1e-14);
        double sum = 0, pairs = 0;
        for (std::size_t g = 6; g < 12; ++g) {
          CHECK(gaps.pairs[g] == static_cast<hr::index_t>(144 * (12 - g)));
          sum += gaps.mean[g] * static_cast<double>(gaps.pairs[g]);
          pairs += static_cast<double>(gaps.pairs[g]);
        }
        CHECK(std::abs(sum / pairs - expected["mean_six_or_more_layers_apart"].get<double>()) <= 1e-14);
      }
    }
  }
}
