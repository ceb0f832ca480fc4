// The worked values of the definitions, and their exact cases.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "distance/every_distance.hpp"

namespace hr = headred;

namespace {

const std::vector<double> a_values{.70, .20, .10, .25, .50, .25, .05, .15, .80};
const std::vector<double> b_values{.10, .60, .30, .30, .30, .40, .20, .20, .60};

hr::tensor_view<const double, 2> map(const std::vector<double>& values, hr::index_t rows, hr::index_t cols) {
  return {values.data(), {rows, cols}};
}

template <class Distance>
double between(const std::vector<double>& x, const std::vector<double>& y, hr::index_t rows, hr::index_t cols,
               const Distance& policy) {
  hr::cpu be{{.threads = 1}};
  return hr::distance(be, map(x, rows, cols), map(y, rows, cols), policy);
}

template <class Distance>
double row_between(const std::vector<double>& x, const std::vector<double>& y, const Distance& policy) {
  return between(x, y, 1, static_cast<hr::index_t>(x.size()), policy);
}

doctest::Approx to_digits(double value, int digits) { return doctest::Approx(value).epsilon(std::pow(10., -digits)); }

}  // namespace

TEST_SUITE("distance") {
  TEST_CASE("worked values of two 3 x 3 maps") {
    CHECK(between(a_values, b_values, 3, 3, hr::cosine{}) == to_digits(.229029041364, 11));
    CHECK(between(a_values, b_values, 3, 3, hr::pearson{}) == to_digits(.534673184984, 11));
    CHECK(between(a_values, b_values, 3, 3, hr::jensen_shannon{}) == to_digits(.314144342978, 11));
    CHECK(between(a_values, b_values, 3, 3, hr::bhattacharyya{}) == to_digits(.266416690431, 11));
    CHECK(between(a_values, b_values, 3, 3, hr::distance_correlation{}) == to_digits(.0195265886193, 11));
    CHECK(between(a_values, b_values, 3, 3, hr::procrustes{}) == to_digits(.0286917149882, 11));
    CHECK(between(a_values, b_values, 3, 3, hr::procrustes{.squared = true}) == to_digits(.0565602154675, 11));
    CHECK(between(a_values, b_values, 3, 3, hr::canonical_correlation{}) == to_digits(6.894678696e-06, 9));
  }

  TEST_CASE("worked values row by row") {
    const double cosine_rows[] = {.558585205352, .089817945382, .03868397336};
    const double r[] = {-.700472796916, -.5, .992433687012};
    const double bits[] = {.295807348045, .032466194139, .047684369109};
    const double coefficient[] = {.784190373377, .97738737939, .966025403784};
    for (std::size_t t = 0; t < 3; ++t) {
      const auto at = static_cast<std::ptrdiff_t>(3 * t);
      const std::vector<double> p(a_values.begin() + at, a_values.begin() + at + 3);
      const std::vector<double> q(b_values.begin() + at, b_values.begin() + at + 3);
      CHECK(row_between(p, q, hr::cosine{}) == to_digits(cosine_rows[t], 10));
      CHECK(1 - 2 * row_between(p, q, hr::pearson{}) == to_digits(r[t], 10));
      const double js = row_between(p, q, hr::jensen_shannon{});
      CHECK(js * js == to_digits(bits[t], 10));
      const double h = row_between(p, q, hr::bhattacharyya{});
      CHECK(1 - h * h == to_digits(coefficient[t], 11));
    }
  }

  TEST_CASE("Jensen-Shannon and Hellinger at their ends and between close rows") {
    CHECK(row_between({1, 0}, {0, 1}, hr::jensen_shannon{}) == 1);
    CHECK(row_between({1, 0}, {.5, .5}, hr::jensen_shannon{}) == to_digits(.557923045284, 11));
    CHECK(row_between({1, 0}, {.5, .5}, hr::bhattacharyya{}) == to_digits(.541196100146, 11));
    const double d = row_between({.5306, .4694}, {.5304, .4696}, hr::jensen_shannon{});
    CHECK(d * d * std::log(2.) == to_digits(2.00746980874155e-08, 12));
  }

  TEST_CASE("distance correlation of 1..16 with a column") {
    // rows of attention sum to 1, so the worked pair is written as maps with the same distances between rows up to scale
    std::vector<double> x, y;
    for (int t = 0; t < 4; ++t) {
      const double high = .1 + .2 * t;  // equally spaced rows, as those of 1..16 are
      x.insert(x.end(), {high, 1 - high});
      const double one = t == 0 || t == 3 ? 1 : 0;
      y.insert(y.end(), {one, 1 - one});
    }
    CHECK(1 - between(x, y, 4, 2, hr::distance_correlation{}) == to_digits(.5266403878, 9));
    CHECK(between(x, y, 4, 2, hr::distance_correlation{.unbiased = true}) == 1);  // dCor^2_U is -.5
  }

  TEST_CASE("canonical correlation stands apart from plain CCA") {
    hr::cpu be{{.threads = 2}};
    const auto sample = headred_test::make_sample(headred_test::sample_kind::random, 1, 6, 32, 32, 3);
    const auto ridge = hr::pairwise(be, sample.view(), hr::canonical_correlation{});
    const auto half = hr::pairwise(be, sample.view(), hr::canonical_correlation{.kind = hr::whitening::half_dof});
    for (hr::index_t i = 0; i < 6; ++i)
      for (hr::index_t j = i + 1; j < 6; ++j) {
        CHECK(ridge(i, j) > .005);
        CHECK(half(i, j) > .1);
        CHECK(half(i, j) < .3);
      }
    const auto flat = headred_test::make_sample(headred_test::sample_kind::random, 1, 2, 8, 16, 3);
    CHECK(hr::pairwise(be, flat.view(), hr::canonical_correlation{})(0, 1) < 1e-3);
    hr::redundancy<hr::canonical_correlation, hr::cpu> red{be, {1, 2}};
    red.add(flat.view());
    CHECK(red.underdetermined() == 1);
    CHECK_THROWS_WITH_AS(hr::pairwise(be, sample.view(), hr::canonical_correlation{.lambda = 0}),
                         "canonical_correlation: lambda is 0, expected 1e-12 to 1e6", hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::pairwise(be, sample.view(), hr::canonical_correlation{.variance = 1.5}),
                         "canonical_correlation: variance is 1.5, expected 0.001 to 1", hr::argument_error);
  }

  TEST_CASE("independent maps: the unbiased form says so, the biased one does not") {
    hr::cpu be{{.threads = 2}};
    const auto sample = headred_test::make_sample(headred_test::sample_kind::random, 1, 8, 32, 32, 4);
    const auto biased = hr::pairwise(be, sample.view(), hr::distance_correlation{});
    const auto unbiased = hr::pairwise(be, sample.view(), hr::distance_correlation{.unbiased = true});
    double mean_biased = 0, mean_unbiased = 0;
    for (hr::index_t i = 0; i < 8; ++i)
      for (hr::index_t j = i + 1; j < 8; ++j) {
        mean_biased += biased(i, j) / 28;
        mean_unbiased += unbiased(i, j) / 28;
      }
    CHECK(mean_biased < .3);
    CHECK(mean_unbiased > .9);
  }
}
