#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <Eigen/Core>

#include <headred/cluster/checked_distances.hpp>
#include <headred/core/float16.hpp>

#include "cluster/distances_for_tests.hpp"

namespace hr = headred;
using headred_test::has;
using headred_test::matrix_of;
using headred_test::text_of;

TEST_SUITE("cluster") {
  TEST_CASE("checked_distances: shapes") {
    const auto refused = [](hr::index_t rows, hr::index_t cols) {
      return text_of<hr::shape_error>([&] { hr::checked_distances("f", hr::matrix(rows, cols)); });
    };
    CHECK(refused(3, 4) == "f: matrix is (3,4), expected (N,N) with N at least 1");
    CHECK(has(refused(0, 0), "(0,0)"));
    CHECK(hr::checked_distances("f", hr::matrix(1, 1)).rows() == 1);
  }

  TEST_CASE("checked_distances: entries") {
    const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
    for (const double bad : {-1e-9, nan, inf, -inf, 1e101})
      CHECK(has(text_of<hr::argument_error>([&] {
                  hr::checked_distances("f", matrix_of(2, 2, {0, bad, bad, 0}));
                }),
                "f: distance (0,1) is "));
    CHECK(text_of<hr::argument_error>([&] {
            hr::checked_distances("f", matrix_of(2, 2, {0, -.5, -.5, 0}));
          }) == "f: distance (0,1) is -0.5, expected in [0,1e100]");
  }

  TEST_CASE("checked_distances: an ulp of asymmetry is averaged, 1e-3 refused") {
    const double x = .3, above = std::nextafter(x, 1.0);
    const auto c = hr::checked_distances("f", matrix_of(2, 2, {0, x, above, 0}));
    CHECK(c(0, 1) == c(1, 0));
    CHECK(std::abs(c(0, 1) - x) <= above - x);
    CHECK(has(text_of<hr::argument_error>([] {
                hr::checked_distances("f", matrix_of(2, 2, {0, .3, .301, 0}));
              }),
              "expected a symmetric matrix"));
  }

  TEST_CASE("checked_distances: the diagonal is ignored, the input untouched") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const auto input = matrix_of(2, 2, {nan, .25, .25, -7});
    CHECK(hr::checked_distances("f", input) == matrix_of(2, 2, {0, .25, .25, 0}));
    CHECK(input(1, 1) == -7);
  }

  TEST_CASE("checked_distances: any element type and layout") {
    Eigen::MatrixXf f(3, 3);
    f << 0, .5f, .25f, .5f, 0, 1, .25f, 1, 0;
    const auto expected = matrix_of(3, 3, {0, .5, .25, .5, 0, 1, .25, 1, 0});
    CHECK(hr::checked_distances("f", f) == expected);
    const std::vector<int> integers{0, 1, 2, 1, 0, 1, 2, 1, 0};
    CHECK(hr::checked_distances("f", hr::tensor_view<const int, 2>(integers.data(), {3, 3}))(0, 2) == 2);
    const std::vector<hr::float16> halves{{0}, {0x3800}, {0x3800}, {0}};
    CHECK(hr::checked_distances("f", hr::tensor_view<const hr::float16, 2>(halves.data(), {2, 2}))(0, 1) == .5);
    // every second row and column of a larger matrix
    Eigen::MatrixXd wide = Eigen::MatrixXd::Constant(6, 6, -1);
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) wide(2 * i, 2 * j) = expected(i, j);
    CHECK(hr::checked_distances("f", hr::tensor_view<const double, 2>(wide.data(), {3, 3}, {2, 12})) == expected);
  }
}
