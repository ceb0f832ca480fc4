#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/backend/row_sums.hpp>
#include <headred/core/random.hpp>

namespace hr = headred;
using hr::index_t;

namespace {

template <class T>
std::vector<T> random_values(index_t n, std::uint64_t stream) {
  const hr::random_stream random(11, stream);
  std::vector<T> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(random.uniform(i) - .5);
  return values;
}

struct shape {
  index_t m, n, k;
};
// thin, direct, packed, edges of tiles and depth blocks, empty sums
const shape shapes[] = {{1, 1, 1},    {3, 5, 7},     {70, 19, 600}, {64, 32, 1030}, {16, 33, 65},
                        {17, 40, 40}, {14, 32, 256}, {15, 31, 257}, {40, 100, 0},   {64, 64, 600},
                        {1, 300, 90}, {200, 70, 33}, {130, 3, 129}, {57, 260, 530}};

/// A matrix (rows, cols) laid out row by row, column by column, or with gaps.
template <class T>
hr::tensor_view<T, 2> laid_out(std::vector<T>& memory, index_t rows, index_t cols, int layout) {
  if (layout == 0) return {memory.data(), {rows, cols}};
  if (layout == 1) return {memory.data(), {rows, cols}, {1, rows}};
  return {memory.data(), {rows, cols}, {2 * cols + 3, 2}};
}

template <class T>
void check_layouts(double tolerance) {
  hr::cpu be{{.threads = 2}};
  for (const auto& [m, n, k] : shapes)
    for (int layout = 0; layout < 27; ++layout) {
      auto a_memory = random_values<T>(m * (2 * k + 3) + 1, 1), b_memory = random_values<T>(k * (2 * n + 3) + 1, 2),
           c_memory = random_values<T>(m * (2 * n + 3), 3);
      const auto a = laid_out(a_memory, m, k, layout % 3), b = laid_out(b_memory, k, n, layout / 3 % 3);
      const auto c = laid_out(c_memory, m, n, layout / 9);
      const auto before = c_memory;
      auto old = before;
      const auto was = laid_out(old, m, n, layout / 9);
      const auto batch = [](auto v) {
        using element = typename decltype(v)::element_type;
        return hr::tensor_view<element, 3>(v.data(), {1, v.extent(0), v.extent(1)}, {0, v.stride(0), v.stride(1)});
      };
      be.gemm(T(.5), batch(hr::tensor_view<const T, 2>(a)), batch(hr::tensor_view<const T, 2>(b)), T(-2), batch(c));
      // what a backend without a product of its own calls
      auto by_rows = before;
      const auto r = laid_out(by_rows, m, n, layout / 9);
      hr::gemm_by_rows(be, T(.5), batch(hr::tensor_view<const T, 2>(a)), batch(hr::tensor_view<const T, 2>(b)), T(-2),
                       batch(r));
      double worst = 0;
      for (index_t i = 0; i < m; ++i)
        for (index_t j = 0; j < n; ++j) {
          long double sum = 0;
          for (index_t q = 0; q < k; ++q) sum += static_cast<long double>(a(i, q)) * b(q, j);
          const auto expected = static_cast<double>(.5L * sum - 2.L * was(i, j));
          worst = std::max(worst, std::abs(static_cast<double>(c(i, j)) - expected));
          worst = std::max(worst, std::abs(static_cast<double>(r(i, j)) - expected));
        }
      CHECK_MESSAGE(worst < tolerance, "m " << m << " n " << n << " k " << k << " layout " << layout);
      // what lies between the entries of c is untouched
      std::vector<bool> inside(c_memory.size());
      for (index_t i = 0; i < m; ++i)
        for (index_t j = 0; j < n; ++j) inside[static_cast<std::size_t>(&c(i, j) - c_memory.data())] = true;
      index_t touched = 0;
      for (std::size_t i = 0; i < inside.size(); ++i) touched += !inside[i] && c_memory[i] != before[i];
      CHECK(touched == 0);
    }
}

}  // namespace

