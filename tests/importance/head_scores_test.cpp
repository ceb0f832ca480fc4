// Scores of one sentence after another: confidence, Taylor, relevance, and how criteria compare.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/random.hpp>
#include <headred/importance/confidence.hpp>
#include <headred/importance/head_relevance.hpp>
#include <headred/importance/rank_comparison.hpp>
#include <headred/importance/taylor.hpp>

#include "environment.hpp"
#include "oracle/importance.hpp"

namespace hr = headred;
using headred::index_t;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

template <class F>
std::string text_of(const F& f) {
  try {
    f();
  } catch (const hr::error& problem) {
    return problem.what();
  }
  return "nothing was thrown";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Rows that sum to 1, (L,H,T,S).
template <class T>
std::vector<T> random_maps(index_t heads, index_t queries, index_t keys, std::uint64_t seed) {
  const hr::random_stream random(seed, 7);
  std::vector<T> all(static_cast<std::size_t>(heads * queries * keys));
  std::uint64_t n = 0;
  for (std::size_t row = 0; row < static_cast<std::size_t>(heads * queries); ++row) {
    double sum = 0;
    std::vector<double> x(static_cast<std::size_t>(keys));
    for (double& value : x) sum += value = std::exp(6 * random.uniform(n++));
    for (std::size_t k = 0; k < x.size(); ++k) all[row * x.size() + k] = static_cast<T>(x[k] / sum);
  }
  return all;
}

const double worked[] = {.1, .7, .1, .1, .6, .1, .2, .1, .05, .8, .05, .1, .2, .1, .6, .1};

}  // namespace

