// What must not change a redundancy matrix: padding, threads, order, batches, merging, storage.
#include <doctest/doctest.h>

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>
#include <xtensor/xtensor.hpp>

#include "distance/every_distance.hpp"
#include "environment.hpp"

namespace hr = headred;
using namespace headred_test;

namespace {

template <class Distance>
using accumulator = hr::redundancy<std::decay_t<Distance>, hr::cpu>;

struct largest_difference {
  static constexpr std::string_view name = "largest_difference";
  static constexpr hr::distance_level level = hr::distance_level::sentence;
  double operator()(hr::tensor_view<const double, 2> a, hr::tensor_view<const double, 2> b) const {
    double d = 0;
    for (hr::index_t i = 0; i < a.extent(0); ++i)
      for (hr::index_t k = 0; k < a.extent(1); ++k) d = std::max(d, std::abs(a(i, k) - b(i, k)));
    return d;
  }
};

// Twins, zero rows and ordinary heads in one sentence.
attention_sample mixed(hr::index_t layers, hr::index_t heads, hr::index_t tokens, std::uint64_t seed) {
  auto sample = make_sample(sample_kind::random, layers, heads, tokens, tokens, seed);
  const auto twins = make_sample(sample_kind::twins_1e6, 1, 2, tokens, tokens, seed);
  const auto zeros = make_sample(sample_kind::zero_rows, 1, 1, tokens, tokens, seed);
  const auto flat = make_sample(sample_kind::constant_rows, 1, 1, tokens, tokens, seed);
  const auto copy = [&](const attention_sample& from, hr::index_t head, hr::index_t to) {
    for (hr::index_t t = 0; t < tokens; ++t)
      std::copy(from.row(head, t), from.row(head, t) + tokens, sample.row(to, t));
  };
  const hr::index_t n = layers * heads;
  if (n >= 6) {
    copy(twins, 0, 1);
    copy(twins, 1, n - 1);
    copy(zeros, 0, 2);
    copy(flat, 0, 3);
    for (hr::index_t t = 0; t < tokens; ++t)  // an exact twin
      std::copy(sample.row(0, t), sample.row(0, t) + tokens, sample.row(n - 2, t));
  }
  return sample;
}

// The nearest float16, for numbers in [0,1].
hr::float16 to_half(double x) {
  hr::float16 best{0};
  for (std::uint32_t bits = 0; bits <= 0x3c00; bits += 64) {
    const hr::float16 candidate{static_cast<std::uint16_t>(bits)};
    if (static_cast<double>(float(candidate)) <= x) best = candidate;
  }
  for (std::uint32_t bits = best.bits; bits <= best.bits + 64u && bits <= 0x3c00; ++bits) {
    const hr::float16 candidate{static_cast<std::uint16_t>(bits)};
    if (std::abs(double(float(candidate)) - x) < std::abs(double(float(best)) - x)) best = candidate;
  }
  return best;
}
hr::bfloat16 to_bfloat(double x) {
  return {static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(x)) >> 16)};
}

// Elements of another type hold exactly these doubles: the distances in f64 are the same bits.
template <class T>
void check_storage(const attention_sample& sample, const std::vector<T>& stored, double scale) {
  auto exact = sample;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    if constexpr (std::is_arithmetic_v<T>) {
      exact.values[i] = static_cast<double>(stored[i]) * scale;
    } else {
      exact.values[i] = static_cast<double>(static_cast<float>(stored[i])) * scale;
    }
  }
  hr::cpu be{{.threads = 2}};
  const hr::tensor_view<const T, 4> view(stored.data(), sample.view().shape());
  hr::sentence_options options;
  options.scale = scale;
  for_every_distance([&](const auto& policy) {
    CHECK(hr::pairwise<double>(be, view, policy, options) == hr::pairwise<double>(be, exact.view(), policy));
    CHECK(hr::pairwise<float>(be, view, policy, options) == hr::pairwise<float>(be, exact.view(), policy));
  });
}

}  // namespace

