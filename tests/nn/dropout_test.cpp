#include <limits>

#include <headred/nn/op/dropout.hpp>

#include "nn/op_support.hpp"

namespace hr = headred;
using op_test::gapped;

TEST_SUITE("nn") {
  TEST_CASE("eight blocks at once are the stream's own") {
    for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{0x123456789abcdef0}})
      for (const std::uint64_t stream : {std::uint64_t{0}, std::uint64_t{0xfedcba9876543210}})
        for (const std::uint64_t chunk :
             {std::uint64_t{0}, std::uint64_t{5}, (std::uint64_t{1} << 29) - 1, std::uint64_t{1} << 40}) {
          std::uint32_t words[32];
          hr::detail::philox_chunk(hr::random_stream(seed, stream), chunk, words);
          const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
          for (std::uint64_t b = 0; b < 8; ++b) {
            const std::uint64_t i = 8 * chunk + b;
            const auto expected =
                hr::philox({low(i), low(i >> 32), low(stream), low(stream >> 32)}, {low(seed), low(seed >> 32)});
            CHECK(words[2 * b] == expected[0]);
            CHECK(words[2 * b + 1] == expected[1]);
            CHECK(words[16 + 2 * b] == expected[2]);
            CHECK(words[16 + 2 * b + 1] == expected[3]);
            CHECK(hr::random_stream(seed, stream).bits(i) == ((std::uint64_t{expected[1]} << 32) | expected[0]));
          }
        }
  }

  TEST_CASE_TEMPLATE("dropout keeps what dropout_keeps says", T, float, double) {
    hr::cpu be{{.threads = 1}};
    const hr::random_stream stream(5, 7);
    const hr::dropout_mask mask(.3, stream);
    const T factor = static_cast<T>(mask.factor());
    CHECK(mask.factor() == doctest::Approx(1 / .7).epsilon(1e-5));
    for (const hr::index_t cols : {1, 3, 17, 64, 128, 200})
      for (const hr::index_t gap : {0, 3}) {
        const auto x = gapped<T>::random(9, cols, gap, 1);
        gapped<T> y(9, cols, gap), dx(9, cols, gap);
        dx.fill(T(1));
        hr::dropout_forward<T>(be, x.view(), .3, stream, y.view());
        hr::dropout_gradient<T>(be, .3, stream, x.view(), dx.view());
        for (hr::index_t r = 0; r < 9; ++r)
          for (hr::index_t c = 0; c < cols; ++c) {
            const bool kept = hr::dropout_keeps(stream, static_cast<std::uint64_t>(r * cols + c), .3);
            REQUIRE(y(r, c) == (kept ? x(r, c) * factor : T(0)));
            REQUIRE(dx(r, c) == doctest::Approx(1 + (kept ? x(r, c) * factor : T(0))).epsilon(1e-6));
          }
        CHECK(y.gaps_kept());
        CHECK(dx.gaps_kept());
        gapped<T> in_place = x;
        hr::dropout_forward<T>(be, in_place.view(), .3, stream, in_place.view());
        CHECK(in_place(8, cols - 1) == y(8, cols - 1));
      }
    // a row kernel that starts anywhere
    const auto x = gapped<T>::random(1, 300, 0, 2);
    gapped<T> whole(1, 300), part(1, 300);
    mask.apply(&x(0, 0), &whole(0, 0), 300, 1000);
    for (hr::index_t begin = 0; begin < 300; begin += 37)
      mask.apply(&x(0, begin), &part(0, begin), std::min<hr::index_t>(37, 300 - begin),
                 static_cast<std::uint64_t>(1000 + begin));
    CHECK(whole.same_bits(part));
  }

  TEST_CASE("dropout drops at its rate, independently from element to element and stream to stream") {
    for (const double p : {.1, .5, .9}) {
      const hr::dropout_mask mask(p, hr::random_stream(20211101, 1)), other(p, hr::random_stream(20211101, 2));
      constexpr int n = 200000;
      int dropped = 0, pairs = 0, far_pairs = 0, both = 0;
      for (std::uint64_t i = 0; i < n; ++i) {
        const bool d = !mask.keeps(i);
        dropped += d ? 1 : 0;
        pairs += d && !mask.keeps(i + 1) ? 1 : 0;
        far_pairs += d && !mask.keeps(i + 16) ? 1 : 0;  // the other half of one word
        both += d && !other.keeps(i) ? 1 : 0;
      }
      const auto near = [](int count, double rate) {
        return std::abs(count - n * rate) < 4.5 * std::sqrt(n * rate * (1 - rate));
      };
      CHECK(near(dropped, p));
      CHECK(near(pairs, p * p));
      CHECK(near(far_pairs, p * p));
      CHECK(near(both, p * p));
    }
  }

  TEST_CASE("dropout: probabilities near the ends") {
    hr::cpu be{{.threads = 1}};
    const hr::random_stream stream(1);
    const auto x = gapped<float>::random(3, 70, 0, 1);
    gapped<float> y(3, 70);
    for (const double p : {0., 1e-9}) {  // rounds to no dropout
      hr::dropout_forward<float>(be, x.view(), p, stream, y.view());
      CHECK(y.same_bits(x));
      CHECK(hr::dropout_mask(p, stream).factor() == 1);
    }
    gapped<float> dx(3, 70);
    dx.fill(1);
    hr::dropout_gradient<float>(be, 0, stream, x.view(), dx.view());
    CHECK(dx(2, 69) == 1 + x(2, 69));
    const double almost = std::nextafter(1., 0.);
    CHECK(hr::dropout_mask(almost, stream).factor() == 65536);
    hr::dropout_forward<float>(be, x.view(), almost, stream, y.view());
    for (hr::index_t c = 0; c < 70; ++c) CHECK(std::isfinite(y(0, c)));
    // what is dropped is zero, whatever it was
    gapped<float> wild(1, 64), out(1, 64);
    wild.fill(std::numeric_limits<float>::infinity());
    hr::dropout_forward<float>(be, wild.view(), .5, stream, out.view());
    for (hr::index_t c = 0; c < 64; ++c)
      CHECK(out(0, c) == (hr::dropout_keeps(stream, static_cast<std::uint64_t>(c), .5) ? wild(0, c) : 0.f));
  }

  TEST_CASE("dropout: threads, empty matrices, errors") {
    const hr::random_stream stream(3);
    const auto x = gapped<float>::random(300, 129, 3, 9, 10);
    op_test::check_threads([&](hr::cpu& be) {
      gapped<float> y(300, 129);
      hr::dropout_forward<float>(be, x.view(), .25, stream, y.view());
      hr::dropout_gradient<float>(be, .1, stream, x.view(), y.view());
      return y;
    });
    hr::cpu be{{.threads = 1}};
    gapped<float> none(0, 5), small(300, 128);
    CHECK_NOTHROW(hr::dropout_forward<float>(be, none.view(), .5, stream, none.view()));
    CHECK_NOTHROW(hr::dropout_gradient<float>(be, .5, stream, x.view(), {}));
    CHECK_THROWS_WITH_AS(hr::dropout_forward<float>(be, none.view(), 1, stream, none.view()),
                         "dropout: the probability is 1, expected [0,1)", hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::dropout_keeps(stream, 0, -.5), "dropout: the probability is -0.5, expected [0,1)",
                         hr::argument_error);
    CHECK_THROWS_AS(hr::dropout_mask(std::nan(""), stream), hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::dropout_forward<float>(be, x.view(), .5, stream, small.view()),
                         "dropout_forward: y is (300,128), expected (300,129)", hr::shape_error);
  }
}
