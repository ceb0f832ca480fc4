#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <headred/cluster/cluster_count.hpp>
#include <headred/cluster/clustering.hpp>

#include "cluster/distances_for_tests.hpp"

namespace hr = headred;
using headred_test::has;
using headred_test::text_of;
using labels_t = std::vector<hr::index_t>;

TEST_SUITE("cluster") {
  TEST_CASE("clustering: ids in order of first appearance") {
    const auto c = hr::make_clustering(labels_t{7, 7, 0, 1000000000000, 0, 7});
    CHECK(c.labels == labels_t{0, 0, 1, 2, 1, 0});
    CHECK(c.found == 3);
    CHECK(c.requested == 3);
    CHECK(c.status == hr::status::converged);
    CHECK(hr::make_clustering(labels_t{2, 2, 1}) == hr::make_clustering(labels_t{0, 0, 9}));
  }

  TEST_CASE("clustering: fewer than asked for") {
    const auto c = hr::make_clustering(labels_t{4, 4, 4}, 2);
    CHECK(c.found == 1);
    CHECK(c.requested == 2);
    CHECK(c.status == hr::status::fewer_clusters);
    CHECK(hr::make_clustering({}).found == 0);
  }

  TEST_CASE("clustering: errors name the head") {
    CHECK(text_of<hr::argument_error>([] {
            hr::make_clustering(labels_t{0, -1});
          }) == "make_clustering: label of head 1 is -1, expected at least 0");
    CHECK(has(text_of<hr::argument_error>([] { hr::make_clustering(labels_t{0}, -3); }), "requested is -3"));
    hr::clustering wrong{.labels = {0, 2}, .requested = 2, .found = 2, .status = hr::status::converged};
    CHECK(has(text_of<hr::argument_error>([&] { hr::cluster_members(wrong); }), "label of head 1 is 2"));
    wrong.labels = {-1};
    CHECK(has(text_of<hr::argument_error>([&] { hr::cluster_members(wrong); }), "label of head 0 is -1"));
    wrong.found = -5;
    CHECK_THROWS_AS(hr::cluster_members(wrong), hr::argument_error);
  }

  TEST_CASE("clustering: members, ascending") {
    const auto members = hr::cluster_members(hr::make_clustering(labels_t{1, 0, 1, 2, 0}));
    CHECK(members == std::vector<labels_t>{{0, 2}, {1, 4}, {3}});
  }

  TEST_CASE("cluster_count: the worked ratios") {
    const std::pair<double, hr::index_t> worked[] = {{.05, 137}, {.25, 108}, {.5, 72}, {.75, 36}, {.85, 22}, {.95, 8}};
    for (const auto& [ratio, k] : worked) CHECK(hr::cluster_count(144, ratio) == k);
    CHECK(hr::cluster_count(20, .85) == 3);  // ceil(20 (1 - .85)) is 4 in floating point
    CHECK(hr::cluster_count(144, 0) == 144);
    CHECK(hr::cluster_count(0, .5) == 0);
    CHECK(hr::cluster_count(1, .999) == 1);
    CHECK(hr::cluster_count(1, std::nextafter(1.0, 0.0)) == 1);
    CHECK(hr::cluster_count(144, std::nextafter(1.0, 0.0)) == 1);
  }

  TEST_CASE("cluster_count: exact for every fraction of N") {
    for (hr::index_t n = 1; n <= 200; ++n)
      for (hr::index_t pruned = 0; pruned < n; ++pruned)
        CHECK(hr::cluster_count(n, static_cast<double>(pruned) / static_cast<double>(n)) == n - pruned);
  }

  TEST_CASE("cluster_count: ratios outside [0,1) are refused") {
    for (const double ratio : {-0.01, 1.0, 1.5, std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()})
      CHECK(has(text_of<hr::argument_error>([&] { hr::cluster_count(144, ratio); }), "expected in [0,1)"));
    CHECK(has(text_of<hr::argument_error>([] { hr::cluster_count(-1, .5); }), "heads is -1"));
  }
}
