// How other libraries went wrong on these distances: each kind of input, and the right answer.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "distance/every_distance.hpp"
#include "environment.hpp"

namespace hr = headred;
using namespace headred_test;

namespace {

template <class T, class Distance>
double rows_between(const std::vector<T>& p, const std::vector<T>& q, const Distance& policy) {
  hr::cpu be{{.threads = 1}};
  const auto keys = static_cast<hr::index_t>(p.size());
  return hr::distance(be, hr::tensor_view<const T, 2>(p.data(), {1, keys}),
                      hr::tensor_view<const T, 2>(q.data(), {1, keys}), policy);
}

template <class F>
void for_token_distances(const F& f) {
  f(hr::cosine{});
  f(hr::pearson{});
  f(hr::jensen_shannon{});
  f(hr::bhattacharyya{});
}

template <class T>
std::vector<T> random_row(hr::index_t keys, std::uint64_t seed) {
  const auto sample = make_sample(sample_kind::random, 1, 1, 1, keys, seed);
  return {sample.values.begin(), sample.values.end()};
}

// A distance that breaks the contract.
struct broken {
  static constexpr std::string_view name = "broken";
  static constexpr hr::distance_level level = hr::distance_level::token;
  double operator()(hr::tensor_view<const double, 2>, hr::tensor_view<const double, 2>) const { return -.5; }
};

}  // namespace

