#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

#include <headred/backend/cpu.hpp>
#include <headred/distance/distance_correlation.hpp>
#include <headred/distance/pairwise.hpp>

#include "environment.hpp"
#include "oracle/twin_correlation.hpp"
#include "oracle/twin_samples.hpp"

namespace hr = headred;
using namespace headred_test;

TEST_SUITE("distance") {
  TEST_CASE("distance correlation of twins, however close, keeps ten digits in double") {
    hr::cpu be{{.threads = 2}};
    for (const sample_kind kind : {sample_kind::random, sample_kind::rank_deficient, sample_kind::near_uniform})
      for (const double size : {1e-3, 1e-6, 1e-9})
        for (const hr::index_t t : {4, 16, 33}) {
          const auto sample = make_twins(kind, size, 3, t, t, seed() + static_cast<std::uint64_t>(t));
          const hr::matrix d = hr::pairwise(be, sample.view(), hr::distance_correlation{});
          for (hr::index_t i = 0; i < 3; ++i)
            for (hr::index_t j = i + 1; j < 3; ++j) {
              oracle::wide_matrix map[2];
              for (int side = 0; side < 2; ++side) {
                map[side].resize(t, t);
                for (hr::index_t r = 0; r < t; ++r)
                  for (hr::index_t k = 0; k < t; ++k) map[side](r, k) = sample.row(side == 0 ? i : j, r)[k];
              }
              const double expected = oracle::twin_distance_correlation(map[0], map[1]);
              std::ostringstream where;
              where << to_string(kind) << " at " << size << ", " << t << " tokens: " << d(i, j) << ", expected "
                    << expected;
              CHECK_MESSAGE(std::abs(d(i, j) - expected) <= 1e-10 * expected + 1e-30, where.str());
            }
        }
  }
}
