#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <headred/numeric/symmetric_eigen.hpp>

#include "cluster/distances_for_tests.hpp"
#include "environment.hpp"
#include "oracle/cluster.hpp"

namespace hr = headred;
using namespace headred_test;

TEST_SUITE("cluster") {
  TEST_CASE_TEMPLATE("symmetric_eigen: values, vectors, strides", T, float, double) {
    const T a[] = {2, 1, 0, 1, 2, 0, 0, 0, 5};
    const auto r = hr::symmetric_eigen<T>(hr::tensor_view<const T, 2>(a, {3, 3}));
    REQUIRE(r.status == hr::status::converged);
    const T expected[] = {1, 3, 5};
    const double tolerance = sizeof(T) == 4 ? 1e-6 : 1e-14;
    for (std::size_t i = 0; i < 3; ++i) CHECK(std::abs(double(r.values[i] - expected[i])) < tolerance);
    CHECK(std::abs(double(r.vectors[0] + r.vectors[1])) < tolerance);  // (1,-1,0) / sqrt 2
    CHECK(std::abs(std::abs(double(r.vectors[8])) - 1) < tolerance);
    // only the lower triangle is read, through any strides
    const T spaced[] = {2, 9, 9, 9, 1, 9, 2, 9};
    const auto s = hr::symmetric_eigen<T>(hr::tensor_view<const T, 2>(spaced, {2, 2}, {4, 2}));
    CHECK(std::abs(double(s.values[0]) - 1) < tolerance);
    CHECK(std::abs(double(s.values[1]) - 3) < tolerance);
  }

  TEST_CASE("symmetric_eigen: against long double") {
    for (std::uint64_t round = 0; round < 10; ++round) {
      const auto d = random_plane(static_cast<hr::index_t>(2 + 5 * round), seed() + round);
      const auto r = hr::symmetric_eigen<double>(d.view());
      const auto wide = oracle::jacobi_eigen(oracle::widened(d));
      for (std::size_t i = 0; i < wide.values.size(); ++i)
        CHECK(std::abs(r.values[i] - static_cast<double>(wide.values[i])) < 1e-13);
    }
    CHECK(hr::symmetric_eigen<double>(hr::tensor_view<const double, 2>()).values.empty());
    CHECK_THROWS_AS(hr::symmetric_eigen<double>(hr::tensor_view<const double, 2>(nullptr, {2, 3})), hr::shape_error);
  }
}
