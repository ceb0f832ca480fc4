#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/cluster/representatives.hpp>

#include "cluster/distances_for_tests.hpp"

namespace hr = headred;
using namespace headred_test;
using labels_t = std::vector<hr::index_t>;

TEST_SUITE("cluster") {
  TEST_CASE("representatives: worked values") {
    hr::cpu be{{.threads = 1}};
    const auto kept = [&](const labels_t& labels) {
      const auto c = hr::make_clustering(labels);
      return hr::representatives(c, hr::silhouette(be, worked_distances(), c));
    };
    CHECK(kept({0, 0, 0, 1, 1, 1}) == labels_t{1, 4});
    CHECK(kept({0, 0, 0, 1, 1, 2}) == labels_t{1, 4, 5});
    CHECK(kept({0, 1, 2, 3, 4, 5}) == labels_t{0, 1, 2, 3, 4, 5});
    CHECK(kept({0, 0, 0, 0, 0, 0}) == labels_t{0});
  }

  TEST_CASE("representatives: ascending, ties to the lowest head, rounding decides nothing") {
    const auto c = hr::make_clustering(labels_t{0, 1, 1, 0, 0});
    hr::silhouettes s{.values = {.1, .5, .5, .2, .2 + 1e-14}, .mean = 0, .status = hr::status::converged};
    CHECK(hr::representatives(c, s) == labels_t{1, 3});
    s.values[4] = .2 + 1e-9;
    CHECK(hr::representatives(c, s) == labels_t{1, 4});
    s.values = {-.3, -1, -1, -.2, -.4};
    CHECK(hr::representatives(c, s) == labels_t{1, 3});
  }

  TEST_CASE("representatives: errors") {
    const auto c = hr::make_clustering(labels_t{0, 1});
    hr::silhouettes s{.values = {0}, .mean = 0, .status = hr::status::converged};
    CHECK(text_of<hr::shape_error>([&] { hr::representatives(c, s); }) ==
          "representatives: 1 silhouettes for 2 labels");
    s.values = {0, std::numeric_limits<double>::quiet_NaN()};
    CHECK(has(text_of<hr::argument_error>([&] { hr::representatives(c, s); }), "silhouette of head 1 is"));
  }
}
