// Whitening, the orthogonal Procrustes residual, eigenvectors in place and double centring, against long double.
#include <doctest/doctest.h>

#include <vector>

#include <headred/core/random.hpp>
#include <headred/numeric/centred_distances.hpp>
#include <headred/numeric/polar.hpp>
#include <headred/numeric/symmetric_factors.hpp>
#include <headred/numeric/whiten.hpp>

#include "oracle/distances.hpp"

namespace hr = headred;
using headred_test::oracle::wide_matrix;
using hr::index_t;

namespace {

std::vector<double> draw(index_t rows, index_t cols, std::uint64_t seed) {
  const hr::random_stream random(seed);
  std::vector<double> m(static_cast<std::size_t>(rows * cols));
  for (std::size_t i = 0; i < m.size(); ++i) m[i] = random.uniform(i) - .5;
  return m;
}

wide_matrix widened(const std::vector<double>& m, index_t rows, index_t cols) {
  wide_matrix w(rows, cols);
  for (index_t i = 0; i < rows; ++i)
    for (index_t j = 0; j < cols; ++j) w(i, j) = static_cast<long double>(m[static_cast<std::size_t>(i * cols + j)]);
  return w;
}

// |A - V^T diag V| / |A| and |V V^T - 1|
void check_factors(const std::vector<double>& a, index_t n) {
  CAPTURE(n);
  auto vectors = a;
  std::vector<double> values(static_cast<std::size_t>(n)), scratch(static_cast<std::size_t>(2 * n));
  REQUIRE(hr::detail::symmetric_factors(vectors.data(), n, values.data(), scratch.data()));
  const wide_matrix v = widened(vectors, n, n), matrix = widened(a, n, n);
  Eigen::Matrix<long double, Eigen::Dynamic, 1> d(n);
  for (index_t i = 0; i < n; ++i) d[i] = static_cast<long double>(values[static_cast<std::size_t>(i)]);
  const long double size = std::max(matrix.norm(), 1e-300L);
  CHECK(static_cast<double>((matrix - v.transpose() * d.asDiagonal() * v).norm() / size) <
        1e-14 * std::sqrt(double(n) + 3));
  CHECK(static_cast<double>((v * v.transpose() - wide_matrix::Identity(n, n)).norm()) < 3e-15 * double(n + 1));
}

}  // namespace

