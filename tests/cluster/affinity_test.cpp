#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <headred/cluster/affinity.hpp>

#include "cluster/distances_for_tests.hpp"

namespace hr = headred;
using headred_test::has;
using headred_test::matrix_of;
using headred_test::text_of;

TEST_SUITE("cluster") {
  TEST_CASE("one_minus: 1 - R, at least 0") {
    const auto s = hr::one_minus{}(matrix_of(2, 2, {0, .25, .25, 0}));
    CHECK(s == matrix_of(2, 2, {1, .75, .75, 1}));
    CHECK(hr::one_minus{}(matrix_of(2, 2, {0, 1 + 1e-10, 1 + 1e-10, 0}))(0, 1) == 0);
    CHECK(has(text_of<hr::argument_error>([] {
                hr::one_minus{}(matrix_of(2, 2, {0, 1.5, 1.5, 0}));
              }),
              "one_minus: distance (0,1) is 1.5, expected at most 1"));
  }

  TEST_CASE("gaussian: sigma given, and the median") {
    const auto d = matrix_of(3, 3, {0, .1, .2, .1, 0, .4, .2, .4, 0});
    CHECK(hr::gaussian{.sigma = .5}(d)(1, 2) == doctest::Approx(std::exp(-.32)).epsilon(1e-14));
    CHECK(hr::gaussian::median(d) == .2);
    CHECK(hr::gaussian{}(d)(0, 1) == doctest::Approx(std::exp(-.125)).epsilon(1e-14));
    CHECK(hr::gaussian{}(d)(0, 0) == 1);
    // six pairs: the mean of the two middle ones; 1..6 hundredths
    const auto e = matrix_of(4, 4, {0, .01, .02, .03, .01, 0, .04, .05, .02, .04, 0, .06, .03, .05, .06, 0});
    CHECK(hr::gaussian::median(e) == doctest::Approx(.035).epsilon(1e-15));
    CHECK(hr::gaussian::median(hr::matrix(1, 1)) == 0);
  }

  TEST_CASE("gaussian: a median of 0 takes the limit, no NaN") {
    const auto d = matrix_of(3, 3, {0, 0, .5, 0, 0, 0, .5, 0, 0});
    const auto s = hr::gaussian{}(d);
    CHECK(s(0, 1) == 1);
    CHECK(s(0, 2) == 0);
    CHECK(hr::gaussian{.sigma = 1e-300}(d)(0, 2) == 0);
  }

  TEST_CASE("gaussian: a sigma out of range is refused") {
    for (const double sigma : {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
      CHECK(
          has(text_of<hr::argument_error>([&] { hr::gaussian{.sigma = sigma}(hr::matrix(2, 2)); }), "gaussian: sigma"));
  }
}
