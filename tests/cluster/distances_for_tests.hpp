// Matrices that several clustering tests use.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <headred/core/error.hpp>
#include <headred/core/matrix.hpp>
#include <headred/core/random.hpp>

namespace headred_test {

using headred::index_t;

inline headred::matrix matrix_of(index_t rows, index_t cols, std::initializer_list<double> values) {
  headred::matrix m(rows, cols);
  std::copy(values.begin(), values.end(), m.data());
  return m;
}

// The worked example of six heads.
inline headred::matrix worked_distances() {
  return matrix_of(6, 6, {0,   .10, .12, .80, .85, .90,  //
                          .10, 0,   .11, .82, .84, .88,  //
                          .12, .11, 0,   .79, .83, .87,  //
                          .80, .82, .79, 0,   .15, .60,  //
                          .85, .84, .83, .15, 0,   .62,  //
                          .90, .88, .87, .60, .62, 0});
}

// Distances near `inside` within a block and near `outside` between blocks; heads are dealt to blocks in a seeded shuffle.
struct planted {
  headred::matrix distances;
  std::vector<index_t> labels;
};
inline planted planted_blocks(index_t blocks, index_t per_block, double inside, double outside, double noise,
                              std::uint64_t seed) {
  const index_t n = blocks * per_block;
  planted p{headred::matrix(n, n), {}};
  for (index_t i = 0; i < n; ++i) p.labels.push_back(i % blocks);
  const headred::random_stream draws(seed, 1);
  std::uint64_t draw = 0;
  for (index_t i = n - 1; i > 0; --i)
    std::swap(p.labels[static_cast<std::size_t>(i)], p.labels[draws.below(draw++, static_cast<std::uint64_t>(i) + 1)]);
  for (index_t i = 0; i < n; ++i)
    for (index_t j = i + 1; j < n; ++j) {
      const bool same = p.labels[static_cast<std::size_t>(i)] == p.labels[static_cast<std::size_t>(j)];
      p.distances(i, j) = p.distances(j, i) = (same ? inside : outside) + noise * (draws.uniform(draw++) - 0.5);
    }
  return p;
}

// Euclidean distances between seeded points in the unit square, scaled into [0,1].
inline headred::matrix random_plane(index_t n, std::uint64_t seed) {
  const headred::random_stream draws(seed, 2);
  headred::matrix d(n, n);
  for (index_t i = 0; i < n; ++i)
    for (index_t j = 0; j < n; ++j) {
      const auto x = [&](index_t at, index_t axis) { return draws.uniform(static_cast<std::uint64_t>(2 * at + axis)); };
      d(i, j) = std::hypot(x(i, 0) - x(j, 0), x(i, 1) - x(j, 1)) / std::sqrt(2.0);
    }
  return d;
}

// The text of the exception of type E that f throws; empty when it throws none.
template <class E, class F>
std::string text_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return {};
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace headred_test
