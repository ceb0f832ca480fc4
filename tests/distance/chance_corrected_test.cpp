#include <headred/distance/chance_corrected.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <headred/backend/cpu.hpp>
#include <headred/core/random.hpp>
#include <headred/distance/canonical_correlation.hpp>
#include <headred/distance/distance_correlation.hpp>
#include <headred/distance/procrustes.hpp>
#include <headred/distance/redundancy.hpp>

namespace {

namespace hr = headred;
using hr::index_t;

// Heads (1,N,T,T) that attend at random; head 3 is head 0 bit by bit, head 4 is head 1 with a little noise.
struct random_heads {
  static constexpr index_t heads = 5, tokens = 24;
  std::vector<double> values = std::vector<double>(heads * tokens * tokens);

  explicit random_heads(std::uint64_t seed) {
    const hr::random_stream random(seed);
    for (index_t h = 0; h < heads; ++h)
      for (index_t t = 0; t < tokens; ++t) {
        double sum = 0;
        for (index_t k = 0; k < tokens; ++k) {
          const auto at = static_cast<std::uint64_t>((h * tokens + t) * tokens + k);
          const auto like = static_cast<std::uint64_t>(((h == 4 ? 1 : h) * tokens + t) * tokens + k);
          double x = std::pow(random.uniform(like), 4) + 1e-3;
          if (h == 4) x *= 1 + .02 * random.uniform(at);
          sum += entry(h, t, k) = x;
        }
        for (index_t k = 0; k < tokens; ++k) entry(h, t, k) /= sum;
      }
    std::copy_n(values.begin(), tokens * tokens, values.begin() + 3 * tokens * tokens);
  }
  double& entry(index_t h, index_t t, index_t k) {
    return values[static_cast<std::size_t>((h * tokens + t) * tokens + k)];
  }
  hr::tensor_view<const double, 4> view() const { return {values.data(), {1, heads, tokens, tokens}}; }
};

template <class Distance>
void check(const Distance& plain, double far) {
  hr::cpu be{{.threads = 2}}, one{{.threads = 1}};
  const random_heads maps(5);
  const hr::chance_corrected<Distance> corrected{plain};
  const hr::matrix d = hr::pairwise(be, maps.view(), plain), c = hr::pairwise(be, maps.view(), corrected);
  CHECK(c == hr::pairwise(one, maps.view(), corrected));
  for (index_t i = 0; i < c.rows(); ++i) {
    CHECK(c(i, i) == 0);
    for (index_t j = 0; j < c.rows(); ++j) {
      CHECK(c(i, j) == c(j, i));
      CHECK(c(i, j) >= d(i, j));
      CHECK(c(i, j) <= 1);
    }
  }
  CHECK(c(0, 3) == 0);   // the same bits
  CHECK(c(1, 4) < .1);   // nearly the same
  CHECK(c(0, 1) > far);  // independent: near 1, though the plain distance is not
  CHECK(d(0, 1) < .6);
  CHECK(hr::distance(be, maps.view()[0][1], maps.view()[0][0], corrected) == c(0, 1));
}

}  // namespace

TEST_SUITE("distance") {
  TEST_CASE("chance-corrected distances put independent heads near 1 and identical ones at 0") {
    check(hr::procrustes{}, .85);
    check(hr::distance_correlation{}, .85);
    check(hr::canonical_correlation{}, .8);
  }

  TEST_CASE("a chance-corrected distance is d / d0, d0 the mean over both heads permuted") {
    hr::cpu be;
    const random_heads maps(6);
    const hr::chance_corrected<hr::procrustes> corrected{{}, 3, 11};
    double chance = 0;
    std::vector<double> permuted(maps.tokens * maps.tokens);
    for (index_t r = 0; r < corrected.permutations; ++r) {
      // the draw that the policy documents: Fisher and Yates from the end, random_stream(seed, r)
      std::vector<index_t> order(maps.tokens);
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<index_t>(i);
      const hr::random_stream random(corrected.seed, static_cast<std::uint64_t>(r));
      for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random.below(i, i + 1)]);
      for (const auto& [fixed, moved] : {std::pair<index_t, index_t>{0, 1}, {1, 0}}) {
        for (index_t t = 0; t < maps.tokens; ++t)
          for (index_t k = 0; k < maps.tokens; ++k)
            permuted[static_cast<std::size_t>(t * maps.tokens + k)] =
                maps.view()(0, moved, order[static_cast<std::size_t>(t)], k);
        const hr::tensor_view<const double, 2> partner(permuted.data(), {maps.tokens, maps.tokens});
        chance += .5 * hr::distance(be, maps.view()[0][fixed], partner, hr::procrustes{});
      }
    }
    const double d = hr::distance(be, maps.view()[0][0], maps.view()[0][1], hr::procrustes{});
    const double expected = std::min(1.0, d / (chance / 3));
    CHECK(hr::pairwise(be, maps.view(), corrected)(0, 1) == doctest::Approx(expected).epsilon(1e-12));
  }

  TEST_CASE("chance_corrected: options out of range, and what accumulators must share") {
    hr::cpu be;
    const random_heads maps(7);
    CHECK_THROWS_WITH_AS(hr::pairwise(be, maps.view(), hr::chance_corrected<hr::procrustes>{{}, 0, 0}),
                         "chance_corrected: permutations is 0, expected at least 1", hr::argument_error);
    hr::redundancy<hr::chance_corrected<hr::procrustes>, hr::cpu> a{be, {1, 5}}, b{be, {1, 5}, {{}, 4, 1}};
    CHECK(a.settings() == "procrustes chance_corrected 4 0");
    CHECK_THROWS_AS(a.merge(b), hr::argument_error);
  }
}
