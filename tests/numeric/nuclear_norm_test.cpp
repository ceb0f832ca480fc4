#include <doctest/doctest.h>

#include <Eigen/Core>
#include <Eigen/SVD>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <headred/core/random.hpp>
#include <headred/numeric/nuclear_norm.hpp>

namespace hr = headred;
using hr::index_t;

namespace {

using wide_matrix = Eigen::Matrix<long double, Eigen::Dynamic, Eigen::Dynamic>;

long double norm_of(const wide_matrix& m) { return Eigen::JacobiSVD<wide_matrix>(m).singularValues().sum(); }

// One matrix a lane; returns the worst error relative to the norm.
template <class T>
double worst_error(index_t n, const std::function<wide_matrix(int lane)>& make) {
  constexpr int lanes = hr::native_lanes<T>;
  std::vector<T> packed(static_cast<std::size_t>(n * n * lanes)), scratch(static_cast<std::size_t>(5 * n * lanes));
  std::vector<double> line(static_cast<std::size_t>(2 * n));
  std::vector<wide_matrix> rounded;
  for (int l = 0; l < lanes; ++l) {
    wide_matrix m = make(l);
    for (index_t j = 0; j < n; ++j)
      for (index_t i = 0; i < n; ++i) {
        const T value = static_cast<T>(m(i, j));
        packed[static_cast<std::size_t>((j * n + i) * lanes + l)] = value;
        m(i, j) = static_cast<long double>(value);
      }
    rounded.push_back(m);
  }
  double norms[lanes];
  hr::detail::nuclear_norms<T, lanes>(packed.data(), n, scratch.data(), line.data(), norms);
  double worst = 0;
  for (int l = 0; l < lanes; ++l) {
    const auto expected = static_cast<double>(norm_of(rounded[static_cast<std::size_t>(l)]));
    if (expected == 0) {
      CHECK(norms[l] == 0);
    } else {
      worst = std::max(worst, std::abs(norms[l] - expected) / expected);
    }
  }
  return worst;
}

wide_matrix random_matrix(index_t rows, index_t cols, std::uint64_t seed) {
  const hr::random_stream random(seed);
  wide_matrix m(rows, cols);
  std::uint64_t at = 0;
  for (index_t i = 0; i < rows; ++i)
    for (index_t j = 0; j < cols; ++j) m(i, j) = random.uniform(at++) - .5L;
  return m;
}

struct family {
  std::string name;
  std::function<wide_matrix(index_t n, int lane)> make;
};

std::vector<family> families() {
  const auto seed = [](index_t n, int lane) { return static_cast<std::uint64_t>(n * 100 + lane); };
  return {{"random", [=](index_t n, int lane) { return random_matrix(n, n, seed(n, lane)); }},
          {"graded",
           [=](index_t n, int lane) {
             wide_matrix m = random_matrix(n, n, seed(n, lane));
             for (index_t j = 0; j < n; ++j)
               m.col(j) *= std::pow(10.0L, -8.0L * static_cast<long double>(j) / static_cast<long double>(n));
             return m;
           }},
          {"rank deficient",
           [=](index_t n, int lane) {
             const index_t r = 1 + lane % 3;
             return wide_matrix(random_matrix(n, r, seed(n, lane)) * random_matrix(r, n, seed(n, lane) + 1));
           }},
          {"identity", [](index_t n, int) { return wide_matrix(wide_matrix::Identity(n, n)); }},
          {"zero", [](index_t n, int) { return wide_matrix(wide_matrix::Zero(n, n)); }},
          {"zero beside full",
           [=](index_t n, int lane) {
             return lane % 2 == 0 ? wide_matrix(wide_matrix::Zero(n, n)) : random_matrix(n, n, seed(n, lane));
           }},
          {"centred product",
           [=](index_t n, int lane) {
             wide_matrix x = random_matrix(n, n, seed(n, lane)), y = random_matrix(n, n, seed(n, lane) + 7);
             x.rowwise() -= x.colwise().mean();
             y.rowwise() -= y.colwise().mean();
             return wide_matrix(x.transpose() * y);
           }},
          {"tiny", [=](index_t n, int lane) { return wide_matrix(random_matrix(n, n, seed(n, lane)) * 1e-12L); }}};
}

}  // namespace

TEST_SUITE("numeric") {
  TEST_CASE("nuclear norms against a long double SVD") {
    for (const auto& f : families()) {
      double worst_double = 0, worst_float = 0;
      for (index_t n = 1; n <= 70; n += n < 9 ? 1 : 12) {
        const double d = worst_error<double>(n, [&](int lane) { return f.make(n, lane); });
        const double s = worst_error<float>(n, [&](int lane) { return f.make(n, lane); });
        CHECK_MESSAGE(d < 1e-12, f.name, ", n ", n, ", double: ", d);
        CHECK_MESSAGE(s < 1e-6, f.name, ", n ", n, ", float: ", s);
        worst_double = std::max(worst_double, d);
        worst_float = std::max(worst_float, s);
      }
      MESSAGE(f.name, ": double ", worst_double, ", float ", worst_float);
    }
  }

  TEST_CASE("norm of a bidiagonal matrix with known singular values") {
    // diagonal alone: they are the entries
    const std::vector<double> d2{9, 16, 0, 1e-8}, e2{0, 0, 0, 0};
    CHECK(hr::detail::bidiagonal_norm<104>(d2.data(), e2.data(), 4, 1e-26) == doctest::Approx(7.0001).epsilon(1e-14));
    // [[1, 1], [0, 1]]: golden ratio and its inverse, sum sqrt(5)
    const std::vector<double> ones{1, 1}, above{1, 0};
    CHECK(hr::detail::bidiagonal_norm<104>(ones.data(), above.data(), 2, 1e-26) ==
          doctest::Approx(std::sqrt(5.)).epsilon(1e-14));
    CHECK(hr::detail::bidiagonal_norm<56>(ones.data(), above.data(), 2, 1e-18) ==
          doctest::Approx(std::sqrt(5.)).epsilon(1e-10));
    const std::vector<double> zero{0, 0};
    CHECK(hr::detail::bidiagonal_norm<104>(zero.data(), zero.data(), 2, 1e-26) == 0);
  }
}
