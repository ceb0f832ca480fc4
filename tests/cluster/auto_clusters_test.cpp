#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/cluster/auto_clusters.hpp>

#include "cluster/distances_for_tests.hpp"
#include "environment.hpp"
#include "oracle/cluster.hpp"

namespace hr = headred;
using namespace headred_test;

TEST_SUITE("cluster") {
  TEST_CASE("auto_clusters: the worked example") {
    hr::cpu be{{.threads = 2}};
    const auto r = hr::auto_clusters(be, worked_distances());
    CHECK(r.k == 3);
    CHECK(r.clusters.labels == std::vector<hr::index_t>{0, 0, 0, 1, 1, 2});
    CHECK(r.status == hr::status::converged);
    REQUIRE(r.curve.size() == 4);  // 2 to N - 1
    CHECK(r.curve.front().k == 2);
    CHECK(r.curve.back().k == 5);
    CHECK(r.curve[1].mean_silhouette == r.scores.mean);
    CHECK(r.scores.mean == doctest::Approx((.86666667 + .87349398 + .85802469 + .75 + .75806452) / 6).epsilon(1e-8));
    for (const auto& point : r.curve) CHECK(point.found == point.k);
  }

  TEST_CASE("auto_clusters: planted blocks are found") {
    hr::cpu be{{.threads = 2}};
    for (hr::index_t blocks = 2; blocks <= 12; ++blocks) {
      for (const double noise : {0.0, .1}) {
        const auto p = planted_blocks(blocks, 8, .25, .7, noise, seed() + static_cast<std::uint64_t>(blocks));
        for (const auto method : {hr::labelling::cluster_qr, hr::labelling::kmeans}) {
          const auto r = hr::auto_clusters(
              be, p.distances, {.min = 2, .max = 24 < 8 * blocks ? 24 : 8 * blocks, .method = method, .restarts = 3});
          CHECK(r.k == blocks);
          CHECK(r.clusters.labels == oracle::by_appearance(p.labels));
          CHECK(r.clusters.status == hr::status::converged);
        }
      }
    }
  }

  TEST_CASE("auto_clusters: undefined points are in the curve but not chosen") {
    hr::cpu be{{.threads = 1}};
    const auto r = hr::auto_clusters(be, worked_distances(), {.min = 1, .max = 6});
    REQUIRE(r.curve.size() == 6);
    CHECK(r.curve[0].status == hr::status::undefined);
    CHECK(r.curve[0].mean_silhouette == 0);
    CHECK(r.curve[5].status == hr::status::undefined);
    CHECK(r.k == 3);
    // even where all others are negative or none is left
    const auto none = hr::auto_clusters(be, worked_distances(), {.min = 6, .max = 6});
    CHECK(none.status == hr::status::undefined);
    CHECK(none.k == 6);
    CHECK(none.clusters.found == 6);
    const auto identical = hr::auto_clusters(be, hr::matrix(5, 5));
    CHECK(identical.status == hr::status::undefined);
    CHECK(identical.clusters.status == hr::status::degenerate);
    CHECK(identical.k == 2);
  }

  TEST_CASE("auto_clusters: of equal means the smallest k") {
    using hr::status;
    std::vector<hr::silhouette_point> curve{{2, 2, .25, status::converged},
                                            {3, 3, .5 - 1e-15, status::converged},
                                            {4, 3, .5, status::fewer_clusters},
                                            {5, 1, .9, status::undefined}};
    CHECK(hr::detail::best_point(curve) == 1);
    curve[1].mean_silhouette = .5 - 1e-9;
    CHECK(hr::detail::best_point(curve) == 2);
    for (auto& point : curve) point.mean_silhouette = -.5;
    CHECK(hr::detail::best_point(curve) == 0);
    for (auto& point : curve) point.status = status::undefined;
    CHECK(hr::detail::best_point(curve) == 4);
  }

  TEST_CASE("auto_clusters: the same for any number of threads, and from an embedding") {
    hr::cpu one{{.threads = 1}}, three{{.threads = 3}};
    const auto d = random_plane(40, seed());
    for (const auto method : {hr::labelling::cluster_qr, hr::labelling::kmeans}) {
      const hr::auto_options options{.min = 2, .max = 30, .method = method, .seed = 11, .restarts = 3};
      const auto a = hr::auto_clusters(one, d, options);
      const auto b = hr::auto_clusters(three, hr::spectral_embedding{three, d}, options);
      CHECK(a.k == b.k);
      CHECK(a.clusters == b.clusters);
      CHECK(a.scores.values == b.scores.values);
      REQUIRE(a.curve.size() == b.curve.size());
      for (std::size_t i = 0; i < a.curve.size(); ++i) CHECK(a.curve[i].mean_silhouette == b.curve[i].mean_silhouette);
    }
  }

  TEST_CASE("auto_clusters: errors") {
    hr::cpu be{{.threads = 1}};
    const auto refused = [&](hr::auto_options options) {
      return text_of<hr::argument_error>([&] { hr::auto_clusters(be, worked_distances(), options); });
    };
    CHECK(refused({.min = 0, .max = 3}) == "auto_clusters: range is 0 to 3, expected within 1 to 6");
    CHECK(has(refused({.min = 4, .max = 3}), "4 to 3"));
    CHECK(has(refused({.min = 2, .max = 7}), "2 to 7"));
    CHECK(has(refused({.min = 2, .max = -1}), "2 to -1"));
    CHECK_THROWS_AS(hr::auto_clusters(be, hr::matrix(1, 1)), hr::argument_error);  // no k from 2
    CHECK(hr::auto_clusters(be, hr::matrix(1, 1), {.min = 1, .max = 1}).k == 1);
  }
}