TEST_SUITE("distance") {
  TEST_CASE_TEMPLATE("identical rows are at exactly 0, scaled ones at rounding", T, float, double) {
    for (const hr::index_t keys : {1, 2, 3, 7, 16, 33, 128, 1000})
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const auto p = random_row<T>(keys, seed);
        for_token_distances([&](const auto& policy) { REQUIRE(rows_between(p, p, policy) == 0); });
        auto scaled = p;  // the sum may be off by up to 1e-2: renormalised
        for (T& v : scaled) v *= T(1 + 0x1p-7);
        for_token_distances([&](const auto& policy) {
          const double d = rows_between(p, scaled, policy);
          REQUIRE(d >= 0);
          REQUIRE(d <= (sizeof(T) == 8 ? 1e-14 : 1e-6));
        });
      }
  }

  TEST_CASE("three times a row is no attention row") {
    const auto p = random_row<double>(16, 1);
    auto q = p;
    for (double& v : q) v *= 3;
    for_token_distances([&](const auto& policy) {
      CHECK_THROWS_WITH_AS(
          rows_between(p, q, policy),
          "layer 1, head 0, row 0: attention: the row sums to 3.000000, expected 1 within 0.01 (or a row "
          "of zeros)",
          hr::data_error);
    });
  }

  TEST_CASE("rows one rounding apart") {
    const double x = std::nextafter(.5, 0);
    const std::vector<double> p{x, 1 - x}, q{1 - x, x};
    const double js = rows_between(p, q, hr::jensen_shannon{});
    CHECK(js * js * std::log(2.) == doctest::Approx(1.5407439555097887e-33).epsilon(1e-9));
    for_token_distances([&](const auto& policy) {
      const double d = rows_between(p, q, policy);
      CHECK(std::isfinite(d));
      CHECK(d >= 0);
      // r of two rows of two entries is -1 or 1, however close the rows; these two count as constant
      CHECK(d < 1e-15);
    });
  }

  TEST_CASE("the smallest number of all") {
    const double tiny = std::numeric_limits<double>::denorm_min();
    for_token_distances([&](const auto& policy) {
      const double d = rows_between<double>({0, 1}, {tiny, 1}, policy);
      CHECK(std::isfinite(d));
      CHECK(d >= 0);
      CHECK(d < 1e-100);
    });
  }

  TEST_CASE_TEMPLATE("disjoint rows are at distance 1", T, float, double) {
    for (const hr::index_t keys : {2, 3, 17, 128}) {
      std::vector<T> p(static_cast<std::size_t>(keys)), q = p;
      p.front() = 1;
      q.back() = 1;
      CHECK(rows_between(p, q, hr::jensen_shannon{}) == 1);
      CHECK(rows_between(p, q, hr::bhattacharyya{}) == 1);
      CHECK(rows_between(p, q, hr::cosine{}) == 1);
    }
    std::vector<T> half(4), other(4);  // filled by hand: g++ 12 -O2 -march=native puts .5 into all of {.5, .5, 0, 0}
    half[0] = half[1] = T(.5);
    other[2] = T(.25);
    other[3] = T(.75);
    CHECK(rows_between(half, other, hr::jensen_shannon{}) == doctest::Approx(1).epsilon(sizeof(T) == 8 ? 1e-14 : 3e-7));
    CHECK(rows_between(half, other, hr::bhattacharyya{}) == 1);
  }

  TEST_CASE_TEMPLATE("zero coordinates and zero rows", T, float, double) {
    const std::vector<T> p{T(.5), 0, T(.5), 0}, q{T(.25), 0, T(.75), 0}, zero(4);
    // a coordinate in which both are zero contributes nothing
    const std::vector<T> p2{T(.5), T(.5)}, q2{T(.25), T(.75)};
    for (const auto& [with, without] :
         {std::pair{rows_between(p, q, hr::jensen_shannon{}), rows_between(p2, q2, hr::jensen_shannon{})},
          std::pair{rows_between(p, q, hr::bhattacharyya{}), rows_between(p2, q2, hr::bhattacharyya{})},
          std::pair{rows_between(p, q, hr::cosine{}), rows_between(p2, q2, hr::cosine{})}})
      CHECK(with == doctest::Approx(without).epsilon(sizeof(T) == 8 ? 1e-14 : 1e-6));
    for_token_distances([&](const auto& policy) {
      CHECK(rows_between(zero, zero, policy) == 0);
      CHECK(rows_between(p, zero, policy) == 1);
      CHECK(rows_between(zero, p, policy) == 1);
      CHECK(std::isfinite(rows_between(p, q, policy)));
    });
    // zero rows come before constant ones
    const std::vector<T> uniform(4, T(.25));
    CHECK(rows_between(zero, uniform, hr::pearson{}) == 1);
  }

  TEST_CASE("negative, infinite and missing numbers are errors that name layer, head, row and key") {
    hr::cpu be{{.threads = 2}};
    for (const double bad : {-1e-9, -1., std::nan(""), std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity()}) {
      auto sample = make_sample(sample_kind::random, 2, 3, 4, 5, 1);
      sample.row(4, 2)[3] = bad;  // layer 1, head 1
      const std::string start = "layer 1, head 1, row 2: attention: key 3 is ", end = ", expected a number >= 0";
      const auto check = [&](const auto& call) {
        try {
          call();
          FAIL("accepted ", bad);
        } catch (const hr::data_error& e) {
          const std::string text = e.what();
          CHECK(text.substr(0, start.size()) == start);
          CHECK(text.substr(text.size() - end.size()) == end);
          CHECK(e.where().layer == 1);
          CHECK(e.where().head == 1);
          CHECK(e.where().row == 2);
        }
      };
      check([&] { hr::validate_attention(be, sample.view()); });
      for_every_distance([&](const auto& policy) {
        check([&] { (void)hr::pairwise(be, sample.view(), policy); });
        hr::redundancy<std::decay_t<decltype(policy)>, hr::cpu> red{be, {2, 3}};
        check([&] { red.add(sample.view()); });
        CHECK(red.sentences() == 0);
      });
    }
  }

  TEST_CASE("row sums: 1e-2 off is an error, 4 decimals are renormalised") {
    hr::cpu be{{.threads = 1}};
    auto sample = make_sample(sample_kind::random, 1, 2, 4, 8, 1);
    for (hr::index_t k = 0; k < 8; ++k) sample.row(1, 3)[k] *= 1.011;
    CHECK_THROWS_WITH_AS(
        hr::validate_attention(be, sample.view()),
        "layer 0, head 1, row 3: attention: the row sums to 1.011000, expected 1 within 0.01 (or a row of "
        "zeros)",
        hr::data_error);
    for (hr::index_t k = 0; k < 8; ++k) sample.row(1, 3)[k] *= .98 / 1.011;
    CHECK_THROWS_AS(hr::validate_attention(be, sample.view()), hr::data_error);
    for (hr::index_t k = 0; k < 8; ++k) sample.row(1, 3)[k] *= 1.009 / .98;
    CHECK_NOTHROW(hr::validate_attention(be, sample.view()));
    auto rounded = sample;
    for (double& v : rounded.values) v = std::round(v * 1e4) * 1e-4;
    for_every_distance([&](const auto& policy) {
      const auto d = hr::pairwise(be, sample.view(), policy), e = hr::pairwise(be, rounded.view(), policy);
      CHECK(std::abs(d(0, 1) - e(0, 1)) < 2e-3);
    });
    // the lowest offending head is named, whatever the number of threads
    auto two = make_sample(sample_kind::random, 2, 8, 4, 8, 1);
    two.row(3, 1)[0] = -1;
    two.row(12, 0)[0] = -1;
    for (const int threads : {1, 4}) {
      hr::cpu pool{{.threads = threads}};
      CHECK_THROWS_WITH_AS(hr::validate_attention(pool, two.view()),
                           "layer 0, head 3, row 1: attention: key 0 is -1, expected a number >= 0", hr::data_error);
    }
  }

  TEST_CASE("near-identical rows keep their relative accuracy") {
    for (const double perturbation : {1e-1, 1e-3, 1e-5, 1e-7, 1e-9})
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const auto p = random_row<double>(128, seed), noise = random_row<double>(128, seed + 1000);
        auto q = p;
        double sum = 0;
        for (std::size_t k = 0; k < 128; ++k) sum += q[k] *= 1 + perturbation * (noise[k] * 64 - .5);
        for (double& v : q) v /= sum;
        oracle::wide_matrix a(1, 128), b(1, 128);
        for (int k = 0; k < 128; ++k) {
          a(0, k) = static_cast<long double>(p[static_cast<std::size_t>(k)]);
          b(0, k) = static_cast<long double>(q[static_cast<std::size_t>(k)]);
        }
        for_token_distances([&](const auto& policy) {
          const auto expected = static_cast<double>(oracle::distance(name_of(policy), a, b));
          CHECK(std::abs(rows_between(p, q, policy) / expected - 1) < 1e-12);
        });
      }
  }

  TEST_CASE_TEMPLATE("cosine and Bhattacharyya never leave [0,1]", T, float, double) {
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
      const auto p = random_row<T>(1 + static_cast<hr::index_t>(seed % 100), seed);
      auto q = p;
      q[0] = std::nextafter(q[0], T(1));
      for_token_distances([&](const auto& policy) {
        const double d = rows_between(p, q, policy);
        REQUIRE(d >= 0);
        REQUIRE(d <= 1);
        REQUIRE(d == rows_between(q, p, policy));
      });
    }
  }

  TEST_CASE_TEMPLATE("Pearson of constant rows, also constant only up to rounding", T, float, double) {
    for (const hr::index_t keys : {2, 3, 7, 10, 128, 1000}) {
      const std::vector<T> uniform(static_cast<std::size_t>(keys), T(1) / static_cast<T>(keys));
      auto almost = uniform;
      for (std::size_t k = 0; k < almost.size(); k += 2) almost[k] = std::nextafter(almost[k], T(1));
      auto p = random_row<T>(keys, 5);
      CHECK(rows_between(uniform, uniform, hr::pearson{}) == 0);
      CHECK(rows_between(uniform, almost, hr::pearson{}) == 0);
      CHECK(rows_between(almost, p, hr::pearson{}) == .5);
      CHECK(rows_between(p, uniform, hr::pearson{}) == .5);
    }
    CHECK(rows_between<T>({T(1)}, {T(1)}, hr::pearson{}) == 0);
  }

  TEST_CASE("distance correlation stays in [0,1]; constant maps count as documented") {
    hr::cpu be{{.threads = 2}};
    // every row on a key of its own, in another order: equal up to a permutation of keys
    const hr::index_t t = 40;
    attention_sample sample{1, 4, t, t, std::vector<double>(static_cast<std::size_t>(4 * t * t))};
    for (hr::index_t i = 0; i < t; ++i) {
      sample.row(0, i)[i] = 1;
      sample.row(1, i)[(i * 7 + 3) % t] = 1;
      sample.row(2, i)[5] = 1;                                                   // all rows equal
      for (hr::index_t k = 0; k < t; ++k) sample.row(3, i)[k] = 1. / double(t);  // likewise
    }
    const auto d = hr::pairwise(be, sample.view(), hr::distance_correlation{});
    CHECK(d(0, 1) < 1e-15);
    CHECK(d(0, 2) == 1);
    CHECK(d(2, 3) == 0);
    for (const auto kind : {sample_kind::one_hot, sample_kind::near_one_hot, sample_kind::rank_deficient}) {
      const auto other = make_sample(kind, 1, 12, 30, 30, seed());
      const auto e = hr::pairwise(be, other.view(), hr::distance_correlation{});
      for (hr::index_t i = 0; i < 144; ++i) {
        CHECK(e.data()[i] >= 0);
        CHECK(e.data()[i] <= 1);
      }
    }
  }

  TEST_CASE("canonical correlation: identical, degenerate and rank-deficient maps") {
    hr::cpu be{{.threads = 2}};
    for (const auto kind : all_sample_kinds)
      for (const hr::index_t t : {1, 2, 3, 8, 20}) {
        auto sample = make_sample(kind, 1, 5, t, t, seed());
        for (hr::index_t r = 0; r < t; ++r) std::copy(sample.row(0, r), sample.row(0, r) + t, sample.row(4, r));
        if (t > 2)  // a duplicate column: the covariance loses one more rank
          for (hr::index_t r = 0; r < t; ++r)
            sample.row(3, r)[0] = sample.row(3, r)[1] = (sample.row(3, r)[0] + sample.row(3, r)[1]) / 2;
        for (const auto whitening : {hr::whitening::ridge, hr::whitening::half_dof, hr::whitening::truncated}) {
          const auto d = hr::pairwise(be, sample.view(), hr::canonical_correlation{.kind = whitening});
          CHECK(d(0, 4) == 0);
          for (hr::index_t i = 0; i < 25; ++i) {
            CHECK(d.data()[i] >= 0);
            CHECK(d.data()[i] <= 1);
          }
        }
      }
  }

  TEST_CASE("Procrustes sees no rotation, reflection, shift or scaling") {
    hr::cpu be{{.threads = 2}};
    const hr::index_t t = 16;
    const auto base = make_sample(sample_kind::random, 1, 1, t, t, seed());
    attention_sample sample{1, 5, t, t, std::vector<double>(static_cast<std::size_t>(5 * t * t))};
    for (hr::index_t r = 0; r < t; ++r)
      for (hr::index_t k = 0; k < t; ++k) {
        const double v = base.row(0, r)[k];
        sample.row(0, r)[k] = v;
        sample.row(1, r)[(k + 1) % t] = v;              // a rotation of the keys: determinant -1
        sample.row(2, r)[t - 1 - k] = v;                // a reflection
        sample.row(3, r)[k] = .5 * v + .5 / double(t);  // scaled and shifted
        sample.row(4, r)[k] = .25 * base.row(0, r)[(k + 3) % t] + (k == 2 ? .75 : 0);  // all of it
      }
    for (const bool squared : {false, true}) {
      const auto d = hr::pairwise(be, sample.view(), hr::procrustes{.squared = squared});
      for (hr::index_t i = 0; i < 5; ++i)
        for (hr::index_t j = 0; j < 5; ++j) {
          CHECK(d(i, j) < 1e-28);
          CHECK(d(i, j) == d(j, i));
        }
    }
  }

  TEST_CASE("one token, all-zero maps, and maps with all rows equal") {
    hr::cpu be{{.threads = 1}};
    for_every_distance([&](const auto& policy) {
      const auto one = make_sample(sample_kind::random, 1, 3, 1, 1, 1);
      CHECK(hr::pairwise(be, one.view(), policy)(0, 1) == 0);
      attention_sample zero{1, 3, 4, 4, std::vector<double>(48)};
      zero.values[32] = zero.values[37] = zero.values[42] = zero.values[47] = 1;  // head 2 is the identity
      const auto d = hr::pairwise(be, zero.view(), policy);
      CHECK(d(0, 1) == 0);
      CHECK(d(0, 2) == 1);
      CHECK(d(2, 1) == 1);
      hr::redundancy<std::decay_t<decltype(policy)>, hr::cpu> red{be, {1, 3}};
      CHECK_FALSE(red.add(zero.view(), {.length = 0}));
      CHECK(red.skipped() == 1);
      CHECK_THROWS_WITH_AS(red.matrix(), "redundancy: no sentence was added (1 skipped)", hr::argument_error);
      CHECK_THROWS_AS(hr::pairwise(be, zero.view(), policy, {.length = 0}), hr::shape_error);
    });
    // a single query of many keys: token distances exist, the others have nothing to compare
    const auto line = make_sample(sample_kind::random, 1, 2, 1, 9, 1);
    CHECK(hr::pairwise(be, line.view(), hr::cosine{})(0, 1) > 0);
    CHECK(hr::pairwise(be, line.view(), hr::procrustes{})(0, 1) == 0);
    CHECK(hr::pairwise(be, line.view(), hr::distance_correlation{})(0, 1) == 0);
    CHECK(hr::pairwise(be, line.view(), hr::canonical_correlation{})(0, 1) == 0);
  }

  TEST_CASE("token and sentence level carry different names") {
    std::vector<std::string> names;
    int tokens = 0;
    for_every_distance([&](const auto& policy) {
      names.push_back(name_of(policy));
      tokens += policy.level == hr::distance_level::token ? 1 : 0;
    });
    CHECK(tokens == 4);
    CHECK(names == std::vector<std::string>{"cosine", "pearson", "jensen_shannon", "bhattacharyya",
                                            "distance_correlation", "procrustes", "canonical_correlation"});
    CHECK(to_string(hr::distance_level::token) == "token");
    CHECK(to_string(hr::distance_level::sentence) == "sentence");
  }

  TEST_CASE("shapes that do not fit are named") {
    hr::cpu be{{.threads = 1}};
    const auto a = make_sample(sample_kind::random, 1, 1, 4, 4, 1), b = make_sample(sample_kind::random, 1, 1, 5, 5, 1);
    CHECK_THROWS_WITH_AS(hr::distance(be, a.view()[0][0], b.view()[0][0], hr::cosine{}),
                         "cosine: b is (5,5), expected (4,4)", hr::shape_error);
    const auto s = make_sample(sample_kind::random, 2, 3, 4, 4, 1);
    hr::redundancy<hr::cosine, hr::cpu> red{be, {2, 4}};
    CHECK_THROWS_WITH_AS(red.add(s.view()), "attention: layer 0 is (3,4,4), expected 4 heads", hr::shape_error);
    hr::redundancy<hr::cosine, hr::cpu> layers{be, {3, 3}};
    CHECK_THROWS_WITH_AS(layers.add(s.view()), "attention: 2 layers, expected 3", hr::shape_error);
    hr::redundancy<hr::cosine, hr::cpu> good{be, {2, 3}};
    CHECK_THROWS_WITH_AS(good.add(s.view(), {.length = 5}), "attention: 5 valid queries, expected 0 to 4",
                         hr::shape_error);
    CHECK_THROWS_AS(good.add(s.view(), {.length = -2}), hr::shape_error);
    CHECK_THROWS_WITH_AS(good.add(s.view(), {.keys = 9}), "attention: 9 valid keys, expected 0 to 4", hr::shape_error);
    const std::vector<std::uint8_t> mask(3, 1);
    CHECK_THROWS_WITH_AS(good.add(s.view(), {.key_mask = mask}),
                         "attention: the mask of the keys has 3 entries, expected 4", hr::shape_error);
    CHECK_THROWS_WITH_AS(good.add(s.view(), {.scale = 0}), "attention: scale is 0.000000, expected a positive number",
                         hr::argument_error);
    CHECK_THROWS_AS(good.add(s.view(), {.scale = std::nan("")}), hr::argument_error);
    CHECK(good.sentences() == 0);
    CHECK_THROWS_WITH_AS((hr::redundancy<hr::cosine, hr::cpu>{be, {0, 4}}), "redundancy: the layout holds no head",
                         hr::argument_error);
  }

  TEST_CASE("a distance of one's own outside [0,1], sizes beyond memory, options out of range") {
    hr::cpu be;
    const double one = 1;
    const hr::tensor_view<const double, 4> small(&one, {1, 2, 1, 1}, {0, 0, 0, 0});
    CHECK_THROWS_WITH_AS(hr::pairwise(be, small, broken{}),
                         "broken: the distance of heads 0 and 1 is -0.5, expected a number in [0,1]",
                         hr::argument_error);
    const hr::index_t big = hr::index_t{1} << 31, bigger = hr::index_t{1} << 60;
    CHECK_THROWS_AS(
        hr::pairwise(be, hr::tensor_view<const double, 4>(&one, {1, 2, big, big}, {0, 0, 0, 0}), hr::procrustes{}),
        hr::shape_error);
    CHECK_THROWS_AS(
        hr::pairwise(be, hr::tensor_view<const double, 4>(&one, {1, 2, 1, bigger}, {0, 0, 0, 0}), hr::cosine{}),
        hr::shape_error);
    for (const double lambda : {0., -1., 1e-310, 1e308, std::numeric_limits<double>::infinity(), std::nan("")})
      CHECK_THROWS_AS(hr::pairwise(be, small, hr::canonical_correlation{.lambda = lambda}), hr::argument_error);
    const hr::canonical_correlation a{.lambda = 1e-7}, b{.lambda = 3e-7};
    CHECK(a.settings() != b.settings());
    CHECK_THROWS_AS(hr::pairwise(be, small, hr::cosine{}, {.sum_tolerance = std::nan("")}), hr::argument_error);
  }
}
