#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <headred/core/random.hpp>
#include <headred/numeric/cross_product.hpp>
#include <headred/numeric/pair_tiles.hpp>

namespace hr = headred;
using hr::index_t;

namespace {

template <class T>
std::vector<T> random_slab(index_t keys, index_t heads, index_t columns, std::uint64_t seed) {
  const hr::random_stream random(seed);
  std::vector<T> slab(static_cast<std::size_t>(keys * columns));
  for (index_t k = 0; k < keys; ++k)
    for (index_t h = 0; h < heads; ++h)
      slab[static_cast<std::size_t>(k * columns + h)] =
          static_cast<T>(random.uniform(static_cast<std::uint64_t>(k * heads + h)) / static_cast<double>(keys));
  return slab;
}

template <class T>
void check_tiles(index_t keys, index_t heads, double limit) {
  CAPTURE(keys);
  CAPTURE(heads);
  const index_t columns = hr::detail::slab_columns<T>(heads);
  const auto slab = random_slab<T>(keys, heads, columns, static_cast<std::uint64_t>(keys * 1000 + heads));
  const auto at = [&](index_t k, index_t h) {
    return static_cast<long double>(slab[static_cast<std::size_t>(k * columns + h)]);
  };
  std::vector<T> out(static_cast<std::size_t>(columns * columns));
  std::vector<T> table(static_cast<std::size_t>((keys / hr::detail::entropy_terms::chunk + 1) * columns));
  for (index_t k = 0; k < keys; ++k)
    for (index_t h = 0; h < columns; ++h) {
      const long double x = at(k, h);
      table[static_cast<std::size_t>(k / hr::detail::entropy_terms::chunk * columns + h)] +=
          static_cast<T>(x > 0 ? x * (std::log2(x) + hr::detail::entropy_terms::shift) : 0);
    }
  hr::detail::pair_tiles<hr::detail::product_terms, T>(slab.data(), nullptr, keys, columns, out.data());
  for (index_t i = 0; i < heads; ++i)
    for (index_t j = i; j < heads; ++j) {
      long double expected = 0;
      for (index_t k = 0; k < keys; ++k) expected += at(k, i) * at(k, j);
      REQUIRE(std::abs(out[static_cast<std::size_t>(i * columns + j)] - expected) <= limit);
    }
  hr::detail::pair_tiles<hr::detail::entropy_terms, T>(slab.data(), table.data(), keys, columns, out.data());
  for (index_t i = 0; i < heads; ++i)
    for (index_t j = i; j < heads; ++j) {
      long double expected = 0;
      for (index_t k = 0; k < keys; ++k) {
        const long double a = at(k, i), b = at(k, j), m = (a + b) / 2;
        expected +=
            (a > 0 ? a * std::log2(a) / 2 : 0) + (b > 0 ? b * std::log2(b) / 2 : 0) - (m > 0 ? m * std::log2(m) : 0);
      }
      REQUIRE(std::abs(out[static_cast<std::size_t>(i * columns + j)] - expected) <= limit);
    }
}

}  // namespace

TEST_SUITE("numeric") {
  TEST_CASE("pair tiles agree with the naive sums for odd shapes") {
    for (const index_t keys : {1, 2, 7, 8, 9, 31, 32, 33, 100})
      for (const index_t heads : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 47, 49, 64, 65, 144}) {
        check_tiles<double>(keys, heads, 4e-15);  // entropies of up to 7 bits, a few eps each
        check_tiles<float>(keys, heads, 6e-7);
      }
  }

  TEST_CASE("a pair's value depends on its two columns alone") {
    const index_t keys = 19, heads = 50, columns = hr::detail::slab_columns<float>(heads);
    auto slab = random_slab<float>(keys, heads, columns, 5);
    // columns 0 and 1 once more at the far end, exchanged
    for (index_t k = 0; k < keys; ++k) {
      float* row = slab.data() + k * columns;
      row[48] = row[1];
      row[49] = row[0];
      row[37] = row[0];
      row[41] = row[1];
    }
    std::vector<float> out(static_cast<std::size_t>(columns * columns));
    const auto value = [&](index_t i, index_t j) { return out[static_cast<std::size_t>(i * columns + j)]; };
    hr::detail::pair_tiles<hr::detail::product_terms, float>(slab.data(), nullptr, keys, columns, out.data());
    for (const auto& [i, j] : {std::pair<index_t, index_t>{48, 49}, {37, 41}, {0, 41}, {1, 49}, {1, 37}, {0, 48}})
      CHECK(value(i, j) == value(0, 1));
    const std::vector<float> table(static_cast<std::size_t>(3 * columns), .125f);
    hr::detail::pair_tiles<hr::detail::entropy_terms, float>(slab.data(), table.data(), keys, columns, out.data());
    for (const auto& [i, j] : {std::pair<index_t, index_t>{48, 49}, {37, 41}, {0, 41}, {1, 49}, {1, 37}, {0, 48}})
      CHECK(value(i, j) == value(0, 1));
  }

  TEST_CASE("cross products agree with the naive sums for odd shapes") {
    constexpr int lanes = hr::native_lanes<double>;
    const hr::random_stream random(3);
    for (const index_t tokens : {1, 2, 9})
      for (const index_t n : {1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 17, 31}) {
        std::vector<double> x(static_cast<std::size_t>(tokens * n)), y(x.size() * lanes),
            c(static_cast<std::size_t>(n * n) * lanes);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = random.uniform(i) - .5;
        for (std::size_t i = 0; i < y.size(); ++i) y[i] = random.uniform(i + 5000) - .5;
        hr::detail::cross_product<double, lanes>(x.data(), y.data(), tokens, n, c.data());
        for (index_t column = 0; column < n; ++column)
          for (index_t row = 0; row < n; ++row)
            for (int l = 0; l < lanes; ++l) {
              long double expected = 0;
              for (index_t t = 0; t < tokens; ++t)
                expected += static_cast<long double>(x[static_cast<std::size_t>(t * n + row)]) *
                            y[static_cast<std::size_t>((t * n + column) * lanes + l)];
              REQUIRE(std::abs(c[static_cast<std::size_t>((column * n + row) * lanes + l)] - expected) < 1e-14L);
            }
      }
  }
}
