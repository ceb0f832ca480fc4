#include <doctest/doctest.h>

#include <Eigen/Core>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <headred/distance/compare.hpp>

#include "environment.hpp"
#include "oracle/compare.hpp"
#include "oracle/npy_matrix.hpp"
#include "oracle/random_distances.hpp"

namespace hr = headred;
using headred_test::oracle::random_distances;

namespace {

// Entries are dyadic rationals, so the expected values below are those of exact arithmetic.
hr::matrix worked_a() {
  hr::matrix a(20, 20);
  for (int i = 0; i < 20; ++i)
    for (int j = i + 1; j < 20; ++j) a(i, j) = a(j, i) = (i * 7 + j * 13) % 17 / 16.0;
  return a;
}
hr::matrix worked_b() {
  hr::matrix b(20, 20);
  for (int i = 0; i < 20; ++i)
    for (int j = i + 1; j < 20; ++j) b(i, j) = b(j, i) = (i * 5 + j * 11) % 19 / 32.0;
  return b;
}

}  // namespace

TEST_SUITE("distance") {
  TEST_CASE("upper_triangle: pairs row by row, from any layout, element type and library") {
    hr::matrix m(4, 4);
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) m(i, j) = i < j ? 10 * i + j : std::numeric_limits<double>::quiet_NaN();
    CHECK(hr::upper_triangle(m) == std::vector<double>{1, 2, 3, 12, 13, 23});
    Eigen::Matrix3f e = Eigen::Matrix3f::Zero();  // column-major
    e(0, 1) = 1;
    e(0, 2) = 2;
    e(1, 2) = 3;
    CHECK(hr::upper_triangle(e) == std::vector<double>{1, 2, 3});
    CHECK(hr::upper_triangle(m.view().narrow(0, 1, 3).narrow(1, 1, 3)) == std::vector<double>{12, 13, 23});
    CHECK(hr::upper_triangle(hr::matrix(1, 1)).empty());
    CHECK(hr::upper_triangle(hr::matrix()).empty());
  }

  TEST_CASE("correlation and mean_absolute_difference: exact worked values") {
    const auto a = worked_a(), b = worked_b();
    const auto r = hr::correlation(a, b);
    CHECK(r.status == hr::status::converged);
    CHECK(r.value == doctest::Approx(0.0092017720828617301625).epsilon(1e-15));
    CHECK(hr::mean_absolute_difference(a, b) == doctest::Approx(0.34144736842105263158).epsilon(1e-15));
  }

  TEST_CASE(
      "correlation: agrees with the oracle, is symmetric, ignores scale, shift and everything below the diagonal") {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const auto n = static_cast<hr::index_t>(3 + seed % 30);
      const double low = seed % 3 == 0 ? 0 : 0.999;  // also matrices that hardly vary
      const auto a = random_distances(n, headred_test::seed() + seed, low), b = random_distances(n, seed + 1000);
      const double r = hr::correlation(a, b).value;
      CAPTURE(seed);
      CHECK(std::abs(r - static_cast<double>(headred_test::oracle::correlation(a, b))) <= 1e-15);
      CHECK(r == hr::correlation(b, a).value);
      CHECK(std::abs(r) <= 1);
      CHECK(hr::correlation(a, a).value == 1);
      CHECK(std::abs(hr::mean_absolute_difference(a, b) -
                     static_cast<double>(headred_test::oracle::mean_absolute_difference(a, b))) <= 1e-16);
      CHECK(hr::mean_absolute_difference(a, a) == 0);
      auto changed = a;
      for (hr::index_t i = 0; i < n; ++i)
        for (hr::index_t j = 0; j < n; ++j) changed(i, j) = i < j ? -0.25 * a(i, j) : -7;
      CHECK(hr::correlation(changed, b).value == -r);  // a power of two scales exactly
      CHECK(hr::correlation(a, changed).value == -1);
    }
  }

  TEST_CASE("correlation: matrices that do not vary have status undefined and value 0") {
    const auto varied = random_distances(12, 1);
    for (const double value : {0.0, 0.1, 1e-300, -3.7}) {
      auto constant = varied;
      for (int i = 0; i < 12; ++i)
        for (int j = 0; j < 12; ++j) constant(i, j) = value;
      for (const auto& r : {hr::correlation(constant, varied), hr::correlation(varied, constant),
                            hr::correlation(constant, constant)}) {
        CHECK(r.status == hr::status::undefined);
        CHECK(r.value == 0);
      }
      CHECK(hr::correlation_table(std::vector{constant, varied})(0, 0) == 0);
      if (value == 0) continue;
      // constant up to rounding, and a little more than that
      constant(0, 1) = value * (1 + 4e-16);
      CHECK(hr::correlation(constant, varied).status == hr::status::undefined);
      constant(0, 1) = value * (1 + 1e-13);
      CHECK(hr::correlation(constant, varied).status == hr::status::converged);
    }
    for (const hr::index_t n : {0, 1, 2}) {
      const auto tiny = random_distances(n, 3);
      CHECK(hr::correlation(tiny, tiny).status == hr::status::undefined);
    }
    CHECK(hr::mean_absolute_difference(hr::matrix(), hr::matrix()) == 0);
    CHECK(hr::mean_absolute_difference(hr::matrix(1, 1), hr::matrix(1, 1)) == 0);
  }

  TEST_CASE("correlation: values of extreme size") {
    const auto a = random_distances(10, 5), b = random_distances(10, 6);
    const double r = hr::correlation(a, b).value;
    for (const double scale : {0x1p-1000, 0x1p-500, 0x1p500, 0x1p1000}) {
      auto scaled = a;
      for (int i = 0; i < 10; ++i)
        for (int j = 0; j < 10; ++j) scaled(i, j) *= scale;
      CHECK(hr::correlation(scaled, b).value == doctest::Approx(r).epsilon(1e-15));
    }
  }

  TEST_CASE("comparisons: bad matrices are refused with their names") {
    const auto a = random_distances(4, 1);
    CHECK_THROWS_WITH_AS(hr::correlation(a, hr::matrix(3, 4)), "correlation: b is (3,4), expected a square matrix",
                         hr::shape_error);
    CHECK_THROWS_WITH_AS(hr::correlation(a, hr::matrix(3, 3)), "correlation: b is (3,3), expected (4,4)",
                         hr::shape_error);
    CHECK_THROWS_WITH_AS(hr::mean_absolute_difference(hr::matrix(2, 1), a),
                         "mean_absolute_difference: a is (2,1), expected a square matrix", hr::shape_error);
    auto bad = a;
    bad(1, 3) = std::numeric_limits<double>::infinity();
    CHECK_THROWS_WITH_AS(hr::correlation(a, bad), "correlation: b(1,3) is inf, expected a finite number",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::correlation_table(std::vector{a, bad}),
                         "correlation_table: matrix 1(1,3) is inf, expected a finite number", hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::correlation_table(std::vector{a, hr::matrix(5, 5)}),
                         "correlation_table: matrix 1 is (5,5), expected (4,4)", hr::shape_error);
  }

  TEST_CASE("correlation_table: bitwise symmetric, 1 on the diagonal, each entry the pair's correlation") {
    std::vector<hr::matrix> all;
    for (std::uint64_t s = 0; s < 5; ++s) all.push_back(random_distances(15, s));
    const auto table = hr::correlation_table(all);
    REQUIRE(table.rows() == 5);
    for (hr::index_t i = 0; i < 5; ++i) {
      CHECK(table(i, i) == 1);
      for (hr::index_t j = 0; j < 5; ++j) {
        CHECK(table(i, j) == table(j, i));
        CHECK(table(i, j) == hr::correlation(all[static_cast<std::size_t>(i)], all[static_cast<std::size_t>(j)]).value);
      }
    }
    CHECK(hr::correlation_table(std::vector<hr::matrix>{}).rows() == 0);
    CHECK(hr::correlation_table(
              std::array<Eigen::MatrixXf, 2>{Eigen::MatrixXf::Random(4, 4), Eigen::MatrixXf::Random(4, 4)})(1, 1) == 1);
  }
}

