#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <headred/cluster/hierarchical_order.hpp>

#include "cluster/distances_for_tests.hpp"
#include "environment.hpp"
#include "oracle/cluster.hpp"

namespace hr = headred;
using namespace headred_test;
using order_t = std::vector<hr::index_t>;

namespace {

std::vector<order_t> heads_of_nodes(const std::vector<hr::cluster_merge>& tree, hr::index_t n) {
  std::vector<order_t> nodes;
  for (hr::index_t i = 0; i < n; ++i) nodes.push_back({i});
  for (const auto& merge : tree) {
    order_t heads = nodes[static_cast<std::size_t>(merge.left)];
    const order_t& right = nodes[static_cast<std::size_t>(merge.right)];
    heads.insert(heads.end(), right.begin(), right.end());
    std::sort(heads.begin(), heads.end());
    nodes.push_back(heads);
  }
  return nodes;
}

bool is_permutation_of_heads(order_t order, hr::index_t n) {
  std::sort(order.begin(), order.end());
  order_t expected(static_cast<std::size_t>(n));
  std::iota(expected.begin(), expected.end(), hr::index_t{0});
  return order == expected;
}

}  // namespace

TEST_SUITE("cluster") {
  TEST_CASE("average_linkage: the worked example") {
    const auto tree = hr::average_linkage(worked_distances());
    REQUIRE(tree.size() == 5);
    CHECK(tree[0].left == 0);
    CHECK(tree[0].right == 1);
    CHECK(tree[0].height == .1);
    CHECK(tree[1].left == 2);
    CHECK(tree[1].right == 6);
    CHECK(tree[1].height == doctest::Approx(.115).epsilon(1e-14));
    CHECK(tree[2].left == 3);
    CHECK(tree[2].right == 4);
    CHECK(tree[3].height == doctest::Approx(.61).epsilon(1e-14));
    CHECK(tree[4].size == 6);
    CHECK(tree[4].height == doctest::Approx((.8 + .85 + .9 + .82 + .84 + .88 + .79 + .83 + .87) / 9).epsilon(1e-14));
  }

  TEST_CASE("average_linkage: against all pairs in long double") {
    for (std::uint64_t round = 0; round < 20; ++round) {
      const auto n = static_cast<hr::index_t>(1 + hr::random_stream(seed(), round).below(0, 40));
      const auto d = random_plane(n, seed() + 3 * round);
      const auto tree = hr::average_linkage(d);
      const auto expected = oracle::average_linkage(oracle::widened(d));
      REQUIRE(tree.size() == expected.size());
      const auto nodes = heads_of_nodes(tree, n);
      for (std::size_t m = 0; m < tree.size(); ++m) {
        CHECK(nodes[static_cast<std::size_t>(n) + m] == expected[m].heads);
        CHECK(std::abs(static_cast<long double>(tree[m].height) - expected[m].height) < 1e-14L);
        CHECK(tree[m].size == static_cast<hr::index_t>(expected[m].heads.size()));
        CHECK(tree[m].left < tree[m].right);
      }
    }
  }

  TEST_CASE("average_linkage: ties and copies still give a tree") {
    for (const double distance : {0.0, .5}) {
      const auto p = planted_blocks(3, 7, distance, .5, 0, seed());
      const auto tree = hr::average_linkage(p.distances);
      REQUIRE(tree.size() == 20);
      CHECK(heads_of_nodes(tree, 21).back().size() == 21);
      for (std::size_t m = 1; m < tree.size(); ++m) CHECK(tree[m].height >= tree[m - 1].height);
      for (std::size_t m = 0; m < tree.size(); ++m) CHECK(tree[m].right < static_cast<hr::index_t>(21 + m));
      CHECK(is_permutation_of_heads(hr::hierarchical_order(p.distances), 21));
    }
  }

  TEST_CASE("hierarchical_order: heads on a line come out in line") {
    const order_t places{5, 0, 3, 9, 1, 7, 2, 8, 6, 4};
    hr::matrix d(10, 10);
    for (hr::index_t i = 0; i < 10; ++i)
      for (hr::index_t j = 0; j < 10; ++j) {
        const auto x = static_cast<double>(places[static_cast<std::size_t>(i)]);
        const auto y = static_cast<double>(places[static_cast<std::size_t>(j)]);
        d(i, j) = std::abs(std::pow(1.1, x) - std::pow(1.1, y)) / 2;
      }
    order_t expected(10);
    for (std::size_t i = 0; i < 10; ++i) expected[static_cast<std::size_t>(places[i])] = static_cast<hr::index_t>(i);
    CHECK(hr::hierarchical_order(d) == expected);
  }

  TEST_CASE("hierarchical_order: blocks stay together, and neighbours are nearer than by chance") {
    const auto p = planted_blocks(6, 9, .2, .8, .1, seed());
    const auto order = hr::hierarchical_order(p.distances);
    REQUIRE(is_permutation_of_heads(order, 54));
    CHECK(order.front() < order.back());
    int changes = 0;
    for (std::size_t i = 1; i < order.size(); ++i)
      changes += p.labels[static_cast<std::size_t>(order[i])] != p.labels[static_cast<std::size_t>(order[i - 1])];
    CHECK(changes == 5);

    const auto d = random_plane(100, seed());
    const auto line = hr::hierarchical_order(d);
    double along = 0, before = 0;
    for (std::size_t i = 1; i < line.size(); ++i) {
      along += d(line[i], line[i - 1]);
      before += d(static_cast<hr::index_t>(i), static_cast<hr::index_t>(i) - 1);
    }
    CHECK(along < before / 3);
    CHECK(hr::hierarchical_order(d) == line);
  }

  TEST_CASE("hierarchical_order: small and hostile input") {
    CHECK(hr::hierarchical_order(hr::matrix(1, 1)) == order_t{0});
    CHECK(hr::average_linkage(hr::matrix(1, 1)).empty());
    CHECK(hr::hierarchical_order(hr::matrix(2, 2)) == order_t{0, 1});
    CHECK(has(text_of<hr::shape_error>([] { hr::hierarchical_order(hr::matrix(2, 3)); }),
              "hierarchical_order: matrix is (2,3)"));
    CHECK_THROWS_AS(hr::hierarchical_order(hr::matrix(0, 0)), hr::shape_error);
    CHECK(has(text_of<hr::argument_error>([] {
                hr::average_linkage(matrix_of(2, 2, {0, -1, -1, 0}));
              }),
              "average_linkage: distance (0,1) is -1"));
  }
}
