#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/cluster/leading_embedding.hpp>
#include <headred/core/random.hpp>

namespace hr = headred;
using hr::index_t;

namespace {

// Points in four dimensions around `groups` centres, distances in [0,1].
hr::matrix blobs(index_t n, index_t groups, double width) {
  std::vector<double> p(static_cast<std::size_t>(4 * n));
  for (index_t i = 0; i < n; ++i)
    for (index_t d = 0; d < 4; ++d)
      p[static_cast<std::size_t>(4 * i + d)] =
          hr::random_stream(static_cast<std::uint64_t>(100 + i % groups)).uniform(static_cast<std::uint64_t>(d)) +
          width * (hr::random_stream(5).uniform(static_cast<std::uint64_t>(4 * i + d)) - .5);
  hr::matrix r(n, n);
  for (index_t i = 0; i < n; ++i)
    for (index_t j = 0; j < i; ++j) {
      double s = 0;
      for (index_t d = 0; d < 4; ++d) {
        const double e = p[static_cast<std::size_t>(4 * i + d)] - p[static_cast<std::size_t>(4 * j + d)];
        s += e * e;
      }
      r(i, j) = r(j, i) = std::min(1.0, std::sqrt(s / 4));
    }
  return r;
}

void same_as_dense(hr::cpu& be, const hr::matrix& r, index_t most, const std::vector<index_t>& counts) {
  const hr::leading_embedding<hr::cpu> leading(be, r, most);
  const hr::spectral_embedding<hr::cpu> dense(be, r);
  REQUIRE(leading.status() == hr::status::converged);
  CHECK(leading.components() == dense.components());
  double worst = 0;
  for (index_t j = 0; j < most; ++j)
    worst = std::max(worst, std::abs(leading.eigenvalues()[static_cast<std::size_t>(j)] - dense.ordered_eigenvalue(j)));
  CHECK(worst < 1e-12);
  for (const index_t k : counts) {
    CAPTURE(k);
    const hr::clustering a = leading.clusters(k), b = dense.clusters(k);
    CHECK(a.labels == b.labels);
    CHECK(a.status == b.status);
  }
}

}  // namespace

