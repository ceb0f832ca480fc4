#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/cluster/kmeans.hpp>

#include "cluster/distances_for_tests.hpp"
#include "environment.hpp"
#include "oracle/cluster.hpp"

namespace hr = headred;
using namespace headred_test;
using labels_t = std::vector<hr::index_t>;

namespace {

hr::matrix random_points(hr::index_t n, hr::index_t dimensions, std::uint64_t which) {
  const hr::random_stream draws(seed(), which);
  hr::matrix p(n, dimensions);
  for (hr::index_t i = 0; i < n * dimensions; ++i) p.data()[i] = draws.uniform(static_cast<std::uint64_t>(i)) - .5;
  return p;
}

bool same(const hr::kmeans_result& a, const hr::kmeans_result& b) {
  return a.clusters == b.clusters && a.centres == b.centres && a.inertia == b.inertia && a.iterations == b.iterations;
}

}  // namespace

TEST_SUITE("cluster") {
  TEST_CASE("kmeans: four points on a line") {
    hr::cpu be{{.threads = 1}};
    const auto r = hr::kmeans(be, matrix_of(4, 1, {10, 0, 1, 12}), {.count = 2, .seed = 5});
    CHECK(r.clusters.labels == labels_t{0, 1, 1, 0});
    CHECK(r.clusters.status == hr::status::converged);
    CHECK(r.centres == matrix_of(2, 1, {11, .5}));
    CHECK(r.inertia == 2.5);
    CHECK(r.iterations >= 1);
  }

  TEST_CASE("kmeans: no partition of few points has less inertia") {
    hr::cpu be{{.threads = 1}};
    for (std::uint64_t round = 0; round < 20; ++round) {
      const hr::index_t n = 9, k = 2 + static_cast<hr::index_t>(round % 3);
      const auto points = random_points(n, 2, round);
      const auto wide = oracle::widened(points);
      long double least = std::numeric_limits<long double>::infinity();
      hr::index_t codes = 1;
      for (hr::index_t i = 0; i < n; ++i) codes *= k;
      for (hr::index_t code = 0; code < codes; ++code) {
        labels_t labels;
        for (hr::index_t i = 0, rest = code; i < n; ++i, rest /= k) labels.push_back(rest % k);
        if (labels != oracle::by_appearance(labels)) continue;
        least = std::min(least, oracle::inertia(wide, labels));
      }
      const auto r = hr::kmeans(be, points, {.count = k, .seed = round, .restarts = 30});
      CHECK(r.inertia == doctest::Approx(static_cast<double>(least)).epsilon(1e-12));
      CHECK(oracle::inertia(wide, r.clusters.labels) == doctest::Approx(r.inertia).epsilon(1e-12));
    }
  }

  TEST_CASE("kmeans: a fixed point of Lloyd's iteration, for every k and odd sizes") {
    hr::cpu be{{.threads = 1}};
    for (const hr::index_t n : {1, 7, 8, 9, 31}) {
      for (const hr::index_t dimensions : {1, 3, 10}) {
        const auto points = random_points(n, dimensions, static_cast<std::uint64_t>(n));
        for (hr::index_t k = 1; k <= n; ++k) {
          const auto r = hr::kmeans(be, points, {.count = k, .seed = 3, .restarts = 3});
          REQUIRE(r.clusters.status == hr::status::converged);
          CHECK(r.clusters.found == k);
          CHECK(r.clusters.labels == oracle::by_appearance(r.clusters.labels));
          for (hr::index_t i = 0; i < n; ++i) {
            std::vector<double> squares(static_cast<std::size_t>(k), 0.0);
            for (hr::index_t c = 0; c < k; ++c)
              for (hr::index_t d = 0; d < dimensions; ++d)
                squares[static_cast<std::size_t>(c)] += std::pow(points(i, d) - r.centres(c, d), 2);
            const double own = squares[static_cast<std::size_t>(r.clusters.labels[static_cast<std::size_t>(i)])];
            CHECK(own <= *std::min_element(squares.begin(), squares.end()) + 1e-15);
          }
          if (k == n) CHECK(r.inertia == 0);
        }
      }
    }
  }

  TEST_CASE("kmeans: same bits on any number of threads and in any layout") {
    hr::cpu one{{.threads = 1}}, two{{.threads = 2}}, five{{.threads = 5}};
    for (std::uint64_t round = 0; round < 6; ++round) {
      const auto points = random_points(61, 5, 100 + round);
      const hr::kmeans_options options{.count = 9, .seed = round, .restarts = 11};
      const auto r = hr::kmeans(one, points, options);
      CHECK(same(r, hr::kmeans(two, points, options)));
      CHECK(same(r, hr::kmeans(five, points, options)));
      hr::matrix transposed(5, 61);
      for (hr::index_t i = 0; i < 61; ++i)
        for (hr::index_t d = 0; d < 5; ++d) transposed(d, i) = points(i, d);
      CHECK(same(r, hr::kmeans(two, transposed.view().transposed(), options)));
      // from within a task the call works alone, and gives the same
      std::vector<hr::kmeans_result> nested(4);
      five.run(4, [&](hr::index_t task, int) {
        nested[static_cast<std::size_t>(task)] = hr::kmeans(five, points, options);
      });
      for (const auto& other : nested) CHECK(same(r, other));
    }
  }

  TEST_CASE("kmeans: more restarts never do worse") {
    hr::cpu be{{.threads = 1}};
    const auto points = random_points(80, 4, 7);
    double before = std::numeric_limits<double>::infinity();
    for (const int restarts : {1, 2, 5, 10, 20}) {
      const auto r = hr::kmeans(be, points, {.count = 12, .seed = 1, .restarts = restarts});
      CHECK(r.inertia <= before);
      before = r.inertia;
    }
  }

  TEST_CASE("kmeans: fewer distinct points than clusters") {
    hr::cpu be{{.threads = 2}};
    const auto r = hr::kmeans(be, matrix_of(5, 2, {1, 2, 3, 4, 1, 2, 3, 4, 1, 2}), {.count = 4});
    CHECK(r.clusters.labels == labels_t{0, 1, 0, 1, 0});
    CHECK(r.clusters.found == 2);
    CHECK(r.clusters.status == hr::status::fewer_clusters);
    CHECK(r.inertia == 0);
    CHECK(r.centres == matrix_of(2, 2, {1, 2, 3, 4}));
    const auto all_same = hr::kmeans(be, hr::matrix(6, 3), {.count = 6});
    CHECK(all_same.clusters.found == 1);
    CHECK(all_same.clusters.status == hr::status::fewer_clusters);
  }

  TEST_CASE("kmeans: stopping at the limit is said") {
    hr::cpu be{{.threads = 1}};
    const auto r = hr::kmeans(be, random_points(200, 2, 3), {.count = 10, .restarts = 1, .max_iterations = 1});
    CHECK(r.clusters.status == hr::status::not_converged);
    CHECK(r.iterations == 1);
    const auto wide = oracle::widened(random_points(200, 2, 3));
    CHECK(oracle::inertia(wide, r.clusters.labels) == doctest::Approx(r.inertia).epsilon(1e-12));
  }

  TEST_CASE("kmeans: errors") {
    hr::cpu be{{.threads = 1}};
    const auto points = random_points(5, 2, 0);
    const auto refused = [&](hr::kmeans_options options) {
      return text_of<hr::argument_error>([&] { hr::kmeans(be, points, options); });
    };
    CHECK(refused({.count = 0}) == "kmeans: count is 0, expected 1 to 5");
    CHECK(refused({.count = 6}) == "kmeans: count is 6, expected 1 to 5");
    CHECK(has(refused({.count = 2, .restarts = 0}), "restarts is 0"));
    CHECK(has(refused({.count = 2, .max_iterations = -1}), "max_iterations is -1"));
    CHECK(has(text_of<hr::shape_error>([&] { hr::kmeans(be, hr::matrix(0, 2), {.count = 1}); }), "(0,2)"));
    CHECK(has(text_of<hr::shape_error>([&] { hr::kmeans(be, hr::matrix(2, 0), {.count = 1}); }), "(2,0)"));
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e200})
      CHECK(has(text_of<hr::argument_error>([&] {
                  hr::kmeans(be, matrix_of(2, 1, {0, bad}), {.count = 1});
                }),
                "kmeans: points (1,0) is"));
  }
}