TEST_SUITE("numeric") {
  TEST_CASE("eigenvectors in place: random, multiple, graded, diagonal, zero") {
    for (const index_t n : {1, 2, 3, 4, 5, 8, 17, 40, 71}) {
      const auto x = draw(n, n, static_cast<std::uint64_t>(n));
      std::vector<double> a(x.size()), identity(x.size()), ones(x.size(), 1.), zero(x.size()), graded(x.size());
      for (index_t i = 0; i < n; ++i)
        for (index_t j = 0; j < n; ++j) {
          const auto at = static_cast<std::size_t>(i * n + j);
          a[at] = x[at] + x[static_cast<std::size_t>(j * n + i)];
          identity[at] = i == j ? 2 : 0;
          graded[at] = a[at] * std::pow(10., -6. * static_cast<double>(i + j) / static_cast<double>(n));
        }
      check_factors(a, n);
      check_factors(identity, n);
      check_factors(ones, n);
      check_factors(zero, n);
      check_factors(graded, n);
    }
    // the normalised Laplacian of a cycle of 20: multiplicities kept
    std::vector<double> cycle(400);
    for (std::size_t i = 0; i < 20; ++i) {
      cycle[i * 20 + i] = 1;
      cycle[i * 20 + (i + 1) % 20] = cycle[(i + 1) % 20 * 20 + i] = -.5;
    }
    check_factors(cycle, 20);
    std::vector<double> values(20), scratch(40);
    hr::detail::symmetric_factors(cycle.data(), 20, values.data(), scratch.data());
    std::sort(values.begin(), values.end());
    CHECK(std::abs(values[0]) < 1e-14);
    CHECK(values[1] == doctest::Approx(.0489434837).epsilon(1e-9));
    CHECK(values[2] == doctest::Approx(.0489434837).epsilon(1e-9));
    CHECK(values[4] == doctest::Approx(.1909830056).epsilon(1e-9));
  }

  TEST_CASE("whitening of all kinds") {
    using options = headred_test::oracle::distance_options;
    hr::grow_buffer<double> scratch;
    for (const auto& [tokens, n] : {std::pair<index_t, index_t>{9, 9}, {30, 7}, {6, 11}, {2, 2}, {40, 40}, {5, 1}}) {
      auto x = draw(tokens, n, static_cast<std::uint64_t>(tokens * 100 + n));
      for (index_t k = 0; k < n; ++k) {
        double mean = 0;
        for (index_t t = 0; t < tokens; ++t)
          mean += x[static_cast<std::size_t>(t * n + k)] / static_cast<double>(tokens);
        for (index_t t = 0; t < tokens; ++t) x[static_cast<std::size_t>(t * n + k)] -= mean;
      }
      for (const auto& [kind, oracle_kind, amount] : {std::tuple{hr::whitening::ridge, options::ridge, .01},
                                                      std::tuple{hr::whitening::half_dof, options::half_dof, .01},
                                                      std::tuple{hr::whitening::truncated, options::truncated, .9}}) {
        auto w = x;
        hr::detail::whiten(w.data(), tokens, n, kind, amount, scratch);
        options o;
        o.kind = oracle_kind;
        (kind == hr::whitening::truncated ? o.variance : o.lambda) = static_cast<long double>(amount);
        const wide_matrix expected = headred_test::oracle::whitened(widened(x, tokens, n), o);
        CHECK(static_cast<double>((widened(w, tokens, n) - expected).norm() / expected.norm()) < 1e-12);
      }
    }
  }

  TEST_CASE("whitening that keeps everything gives unit variance") {
    hr::grow_buffer<double> scratch;
    auto x = draw(200, 3, 4);
    for (std::size_t k = 0; k < 3; ++k) {
      double mean = 0;
      for (std::size_t t = 0; t < 200; ++t) mean += x[t * 3 + k] / 200;
      for (std::size_t t = 0; t < 200; ++t) x[t * 3 + k] -= mean;
    }
    hr::detail::whiten(x.data(), 200, 3, hr::whitening::truncated, 1.0, scratch);
    const wide_matrix w = widened(x, 200, 3);
    CHECK(static_cast<double>((w.transpose() * w / 200 - wide_matrix::Identity(3, 3)).norm()) < 1e-13);
  }

  TEST_CASE("Procrustes residual: against long double, rotations, reflections, rank-deficient") {
    hr::grow_buffer<double> scratch;
    for (const auto& [tokens, n] : {std::pair<index_t, index_t>{9, 9}, {30, 7}, {6, 11}, {1, 4}, {4, 1}, {33, 33}}) {
      CAPTURE(tokens);
      CAPTURE(n);
      const auto unit = [](std::vector<double> m) {
        double squares = 0;
        for (const double v : m) squares += v * v;
        for (double& v : m) v /= std::sqrt(squares);
        return m;
      };
      const auto x = unit(draw(tokens, n, 1));
      for (const double distance : {1., 1e-2, 1e-4, 1e-6}) {
        const auto e = draw(tokens, n, 2);
        auto y = x;
        for (std::size_t i = 0; i < y.size(); ++i) y[i] += distance * e[i] / std::sqrt(static_cast<double>(tokens * n));
        y = unit(y);
        const auto expected =
            static_cast<double>(headred_test::oracle::polar_residual(widened(x, tokens, n), widened(y, tokens, n)));
        const double found = hr::detail::procrustes_residual(x.data(), y.data(), tokens, n, scratch);
        CHECK(std::abs(found - expected) <= 1e-30 + 2e-14 * std::sqrt(expected));
      }
      // columns permuted, one of them negated: an orthogonal map with a reflection
      auto turned = x;
      for (index_t t = 0; t < tokens; ++t)
        for (index_t k = 0; k < n; ++k)
          turned[static_cast<std::size_t>(t * n + (k * 2 + 1) % n)] =
              x[static_cast<std::size_t>(t * n + k)] * (k == 0 ? -1 : 1);
      if (n % 2 == 1) CHECK(hr::detail::procrustes_residual(x.data(), turned.data(), tokens, n, scratch) < 1e-28);
      CHECK(hr::detail::procrustes_residual(x.data(), x.data(), tokens, n, scratch) < 1e-28);
    }
  }

  TEST_CASE("double-centred distances are unit vectors whose rows sum to zero") {
    const index_t tokens = 11, keys = 3, end = 16;
    hr::detail::centred_scratch<double> scratch;
    const auto map = draw(tokens, keys, 8);
    std::vector<double> vector(static_cast<std::size_t>(hr::detail::centred_entries(tokens)));
    CHECK(vector.size() == 8 * 16 + 3 * 8);  // rows 0 to 7 begin at column 0, rows 8 to 10 at column 8
    for (const bool unbiased : {false, true}) {
      CHECK(hr::detail::centred_distances(map.data(), tokens, keys, unbiased, scratch, vector.data()));
      double squares = 0;
      std::vector<double> sums(static_cast<std::size_t>(tokens));
      std::size_t at = 0;
      for (index_t i = 0; i < tokens; ++i)
        for (index_t j = hr::detail::centred_begin(i); j < end; ++j) {
          const double v = vector[at++];
          if (j < i || j >= tokens || (unbiased && i == j)) CHECK(v == 0);
          squares += v * v;
          sums[static_cast<std::size_t>(i)] += i == j ? v : v / std::sqrt(2.);
          if (j > i && j < tokens) sums[static_cast<std::size_t>(j)] += v / std::sqrt(2.);
        }
      CHECK(at == vector.size());
      CHECK(squares == doctest::Approx(1).epsilon(1e-14));
      for (const double s : sums) CHECK(std::abs(s) < 1e-14);
    }
    const std::vector<double> constant(map.size(), .25);
    CHECK_FALSE(hr::detail::centred_distances(constant.data(), tokens, keys, false, scratch, vector.data()));
    for (const double v : vector) CHECK(v == 0);
  }
}
