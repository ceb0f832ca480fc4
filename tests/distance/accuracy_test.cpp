// Every distance against the long double oracle, on every kind of map. With HEADRED_PRINT_ACCURACY set the worst errors
// are printed as the table of docs/numerics.md.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <limits>
#include <map>
#include <sstream>

#include "distance/every_distance.hpp"
#include "environment.hpp"
#include "oracle/matrix_distances.hpp"
#include "oracle/twin_samples.hpp"

namespace hr = headred;
using namespace headred_test;

namespace {

struct worst {
  double relative = 0, absolute = 0;
};
// [distance][kind], f64 and f32
std::map<std::string, std::map<std::string, std::array<worst, 2>>> worst_errors;

bool compares_matrices(const std::string& name) { return name == "procrustes" || name == "canonical_correlation"; }

// What a distance that is 0 in exact arithmetic may come out as: the square of the rounding in its normalised, centred
// input (or that rounding, where a root is taken). Procrustes and canonical correlation are computed with twice the digits
// where maps are close; 1e-30 is what 32 digits of their oracle leave.
double floor_of(const std::string& name) {
  if (compares_matrices(name)) return 1e-30;
  return name == "jensen_shannon" || name == "bhattacharyya" ? 2e-13 : 2e-24;
}

double expected_distance(const std::string& name, const oracle::wide_matrix& a, const oracle::wide_matrix& b,
                         const oracle::distance_options& options) {
  if (compares_matrices(name)) return oracle::matrix_distance(name, a, b, options);
  return static_cast<double>(oracle::distance(name, a, b, options));
}

template <class Real, class Distance>
void compare(hr::cpu& be, const Distance& policy, const attention_sample& sample, const char* label,
             oracle::distance_options options, hr::index_t most_pairs) {
  const std::string name = name_of(policy);
  options.epsilon = std::numeric_limits<Real>::epsilon();
  const std::vector<Real> values(sample.values.begin(), sample.values.end());
  const hr::tensor_view<const Real, 4> view(values.data(), sample.view().shape());
  const hr::matrix d = hr::pairwise(be, view, policy);
  worst& record = worst_errors[name][label][sizeof(Real) == 8 ? 0 : 1];
  const double limit = compares_matrices(name) ? 1e-8 : 1e-10;
  const hr::index_t heads = sample.size(), pairs = heads * (heads - 1) / 2;
  const hr::index_t step = std::max<hr::index_t>(1, pairs / most_pairs);
  hr::index_t pair = 0;
  for (hr::index_t i = 0; i < heads; ++i) {
    REQUIRE(d(i, i) == 0);
    for (hr::index_t j = i + 1; j < heads; ++j) {
      REQUIRE(d(i, j) == d(j, i));
      REQUIRE(d(i, j) >= 0);
      REQUIRE(d(i, j) <= 1);
      if (pair++ % step != 0) continue;
      const auto a = wide_map(sample, values.data(), i), b = wide_map(sample, values.data(), j);
      if (a == b) {
        REQUIRE(d(i, j) == 0);
        continue;
      }
      const double expected = expected_distance(name, a, b, options);
      const double error = std::abs(d(i, j) - expected);
      const double relative = expected * limit < floor_of(name) ? 0 : error / expected;
      record.absolute = std::max(record.absolute, error);
      const auto at = [&] {
        return name + ", " + label + ", " + (sizeof(Real) == 8 ? "f64" : "f32") + ", T " +
               std::to_string(sample.queries) + ", S " + std::to_string(sample.keys) + ", heads " +
               std::to_string(heads) + ", pair " + std::to_string(i) + " " + std::to_string(j) + ": " +
               std::to_string(d(i, j)) + " for " + std::to_string(expected);
      };
      if constexpr (sizeof(Real) == 8) {
        record.relative = std::max(record.relative, relative);
        CHECK_MESSAGE(error <= limit * expected + floor_of(name), at(), ", relative error ", relative,
                      ", absolute error ", error, ", expected ", expected);
      } else {
        if (expected > 1e-6) record.relative = std::max(record.relative, relative);
        CHECK_MESSAGE(error <= 2e-6, at(), ", absolute error ", error);
        if (expected > 1e-6)
          CHECK_MESSAGE(relative <= 1e-3, at(), ", relative error ", relative, ", expected ", expected);
      }
    }
  }
}

template <class Distance>
void compare_all(hr::cpu& be, const Distance& policy, sample_kind kind, hr::index_t heads, hr::index_t queries,
                 hr::index_t keys, oracle::distance_options options = {}, hr::index_t most_pairs = 12,
                 const char* label = nullptr) {
  const auto sample = make_sample(kind, 1, heads, queries, keys, seed() + static_cast<std::uint64_t>(queries));
  compare<double>(be, policy, sample, label != nullptr ? label : to_string(kind), options, most_pairs);
  compare<float>(be, policy, sample, label != nullptr ? label : to_string(kind), options, most_pairs);
}

void print_table() {
  std::cout
      << "| distance | input | f64 relative | f64 absolute | f32 relative | f32 absolute |\n|---|---|---|---|---|---|\n"
      << std::scientific << std::setprecision(1);
  for (const auto& [name, kinds] : worst_errors)
    for (const auto& [kind, w] : kinds)
      std::cout << "| " << name << " | " << kind << " | " << w[0].relative << " | " << w[0].absolute << " | "
                << w[1].relative << " | " << w[1].absolute << " |\n";
}

}  // namespace

