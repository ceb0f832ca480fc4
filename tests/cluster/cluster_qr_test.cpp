#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <headred/cluster/cluster_qr.hpp>

#include "cluster/distances_for_tests.hpp"
#include "environment.hpp"
#include "oracle/cluster.hpp"

namespace hr = headred;
using namespace headred_test;
using labels_t = std::vector<hr::index_t>;

namespace {

hr::matrix random_matrix(hr::index_t rows, hr::index_t cols, std::uint64_t which) {
  const hr::random_stream draws(seed(), which);
  hr::matrix m(rows, cols);
  for (hr::index_t i = 0; i < rows * cols; ++i) m.data()[i] = 2 * draws.uniform(static_cast<std::uint64_t>(i)) - 1;
  return m;
}

// max |U^T U - I| and the largest asymmetry of U^T A, which must be symmetric positive definite
std::pair<double, double> polar_defects(const hr::matrix& a, const hr::matrix& u) {
  double orthogonality = 0, asymmetry = 0;
  const hr::index_t n = a.rows();
  hr::matrix h(n, n);
  for (hr::index_t i = 0; i < n; ++i)
    for (hr::index_t j = 0; j < n; ++j) {
      long double gram = i == j ? -1 : 0, product = 0;
      for (hr::index_t k = 0; k < n; ++k) {
        gram += static_cast<long double>(u(k, i)) * u(k, j);
        product += static_cast<long double>(u(k, i)) * a(k, j);
      }
      orthogonality = std::max(orthogonality, static_cast<double>(std::abs(gram)));
      h(i, j) = static_cast<double>(product);
    }
  for (hr::index_t i = 0; i < n; ++i)
    for (hr::index_t j = 0; j < n; ++j) asymmetry = std::max(asymmetry, std::abs(h(i, j) - h(j, i)));
  return {orthogonality, asymmetry};
}

}  // namespace

TEST_SUITE("cluster") {
  TEST_CASE("polar_factor: orthogonal, and what is left is symmetric") {
    for (const hr::index_t n : {1, 2, 3, 8, 40, 72}) {
      const auto a = random_matrix(n, n, static_cast<std::uint64_t>(n));
      const auto r = hr::polar_factor(a);
      REQUIRE(r.status == hr::status::converged);
      CHECK(r.iterations <= 12);
      const auto [orthogonality, asymmetry] = polar_defects(a, r.factor);
      CHECK(orthogonality < 1e-13);
      CHECK(asymmetry < 1e-12);
    }
  }

  TEST_CASE("polar_factor: known answers") {
    // a rotation by 30 degrees times diag(4, 1e-6)
    const double c = std::sqrt(.75), s = .5;
    const auto r = hr::polar_factor(matrix_of(2, 2, {4 * c, -1e-6 * s, 4 * s, 1e-6 * c}));
    CHECK(r.factor(0, 0) == doctest::Approx(c).epsilon(1e-9));
    CHECK(r.factor(0, 1) == doctest::Approx(-s).epsilon(1e-9));
    CHECK(hr::polar_factor(matrix_of(1, 1, {-3})).factor(0, 0) == doctest::Approx(-1).epsilon(1e-15));
    CHECK(hr::polar_factor(matrix_of(2, 2, {1, 2, 2, 4})).status == hr::status::degenerate);
    CHECK(hr::polar_factor(hr::matrix(3, 3)).status == hr::status::degenerate);
    CHECK(has(text_of<hr::shape_error>([] { hr::polar_factor(hr::matrix(2, 3)); }), "(2,3)"));
    CHECK_THROWS_AS(hr::polar_factor(hr::matrix()), hr::shape_error);
  }

  TEST_CASE("cluster_qr: indicator vectors are recognised in any rotation") {
    // three groups; columns are their indicators, rotated in the plane of the first two
    const labels_t groups{0, 1, 0, 2, 1, 2, 2, 0};
    for (const double angle : {0.0, .3, 1.2, 2.9}) {
      hr::matrix v(8, 3);
      for (hr::index_t i = 0; i < 8; ++i) {
        const auto g = groups[static_cast<std::size_t>(i)];
        const double x = g == 0, y = g == 1;
        v(i, 0) = std::cos(angle) * x - std::sin(angle) * y;
        v(i, 1) = std::sin(angle) * x + std::cos(angle) * y;
        v(i, 2) = g == 2 ? .7 : 0;
      }
      const auto c = hr::cluster_qr(v);
      CHECK(c.labels == groups);
      CHECK(c.found == 3);
      CHECK(c.status == hr::status::converged);
      for (hr::index_t i = 0; i < 24; ++i) v.data()[i] *= 1e-300;
      CHECK(hr::cluster_qr(v).labels == groups);
    }
  }

  TEST_CASE("cluster_qr: against long double") {
    for (std::uint64_t round = 0; round < 60; ++round) {
      const hr::random_stream draws(seed(), 1000 + round);
      const auto n = static_cast<hr::index_t>(2 + draws.below(0, 40));
      const auto k = static_cast<hr::index_t>(1 + draws.below(1, static_cast<std::uint64_t>(n) - 1));
      const auto v = random_matrix(n, k, 2000 + round);
      CHECK(hr::cluster_qr(v).labels == oracle::cluster_qr(oracle::widened(v)));
    }
  }

  TEST_CASE("cluster_qr: deficient rank, zeros, one column") {
    const auto twice = hr::cluster_qr(matrix_of(4, 2, {1, 1, 2, 2, 1, 1, 3, 3}));  // rank 1
    CHECK(twice.labels == labels_t{0, 0, 0, 0});
    CHECK(twice.status == hr::status::fewer_clusters);
    CHECK(twice.requested == 2);
    const auto zero = hr::cluster_qr(hr::matrix(3, 2));
    CHECK(zero.found == 1);
    CHECK(zero.status == hr::status::fewer_clusters);
    CHECK(hr::cluster_qr(matrix_of(3, 1, {1, -2, 3})).labels == labels_t{0, 0, 0});
  }

  TEST_CASE("cluster_qr: errors") {
    CHECK(text_of<hr::shape_error>([] { hr::cluster_qr(hr::matrix(2, 3)); }) ==
          "cluster_qr: vectors are (2,3), expected (N,K) with K in [1,N]");
    CHECK_THROWS_AS(hr::cluster_qr(hr::matrix(2, 0)), hr::shape_error);
    CHECK_THROWS_AS(hr::cluster_qr(hr::matrix(0, 0)), hr::shape_error);
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
      CHECK(has(text_of<hr::argument_error>([&] {
                  hr::cluster_qr(matrix_of(2, 1, {0, bad}));
                }),
                "cluster_qr: vectors (1,0) is"));
  }
}
