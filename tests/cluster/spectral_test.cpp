#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/cluster/auto_clusters.hpp>
#include <headred/cluster/representatives.hpp>
#include <headred/cluster/spectral.hpp>
#include <headred/core/random.hpp>

#include "cluster/distances_for_tests.hpp"
#include "environment.hpp"
#include "oracle/cluster.hpp"

namespace hr = headred;
using namespace headred_test;
using labels_t = std::vector<hr::index_t>;

namespace {

oracle::wide_matrix one_minus(const hr::matrix& d) {
  auto s = oracle::widened(d);
  for (auto& row : s)
    for (auto& x : row) x = 1 - x;
  return s;
}

// Distances 0 along a cycle and 1 elsewhere: the affinity is the cycle's adjacency.
hr::matrix cycle(hr::index_t n) {
  hr::matrix d(n, n);
  for (hr::index_t i = 0; i < n; ++i)
    for (hr::index_t j = 0; j < n; ++j) d(i, j) = i == j || (i + 1) % n == j || (j + 1) % n == i ? 0 : 1;
  return d;
}

hr::matrix constant(hr::index_t n, double distance) {
  hr::matrix d(n, n);
  for (hr::index_t i = 0; i < n; ++i)
    for (hr::index_t j = 0; j < n; ++j) d(i, j) = i == j ? 0 : distance;
  return d;
}

}  // namespace

