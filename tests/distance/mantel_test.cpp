#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

#include <headred/backend/cpu.hpp>
#include <headred/distance/mantel.hpp>

#include "environment.hpp"
#include "oracle/compare.hpp"
#include "oracle/npy_matrix.hpp"
#include "oracle/random_distances.hpp"

namespace hr = headred;
using headred_test::oracle::random_distances;

namespace {

hr::matrix mixed(const hr::matrix& a, const hr::matrix& b, double share) {
  hr::matrix m(a.rows(), a.cols());
  for (hr::index_t i = 0; i < m.rows(); ++i)
    for (hr::index_t j = 0; j < m.cols(); ++j) m(i, j) = share * a(i, j) + (1 - share) * b(i, j);
  return m;
}

// The same test with every one of the N! orders instead of a sample.
double exact_p(const hr::matrix& a, const hr::matrix& b) {
  auto order = headred_test::oracle::identity(a.rows());
  const long double observed = headred_test::oracle::correlation(a, b);
  double orders = 0, extreme = 0;
  do {
    ++orders;
    extreme += headred_test::oracle::correlation(a, b, order) >= observed - 1e-12L;
  } while (std::next_permutation(order.begin(), order.end()));
  return extreme / orders;
}

}  // namespace

TEST_SUITE("distance") {
  TEST_CASE("mantel: counts exactly the permutations that the oracle counts") {
    hr::cpu be{{.threads = 2}};
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      const auto n = static_cast<hr::index_t>(3 + seed);
      const auto a = random_distances(n, headred_test::seed() + seed);
      const auto b = mixed(a, random_distances(n, seed + 99), 0.2);
      const auto m = hr::mantel(be, a, b, {.permutations = 99, .seed = seed});
      const auto count = headred_test::oracle::permutations_at_least(a, b, 99, seed);
      CAPTURE(seed);
      CHECK(m.p_value == (1 + static_cast<double>(count)) / 100);
      CHECK(m.correlation == hr::correlation(a, b).value);
      CHECK(m.permutations == 99);
      CHECK(m.status == hr::status::converged);
    }
  }

  TEST_CASE("mantel: bit-identical for any number of threads, other seeds draw other orders") {
    const auto a = random_distances(40, 1), b = mixed(a, random_distances(40, 2), 0.03);
    hr::cpu one{{.threads = 1}};
    const auto reference = hr::mantel(one, a, b, {.permutations = 500, .seed = 4});
    for (const int threads : {2, 3, 7}) {
      hr::cpu be{{.threads = threads}};
      CHECK(hr::mantel(be, a, b, {.permutations = 500, .seed = 4}).p_value == reference.p_value);
    }
    bool other = false;
    for (std::uint64_t seed = 5; seed < 9; ++seed)
      other = other || hr::mantel(one, a, b, {.permutations = 500, .seed = seed}).p_value != reference.p_value;
    CHECK(other);
  }

  TEST_CASE("mantel: converges to the exact p-value of all orders") {
    hr::cpu be{{.threads = 2}};
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const auto a = random_distances(6, seed), b = mixed(a, random_distances(6, seed + 50), 0.4);
      const double exact = exact_p(a, b);
      const hr::index_t n = 20000;
      const double p = hr::mantel(be, a, b, {.permutations = n, .seed = seed}).p_value;
      CAPTURE(exact);
      CHECK(std::abs(p - exact) <= 5 * std::sqrt(exact * (1 - exact) / n) + 2.0 / n);
    }
  }

  TEST_CASE("mantel: orders that only swap twin heads count, whatever the rounding") {
    hr::cpu be{{.threads = 1}};
    // heads 0 and 1 are twins: 2 of the 6 orders leave the matrix as it is
    hr::matrix d(3, 3);
    d(0, 2) = d(2, 0) = d(1, 2) = d(2, 1) = 0.3;
    const double p = hr::mantel(be, d, d, {.permutations = 30000}).p_value;
    CHECK(p == doctest::Approx(1.0 / 3).epsilon(0.03));
    // two families of 15: an order that mixes them gives less
    hr::matrix two(30, 30);
    for (int i = 0; i < 30; ++i)
      for (int j = 0; j < 30; ++j) two(i, j) = i / 15 == j / 15 ? 0.1 : 0.7;
    CHECK(hr::mantel(be, two, two, {.permutations = 199}).p_value == 1.0 / 200);
    hr::matrix star(30, 30);  // head 0 far from all others: an order that keeps head 0 in place changes nothing
    for (int j = 1; j < 30; ++j) star(0, j) = star(j, 0) = 0.9;
    const double fixed = hr::mantel(be, star, star, {.permutations = 9999}).p_value;
    CHECK(fixed == doctest::Approx(1.0 / 30).epsilon(0.2));
  }

  TEST_CASE("mantel: tails") {
    hr::cpu be{{.threads = 1}};
    const auto a = random_distances(20, 3);
    auto opposite = a;
    for (int i = 0; i < 20; ++i)
      for (int j = 0; j < 20; ++j) opposite(i, j) = 1 - a(i, j);
    using hr::mantel_tail;
    CHECK(hr::mantel(be, a, a, {.permutations = 99}).p_value == 0.01);
    CHECK(hr::mantel(be, a, a, {.permutations = 99, .tail = mantel_tail::less}).p_value == 1);
    CHECK(hr::mantel(be, a, a, {.permutations = 99, .tail = mantel_tail::two_sided}).p_value == 0.01);
    CHECK(hr::mantel(be, a, opposite, {.permutations = 99}).p_value == 1);
    CHECK(hr::mantel(be, a, opposite, {.permutations = 99, .tail = mantel_tail::less}).p_value == 0.01);
    CHECK(hr::mantel(be, a, opposite, {.permutations = 99, .tail = mantel_tail::two_sided}).p_value == 0.01);
    // greater and less share the observed order and no other, when nothing ties
    const auto b = random_distances(20, 4);
    const double greater = hr::mantel(be, a, b, {.permutations = 99}).p_value;
    const double less = hr::mantel(be, a, b, {.permutations = 99, .tail = mantel_tail::less}).p_value;
    CHECK(greater + less == doctest::Approx(1.01).epsilon(1e-12));
  }

  TEST_CASE("mantel: independent matrices are found significant as often as chance says") {
    hr::cpu be{{.threads = 2}};
    int below_tenth = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed)
      below_tenth += hr::mantel(be, random_distances(10, 2 * seed), random_distances(10, 2 * seed + 1),
                                {.permutations = 99, .seed = seed})
                         .p_value <= 0.1;
    CHECK(below_tenth >= 30 - 21);  // 4 standard deviations of Binomial(300, 0.1)
    CHECK(below_tenth <= 30 + 21);
  }

  TEST_CASE("mantel: matrices that do not vary, and bad arguments") {
    hr::cpu be{{.threads = 1}};
    const auto a = random_distances(5, 1);
    const auto m = hr::mantel(be, a, hr::matrix(5, 5));
    CHECK(m.status == hr::status::undefined);
    CHECK(m.correlation == 0);
    CHECK(m.p_value == 1);
    CHECK(hr::mantel(be, hr::matrix(), hr::matrix()).p_value == 1);
    CHECK_THROWS_WITH_AS(hr::mantel(be, a, a, {.permutations = 0}), "mantel: permutations is 0, expected at least 1",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::mantel(be, a, hr::matrix(4, 4)), "mantel: b is (4,4), expected (5,5)", hr::shape_error);
  }

  TEST_CASE("mantel: 144 heads and 999 permutations in well under a second") {
    hr::cpu be{{.threads = 1}};
    const auto a = random_distances(144, 1), b = random_distances(144, 2);
    const auto start = std::chrono::steady_clock::now();
    const auto m = hr::mantel(be, a, b);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    MESSAGE("seconds on one thread: " << taken.count());
    CHECK(m.permutations == 999);
    CHECK(taken.count() < 5);  // loose: sanitizer builds run this too
  }
}

TEST_SUITE("real") {
  TEST_CASE("mantel: distances that agree on BERT-base do so beyond chance") {
    const auto folder = headred_test::shared_dir() / "oracles" / "bert_base_sst2" / "all";
    if (headred_test::shared_dir().empty() || !std::filesystem::exists(folder))
      return headred_test::leave_out("no reference matrices of BERT-base");
    hr::cpu be{{.threads = 2}};
    const auto js = headred_test::oracle::npy_matrix(folder / "jensen_shannon.npy");
    const auto cosine = headred_test::oracle::npy_matrix(folder / "cosine.npy");
    const auto m = hr::mantel(be, js, cosine);
    CHECK(m.correlation == doctest::Approx(0.935).epsilon(0.001));
    CHECK(m.p_value == 0.001);
  }
}
