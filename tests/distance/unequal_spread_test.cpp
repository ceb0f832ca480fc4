// Maps whose rows hardly differ, beside maps whose rows differ much, and rows near to uniform: where entries, entropies and
// lengths of different size meet.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/random.hpp>
#include <headred/distance/distance_correlation.hpp>
#include <headred/distance/fixed_sum.hpp>
#include <headred/distance/jensen_shannon.hpp>
#include <headred/distance/pairwise.hpp>
#include <headred/distance/pearson.hpp>

#include "oracle/distances.hpp"

namespace hr = headred;
using namespace headred_test;

namespace {

// Distance of two maps (tokens,keys), in double from the library and in long double.
template <class Real, class Distance>
void compare(const Distance& policy, const std::vector<double>& x, const std::vector<double>& y, hr::index_t tokens,
             double relative, double absolute) {
  hr::cpu be{{.threads = 1}};
  const hr::index_t keys = static_cast<hr::index_t>(x.size()) / tokens;
  std::vector<Real> both(x.begin(), x.end());
  both.insert(both.end(), y.begin(), y.end());
  const hr::matrix d = hr::pairwise(be, hr::tensor_view<const Real, 4>(both.data(), {1, 2, tokens, keys}), policy);
  oracle::wide_matrix a(tokens, keys), b(tokens, keys);
  for (hr::index_t t = 0; t < tokens; ++t)
    for (hr::index_t k = 0; k < keys; ++k) {
      a(t, k) = both[static_cast<std::size_t>(t * keys + k)];
      b(t, k) = both[static_cast<std::size_t>((tokens + t) * keys + k)];
    }
  oracle::distance_options options;
  options.epsilon = std::numeric_limits<Real>::epsilon();
  const auto expected = static_cast<double>(oracle::distance(std::string(Distance::name), a, b, options));
  CAPTURE(expected);
  CAPTURE(d(0, 1));
  CHECK(std::abs(d(0, 1) - expected) <= relative * expected + absolute);
}

// Rows of `keys` entries around 1/keys that differ by `spread` of them.
std::vector<double> nearly_uniform(std::uint64_t seed, hr::index_t tokens, hr::index_t keys, double spread) {
  const hr::random_stream draws(seed);
  std::vector<double> map;
  for (hr::index_t t = 0; t < tokens; ++t) {
    std::vector<double> row;
    double sum = 0;
    for (hr::index_t k = 0; k < keys; ++k) {
      row.push_back(1 + spread * (draws.uniform(static_cast<std::uint64_t>(t * keys + k)) - .5));
      sum += row.back();
    }
    for (const double x : row) map.push_back(x / sum);
  }
  return map;
}

}  // namespace

TEST_SUITE("distance") {
  TEST_CASE("two tokens always correlate fully, whatever their spread") {
    const std::vector<double> wide = {.4, .6, .9, .1}, narrow = {1e-12, 1 - 1e-12, 4e-13, 1 - 4e-13},
                              nine = {1e-9, 1 - 1e-9, 3e-9, 1 - 3e-9};
    compare<double>(hr::distance_correlation{}, wide, narrow, 2, 0, 1e-15);
    compare<double>(hr::distance_correlation{}, wide, nine, 2, 0, 1e-15);
    compare<double>(hr::distance_correlation{}, narrow, nine, 2, 0, 1e-15);
  }

  TEST_CASE("distance correlation of maps whose spreads differ by orders of magnitude") {
    for (const hr::index_t tokens : {3, 8, 24})
      for (std::uint64_t seed = 0; seed < 8; ++seed) {
        const auto wide = nearly_uniform(seed, tokens, 24, 1);
        for (const double spread : {1e-2, 1e-4, 1e-6}) {
          // independent, and the first map's own rows drawn together
          compare<double>(hr::distance_correlation{}, wide, nearly_uniform(seed + 100, tokens, 24, spread), tokens,
                          1e-10, 0);
          auto like = nearly_uniform(seed, tokens, 24, spread);
          like[0] += .01 * spread / 24;
          like[1] -= .01 * spread / 24;
          compare<double>(hr::distance_correlation{}, wide, like, tokens, spread < 1e-5 ? 1e-9 : 1e-10, 0);
        }
        for (const double spread : {1e-1, 1e-3, 1e-4}) {
          compare<float>(hr::distance_correlation{}, wide, nearly_uniform(seed + 100, tokens, 24, spread), tokens, 1e-3,
                         2e-6);
          compare<float>(hr::distance_correlation{}, nearly_uniform(seed + 200, tokens, 24, spread),
                         nearly_uniform(seed + 300, tokens, 24, spread), tokens, 1e-3, 2e-6);
        }
      }
  }

  TEST_CASE("pearson of rows alike in form and unlike in length") {
    for (std::uint64_t seed = 0; seed < 8; ++seed)
      for (const double spread : {1e-1, 1e-3, 1e-5}) {
        const auto wide = nearly_uniform(seed, 4, 32, 1);
        auto like = nearly_uniform(seed, 4, 32, spread);
        like[3] += 1e-2 * spread / 32;
        like[4] -= 1e-2 * spread / 32;
        compare<double>(hr::pearson{}, wide, like, 4, spread < 1e-4 ? 1e-9 : 1e-10, 0);
      }
  }

  TEST_CASE("jensen_shannon of float rows near to uniform keeps 2e-6") {
    for (const hr::index_t keys : {6, 64, 128, 512, 2048})
      for (double change = .1; change < .9; change += .05) {
        std::vector<double> flat(static_cast<std::size_t>(keys), 1. / static_cast<double>(keys)), wave = flat;
        for (std::size_t k = 0; k < wave.size(); ++k) wave[k] *= k % 2 == 0 ? 1 + change : 1 - change;
        compare<float>(hr::jensen_shannon{}, flat, wave, 1, 0, 2e-6);
        const auto noise = nearly_uniform(7, 1, keys, 2 * change);
        compare<float>(hr::jensen_shannon{}, flat, noise, 1, 0, 2e-6);
      }
  }

  TEST_CASE("a fixed sum refuses what is no distance") {
    hr::fixed_sum sum;
    sum += 1 + 1e-12;
    sum += -1e-12;
    CHECK(sum.value() == 1);
    CHECK_THROWS_AS(sum += std::numeric_limits<double>::quiet_NaN(), hr::argument_error);
    CHECK_THROWS_AS(sum += 2.0, hr::argument_error);
    CHECK(sum.value() == 1);
  }
}
