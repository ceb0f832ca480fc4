// Comparisons of redundancy matrices, written the slow and obvious way in long double.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <headred/core/head_layout.hpp>
#include <headred/core/matrix.hpp>
#include <headred/core/random.hpp>

namespace headred_test::oracle {

using headred::index_t;

inline long double correlation(const headred::matrix& a, const headred::matrix& b,
                               const std::vector<index_t>& order_of_b) {
  const index_t n = a.rows();
  long double pairs = 0, mean_a = 0, mean_b = 0;
  const auto other = [&](index_t i, index_t j) -> long double {
    return b(order_of_b[static_cast<std::size_t>(i)], order_of_b[static_cast<std::size_t>(j)]);
  };
  for (index_t i = 0; i < n; ++i)
    for (index_t j = i + 1; j < n; ++j) pairs += 1, mean_a += a(i, j), mean_b += other(i, j);
  mean_a /= pairs;
  mean_b /= pairs;
  long double ab = 0, aa = 0, bb = 0;
  for (index_t i = 0; i < n; ++i) {
    for (index_t j = i + 1; j < n; ++j) {
      ab += (a(i, j) - mean_a) * (other(i, j) - mean_b);
      aa += (a(i, j) - mean_a) * (a(i, j) - mean_a);
      bb += (other(i, j) - mean_b) * (other(i, j) - mean_b);
    }
  }
  return ab / (std::sqrt(aa) * std::sqrt(bb));
}

inline std::vector<index_t> identity(index_t n) {
  std::vector<index_t> order;
  for (index_t i = 0; i < n; ++i) order.push_back(i);
  return order;
}

inline long double correlation(const headred::matrix& a, const headred::matrix& b) {
  return correlation(a, b, identity(a.rows()));
}

inline long double mean_absolute_difference(const headred::matrix& a, const headred::matrix& b) {
  long double sum = 0, pairs = 0;
  for (index_t i = 0; i < a.rows(); ++i)
    for (index_t j = 0; j < i; ++j) sum += std::abs(static_cast<long double>(a(j, i)) - b(j, i)), pairs += 1;
  return sum / pairs;
}

// Number of seeded permutations whose correlation is at least the observed one; each correlation from scratch.
inline index_t permutations_at_least(const headred::matrix& a, const headred::matrix& b, index_t permutations,
                                     std::uint64_t seed) {
  const long double observed = correlation(a, b);
  index_t count = 0;
  for (index_t k = 0; k < permutations; ++k) {
    const headred::random_stream random(seed, static_cast<std::uint64_t>(k));
    auto order = identity(a.rows());
    for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.below(i, i + 1)]);
    count += correlation(a, b, order) >= observed - 1e-12L;
  }
  return count;
}

// {mean, pairs} of the heads whose layers are `gap` apart.
inline std::pair<long double, index_t> layer_gap(const headred::matrix& a, const headred::head_layout& layout,
                                                 index_t gap) {
  long double sum = 0;
  index_t pairs = 0;
  for (index_t i = 0; i < a.rows(); ++i) {
    for (index_t j = i + 1; j < a.rows(); ++j) {
      if (std::abs(layout.id(i).layer - layout.id(j).layer) != gap) continue;
      sum += a(i, j);
      ++pairs;
    }
  }
  return {pairs == 0 ? 0 : sum / static_cast<long double>(pairs), pairs};
}

}  // namespace headred_test::oracle