TEST_SUITE("importance") {
  TEST_CASE("exact_sum: the bits do not depend on the order") {
    hr::exact_sum a, b;
    const hr::random_stream random(headred_test::seed(), 1);
    std::vector<double> terms = {0, 5e-324, 1e308, 3e307, 1, 2.5e-310, 0x1p-1022};
    for (std::uint64_t i = 0; i < 500; ++i)
      terms.push_back(std::ldexp(random.uniform(2 * i), static_cast<int>(random.below(2 * i + 1, 1800)) - 1000));
    for (const double x : terms) a += x;
    hr::exact_sum front, back;
    for (std::size_t i = terms.size(); i-- > 0;) (i % 3 == 0 ? front : back) += terms[i];
    b += back;
    b += front;
    CHECK(a == b);
    CHECK(a.value() == b.value());
    hr::exact_sum tiny;
    tiny += 5e-324;
    tiny += 5e-324;
    CHECK(tiny.value() == 1e-323);
    hr::exact_sum cancel;  // 1 + 2^-53 + 2^-200 rounds up, 1 + 2^-53 to even
    cancel += 1;
    cancel += 0x1p-53;
    CHECK(cancel.value() == 1);
    cancel += 0x1p-200;
    CHECK(cancel.value() == 1 + 0x1p-52);
    hr::exact_sum itself = cancel;
    itself += itself;
    CHECK(itself.value() == 2 * (1 + 0x1p-52));
    CHECK(has(text_of([&] { tiny += -1; }), "not a finite number >= 0"));
    CHECK(has(text_of([&] { tiny += not_a_number; }), "not a finite number >= 0"));
    CHECK(has(text_of([&] { tiny += INFINITY; }), "not a finite number >= 0"));
    // long double holds moderate sums well enough to compare with
    hr::exact_sum sum;
    long double expected = 0;
    for (std::uint64_t i = 0; i < 2000; ++i) {
      const double x = random.uniform(10000 + i);
      sum += x;
      expected += x;
    }
    CHECK(std::abs(sum.value() - static_cast<double>(expected)) <= 1e-12 * static_cast<double>(expected));
  }

  TEST_CASE("confidence: the worked values of the four policies") {
    hr::cpu be;
    const hr::tensor_view<const double, 4> maps(worked, {1, 1, 4, 4});
    const auto with = [&](hr::end_token end) {
      hr::confidence<hr::cpu> c(be, hr::head_layout(1, 1), {.end = end});
      CHECK(c.add(maps));
      return c.scores().of(hr::attention_kind::encoder_self)[0];
    };
    CHECK(with(hr::end_token::excluded) == doctest::Approx(.7).epsilon(1e-15));
    CHECK(with(hr::end_token::excluded_as_key) == doctest::Approx(.675).epsilon(1e-15));
    CHECK(with(hr::end_token::excluded_as_query) == doctest::Approx(.7).epsilon(1e-15));
    CHECK(with(hr::end_token::included) == doctest::Approx(.675).epsilon(1e-15));
  }

  TEST_CASE_TEMPLATE("confidence: as defined, whatever the order, split, padding, threads", T, float, double) {
    const hr::head_layout layout(2, 3);
    for (const auto average : {hr::token_average::pooled, hr::token_average::per_sentence}) {
      for (const auto end : {hr::end_token::excluded, hr::end_token::excluded_as_key, hr::end_token::excluded_as_query,
                             hr::end_token::included}) {
        hr::cpu one{{.threads = 1}}, two{{.threads = 2}};
        const hr::confidence_options options{end, average};
        hr::confidence<hr::cpu> all(one, layout, options), first(two, layout, options), second(two, layout, options);
        const bool no_query = end == hr::end_token::excluded || end == hr::end_token::excluded_as_query;
        const bool no_key = end == hr::end_token::excluded || end == hr::end_token::excluded_as_key;
        std::vector<long double> expected(6, 0);
        long double tokens = 0, sentences = 0;
        for (std::uint64_t s = 0; s < 9; ++s) {
          const index_t n = 1 + static_cast<index_t>(7 * s % 41), wide = n + 5;
          auto maps = random_maps<T>(6, n, n, headred_test::seed() + s);
          if (s == 4) std::fill_n(maps.begin(), n, T(0));  // a query that attends to nothing
          const hr::tensor_view<const T, 4> view(maps.data(), {2, 3, n, n});
          // the same maps inside larger ones full of NaN
          std::vector<T> padded(static_cast<std::size_t>(6 * wide * wide), static_cast<T>(not_a_number));
          for (index_t h = 0; h < 6; ++h)
            for (index_t t = 0; t < n; ++t)
              for (index_t k = 0; k < n; ++k)
                padded[static_cast<std::size_t>((h * wide + t) * wide + k)] =
                    maps[static_cast<std::size_t>((h * n + t) * n + k)];
          const bool spoke = n - (no_query ? 1 : 0) > 0 && n - (no_key ? 1 : 0) > 0;
          CHECK(all.add(view) == spoke);
          (s % 2 == 0 ? first : second)
              .add(hr::tensor_view<const T, 4>(padded.data(), {2, 3, wide, wide}), {.length = n});
          if (!spoke) continue;
          const auto asked = static_cast<std::size_t>(n - (no_query ? 1 : 0));
          for (std::size_t h = 0; h < 6; ++h) {
            std::vector<std::vector<double>> map;
            for (index_t t = 0; t < n; ++t) {
              const auto row = maps.begin() + (static_cast<index_t>(h) * n + t) * n;
              map.emplace_back(row, row + n);
            }
            long double sum = 0;
            for (const long double peak : oracle::row_peaks(map, asked, static_cast<std::size_t>(n - (no_key ? 1 : 0))))
              sum += peak;
            expected[h] += average == hr::token_average::pooled ? sum : sum / static_cast<long double>(asked);
          }
          tokens += static_cast<long double>(asked);
          ++sentences;
        }
        second.merge(first);
        const auto a = all.scores(hr::attention_kind::cross), b = second.scores(hr::attention_kind::cross);
        CHECK(a == b);
        CHECK(a.counts(hr::attention_kind::cross).skipped ==
              (end == hr::end_token::included ? 0 : 1));  // the sentence of one token
        for (std::size_t h = 0; h < 6; ++h)
          CHECK(std::abs(a.of(hr::attention_kind::cross)[h] -
                         static_cast<double>(expected[h] /
                                             (average == hr::token_average::pooled ? tokens : sentences))) < 1e-15);
      }
    }
  }

  TEST_CASE("confidence: batches, layers of different heads, errors") {
    hr::cpu be;
    const auto maps = random_maps<double>(8, 6, 6, 3);  // (B,L,H,T,S) = (2,2,2,6,6)
    const index_t lengths[] = {6, 6};
    hr::confidence<hr::cpu> batch(be, hr::head_layout(2, 2)), single(be, hr::head_layout(2, 2));
    CHECK(batch.add_batch(hr::tensor_view<const double, 5>(maps.data(), {2, 2, 2, 6, 6}), lengths) == 2);
    for (index_t b = 0; b < 2; ++b) single.add(hr::tensor_view<const double, 4>(maps.data() + b * 144, {2, 2, 6, 6}));
    CHECK(batch.scores() == single.scores());
    hr::confidence<hr::cpu> uneven(be, hr::head_layout(std::vector<index_t>{3, 0, 1}));
    const std::vector<hr::tensor_view<const double, 3>> layers = {
        {maps.data(), {3, 6, 6}}, {maps.data(), {0, 6, 6}}, {maps.data() + 108, {1, 6, 6}}};
    uneven.add(layers);
    hr::confidence<hr::cpu> even(be, hr::head_layout(1, 4));
    even.add(hr::tensor_view<const double, 4>(maps.data(), {1, 4, 6, 6}));
    for (std::size_t h = 0; h < 4; ++h)
      CHECK(uneven.scores().of(hr::attention_kind::encoder_self)[h] ==
            even.scores().of(hr::attention_kind::encoder_self)[h]);

    auto bad = maps;
    bad[36 + 7] = not_a_number;
    const auto before = single.scores();
    const std::string text = text_of([&] { single.add(hr::tensor_view<const double, 4>(bad.data(), {2, 2, 6, 6})); });
    CHECK(has(text, "layer 0, head 1, row 1"));
    CHECK(has(text, "nan"));
    CHECK(single.scores() == before);
    bad[36 + 7] = -.5;
    CHECK(has(text_of([&] { single.add(hr::tensor_view<const double, 4>(bad.data(), {2, 2, 6, 6})); }), "is -0.5"));
    CHECK(has(text_of([&] {
                single.add(hr::tensor_view<const double, 4>(maps.data(), {1, 2, 6, 6}));
              }),
              "1 layers, expected 2"));
    hr::confidence<hr::cpu> empty(be, hr::head_layout(2, 2)),
        other(be, hr::head_layout(2, 2), {.end = hr::end_token::included});
    CHECK_FALSE(empty.add(hr::tensor_view<const double, 4>(worked, {2, 2, 1, 1})));
    CHECK(has(text_of([&] { empty.scores(); }), "no sentence was added (1 skipped)"));
    CHECK(has(text_of([&] { empty.merge(other); }), "different options"));
    CHECK(has(text_of([&] { empty.merge(uneven); }), "different layouts"));
  }

  TEST_CASE("taylor: the worked values, exact merges, refusals") {
    // (H=2,T=2,K=2) as (T, H K)
    const double outputs[] = {1, 2, .5, -1, 0, 1, 2, 0}, gradients[] = {.1, -.2, -.2, .1, .3, .4, .05, .3};
    const hr::tensor_view<const double, 2> x(outputs, {2, 4}), g(gradients, {2, 4});
    const hr::row_span whole[] = {{0, 2}};
    hr::taylor example(hr::head_layout(1, 2)), token(hr::head_layout(1, 2), hr::taylor_absolute::per_token);
    example.add(0, x, g, whole);
    token.add(0, x, g, whole);
    constexpr auto kind = hr::attention_kind::encoder_self;
    CHECK(example.scores().of(kind)[0] == doctest::Approx(.1).epsilon(1e-14));
    CHECK(example.scores().of(kind)[1] == doctest::Approx(.1).epsilon(1e-14));
    CHECK(token.scores().of(kind)[0] == doctest::Approx(.7).epsilon(1e-14));
    CHECK(token.scores().of(kind)[1] == doctest::Approx(.3).epsilon(1e-14));
    CHECK(token.scores().counts(kind) == hr::score_counts{1, 2, 0});

    const double gates[] = {-.25, 0, .5, 3};
    hr::taylor by_gates(hr::head_layout(1, 2));
    by_gates.add_gates<double>(0, {gates, {2, 2}});
    CHECK(by_gates.scores().of(kind)[0] == .375);
    CHECK(by_gates.scores().of(kind)[1] == 1.5);
    CHECK(has(text_of([&] { token.add_gates<double>(0, {gates, {2, 2}}); }), "no gradient per token"));

    // any cut of 11 examples over 2 layers, one of them empty
    const hr::random_stream random(headred_test::seed(), 5);
    std::vector<float> a(40 * 6), b(40 * 6);
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = static_cast<float>(2 * random.uniform(2 * i) - 1);
      b[i] = static_cast<float>(2 * random.uniform(2 * i + 1) - 1);
    }
    const hr::tensor_view<const float, 2> p(a.data(), {40, 6}), q(b.data(), {40, 6});
    std::vector<hr::row_span> rows;
    for (index_t i = 0; i < 11; ++i) rows.push_back({3 * i, i == 4 ? 0 : 1 + i % 4});
    const std::vector<double> scale(11, .5);
    hr::taylor together(hr::head_layout(2, 3)), front(hr::head_layout(2, 3)), back(hr::head_layout(2, 3));
    for (index_t l = 0; l < 2; ++l) {
      together.add(l, p, q, rows, scale);
      back.add(l, p, q, std::span(rows).subspan(3), std::span(scale).subspan(3));
      front.add(l, p, q, std::span(rows).first(3), std::span(scale).first(3));
    }
    back.merge(front);
    CHECK(back.scores() == together.scores());
    CHECK(together.scores().counts(kind).skipped == 1);

    b[6 * 3 + 4] = std::numeric_limits<float>::quiet_NaN();
    const auto before = together.scores();
    CHECK(text_of([&] { together.add(1, p, q, rows); }) ==
          "layer 1, head 2, row 1: taylor: an output times its gradient is not finite");
    CHECK(together.scores() == before);
    together.add(0, p, p, std::span(rows).first(1));
    CHECK(has(text_of([&] { together.scores(); }), "layer 1 saw 10 examples, the layers before it 11"));
    CHECK(has(text_of([&] { hr::taylor(hr::head_layout(1, 4)).add(0, p, q, rows); }), "expected columns for 4 heads"));
    const hr::row_span outside[] = {{39, 2}};
    CHECK(has(text_of([&] { together.add(0, p, p, outside); }), "[39, + 2) in a matrix of 40"));
    CHECK(has(text_of([&] { hr::taylor(hr::head_layout(1, 2)).scores(); }), "no example was added"));
  }

  TEST_CASE("head_relevance: shares of a layer, averaged over steps") {
    const double r[] = {1, -1, 3, 1, 0, 0, 0, 2, 0, 0, 0, 0};  // (3 rows, 2 heads of 2)
    const hr::row_span steps[] = {{0, 2}, {2, 1}, {3, 0}};
    hr::head_relevance relevance(hr::head_layout(1, 2)), parts(hr::head_layout(1, 2));
    relevance.add<double>(0, {r, {3, 4}}, steps);
    constexpr auto kind = hr::attention_kind::encoder_self;
    CHECK(relevance.scores().of(kind)[0] == .125);  // (2/8 + 0) / 2
    CHECK(relevance.scores().of(kind)[1] == .375);
    CHECK(relevance.scores().counts(kind) == hr::score_counts{2, 3, 1});
    for (const auto& step : steps) {
      hr::head_relevance one(hr::head_layout(1, 2));
      one.add<double>(0, {r, {3, 4}}, {&step, 1});
      parts.merge(one);
    }
    CHECK(parts.scores() == relevance.scores());
    const double tiny[] = {5e-324, 0, 0, 5e-324, 1e308, 1e308, 0, 0};
    hr::head_relevance extreme(hr::head_layout(1, 4));
    const hr::row_span first[] = {{0, 1}}, second[] = {{1, 1}};
    extreme.add<double>(0, {tiny, {2, 4}}, first);
    CHECK(extreme.scores().of(kind)[0] == .5);
    extreme.add<double>(0, {tiny, {2, 4}}, second);
    CHECK(extreme.scores().of(kind)[1] == .25);
    const double bad[] = {1, 1, 1, not_a_number};
    CHECK(text_of([&] {
            extreme.add<double>(0, {bad, {1, 4}}, first);
          }) == "layer 0, head 3, row 0: head_relevance: the relevance is not finite");
  }

  TEST_CASE("head_scores: order, normalisation, refusals") {
    constexpr auto self = hr::attention_kind::encoder_self, cross = hr::attention_kind::cross;
    hr::head_scores scores("taylor");
    scores.add(cross, hr::head_layout(2, 1), {2, 5})
        .add(self, hr::head_layout(std::vector<index_t>{2, 0, 1}), {3, 4, 5});
    CHECK(scores.kinds() == std::vector{self, cross});
    CHECK(scores.value(self, {2, 0}) == 5);
    const auto order = hr::ranking(scores);
    const std::vector<hr::ranked_head> expected = {
        {cross, {1, 0}, 5}, {self, {2, 0}, 5}, {self, {0, 1}, 4}, {self, {0, 0}, 3}, {cross, {0, 0}, 2}};
    CHECK(order == expected);
    CHECK(hr::ranking(scores, {self}).size() == 3);
    const auto unit = hr::layer_normalised(scores);
    CHECK(unit.of(self)[0] == doctest::Approx(.6).epsilon(1e-15));
    CHECK(unit.of(self)[1] == doctest::Approx(.8).epsilon(1e-15));
    hr::head_scores small("x");
    small.add(self, hr::head_layout(2, 1), {0, 1e-10});
    CHECK(hr::layer_normalised(small).of(self)[0] == 0);
    CHECK(hr::layer_normalised(small).of(self)[1] == doctest::Approx(std::sqrt(.5)).epsilon(1e-14));
    CHECK(has(text_of([&] { small.add(self, hr::head_layout(1, 1), {1}); }), "encoder_self is given twice"));
    CHECK(has(text_of([&] {
                small.add(cross, hr::head_layout(2, 2), {1, 1, not_a_number, 1});
              }),
              "the x of cross head (1,0) is not finite"));
    CHECK(has(text_of([&] { small.add(cross, hr::head_layout(2, 2), {1}); }), "1 values for cross, expected 4"));
    CHECK(has(text_of([&] { small.of(cross); }), "the x of cross was not scored"));
    CHECK(has(text_of([&] { hr::ranking(scores, {self, self}); }), "named twice"));
  }

  TEST_CASE("rank comparison: against the definition") {
    constexpr auto self = hr::attention_kind::encoder_self, cross = hr::attention_kind::cross;
    const auto scores = [&](std::vector<double> values) {
      const auto n = static_cast<index_t>(values.size());
      return hr::head_scores("x").add(self, hr::head_layout(1, n), std::move(values));
    };
    CHECK(hr::spearman(scores({1, 2, 3, 4}), scores({10, 20, 30, 400})) == 1.);
    CHECK(hr::spearman(scores({1, 2, 3, 4}), scores({4, 3, 2, 1})) == -1.);
    CHECK(hr::spearman(scores({1, 2, 3, 4, 5}), scores({5, 6, 7, 8, 7})).value() ==
          doctest::Approx(.8207826816681233).epsilon(1e-14));
    CHECK_FALSE(hr::spearman(scores({1, 1}), scores({1, 2})).has_value());
    CHECK_FALSE(hr::spearman(scores({1}), scores({2})).has_value());
    for (std::uint64_t s = 0; s < 20; ++s) {
      const hr::random_stream random(headred_test::seed() + s, 2);
      std::vector<double> x(30), y(30);
      for (std::size_t i = 0; i < 30; ++i) {
        x[i] = static_cast<double>(random.below(2 * i, 12));
        y[i] = static_cast<double>(random.below(2 * i + 1, 12));
      }
      const double rho = hr::spearman(scores(x), scores(y)).value();
      CHECK(std::abs(rho - static_cast<double>(oracle::spearman(x, y))) < 1e-14);
      CHECK(rho == hr::spearman(scores(y), scores(x)).value());
    }
    CHECK(hr::overlap_at(2, scores({1, 2, 3, 4}), scores({4, 1, 1, 3})) == .5);
    CHECK(hr::overlap_at(0, scores({1}), scores({2})) == 1);
    CHECK(has(text_of([&] { hr::overlap_at(3, scores({1, 2}), scores({2, 1})); }), "k is 3, expected 0 to 2"));
    CHECK_THROWS_AS(hr::spearman(scores({1}), scores({1, 2})), hr::shape_error);
    CHECK(has(text_of([&] {
                hr::spearman(scores({1, 2}), hr::head_scores("y").add(cross, hr::head_layout(1, 2), {1, 2}));
              }),
              "x and y score different attention kinds"));
  }
}