TEST_SUITE("backend") {
  TEST_CASE("gemm equals the long double product for every layout, float") { check_layouts<float>(2e-5); }
  TEST_CASE("gemm equals the long double product for every layout, double") { check_layouts<double>(2e-14); }

  TEST_CASE("gemm does not read c when beta is 0, and adds a row when asked") {
    hr::cpu be{{.threads = 2}};
    for (const auto& [m, n, k] : shapes) {
      const auto a = random_values<float>(m * k + 1, 4), b = random_values<float>(k * n + 1, 5),
                 row = random_values<float>(n, 6);
      std::vector<float> c(static_cast<std::size_t>(m * n), NAN), d = c;
      hr::gemm_plus_row<float>(
          be, hr::tensor_view<const float, 2>(a.data(), {m, k}), hr::tensor_view<const float, 2>(b.data(), {k, n}),
          hr::tensor_view<const float, 1>(row.data(), {n}), hr::tensor_view<float, 2>(c.data(), {m, n}));
      hr::gemm_plus_row<float>(be, hr::tensor_view<const float, 2>(a.data(), {m, k}),
                               hr::tensor_view<const float, 2>(b.data(), {k, n}), hr::tensor_view<const float, 1>(),
                               hr::tensor_view<float, 2>(d.data(), {m, n}));
      double worst = 0;
      for (std::size_t i = 0; i < c.size(); ++i) {
        const float expected = d[i] + row[i % static_cast<std::size_t>(n)];
        worst = std::isfinite(c[i]) ? std::max(worst, std::abs(static_cast<double>(c[i] - expected))) : INFINITY;
      }
      CHECK(worst < 2e-5);
    }
  }

  TEST_CASE("gemm gives the same bits for any number of threads, and inside a task") {
    const index_t m = 150, n = 300, k = 700;
    const auto a = random_values<float>(m * k, 7), b = random_values<float>(k * n, 8);
    std::vector<std::vector<float>> results;
    const auto product = [&](hr::cpu& be, float* c) {
      be.gemm(1.f, hr::tensor_view<const float, 3>(a.data(), {1, m, k}),
              hr::tensor_view<const float, 3>(b.data(), {1, k, n}), 0.f, hr::tensor_view<float, 3>(c, {1, m, n}));
    };
    for (const int threads : {1, 2, 3, 7}) {
      hr::cpu be{{.threads = threads}};
      results.emplace_back(static_cast<std::size_t>(m * n));
      product(be, results.back().data());
    }
    hr::cpu be{{.threads = 3}};
    std::vector<std::vector<float>> nested(6, std::vector<float>(static_cast<std::size_t>(m * n)));
    be.run(6, [&](index_t task, int) { product(be, nested[static_cast<std::size_t>(task)].data()); });
    for (auto& c : nested) results.push_back(std::move(c));
    for (const auto& c : results) CHECK(c == results[0]);
  }

  TEST_CASE("gemm multiplies each matrix of a batch and names shapes that do not fit") {
    hr::cpu be{{.threads = 2}};
    const auto a = random_values<double>(3 * 4 * 5, 9), b = random_values<double>(5 * 6, 10);
    std::vector<double> c(3 * 4 * 6), d(3 * 4 * 6);
    const hr::tensor_view<const double, 3> as(a.data(), {3, 4, 5}), bs(b.data(), {3, 5, 6}, {0, 6, 1});
    be.gemm(1., as, bs, 0., hr::tensor_view<double, 3>(c.data(), {3, 4, 6}));
    hr::gemm_by_rows(be, 1., as, bs, 0., hr::tensor_view<double, 3>(d.data(), {3, 4, 6}));
    for (std::size_t i = 0; i < c.size(); ++i) CHECK(c[i] == doctest::Approx(d[i]).epsilon(1e-14));
    CHECK_THROWS_WITH_AS(be.gemm(1., as, bs, 0., hr::tensor_view<double, 3>(c.data(), {3, 6, 4})),
                         "gemm: a is (3,4,5), b is (3,5,6), c is (3,6,4), expected (N,M,K), (N,K,P), (N,M,P)",
                         hr::shape_error);
  }
}