TEST_SUITE("cluster") {
  TEST_CASE("spectral: worked values") {
    hr::cpu be{{.threads = 1}};
    const hr::spectral_embedding e{be, worked_distances()};
    const double expected[] = {0, .5126507, 1.2171294, 1.38838099, 1.40158773, 1.48025118};
    for (std::size_t i = 0; i < 6; ++i) CHECK(std::abs(e.eigenvalues()[i] - expected[i]) < 5e-9);
    CHECK(e.eigenvalues()[0] == 0);
    CHECK(e.components() == 1);
    CHECK(e.heads() == 6);
    const auto two = e.clusters(2), three = e.clusters(3);
    CHECK(two.labels == labels_t{0, 0, 0, 1, 1, 1});
    CHECK(two.status == hr::status::converged);
    CHECK(three.labels == labels_t{0, 0, 0, 1, 1, 2});
    CHECK(hr::spectral_clusters(be, worked_distances(), {.count = 3}) == three);
    CHECK(e.clusters({.count = 3, .method = hr::labelling::kmeans, .seed = 4}).labels == three.labels);
    CHECK(hr::representatives(two, hr::silhouette(be, worked_distances(), two)) == labels_t{1, 4});
    CHECK(e.eigenvalue_gap(1) == doctest::Approx(.5126507).epsilon(1e-7));
  }

  TEST_CASE("spectral: vectors are eigenvectors over w, largest entry positive, weights sqrt(degree)") {
    hr::cpu be{{.threads = 1}};
    const auto d = worked_distances();
    const hr::spectral_embedding e{be, d};
    const auto v = e.vectors(6);
    const auto [l, w] = oracle::laplacian(one_minus(d));
    const double roots[] = {1.49331845, 1.5, 1.50996689, 1.356466, 1.30766968, 1.06301458};
    for (std::size_t i = 0; i < 6; ++i) CHECK(std::abs(static_cast<double>(w[i]) - roots[i]) < 5e-9);
    for (hr::index_t k = 0; k < 6; ++k) {
      double largest = 0;
      long double norm = 0;
      for (hr::index_t i = 0; i < 6; ++i) {
        if (std::abs(v(i, k)) > std::abs(largest)) largest = v(i, k);
        long double residual = -e.eigenvalues()[static_cast<std::size_t>(k)] * w[static_cast<std::size_t>(i)] * v(i, k);
        for (hr::index_t j = 0; j < 6; ++j)
          residual +=
              l[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] * w[static_cast<std::size_t>(j)] * v(j, k);
        CHECK(std::abs(residual) < 1e-14L);
        norm += std::pow(w[static_cast<std::size_t>(i)] * v(i, k), 2.0L);
      }
      CHECK(largest > 0);
      CHECK(std::abs(norm - 1) < 1e-14L);
    }
    CHECK(e.vectors(2).extent(0) == 6);
    CHECK(e.vectors(2).extent(1) == 2);
  }

  TEST_CASE("spectral: cycles keep their double eigenvalues") {
    hr::cpu be{{.threads = 1}};
    for (const hr::index_t n : {20, 21, 64}) {
      const hr::spectral_embedding e{be, cycle(n)};
      std::vector<double> expected;
      for (hr::index_t j = 0; j < n; ++j)
        expected.push_back(1 - std::cos(2 * std::acos(-1.0) * static_cast<double>(j) / static_cast<double>(n)));
      std::sort(expected.begin(), expected.end());
      for (std::size_t j = 0; j < expected.size(); ++j) CHECK(std::abs(e.eigenvalues()[j] - expected[j]) < 1e-14);
      if (n == 20) {
        for (const std::size_t j : {1u, 2u}) CHECK(std::abs(e.eigenvalues()[j] - .048943) < 5e-7);
        for (const std::size_t j : {3u, 4u}) CHECK(std::abs(e.eigenvalues()[j] - .190983) < 5e-7);
        CHECK(std::abs(e.eigenvalue_gap(2)) < 1e-14);
        CHECK(e.eigenvalue_gap(3) > .1);
      }
      for (hr::index_t k = 1; k <= n; ++k) {
        const auto c = e.clusters(k);
        CHECK(c.labels.size() == static_cast<std::size_t>(n));
        CHECK(c.found >= 1);
        CHECK(c.found <= k);
      }
    }
  }

  TEST_CASE("spectral: labels and eigenvalues against long double") {
    hr::cpu be{{.threads = 1}};
    for (std::uint64_t round = 0; round < 25; ++round) {
      const auto n = static_cast<hr::index_t>(3 + hr::random_stream(seed(), round).below(0, 28));
      const auto d = random_plane(n, seed() + 77 * round);
      const hr::spectral_embedding e{be, d};
      const auto wide = oracle::jacobi_eigen(oracle::laplacian(one_minus(d)).first);
      for (std::size_t i = 0; i < wide.values.size(); ++i)
        CHECK(std::abs(e.eigenvalues()[i] - static_cast<double>(wide.values[i])) < 1e-13);
      for (hr::index_t k = 1; k <= n; ++k)
        CHECK(e.clusters(k).labels == oracle::spectral_labels(one_minus(d), static_cast<std::size_t>(k)));
    }
  }

  TEST_CASE("spectral: permuting the heads permutes the clusters") {
    hr::cpu be{{.threads = 1}};
    const hr::index_t n = 30;
    const auto d = random_plane(n, seed() + 5);
    std::vector<std::size_t> at(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < at.size(); ++i) at[i] = (7 * i + 3) % at.size();
    hr::matrix permuted(n, n);
    for (hr::index_t i = 0; i < n; ++i)
      for (hr::index_t j = 0; j < n; ++j)
        permuted(i, j) = d(static_cast<hr::index_t>(at[static_cast<std::size_t>(i)]),
                           static_cast<hr::index_t>(at[static_cast<std::size_t>(j)]));
    const hr::spectral_embedding a{be, d}, b{be, permuted};
    for (hr::index_t k = 1; k <= n; ++k) {
      const auto labels = a.clusters(k).labels;
      labels_t expected;
      for (const std::size_t i : at) expected.push_back(labels[i]);
      CHECK(b.clusters(k).labels == oracle::by_appearance(expected));
    }
  }

  TEST_CASE("spectral: every k from 1 to N") {
    hr::cpu be{{.threads = 2}};
    for (const hr::index_t n : {1, 2, 3, 17}) {
      const hr::spectral_embedding e{be, random_plane(n, 9)};
      for (hr::index_t k = 1; k <= n; ++k)
        for (const auto method : {hr::labelling::cluster_qr, hr::labelling::kmeans}) {
          const auto c = e.clusters({.count = k, .method = method});
          CHECK(c.requested == k);
          CHECK(c.found == 1 + *std::max_element(c.labels.begin(), c.labels.end()));
          CHECK((c.status == hr::status::converged) == (c.found == k));
        }
      CHECK(e.clusters(n).found == n);
      CHECK(e.clusters(n).status == hr::status::converged);
      CHECK(e.clusters(1).found == 1);
    }
  }

  TEST_CASE("spectral: components are the clusters exactly") {
    hr::cpu be{{.threads = 1}};
    for (std::uint64_t round = 0; round < 10; ++round) {
      const auto blocks = static_cast<hr::index_t>(2 + round % 4);
      auto p = planted_blocks(blocks, 6, .4, 1, 0, seed() + round);
      const hr::random_stream draws(seed(), round);
      std::uint64_t draw = 0;
      for (hr::index_t i = 0; i < p.distances.rows(); ++i)  // noise within the blocks only
        for (hr::index_t j = 0; j < i; ++j)
          if (p.distances(i, j) < 1) p.distances(i, j) = p.distances(j, i) = .9 * draws.uniform(draw++);
      const hr::spectral_embedding e{be, p.distances};
      CHECK(e.components() == blocks);
      CHECK(std::count(e.eigenvalues().begin(), e.eigenvalues().end(), 0.0) == blocks);
      const auto wide = oracle::jacobi_eigen(oracle::laplacian(one_minus(p.distances)).first);
      for (std::size_t i = 0; i < wide.values.size(); ++i)
        CHECK(std::abs(e.eigenvalues()[i] - static_cast<double>(wide.values[i])) < 1e-13);
      for (const auto method : {hr::labelling::cluster_qr, hr::labelling::kmeans}) {
        const auto c = e.clusters({.count = blocks, .method = method});
        CHECK(c.labels == oracle::by_appearance(p.labels));
        CHECK(c.status == hr::status::converged);
      }
      // beyond the components each cluster stays within one
      for (hr::index_t k = blocks + 1; k <= p.distances.rows(); ++k) {
        const auto c = e.clusters(k);
        for (std::size_t i = 0; i < c.labels.size(); ++i)
          for (std::size_t j = 0; j < i; ++j)
            if (c.labels[i] == c.labels[j]) CHECK(p.labels[i] == p.labels[j]);
      }
      if (blocks > 2) {
        const auto fewer = e.clusters(blocks - 1);
        CHECK(fewer.status == hr::status::degenerate);
        CHECK(fewer.found == blocks - 1);
      }
    }
  }

  TEST_CASE("spectral: an isolated head is a cluster of its own") {
    hr::cpu be{{.threads = 1}};
    // heads 0-3 and 5-7 hang together, between them little; head 4 has nothing in common with any
    hr::matrix d = constant(8, 1);
    const auto near = [&](hr::index_t i, hr::index_t j, double x) { d(i, j) = d(j, i) = x; };
    for (const hr::index_t i : {0, 1, 2, 3})
      for (const hr::index_t j : {5, 6, 7}) near(i, j, .95);
    for (const hr::index_t i : {0, 1, 2, 3})
      for (const hr::index_t j : {0, 1, 2, 3})
        if (i != j) near(i, j, .2);
    near(5, 6, .3), near(6, 7, .3), near(5, 7, .3);
    const hr::spectral_embedding e{be, d};
    CHECK(e.components() == 2);
    CHECK(e.clusters(2).labels == labels_t{0, 0, 0, 0, 1, 0, 0, 0});
    CHECK(e.clusters(3).labels == labels_t{0, 0, 0, 0, 1, 2, 2, 2});
    CHECK(e.clusters(3).status == hr::status::converged);
    CHECK(std::count(e.eigenvalues().begin(), e.eigenvalues().end(), 1.0) == 1);
    CHECK(std::count(e.eigenvalues().begin(), e.eigenvalues().end(), 0.0) == 1);
    const auto wide = oracle::jacobi_eigen(oracle::laplacian(one_minus(d)).first);
    for (std::size_t i = 0; i < wide.values.size(); ++i)
      CHECK(std::abs(e.eigenvalues()[i] - static_cast<double>(wide.values[i])) < 1e-14);
  }

  TEST_CASE("spectral: nothing to decide is degenerate, never NaN") {
    hr::cpu be{{.threads = 1}};
    const hr::spectral_embedding identical{be, constant(7, 0)};
    for (hr::index_t k = 1; k <= 7; ++k) {
      const auto c = identical.clusters(k);
      CHECK(c.found == 1);
      CHECK(c.status == hr::status::degenerate);
      CHECK(identical.clusters({.count = k, .method = hr::labelling::kmeans}) == c);
    }
    const hr::spectral_embedding bandwidth{be, constant(7, 0), hr::gaussian{}};
    CHECK(bandwidth.clusters(3).status == hr::status::degenerate);
    for (const double x : bandwidth.eigenvalues()) CHECK(std::isfinite(x));
    for (const double distance : {.5, 1.0}) {
      const hr::spectral_embedding e{be, constant(5, distance)};
      CHECK(e.clusters(1).status == hr::status::converged);
      CHECK(e.clusters(3).status == hr::status::degenerate);
      CHECK(e.clusters(5).found == 5);
      CHECK(e.clusters(5).status == hr::status::converged);
    }
    // one head alone is one cluster
    const hr::spectral_embedding one{be, hr::matrix(1, 1)};
    CHECK(one.clusters(1).status == hr::status::converged);
    CHECK(one.eigenvalues() == std::vector<double>{1});
  }

  TEST_CASE("spectral: exact copies of a few heads") {
    hr::cpu be{{.threads = 1}};
    const auto p = planted_blocks(4, 5, 0, .6, 0, seed());
    const hr::spectral_embedding e{be, p.distances};
    for (hr::index_t k = 1; k <= 20; ++k)
      for (const auto method : {hr::labelling::cluster_qr, hr::labelling::kmeans}) {
        const auto c = e.clusters({.count = k, .method = method});
        CHECK(c.found >= 1);
        CHECK(c.found <= k);
        for (const double s : hr::silhouette(be, p.distances, c).values) CHECK(std::isfinite(s));
        if (k == 4) CHECK(c.labels == oracle::by_appearance(p.labels));
      }
  }

  TEST_CASE("spectral: affinities of very different size stay finite") {
    hr::cpu be{{.threads = 1}};
    const auto d = random_plane(24, 3);
    for (const double sigma : {1e-300, 1e-3, 1e-2, 1e6}) {
      const hr::spectral_embedding e{be, d, hr::gaussian{.sigma = sigma}};
      for (const double x : e.eigenvalues()) CHECK(std::isfinite(x));
      for (hr::index_t k = 1; k <= 24; ++k) {
        const auto c = e.clusters(k);
        CHECK(c.found <= k);
        CHECK(e.clusters({.count = k, .method = hr::labelling::kmeans, .restarts = 2}).found <= k);
      }
    }
  }

  TEST_CASE("spectral: with all vectors spectral_cut is the normalised cut") {
    hr::cpu be{{.threads = 1}};
    const hr::index_t n = 23;
    const auto d = random_plane(n, 5);
    const hr::spectral_embedding e{be, d};
    std::vector<double> values;
    for (hr::index_t j = 0; j < n; ++j) values.push_back(e.ordered_eigenvalue(j));
    const hr::detail::spectral_cut cut(e.vectors(n), values, e.degrees(), e.component_numbers());
    const hr::random_stream random(3);
    for (std::uint64_t round = 0; round < 20; ++round) {
      const auto k = static_cast<hr::index_t>(2 + round % 7);
      std::vector<hr::index_t> labels(static_cast<std::size_t>(n));
      for (std::size_t i = 0; i < labels.size(); ++i)
        labels[i] = static_cast<hr::index_t>(random.below(round * 100 + i, static_cast<std::uint64_t>(k)));
      std::vector<long double> inside(static_cast<std::size_t>(k)), volume(static_cast<std::size_t>(k));
      for (hr::index_t i = 0; i < n; ++i)
        for (hr::index_t j = 0; j < n; ++j) {
          if (i == j) continue;
          const auto c = static_cast<std::size_t>(labels[static_cast<std::size_t>(i)]);
          volume[c] += 1.0L - d(i, j);
          if (labels[static_cast<std::size_t>(i)] == labels[static_cast<std::size_t>(j)]) inside[c] += 1.0L - d(i, j);
        }
      long double expected = 0;
      for (std::size_t c = 0; c < volume.size(); ++c)
        if (volume[c] > 0) expected += 1 - inside[c] / volume[c];
      CHECK(cut(labels) == doctest::Approx(static_cast<double>(expected)).epsilon(1e-10));
    }
  }

  TEST_CASE("spectral: k-means keeps a start near the least inertia whose cut is no larger") {
    hr::cpu be{{.threads = 1}};
    const auto d = random_plane(60, 8);
    const hr::spectral_embedding e{be, d};
    int changed = 0;
    for (hr::index_t k = 3; k <= 20; ++k) {
      const auto kept = e.clusters({.count = k, .method = hr::labelling::kmeans, .seed = 2});
      const auto least = hr::kmeans(be, e.vectors(k), {.count = k, .seed = 2});
      std::vector<double> values;
      for (hr::index_t j = 0; j < k; ++j) values.push_back(e.ordered_eigenvalue(j));
      const hr::detail::spectral_cut cut(e.vectors(k), values, e.degrees(), e.component_numbers());
      CHECK(cut(kept.labels) <= cut(least.clusters.labels));
      hr::matrix points(60, k);
      for (hr::index_t i = 0; i < 60; ++i)
        for (hr::index_t j = 0; j < k; ++j) points(i, j) = e.vectors(k)(i, j);
      const auto wide = oracle::widened(points);
      CHECK(oracle::inertia(wide, kept.labels) <= 1.02L * static_cast<long double>(least.inertia) * (1 + 1e-12L));
      changed += kept.labels != least.clusters.labels;
    }
    CHECK(changed > 0);
  }

  TEST_CASE("spectral: the same bits for any number of threads") {
    hr::cpu one{{.threads = 1}}, four{{.threads = 4}};
    const auto d = random_plane(50, 12);
    const hr::spectral_embedding a{one, d}, b{four, d};
    CHECK(a.eigenvalues() == b.eigenvalues());
    for (const hr::index_t k : {2, 9, 30})
      for (std::uint64_t s = 0; s < 3; ++s) {
        const hr::spectral_options options{.count = k, .method = hr::labelling::kmeans, .seed = s};
        CHECK(a.clusters(options) == b.clusters(options));
        CHECK(a.clusters(options) == a.clusters(options));
      }
  }

  TEST_CASE("spectral: errors") {
    hr::cpu be{{.threads = 1}};
    const hr::spectral_embedding e{be, worked_distances()};
    CHECK(text_of<hr::argument_error>([&] { e.clusters(0); }) ==
          "spectral_embedding: clusters for k = 0, expected 1 to 6");
    CHECK(has(text_of<hr::argument_error>([&] { e.clusters(7); }), "k = 7"));
    CHECK(has(text_of<hr::argument_error>([&] { e.vectors(7); }), "vectors for k = 7"));
    CHECK(has(text_of<hr::argument_error>([&] { e.eigenvalue_gap(6); }), "expected 1 to 5"));
    CHECK(text_of<hr::argument_error>([&] { hr::spectral_clusters(be, worked_distances(), {.count = 9}); }) ==
          "spectral_clusters: count is 9, expected 1 to 6");
    CHECK(has(
        text_of<hr::argument_error>([&] { e.clusters({.count = 3, .method = hr::labelling::kmeans, .restarts = 0}); }),
        "restarts is 0"));
    CHECK(has(text_of<hr::shape_error>([&] { hr::spectral_embedding{be, hr::matrix(2, 3)}; }), "(2,3)"));
    auto far = worked_distances();
    far(0, 5) = far(5, 0) = 1.25;
    CHECK(has(text_of<hr::argument_error>([&] { hr::spectral_embedding{be, far}; }), "distance (0,5) is 1.25"));
    CHECK_NOTHROW(hr::spectral_embedding{be, far, hr::gaussian{}});
    // a user's own affinity is checked too
    const auto negative = [](const hr::matrix& d) {
      hr::matrix s(d.rows(), d.cols());
      s(0, 1) = s(1, 0) = -.5;
      return s;
    };
    CHECK(has(text_of<hr::argument_error>([&] {
                hr::spectral_embedding{be, far, negative};
              }),
              "affinity (0,1) is -0.5"));
    const auto wrong_size = [](const hr::matrix&) { return hr::matrix(2, 2); };
    CHECK(has(text_of<hr::shape_error>([&] { hr::spectral_embedding{be, far, wrong_size}; }), "affinity is (2,2)"));
  }
}
