// Maps so large that products are reduced one at a time, and what reading in the chosen precision must still refuse.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "distance/every_distance.hpp"
#include "environment.hpp"

namespace hr = headred;
using namespace headred_test;

namespace {

template <class Real, class Distance>
void check_large(const Distance& policy, hr::index_t tokens, hr::index_t keys) {
  const hr::index_t heads = 5;
  auto sample = make_sample(sample_kind::random, 1, heads, tokens, keys, seed());
  std::copy(sample.row(1, 0), sample.row(1, 0) + tokens * keys, sample.row(3, 0));  // identical heads
  std::fill(sample.row(4, 0), sample.row(4, 0) + tokens * keys, 1. / static_cast<double>(keys));
  hr::cpu one{{.threads = 1}}, three{{.threads = 3}};
  const auto d = hr::pairwise<Real>(one, sample.view(), policy);
  CHECK(hr::pairwise<Real>(three, sample.view(), policy) == d);
  CHECK(d(1, 3) == 0);
  CHECK(d(0, 4) == 1);
  for (hr::index_t i = 0; i < heads; ++i)
    for (hr::index_t j = i + 1; j < heads; ++j) {
      REQUIRE(d(i, j) == d(j, i));
      CHECK(hr::distance<Real>(three, sample.view()[0][i], sample.view()[0][j], policy) == d(i, j));
    }
  // the last heads first
  auto turned = sample;
  for (hr::index_t h = 0; h < heads; ++h)
    std::copy(sample.row(h, 0), sample.row(h, 0) + tokens * keys, turned.row(heads - 1 - h, 0));
  const auto e = hr::pairwise<Real>(one, turned.view(), policy);
  for (hr::index_t i = 0; i < heads; ++i)
    for (hr::index_t j = 0; j < heads; ++j) REQUIRE(e(i, j) == d(heads - 1 - i, heads - 1 - j));
  // against the other precision
  const auto f = hr::pairwise<double>(one, sample.view(), policy);
  for (hr::index_t i = 0; i < heads; ++i)
    for (hr::index_t j = 0; j < heads; ++j) REQUIRE(std::abs(f(i, j) - d(i, j)) <= 2e-6);
}

}  // namespace

TEST_SUITE("distance") {
  TEST_CASE("matrices reduced one at a time: bits, symmetry, identical and constant maps") {
    for (const auto& [tokens, keys] : {std::array<hr::index_t, 2>{70, 66}, {20, 130}, {131, 129}}) {
      check_large<float>(hr::procrustes{}, tokens, keys);
      check_large<double>(hr::procrustes{}, tokens, keys);
    }
    check_large<float>(hr::canonical_correlation{}, 140, 128);
    check_large<double>(hr::canonical_correlation{}, 70, 66);
  }

  TEST_CASE("one path for a shape: large maps agree with the oracle") {
    hr::cpu be{{.threads = 2}};
    const auto sample = make_sample(sample_kind::random, 1, 2, 72, 66, seed());
    const auto a = wide_map(sample, sample.values.data(), 0), b = wide_map(sample, sample.values.data(), 1);
    const auto expected = static_cast<double>(oracle::distance("procrustes", a, b, {}));
    CHECK(std::abs(hr::pairwise<double>(be, sample.view(), hr::procrustes{})(0, 1) - expected) <= 1e-13);
  }

  TEST_CASE("maps in double read in float: what is not 0 stays so") {
    hr::cpu be{{.threads = 2}};
    const auto sample = make_sample(sample_kind::random, 1, 3, 5, 19, seed());
    for_every_distance([&](const auto& policy) {
      const auto d = hr::pairwise<float>(be, sample.view(), policy);
      auto changed = sample;
      changed.row(1, 2)[7] = -1e-60;  // below everything that a float holds
      CHECK_THROWS_AS((void)hr::pairwise<float>(be, changed.view(), policy), hr::data_error);
      changed = sample;
      std::fill(changed.row(1, 2), changed.row(1, 2) + 19, 1e-60);
      CHECK_THROWS_AS((void)hr::pairwise<float>(be, changed.view(), policy), hr::data_error);
      changed = sample;
      changed.row(2, 4)[3] = std::numeric_limits<double>::max();
      CHECK_THROWS_AS((void)hr::pairwise<float>(be, changed.view(), policy), hr::data_error);
      std::fill(changed.row(2, 4), changed.row(2, 4) + 19, 0.);
      CHECK_NOTHROW((void)hr::pairwise<float>(be, changed.view(), policy));
      (void)d;
    });
  }

  TEST_CASE_TEMPLATE("a sum just within the tolerance is taken in either precision, one just beyond in none", Real,
                     float, double) {
    hr::cpu be{{.threads = 1}};
    for_every_distance([&](const auto& policy) {
      for (const double off : {1e-2 - 1e-9, -1e-2 + 1e-9, 1e-2 + 1e-9, -1e-2 - 1e-9}) {
        auto sample = make_sample(sample_kind::random, 1, 2, 4, 4, seed());
        double* row = sample.row(1, 2);
        row[0] = .25 + off;
        row[1] = row[2] = row[3] = .25;
        if (std::abs(off) < 1e-2) {
          CHECK_NOTHROW((void)hr::pairwise<Real>(be, sample.view(), policy));
        } else {
          CHECK_THROWS_AS((void)hr::pairwise<Real>(be, sample.view(), policy), hr::data_error);
        }
      }
    });
  }

  TEST_CASE("zero rows and constant rows count as documented in blocks of tokens") {
    hr::cpu be{{.threads = 2}};
    const hr::index_t tokens = 21, keys = 12;
    auto sample = make_sample(sample_kind::random, 1, 20, tokens, keys, seed());
    for (const hr::index_t t : {0, 3, 20}) {
      std::fill(sample.row(2, t), sample.row(2, t) + keys, 0.);
      std::fill(sample.row(17, t), sample.row(17, t) + keys, 0.);
      std::fill(sample.row(5, t), sample.row(5, t) + keys, 1. / double(keys));
      std::fill(sample.row(18, t), sample.row(18, t) + keys, 1. / double(keys));
    }
    const auto check = [&](const auto& policy) {
      const std::string name = name_of(policy);
      const auto d = hr::pairwise(be, sample.view(), policy);
      for (const auto& pair : {std::array<hr::index_t, 2>{2, 17}, {2, 5}, {2, 9}, {5, 18}, {5, 9}, {17, 18}, {0, 1}}) {
        const hr::index_t i = pair[0], j = pair[1];
        double sum = 0;
        for (hr::index_t t = 0; t < tokens; ++t) sum += hr::pairwise(be, sample.view().narrow(2, t, 1), policy)(i, j);
        CAPTURE(name);
        CAPTURE(i);
        CAPTURE(j);
        CHECK(d(i, j) == doctest::Approx(sum / double(tokens)).epsilon(1e-12));
      }
    };
    check(hr::cosine{});
    check(hr::pearson{});
    check(hr::jensen_shannon{});
    check(hr::bhattacharyya{});
  }
}
