#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <headred/core/random.hpp>

namespace hr = headred;
using words = std::array<std::uint32_t, 4>;

TEST_SUITE("core") {
  TEST_CASE("Philox 4x32-10 gives the published values") {
    constexpr std::uint32_t ones = 0xffffffffu;
    CHECK(hr::philox({0, 0, 0, 0}, {0, 0}) == words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    CHECK(hr::philox({ones, ones, ones, ones}, {ones, ones}) == words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    CHECK(hr::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
          words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
    static_assert(hr::philox({0, 0, 0, 0}, {0, 0})[0] == 0x6627e8d5u);
  }

  TEST_CASE("a stream is a function of seed, stream and index alone") {
    const hr::random_stream a(7, 3), b(7, 3), other_stream(7, 4), other_seed(8, 3);
    CHECK(a.bits(12345678901u) == b.bits(12345678901u));
    int same = 0;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      same += a.bits(i) == other_stream.bits(i) ? 1 : 0;
      same += a.bits(i) == other_seed.bits(i) ? 1 : 0;
      same += a.bits(i) == a.bits(i + 1) ? 1 : 0;
    }
    CHECK(same == 0);
    CHECK(hr::random_stream(0).bits(0) == ((std::uint64_t{0xe169c58d} << 32) | 0x6627e8d5));
    // the upper halves of index, stream and seed count too
    CHECK(a.bits(1) != a.bits(1 + (std::uint64_t{1} << 32)));
    CHECK(hr::random_stream(7, std::uint64_t{1} << 32).bits(0) != hr::random_stream(7, 0).bits(0));
    CHECK(hr::random_stream(std::uint64_t{1} << 32).bits(0) != hr::random_stream(0).bits(0));
  }

  TEST_CASE("uniform draws fill [0,1) evenly, below draws its range") {
    const hr::random_stream r(20211101);
    double sum = 0, squares = 0;
    constexpr int n = 200000;
    for (std::uint64_t i = 0; i < n; ++i) {
      const double u = r.uniform(i);
      REQUIRE(u >= 0);
      REQUIRE(u < 1);
      REQUIRE(u * 0x1p53 == std::floor(u * 0x1p53));
      sum += u;
      squares += u * u;
    }
    CHECK(std::abs(sum / n - .5) < 4 * std::sqrt(1. / 12 / n));
    CHECK(std::abs(squares / n - 1. / 3) < 4 * std::sqrt(4. / 45 / n));
    std::vector<int> count(7);
    for (std::uint64_t i = 0; i < 70000; ++i) ++count[r.below(i, 7)];
    double chi2 = 0;
    for (const int c : count) chi2 += (c - 10000.) * (c - 10000.) / 10000;
    CHECK(chi2 < 22.5);  // 6 degrees of freedom, p = .001
    CHECK(r.below(5, 1) == 0);
    // the upper half of the product, whatever its size
    for (const std::uint64_t n2 : {std::uint64_t{3}, std::uint64_t{1} << 32, ~std::uint64_t{0}}) {
      for (std::uint64_t i = 0; i < 100; ++i) {
        const auto expected = static_cast<long double>(r.bits(i)) * static_cast<long double>(n2) / 0x1p64L;
        CHECK(std::abs(static_cast<long double>(r.below(i, n2)) + .5L - expected) <= .5L + expected * 1e-18L);
      }
    }
  }
}
