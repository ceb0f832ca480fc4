// Every distance against the long double oracle, on every kind of map. With HEADRED_PRINT_ACCURACY set the worst errors
// are printed as the table of docs/numerics.md.
#include <doctest/doctest.h>

#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <limits>
#include <map>

#include "distance/every_distance.hpp"
#include "environment.hpp"

namespace hr = headred;
using namespace headred_test;

namespace {

struct worst {
  double relative = 0, absolute = 0;
};
// [distance][kind], f64 and f32
std::map<std::string, std::map<std::string, std::array<worst, 2>>> worst_errors;

// A distance that is 0 in exact arithmetic comes out as the square of the rounding in its normalised, centred input (or
// as that rounding, where a root is taken; whitening magnifies it): relative errors mean nothing below this.
double floor_of(const std::string& name) { return name == "jensen_shannon" || name == "bhattacharyya" ? 1e-13 : 1e-24; }
double zero_of(const std::string& name) {
  return name == "canonical_correlation" || name == "procrustes" ? 1e-20 : 2 * floor_of(name);
}

// Procrustes and canonical correlation of close maps are |X^ R - Y^|^2 / 2 of matrices rounded to 1e-16 each, and whitening
// carries that on: below about 1e-13 (1e-10 for the latter) this shows, as an error relative to the root of the distance.
double rounding_of(const std::string& name) {
  return name == "procrustes" ? 1e-15 : name == "canonical_correlation" ? 2e-13 : 0;
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
  const double limit = name == "procrustes" || name == "canonical_correlation" ? 1e-8 : 1e-10;
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
      const auto expected = static_cast<double>(oracle::distance(name, a, b, options));
      const double error = std::abs(d(i, j) - expected);
      const bool zero = expected < floor_of(name);
      const double relative = zero ? 0 : error / expected;
      record.absolute = std::max(record.absolute, error);
      const auto at = [&] {
        return name + ", " + label + ", " + (sizeof(Real) == 8 ? "f64" : "f32") + ", T " +
               std::to_string(sample.queries) + ", S " + std::to_string(sample.keys) + ", heads " +
               std::to_string(heads) + ", pair " + std::to_string(i) + " " + std::to_string(j) + ": " +
               std::to_string(d(i, j)) + " for " + std::to_string(expected);
      };
      if constexpr (sizeof(Real) == 8) {
        record.relative = std::max(record.relative, relative);
        CHECK_MESSAGE(
            (zero ? error <= zero_of(name) : error <= limit * expected + rounding_of(name) * std::sqrt(expected)), at(),
            ", relative error ", relative, ", absolute error ", error, ", expected ", expected);
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
          const bool matrices = name_of(policy) == "procrustes" || name_of(policy) == "canonical_correlation";
          const hr::index_t most = matrices ? (tokens[i] > 40 ? 1 : tokens[i] > 20 ? 3 : 8) : 12;
          compare_all(be, policy, kind, heads[i], tokens[i], tokens[i], {}, most);
        });
  }

  TEST_CASE("128 tokens, and cross-attention of other shapes") {
    hr::cpu be{{.threads = 2}};
    for_every_distance([&](const auto& policy) {
      const bool matrices = name_of(policy) == "procrustes" || name_of(policy) == "canonical_correlation";
      if (!matrices) {
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