TEST_SUITE("distance") {
  TEST_CASE_TEMPLATE("the same bits for 1, 2, 3 and 5 threads, symmetric, diagonal 0", Real, float, double) {
    for (const auto& [layers, heads, tokens] : {std::array<hr::index_t, 3>{2, 5, 17}, {3, 11, 9}, {1, 2, 40}}) {
      const auto sample = mixed(layers, heads, tokens, seed());
      for_every_distance([&](const auto& policy) {
        hr::cpu one{{.threads = 1}};
        const auto expected = hr::pairwise<Real>(one, sample.view(), policy);
        for (const int threads : {2, 3, 5}) {
          hr::cpu be{{.threads = threads}};
          CHECK(hr::pairwise<Real>(be, sample.view(), policy) == expected);
        }
        for (hr::index_t i = 0; i < sample.size(); ++i) {
          CHECK(expected(i, i) == 0);
          for (hr::index_t j = 0; j < sample.size(); ++j) REQUIRE(expected(i, j) == expected(j, i));
        }
        if (sample.size() >= 6) CHECK(expected(0, sample.size() - 2) == 0);
      });
    }
  }

  TEST_CASE_TEMPLATE("permuted heads give permuted bits, two heads alone give their entry", Real, float, double) {
    const auto sample = mixed(1, 21, 13, seed());
    std::vector<hr::index_t> order(21);
    std::iota(order.begin(), order.end(), hr::index_t{0});
    const hr::random_stream random(seed());
    for (std::size_t i = 20; i > 0; --i) std::swap(order[i], order[random.below(i, i + 1)]);
    auto permuted = sample;
    for (hr::index_t h = 0; h < 21; ++h)
      for (hr::index_t t = 0; t < 13; ++t) {
        const double* from = sample.row(order[static_cast<std::size_t>(h)], t);
        std::copy(from, from + 13, permuted.row(h, t));
      }
    hr::cpu be{{.threads = 2}};
    for_every_distance([&](const auto& policy) {
      const auto d = hr::pairwise<Real>(be, sample.view(), policy), e = hr::pairwise<Real>(be, permuted.view(), policy);
      for (hr::index_t i = 0; i < 21; ++i)
        for (hr::index_t j = 0; j < 21; ++j)
          REQUIRE(e(i, j) == d(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(j)]));
      for (hr::index_t j = 1; j < 21; ++j) {
        CHECK(hr::distance<Real>(be, sample.view()[0][0], sample.view()[0][j], policy) == d(0, j));
        CHECK(hr::distance<Real>(be, sample.view()[0][j], sample.view()[0][0], policy) == d(0, j));
      }
    });
  }

  TEST_CASE("order, batches, splits and merges of sentences give the same bits") {
    const hr::index_t count = 7, longest = 12;
    std::vector<attention_sample> sentences;
    std::vector<hr::index_t> lengths;
    attention_sample batch{count * 2, 3, longest, longest, {}};  // (B,L,H,T,S) with L 2, H 3
    batch.values.assign(static_cast<std::size_t>(count * 6 * longest * longest),
                        std::nan(""));  // padding is never read
    for (hr::index_t b = 0; b < count; ++b) {
      lengths.push_back(3 + b * 9 % 10);
      sentences.push_back(mixed(2, 3, lengths.back(), seed() + static_cast<std::uint64_t>(b)));
      for (hr::index_t h = 0; h < 6; ++h)
        for (hr::index_t t = 0; t < lengths.back(); ++t)
          std::copy(sentences.back().row(h, t), sentences.back().row(h, t) + lengths.back(),
                    batch.values.data() + ((b * 6 + h) * longest + t) * longest);
    }
    const hr::tensor_view<const double, 5> five(batch.values.data(), {count, 2, 3, longest, longest});
    hr::cpu be{{.threads = 2}};
    for_every_distance([&](const auto& policy) {
      using red_t = accumulator<decltype(policy)>;
      red_t forward{be, {2, 3}}, backward{be, {2, 3}}, whole{be, {2, 3}}, head{be, {2, 3}}, tail{be, {2, 3}};
      for (const auto& s : sentences) forward.add(s.view());
      for (std::size_t i = sentences.size(); i-- > 0;) backward.add(sentences[i].view());
      CHECK(whole.add_batch(five, lengths) == count);
      for (std::size_t i = 0; i < sentences.size(); ++i) (i < 3 ? head : tail).add(sentences[i].view());
      const auto expected = forward.matrix();
      CHECK(backward.matrix() == expected);
      CHECK(whole.matrix() == expected);
      red_t one_way{be, {2, 3}};
      one_way.merge(head);
      one_way.merge(tail);
      tail.merge(head);
      CHECK(one_way.matrix() == expected);
      CHECK(tail.matrix() == expected);
      CHECK(tail.sentences() == count);
      red_t restored{be, {2, 3}};
      restored.restore(forward.snapshot());
      CHECK(restored.matrix() == expected);
      CHECK(restored.sentences() == count);
      // the mean of the sentences' own matrices
      double sum = 0;
      for (const auto& s : sentences) sum += hr::pairwise(be, s.view(), policy)(1, 4);
      CHECK(expected(1, 4) == doctest::Approx(sum / double(count)).epsilon(1e-14));
      CHECK(forward.last() == hr::pairwise(be, sentences.back().view(), policy));
    });
    hr::redundancy<hr::cosine, hr::cpu> red{be, {2, 3}}, other{be, {3, 2}};
    CHECK_THROWS_WITH_AS(red.merge(other), "redundancy: merge of accumulators with different layouts",
                         hr::argument_error);
    hr::redundancy<hr::procrustes, hr::cpu> plain{be, {2, 3}}, squared{be, {2, 3}, {.squared = true}};
    CHECK_THROWS_WITH_AS(plain.merge(squared), "redundancy: merge of procrustes squared into procrustes",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(red.add_batch(five, std::vector<hr::index_t>{1, 2}),
                         "redundancy: 2 lengths for a batch (7,2,3,12,12)", hr::shape_error);
    CHECK_THROWS_AS(red.restore({}), hr::argument_error);
    // progress sees each sentence and may stop the batch; what was added stays
    std::vector<hr::index_t> seen;
    CHECK_THROWS_AS(red.add_batch(five, lengths, {},
                                  [&](hr::index_t done) {
                                    seen.push_back(done);
                                    return done < 3;
                                  }),
                    hr::cancelled);
    CHECK(seen == std::vector<hr::index_t>{0, 1, 2, 3});
    CHECK(red.sentences() == 3);
  }

  TEST_CASE("padded by length or by mask, on any side, a sentence gives the same bits") {
    const hr::index_t t = 11, longer = 16;
    const auto sample = mixed(2, 4, t, seed());
    hr::cpu be{{.threads = 2}};
    for (const hr::index_t before : {0, 2, 5}) {
      attention_sample padded{2, 4, longer, longer,
                              std::vector<double>(static_cast<std::size_t>(8 * longer * longer), -7.)};
      std::vector<std::uint8_t> mask(static_cast<std::size_t>(longer));
      for (hr::index_t i = 0; i < t; ++i) mask[static_cast<std::size_t>(before + i)] = 1;
      for (hr::index_t h = 0; h < 8; ++h)
        for (hr::index_t i = 0; i < t; ++i)
          std::copy(sample.row(h, i), sample.row(h, i) + t, padded.row(h, before + i) + before);
      for_every_distance([&](const auto& policy) {
        const auto expected = hr::pairwise(be, sample.view(), policy);
        CHECK(hr::pairwise(be, padded.view(), policy, {.query_mask = mask, .key_mask = mask}) == expected);
        if (before == 0) {
          CHECK(hr::pairwise(be, padded.view(), policy, {.length = t}) == expected);
          CHECK(hr::pairwise(be, padded.view(), policy, {.queries = t, .keys = t}) == expected);
        }
        CHECK(hr::pairwise(be, padded.view().narrow(2, before, t).narrow(3, before, t), policy) == expected);
      });
    }
    const std::vector<std::uint8_t> none(static_cast<std::size_t>(t));
    hr::redundancy<hr::cosine, hr::cpu> red{be, {2, 4}};
    CHECK_FALSE(red.add(sample.view(), {.query_mask = none, .key_mask = none}));
    CHECK(red.skipped() == 1);
    // the unbiased form needs four tokens
    hr::redundancy<hr::distance_correlation, hr::cpu> unbiased{be, {2, 4}, {.unbiased = true}};
    CHECK_FALSE(unbiased.add(sample.view(), {.length = 3}));
    CHECK(unbiased.add(mixed(2, 4, 4, seed()).view()));
    CHECK(unbiased.skipped() == 1);
  }

  TEST_CASE("layers with different numbers of heads") {
    hr::cpu be{{.threads = 2}};
    const auto sample = mixed(1, 18, 9, seed());
    const auto whole = sample.view()[0];  // (18,T,S)
    const std::vector<hr::tensor_view<const double, 3>> layers{whole.narrow(0, 0, 5), whole.narrow(0, 5, 1),
                                                               whole.narrow(0, 6, 0), whole.narrow(0, 6, 12)};
    for_every_distance([&](const auto& policy) {
      accumulator<decltype(policy)> red{be, hr::head_layout(std::vector<hr::index_t>{5, 1, 0, 12})};
      CHECK(red.add(std::span<const hr::tensor_view<const double, 3>>(layers)));
      CHECK(red.last() == hr::pairwise(be, sample.view(), policy));
      CHECK(red.layout().flat({3, 0}) == 6);
    });
    hr::redundancy<hr::cosine, hr::cpu> red{be, hr::head_layout(std::vector<hr::index_t>{5, 1, 0, 11})};
    CHECK_THROWS_WITH_AS(red.add(std::span<const hr::tensor_view<const double, 3>>(layers)),
                         "attention: layer 3 is (12,9,9), expected 11 heads", hr::shape_error);
  }

  TEST_CASE("elements of any type are widened on read") {
    const auto sample = mixed(1, 9, 10, seed());
    std::vector<hr::float16> half;
    std::vector<hr::bfloat16> bfloat;
    std::vector<std::uint8_t> bytes;
    std::vector<std::uint16_t> words;
    std::vector<std::int32_t> ints;
    for (const double v : sample.values) {
      half.push_back(to_half(v));
      bfloat.push_back(to_bfloat(v));
      words.push_back(static_cast<std::uint16_t>(std::lround(v * 1e4)));
      ints.push_back(static_cast<std::int32_t>(std::lround(v * 1e9)));
    }
    check_storage(sample, sample.narrow(), 1);
    check_storage(sample, half, 1);
    check_storage(sample, words, 1e-4);
    check_storage(sample, ints, 1e-9);
    // bfloat16 keeps 8 bits and uint8 is coarse: rows of few entries, so that the sums stay within 1e-2
    auto coarse = make_sample(sample_kind::random, 1, 5, 6, 2, seed());
    bfloat.clear();
    for (double& v : coarse.values) v = std::round(v * 255) / 255;
    for (std::size_t i = 0; i < coarse.values.size(); i += 2) coarse.values[i + 1] = 1 - coarse.values[i];
    for (const double v : coarse.values) {
      bytes.push_back(static_cast<std::uint8_t>(std::lround(v * 255)));
      bfloat.push_back(to_bfloat(v));
    }
    check_storage(coarse, bytes, 1. / 255);
    check_storage(coarse, bfloat, 1);
    static_assert(std::same_as<hr::default_precision<hr::float16>, float> &&
                  std::same_as<hr::default_precision<std::uint16_t>, float> &&
                  std::same_as<hr::default_precision<std::int32_t>, double> &&
                  std::same_as<hr::default_precision<double>, double>);
  }

  TEST_CASE("strided, column-major, Eigen and xtensor maps give the bits of the packed ones") {
    const hr::index_t t = 7, n = 6;
    const auto sample = mixed(2, 3, t, seed());
    // all axes reversed in memory: (S,T,H,L)
    std::vector<double> turned(sample.values.size());
    const hr::tensor_view<double, 4> backwards(turned.data(), {2, 3, t, t}, {1, 2, 6, 6 * t});
    // with holes: every third element, and from the end
    std::vector<double> holes(sample.values.size() * 3);
    const auto shape = sample.view().shape();
    const hr::tensor_view<double, 4> sparse(holes.data() + (holes.size() - 1), shape,
                                            {-3 * 3 * t * t, -3 * t * t, -3 * t, -3});
    xt::xtensor<double, 4> tensor(std::array<std::size_t, 4>{2, 3, 7, 7});
    for (hr::index_t l = 0; l < 2; ++l)
      for (hr::index_t h = 0; h < 3; ++h)
        for (hr::index_t i = 0; i < t; ++i)
          for (hr::index_t k = 0; k < t; ++k)
            backwards(l, h, i, k) = sparse(l, h, i, k) = tensor(l, h, i, k) = sample.view()(l, h, i, k);
    hr::cpu be{{.threads = 2}};
    for_every_distance([&](const auto& policy) {
      const auto expected = hr::pairwise(be, sample.view(), policy);
      CHECK(hr::pairwise(be, backwards, policy) == expected);
      CHECK(hr::pairwise(be, sparse, policy) == expected);
      CHECK(hr::pairwise(be, tensor, policy) == expected);
      Eigen::MatrixXd columns(t, t);
      Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> rows(t, t);
      for (hr::index_t i = 0; i < t; ++i)
        for (hr::index_t k = 0; k < t; ++k) {
          columns(i, k) = sample.view()(0, 1, i, k);
          rows(i, k) = sample.view()(1, 2, i, k);
        }
      CHECK(hr::distance(be, columns, rows, policy) == expected(1, n - 1));
      CHECK(hr::distance(be, rows, columns, policy) == expected(1, n - 1));
    });
    hr::validate_attention(be, tensor);
  }

  TEST_CASE("a policy of one's own, and plain sums in double") {
    hr::cpu be{{.threads = 3}};
    const auto sample = mixed(2, 4, 6, seed());
    const auto d = hr::pairwise(be, sample.view(), largest_difference{});
    CHECK(d(0, 6) == 0);
    CHECK(d(1, 7) > 0);
    CHECK(d(1, 7) < 1e-5);
    CHECK(d(2, 5) == d(5, 2));
    hr::redundancy<largest_difference, hr::cpu, double> red{be, {2, 4}};
    red.add(sample.view());
    red.add(sample.view());
    CHECK(red.matrix() == d);
  }

  TEST_CASE("fixed sums are exact, commutative and associative") {
    hr::fixed_sum a, b;
    const hr::random_stream random(seed());
    std::vector<double> terms;
    for (std::uint64_t i = 0; i < 1000; ++i)
      terms.push_back(random.uniform(2 * i) * std::exp2(-60 * random.uniform(2 * i + 1)));
    for (const double x : terms) a += x;
    for (std::size_t i = terms.size(); i-- > 0;) b += terms[i];
    CHECK(a == b);
    hr::fixed_sum odd, even;
    for (std::size_t i = 0; i < terms.size(); ++i) (i % 2 == 0 ? even : odd) += terms[i];
    odd += even;
    CHECK(odd == a);
    long double expected = 0;
    for (const double x : terms) expected += x;
    CHECK(a.value() == doctest::Approx(static_cast<double>(expected)).epsilon(1e-15));
    // single terms come back exactly, down to the last bit that fits
    for (const double x : {0., 1., .5, .1, 1. / 3, 0x1p-96, 0x1p-44, std::nextafter(1., 0.)}) {
      hr::fixed_sum one;
      one += x;
      CHECK(one.value() == x);
    }
    hr::fixed_sum below;
    below += 0x1p-97;
    CHECK(below.value() == 0);
    // a carry over both words, and very many terms
    hr::fixed_sum carry(0, ~std::uint64_t{0});
    carry += 0x1p-96;
    CHECK(carry == hr::fixed_sum(1, 0));
    hr::fixed_sum many;
    for (int i = 0; i < 100000; ++i) many += 1.0;
    CHECK(many.value() == 100000);
    CHECK(hr::fixed_sum(many.high(), many.low()) == many);
  }
}