TEST_SUITE("cluster") {
  TEST_CASE("leading vectors give the clusters of all vectors") {
    hr::cpu be{{.threads = 2}};
    same_as_dense(be, blobs(700, 12, .2), 20, {1, 2, 7, 12, 20});
    // unconnected parts, some of them single heads
    hr::matrix r = blobs(640, 9, .3);
    for (index_t i = 0; i < 640; ++i)
      for (index_t j = 0; j < 640; ++j)
        if (i != j && ((i % 9 == 4) != (j % 9 == 4) || i < 3 || j < 3)) r(i, j) = 1;
    same_as_dense(be, r, 16, {1, 2, 4, 5, 6, 16});
    // too few heads for a search
    same_as_dense(be, blobs(60, 5, .2), 30, {5, 30});
  }

  TEST_CASE("an eigenvalue is found as often as it occurs") {
    // 40 equal eigenvalues are more than the search takes in at a time
    hr::cpu be{{.threads = 1}};
    const index_t n = 900, count = 60;
    std::vector<double> diagonal(static_cast<std::size_t>(n));
    for (index_t i = 0; i < n; ++i)
      diagonal[static_cast<std::size_t>((i * 7) % n)] = i < 3    ? .95
                                                        : i < 43 ? .9
                                                                 : .8 - .5 * static_cast<double>(i) / 900;
    const auto apply = [&](hr::tensor_view<const double, 2> x, hr::tensor_view<double, 2> y) {
      for (index_t r = 0; r < x.extent(0); ++r)
        for (index_t j = 0; j < n; ++j) y(r, j) = diagonal[static_cast<std::size_t>(j)] * x(r, j);
    };
    hr::matrix known(1, n);
    known(0, 0) = 1;  // the first of the three largest
    const auto found = hr::leading_eigen(be, std::as_const(known).view(), apply, {.count = count});
    REQUIRE(found.status == hr::status::converged);
    std::vector<double> expected(diagonal.begin() + 1, diagonal.end());
    std::sort(expected.begin(), expected.end(), std::greater<>());
    double values = 0, unit = 0;
    for (index_t i = 0; i < count; ++i) {
      values =
          std::max(values, std::abs(found.values[static_cast<std::size_t>(i)] - expected[static_cast<std::size_t>(i)]));
      for (index_t j = 0; j <= i; ++j) {
        double product = 0;
        for (index_t c = 0; c < n; ++c) product += found.vectors(i, c) * found.vectors(j, c);
        unit = std::max(unit, std::abs(product - (i == j ? 1 : 0)));
      }
      CHECK(found.vectors(i, 0) == doctest::Approx(0).epsilon(1e-12));
    }
    CHECK(values < 1e-13);
    CHECK(unit < 1e-12);
  }

  TEST_CASE("single precision, threads, faults") {
    const hr::matrix r = blobs(500, 8, .25);
    std::vector<float> narrow(r.data(), r.data() + 500 * 500);
    const hr::tensor_view<float, 2> view(narrow.data(), {500, 500});
    hr::cpu one{{.threads = 1}}, two{{.threads = 2}};
    const hr::leading_embedding<hr::cpu> a(one, view, 8), b(two, view, 8);
    const auto x = a.vectors(8), y = b.vectors(8);
    index_t different = 0;
    for (index_t i = 0; i < 500; ++i)
      for (index_t j = 0; j < 8; ++j) different += x(i, j) != y(i, j) ? 1 : 0;
    CHECK(different == 0);
    CHECK(a.clusters(8).labels == hr::spectral_embedding<hr::cpu>(one, r).clusters(8).labels);
    CHECK(a.clusters({.count = 8, .method = hr::labelling::kmeans, .seed = 3}).status == hr::status::converged);

    CHECK_THROWS_WITH_AS(a.clusters(9), doctest::Contains("clusters for k = 9, expected 1 to 8"), hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::leading_embedding<hr::cpu>(one, view, 501), doctest::Contains("most is 501"),
                         hr::argument_error);
    // what is not used as it lies: a diagonal out of range, mirror images that differ by rounding, 1 but for rounding
    hr::matrix odd = r;
    for (hr::index_t i = 0; i < 500; ++i) odd(i, i) = i % 2 == 0 ? std::nan("") : 1e18;
    odd(5, 7) += 1e-9;
    CHECK(hr::leading_embedding<hr::cpu>(one, odd, 8).clusters(8).labels == a.clusters(8).labels);
    for (hr::index_t j = 1; j < 500; ++j) odd(0, j) = odd(j, 0) = j == 1 ? std::nextafter(1., 0.) : 1 + 1e-10;
    CHECK(hr::leading_embedding<hr::cpu>(one, odd, 8).clusters(5).labels ==
          hr::spectral_embedding<hr::cpu>(one, odd).clusters(5).labels);
    odd(9, 4) = odd(4, 9) = 1.5;
    CHECK_THROWS_WITH_AS(hr::leading_embedding<hr::cpu>(one, odd, 8), doctest::Contains("expected at most 1"),
                         hr::argument_error);
    narrow[3 * 500 + 2] = -.5f;
    CHECK_THROWS_WITH_AS(hr::leading_embedding<hr::cpu>(one, view, 8), doctest::Contains("distance (3,2) is -0.5"),
                         hr::argument_error);
    narrow[3 * 500 + 2] = .25f;
    CHECK_THROWS_WITH_AS(hr::leading_embedding<hr::cpu>(one, view, 8), doctest::Contains("mirror image"),
                         hr::argument_error);
    CHECK_THROWS_AS(hr::leading_embedding<hr::cpu>(one, view.narrow(1, 0, 400), 8), hr::shape_error);
  }
}
