#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/cluster/silhouette.hpp>

#include "cluster/distances_for_tests.hpp"
#include "environment.hpp"
#include "oracle/cluster.hpp"

namespace hr = headred;
using namespace headred_test;
using labels_t = std::vector<hr::index_t>;

namespace {

void check_values(const hr::silhouettes& s, const std::vector<double>& expected, double tolerance) {
  REQUIRE(s.values.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(std::abs(s.values[i] - expected[i]) <= tolerance);
}

hr::matrix distances_between(const std::vector<double>& line, double scale) {
  const auto n = static_cast<hr::index_t>(line.size());
  hr::matrix d(n, n);
  for (hr::index_t i = 0; i < n; ++i)
    for (hr::index_t j = 0; j < n; ++j)
      d(i, j) = scale * std::abs(line[static_cast<std::size_t>(i)] - line[static_cast<std::size_t>(j)]);
  return d;
}

}  // namespace

TEST_SUITE("cluster") {
  TEST_CASE("silhouette: worked values") {
    hr::cpu be{{.threads = 1}};
    const auto two = hr::silhouette(be, worked_distances(), hr::make_clustering(labels_t{0, 0, 0, 1, 1, 1}));
    check_values(two, {.87058824, .87598425, .86144578, .53319502, .54166667, .30943396}, 5e-9);
    CHECK(two.status == hr::status::converged);
    const auto three = hr::silhouette(be, worked_distances(), hr::make_clustering(labels_t{0, 0, 0, 1, 1, 2}));
    check_values(three, {.86666667, .87349398, .85802469, .75, .75806452, 0}, 5e-9);
    CHECK(three.values[5] == 0);

    // points (0,0,0) (1,1,1) (2,2,2) (10,10,10)
    const auto points = distances_between({0, 1, 2, 10}, std::sqrt(3.0));
    check_values(hr::silhouette(be, points, hr::make_clustering(labels_t{0, 0, 1, 3})), {.5, 0, 0, 0}, 1e-15);
    check_values(hr::silhouette(be, distances_between({0, 1, 10}, 1), hr::make_clustering(labels_t{1, 1, 3})),
                 {.9, 8.0 / 9, 0}, 1e-15);
  }

  TEST_CASE("silhouette: an integer matrix and labels as they come") {
    hr::cpu be{{.threads = 1}};
    const std::vector<int> d{0, 1, 2, 1, 0, 1, 2, 1, 0};
    const hr::clustering raw{.labels = {9, 9, 4}, .requested = 0, .found = 0, .status = hr::status::converged};
    const auto s = hr::silhouette(be, hr::tensor_view<const int, 2>(d.data(), {3, 3}), raw);
    CHECK(s.mean == doctest::Approx(1.0 / 6).epsilon(1e-15));
  }

  TEST_CASE("silhouette: undefined for one cluster and for N") {
    hr::cpu be{{.threads = 1}};
    for (const labels_t& labels : {labels_t{0, 0, 0, 0, 0, 0}, labels_t{0, 1, 2, 3, 4, 5}}) {
      const auto s = hr::silhouette(be, worked_distances(), hr::make_clustering(labels));
      CHECK(s.status == hr::status::undefined);
      CHECK(s.mean == 0);
      CHECK(s.values == std::vector<double>(6, 0.0));
    }
    CHECK(hr::silhouette(be, hr::matrix(1, 1), hr::make_clustering(labels_t{0})).status == hr::status::undefined);
  }

  TEST_CASE("silhouette: identical heads give 0, not NaN") {
    hr::cpu be{{.threads = 1}};
    const auto s = hr::silhouette(be, hr::matrix(4, 4), hr::make_clustering(labels_t{0, 0, 1, 1}));
    CHECK(s.values == std::vector<double>(4, 0.0));
    CHECK(s.mean == 0);
    CHECK(s.status == hr::status::converged);
  }

  TEST_CASE("silhouette: the diagonal shifts nothing") {
    hr::cpu be{{.threads = 1}};
    auto d = worked_distances();
    const auto c = hr::make_clustering(labels_t{0, 0, 0, 1, 1, 2});
    const auto before = hr::silhouette(be, d, c);
    for (hr::index_t i = 0; i < 6; ++i) d(i, i) = 5;
    CHECK(hr::silhouette(be, d, c).values == before.values);
  }

  TEST_CASE("silhouette: against long double, any number of threads") {
    hr::cpu one{{.threads = 1}}, three{{.threads = 3}};
    for (std::uint64_t round = 0; round < 40; ++round) {
      const hr::random_stream draws(seed(), round);
      const auto n = static_cast<hr::index_t>(2 + draws.below(0, 150));
      const auto k = 1 + draws.below(1, static_cast<std::uint64_t>(n));
      const auto d = random_plane(n, seed() + round);
      labels_t labels;
      for (hr::index_t i = 0; i < n; ++i)
        labels.push_back(static_cast<hr::index_t>(draws.below(2 + static_cast<std::uint64_t>(i), k)));
      const auto c = hr::make_clustering(labels);
      const auto s = hr::silhouette(one, d, c);
      CHECK(hr::silhouette(three, d, c).values == s.values);
      if (s.status == hr::status::undefined) {
        CHECK((c.found == 1 || c.found == n));
        continue;
      }
      const auto expected = oracle::silhouettes(oracle::widened(d), c.labels);
      long double mean = 0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CHECK(std::abs(static_cast<long double>(s.values[i]) - expected[i]) < 1e-13L);
        mean += expected[i];
      }
      CHECK(std::abs(static_cast<long double>(s.mean) - mean / static_cast<long double>(n)) < 1e-13L);
    }
  }

  TEST_CASE("silhouette: errors") {
    hr::cpu be{{.threads = 1}};
    CHECK(text_of<hr::shape_error>([&] {
            hr::silhouette(be, worked_distances(), hr::make_clustering(labels_t{0, 1}));
          }) == "silhouette: 2 labels for distances (6,6), expected as many as heads");
    hr::clustering negative = hr::make_clustering(labels_t{0, 0, 0, 1, 1, 1});
    negative.labels[2] = -4;
    CHECK(has(text_of<hr::argument_error>([&] { hr::silhouette(be, worked_distances(), negative); }),
              "label of head 2 is -4"));
    CHECK(has(text_of<hr::shape_error>([&] { hr::silhouette(be, hr::matrix(2, 3), negative); }), "silhouette: matrix"));
  }
}
