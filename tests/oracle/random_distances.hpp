// Seeded symmetric matrices with a zero diagonal.
#pragma once

#include <cstdint>

#include <headred/core/matrix.hpp>
#include <headred/core/random.hpp>

namespace headred_test::oracle {

inline headred::matrix random_distances(headred::index_t n, std::uint64_t seed, double low = 0, double high = 1) {
  const headred::random_stream random(seed, 77);
  std::uint64_t draw = 0;
  headred::matrix m(n, n);
  for (headred::index_t i = 0; i < n; ++i)
    for (headred::index_t j = i + 1; j < n; ++j) m(i, j) = m(j, i) = low + (high - low) * random.uniform(draw++);
  return m;
}

}  // namespace headred_test::oracle