TEST_SUITE("distance") {
  TEST_CASE("all distances agree with the oracle on all kinds of maps") {
    hr::cpu be{{.threads = 2}};
    constexpr std::array<hr::index_t, 8> tokens{1, 2, 3, 5, 8, 16, 31, 64};
    constexpr std::array<hr::index_t, 8> heads{2, 144, 7, 33, 16, 3, 7, 3};
    for (const sample_kind kind : all_sample_kinds)
      for (std::size_t i = 0; i < tokens.size(); ++i)
        for_every_distance([&](const auto& policy) {
          const bool matrices = compares_matrices(name_of(policy));
          const hr::index_t most = matrices ? (tokens[i] > 40 ? 1 : tokens[i] > 20 ? 3 : 8) : 12;
          compare_all(be, policy, kind, heads[i], tokens[i], tokens[i], {}, most);
        });
  }

  TEST_CASE("128 tokens, and cross-attention of other shapes") {
    hr::cpu be{{.threads = 2}};
    for_every_distance([&](const auto& policy) {
      if (!compares_matrices(name_of(policy))) {
        compare_all(be, policy, sample_kind::random, 16, 128, 128, {}, 4);
        compare_all(be, policy, sample_kind::same_key, 16, 128, 128, {}, 4);
        compare_all(be, policy, sample_kind::twins_1e6, 16, 128, 128, {}, 4);
        compare_all(be, policy, sample_kind::near_uniform, 33, 4, 512, {}, 12);
      }
      compare_all(be, policy, sample_kind::random, 7, 9, 4, {}, 12);
      compare_all(be, policy, sample_kind::random, 7, 4, 9, {}, 12);
      compare_all(be, policy, sample_kind::random, 3, 1, 9, {}, 12);
      compare_all(be, policy, sample_kind::random, 3, 9, 1, {}, 12);
    });
  }

  TEST_CASE("procrustes and canonical correlation of twins, however close") {
    hr::cpu be{{.threads = 2}};
    const auto twins = [&](const auto& policy, sample_kind kind, double size, hr::index_t queries, hr::index_t keys,
                           hr::index_t heads, const oracle::distance_options& options = {}) {
      std::ostringstream label;
      label << "twins of " << to_string(kind) << " at " << size;
      const auto sample = make_twins(kind, size, heads, queries, keys, seed() + static_cast<std::uint64_t>(keys));
      compare<double>(be, policy, sample, label.str().c_str(), options, heads * heads);
    };
    for (const sample_kind kind : {sample_kind::random, sample_kind::rank_deficient, sample_kind::near_uniform})
      for (const double size : {1e-3, 1e-6, 1e-9}) {
        for (const hr::index_t t : {4, 16, 33, 64}) {
          twins(hr::procrustes{}, kind, size, t, t, t > 40 ? 2 : 3);
          twins(hr::canonical_correlation{}, kind, size, t, t, t > 40 ? 2 : 3);
        }
        if (size < 1e-8) {
          twins(hr::procrustes{}, kind, size, 128, 128, 2);
          twins(hr::canonical_correlation{}, kind, size, 128, 128, 2);
        }
        for (const auto& [queries, keys] : {std::pair<hr::index_t, hr::index_t>{9, 14}, {14, 9}, {2, 5}}) {
          twins(hr::procrustes{.squared = true}, kind, size, queries, keys, 3, {.squared = true});
          twins(hr::canonical_correlation{}, kind, size, queries, keys, 3);
          twins(hr::canonical_correlation{.lambda = 1e-4}, kind, size, queries, keys, 3, {.lambda = 1e-4});
          if (kind == sample_kind::random && queries > 2)
            twins(hr::canonical_correlation{.kind = hr::whitening::half_dof}, kind, size, queries, keys, 3,
                  {.kind = oracle::distance_options::half_dof});
          if (queries > 2)
            twins(hr::canonical_correlation{.kind = hr::whitening::truncated}, kind, size, queries, keys, 3,
                  {.kind = oracle::distance_options::truncated});
        }
      }
  }

  TEST_CASE("both forms of procrustes and canonical correlation agree where one takes over from the other") {
    // from one map to another: distances on both sides of 2e-3, the fast form above, the stable one below
    const hr::index_t t = 16;
    const auto ends = make_sample(sample_kind::random, 1, 2, t, t, seed());
    const hr::index_t heads = 40;
    attention_sample sample{1, heads, t, t, std::vector<double>(static_cast<std::size_t>(heads * t * t))};
    for (hr::index_t h = 0; h < heads; ++h)
      for (hr::index_t i = 0; i < t * t; ++i) {
        const double share = static_cast<double>(h) / 160, a = ends.row(0, 0)[i], b = ends.row(1, 0)[i];
        sample.row(h, 0)[i] = a + share * (b - a);
      }
    hr::cpu be{{.threads = 1}};
    const auto check = [&](const auto& policy) {
      const std::string name = name_of(policy);
      const auto d = hr::pairwise(be, sample.view(), policy);
      int below = 0, above = 0;
      for (hr::index_t h = 1; h < heads; ++h) {
        const auto a = wide_map(sample, sample.values.data(), 0), b = wide_map(sample, sample.values.data(), h);
        const double expected = oracle::matrix_distance(name, a, b);
        CHECK_MESSAGE(std::abs(d(0, h) - expected) <= 1e-10 * expected, name, " ", expected);
        if (expected > 1e-3 && expected < 2e-3) ++below;
        if (expected > 2e-3 && expected < 4e-3) ++above;
      }
      CHECK(below > 0);
      CHECK(above > 0);
    };
    check(hr::procrustes{});
    check(hr::canonical_correlation{});
  }

  TEST_CASE("products of split matrices have twice the digits") {
    headred_test::detail::draws draw(seed(), 9);
    for (const auto& [rows, inner, columns] :
         {std::array<hr::index_t, 3>{1, 1, 1}, {3, 5, 2}, {17, 33, 19}, {40, 128, 64}, {9, 300, 9}})
      for (const bool transposed : {false, true}) {
        const auto size = [](hr::index_t n) { return static_cast<std::size_t>(n); };
        std::vector<double> a(size(rows * inner)), a_low(a.size()), b(size(inner * columns)), b_low(b.size()),
            c(size(rows * columns)), c_low(c.size()), scratch(size(2 * inner * (rows + columns)));
        for (std::size_t i = 0; i < a.size(); ++i) a_low[i] = (a[i] = draw.score()) * 1e-17 * draw.uniform();
        for (std::size_t i = 0; i < b.size(); ++i) b_low[i] = (b[i] = draw.score()) * 1e-17 * draw.uniform();
        hr::detail::split_product({a.data(), a_low.data()}, transposed, {b.data(), b_low.data()}, rows, inner, columns,
                                  {c.data(), c_low.data()}, scratch.data());
        const auto largest = [](const std::vector<double>& x) {
          return std::abs(
              *std::max_element(x.begin(), x.end(), [](double p, double q) { return std::abs(p) < std::abs(q); }));
        };
        const double limit = 0x1p-75 * static_cast<double>(inner) * largest(a) * largest(b);
        for (hr::index_t i = 0; i < rows; ++i)
          for (hr::index_t j = 0; j < columns; ++j) {
            oracle::twofold sum;
            for (hr::index_t k = 0; k < inner; ++k) {
              const auto at = size(transposed ? k * rows + i : i * inner + k), to = size(k * columns + j);
              sum = sum + oracle::twofold(a[at], a_low[at]) * oracle::twofold(b[to], b_low[to]);
            }
            const auto at = size(i * columns + j);
            CHECK(std::abs((sum - oracle::twofold(c[at], c_low[at])).high) <= limit);
          }
      }
  }

  TEST_CASE("options agree with the oracle") {
    hr::cpu be{{.threads = 2}};
    for (const sample_kind kind : {sample_kind::random, sample_kind::near_uniform, sample_kind::twins_1e3}) {
      for (const hr::index_t t : {4, 9, 24}) {
        compare_all(be, hr::distance_correlation{.unbiased = true}, kind, 7, t, t, {.unbiased = true}, 12, "unbiased");
        compare_all(be, hr::procrustes{.squared = true}, kind, 7, t, t, {.squared = true}, 12, "squared");
        compare_all(be, hr::canonical_correlation{.lambda = .1}, kind, 7, t, t, {.lambda = .1L}, 12, "lambda .1");
      }
      compare_all(be, hr::canonical_correlation{.kind = hr::whitening::half_dof}, kind, 7, 24, 24,
                  {.kind = oracle::distance_options::half_dof}, 12, "half_dof");
      compare_all(be, hr::canonical_correlation{.kind = hr::whitening::truncated}, kind, 7, 24, 24,
                  {.kind = oracle::distance_options::truncated}, 12, "truncated");
    }
  }

  TEST_CASE("U-centring that takes everything away counts as nothing left") {
    // every row on a key of its own: all distances between rows are sqrt(2)
    const hr::index_t t = 9;
    attention_sample sample{1, 3, t, t, std::vector<double>(static_cast<std::size_t>(3 * t * t))};
    for (hr::index_t i = 0; i < t; ++i) {
      sample.row(0, i)[i] = 1;
      sample.row(1, i)[(i * 2) % t] = 1;
    }
    const auto random = make_sample(sample_kind::random, 1, 1, t, t, seed());
    std::copy(random.values.begin(), random.values.end(), sample.row(2, 0));
    hr::cpu be{{.threads = 1}};
    const auto d = hr::pairwise(be, sample.view(), hr::distance_correlation{.unbiased = true});
    CHECK(d(0, 1) == 0);
    CHECK(d(0, 2) == 1);
    CHECK(d(1, 2) == 1);
  }

  TEST_CASE("table of measured errors") {
    if (std::getenv("HEADRED_PRINT_ACCURACY") != nullptr) print_table();
    for (const auto& [name, kinds] : worst_errors)
      for (const auto& [kind, w] : kinds) CHECK(w[1].absolute <= 2e-6);
  }
}
