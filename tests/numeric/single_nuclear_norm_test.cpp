#include <doctest/doctest.h>

#include <Eigen/Core>
#include <Eigen/SVD>
#include <vector>

#include <headred/core/grow_buffer.hpp>
#include <headred/core/random.hpp>
#include <headred/numeric/single_nuclear_norm.hpp>

namespace hr = headred;
using hr::index_t;

namespace {

using wide_matrix = Eigen::Matrix<long double, Eigen::Dynamic, Eigen::Dynamic>;

wide_matrix random_matrix(index_t rows, index_t cols, std::uint64_t seed) {
  const hr::random_stream random(seed);
  wide_matrix m(rows, cols);
  std::uint64_t at = 0;
  for (index_t i = 0; i < rows; ++i)
    for (index_t j = 0; j < cols; ++j) m(i, j) = random.uniform(at++) - .5L;
  return m;
}

// Rounds m (tokens, n) to T and lays it out.
template <class T>
std::vector<T> laid_out(wide_matrix& m) {
  constexpr int lanes = hr::native_lanes<T>;
  const index_t stride = hr::detail::single_stride<T, lanes>(m.cols());
  std::vector<T> rows(static_cast<std::size_t>(m.rows() * stride));
  for (index_t t = 0; t < m.rows(); ++t)
    for (index_t k = 0; k < m.cols(); ++k) {
      const T value = static_cast<T>(m(t, k));
      rows[static_cast<std::size_t>(t * stride + k)] = value;
      m(t, k) = static_cast<long double>(value);
    }
  return rows;
}

// Error of |X^T Y|_* relative to |X|_F |Y|_F.
template <class T>
double error_of(wide_matrix x, wide_matrix y) {
  constexpr int lanes = hr::native_lanes<T>;
  const index_t n = x.cols(), stride = hr::detail::single_stride<T, lanes>(n);
  const auto a = laid_out<T>(x), b = laid_out<T>(y);
  std::vector<T> product(static_cast<std::size_t>(n * stride), T(77)),
      scratch(static_cast<std::size_t>(3 * stride + 3 * n), T(77));
  std::vector<double> line(static_cast<std::size_t>(2 * n));
  const double norm =
      hr::detail::single_nuclear_norm<T>(a.data(), b.data(), x.rows(), n, product.data(), scratch.data(), line.data());
  const wide_matrix exact = x.transpose() * y;
  const long double expected = Eigen::JacobiSVD<wide_matrix>(exact).singularValues().sum();
  const auto size = static_cast<double>(x.norm() * y.norm());
  if (size == 0) return norm;
  return std::abs(norm - static_cast<double>(expected)) / size;
}

}  // namespace

TEST_SUITE("numeric") {
  TEST_CASE_TEMPLATE("the nuclear norm of one product agrees with a long double SVD", T, float, double) {
    // the sum over poles alone is 2.4e-14 off (docs/numerics.md)
    const double limit = sizeof(T) == 8 ? 3e-14 : 1e-6;
    for (const index_t n : {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 48, 50, 65})
      for (const index_t tokens : {index_t{1}, index_t{4}, n, 2 * n + 63}) {
        CAPTURE(n);
        CAPTURE(tokens);
        const auto seed = static_cast<std::uint64_t>(1000 * n + tokens);
        const wide_matrix x = random_matrix(tokens, n, seed), y = random_matrix(tokens, n, seed + 1);
        CHECK(error_of<T>(x, y) <= limit * static_cast<double>(n + 8) / 8);
        CHECK(error_of<T>(x, x) <= limit * static_cast<double>(n + 8) / 8);
        wide_matrix graded = x;
        for (index_t k = 0; k < n; ++k)
          graded.col(k) *= std::pow(10.L, -8.L * static_cast<long double>(k) / static_cast<long double>(n));
        CHECK(error_of<T>(graded, y) <= limit * static_cast<double>(n + 8) / 8);
        const wide_matrix thin = random_matrix(tokens, 1, seed + 2) * random_matrix(1, n, seed + 3);
        CHECK(error_of<T>(thin, y) <= limit * static_cast<double>(n + 8) / 8);
        CHECK(error_of<T>(wide_matrix::Zero(tokens, n), y) == 0);
      }
  }

  TEST_CASE("lanes add up") {
    const auto total = [](auto zero) {
      using T = decltype(zero);
      constexpr int lanes = hr::native_lanes<T>;
      hr::detail::pack<T, lanes> x{};
      T expected = 0;
      for (int l = 0; l < lanes; ++l) expected += x[l] = static_cast<T>(1 << l);
      return hr::detail::lane_total<T, lanes>(x) - expected;
    };
    CHECK(total(0.f) == 0);
    CHECK(total(0.) == 0);
  }
}