TEST_SUITE("real") {
  TEST_CASE("correlation_table: the correlations between the seven distances on BERT-base") {
    const auto folder = headred_test::shared_dir() / "oracles" / "bert_base_sst2";
    if (headred_test::shared_dir().empty() || !std::filesystem::exists(folder / "summary.json"))
      return headred_test::leave_out("no reference matrices of BERT-base");
    const auto summary = nlohmann::json::parse(std::ifstream(folder / "summary.json"));
    for (const char* set : {"four", "all"}) {
      std::vector<hr::matrix> matrices;
      for (const std::string distance : summary[set]["distances"])
        matrices.push_back(headred_test::oracle::npy_matrix(folder / set / (distance + ".npy")));
      REQUIRE(matrices.size() == 7);
      const auto table = hr::correlation_table(matrices);
      const auto expected = summary[set]["correlation_of_matrices"].get<std::vector<std::vector<double>>>();
      double worst = 0;
      for (std::size_t i = 0; i < 7; ++i)
        for (std::size_t j = 0; j < 7; ++j)
          worst = std::max(worst, std::abs(table(hr::index_t(i), hr::index_t(j)) - expected.at(i).at(j)));
      MESSAGE(std::string(set) << ": largest difference from the reference correlations " << worst);
      CHECK(worst <= 2e-15);
    }
  }
}
