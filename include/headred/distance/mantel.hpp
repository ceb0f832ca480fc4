// Mantel's permutation test: is the correlation of two redundancy matrices more than chance?
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <headred/backend/concept.hpp>
#include <headred/core/random.hpp>
#include <headred/distance/compare.hpp>

namespace headred {

/// Which permuted correlations count as at least as extreme as the observed one.
enum class mantel_tail {
  greater,    ///< r' >= r
  less,       ///< r' <= r
  two_sided,  ///< |r'| >= |r|
};

/// How a permutation test runs.
struct mantel_options {
  index_t permutations = 999;
  std::uint64_t seed = 0;
  mantel_tail tail = mantel_tail::greater;
};

/// A correlation of two matrices and its p-value.
struct mantel_result {
  double correlation = 0;  ///< as headred::correlation, in [-1,1]
  double p_value = 1;      ///< in [1 / (1 + permutations), 1]
  index_t permutations = 0;
  headred::status status = headred::status::undefined;  ///< undefined where a or b does not vary: correlation 0, p 1
};

namespace detail {

// sum over i < j of a(i,j) b(order[i],order[j]); a, b : (N,N), b symmetric
inline double permuted_product(const double* a, const double* b, index_t n, const index_t* order) {
  double total = 0;
  for (index_t i = 0; i + 1 < n; ++i) {
    const double* row_a = a + i * n;
    const double* row_b = b + order[i] * n;
    double sum[4] = {0, 0, 0, 0};  // four chains hide the latency of the additions
    index_t j = i + 1;
    for (; j + 4 <= n; j += 4)
      for (index_t lane = 0; lane < 4; ++lane) sum[lane] += row_a[j + lane] * row_b[order[j + lane]];
    for (; j < n; ++j) sum[0] += row_a[j] * row_b[order[j]];
    total += (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
  return total;
}

// (N,N) symmetric, diagonal 0, of mean 0 and length 1 over the pairs.
inline std::vector<double> standardised_square(const std::vector<double>& pairs, const moments& of, index_t n) {
  std::vector<double> square(static_cast<std::size_t>(n) * static_cast<std::size_t>(n));
  const long double scale = 1 / std::sqrt(of.centred_square);
  std::size_t next = 0;
  for (index_t i = 0; i < n; ++i) {
    for (index_t j = i + 1; j < n; ++j) {
      const auto value = static_cast<double>((pairs[next++] - of.mean) * scale);
      square[static_cast<std::size_t>(i * n + j)] = value;
      square[static_cast<std::size_t>(j * n + i)] = value;
    }
  }
  return square;
}

}  // namespace detail

/// Correlation of two redundancy matrices with a p-value from permuting the heads of b (rows and columns together).
///   p = (1 + #{r' at least as extreme as r}) / (1 + permutations)
///   a, b : (N,N), symmetric; only the strict upper triangle is read
/// r' and r count as equal within 1e-12, since a permutation that only swaps twin heads changes nothing but rounding.
/// A pure function of the matrices and options, for any number of threads. Degenerate: see mantel_result.
/// Throws as correlation, and argument_error for permutations < 1. Cost O(permutations N^2), 16 N^2 bytes.
/// Source: Mantel 1967; the count of the observed order itself: Phipson and Smyth 2010.
template <host_backend Backend, host_matrix A, host_matrix B>
mantel_result mantel(Backend& be, const A& a, const B& b, mantel_options options = {}) {
  if (options.permutations < 1)
    throw argument_error("mantel: permutations is " + std::to_string(options.permutations) + ", expected at least 1");
  const index_t n = as_view(a).extent(0);
  const auto pairs_a = detail::named_upper_triangle(as_view(a), "mantel: a");
  const auto pairs_b = detail::named_upper_triangle(as_view(b), "mantel: b");
  detail::require_same_size(as_view(b).extent(0), n, "mantel: b");
  const auto of_a = detail::moments_of(pairs_a), of_b = detail::moments_of(pairs_b);
  const correlation_result observed = detail::correlate(pairs_a, of_a, pairs_b, of_b);
  mantel_result result{observed.value, 1, options.permutations, observed.status};
  if (observed.status == status::undefined) return result;

  const auto x = detail::standardised_square(pairs_a, of_a, n), y = detail::standardised_square(pairs_b, of_b, n);
  const auto extreme = [&](double r) {
    constexpr double tie = 1e-12;
    switch (options.tail) {
      case mantel_tail::greater: return r >= observed.value - tie;
      case mantel_tail::less: return r <= observed.value + tie;
      case mantel_tail::two_sided: return std::abs(r) >= std::abs(observed.value) - tie;
    }
    return true;
  };
  // Permutation k is drawn from stream k, so it does not matter which part carries it out.
  const index_t parts = std::min<index_t>(options.permutations, 64);
  std::vector<index_t> counts(static_cast<std::size_t>(parts)), orders(static_cast<std::size_t>(parts * n));
  be.for_each(parts, [&](index_t part) {
    index_t* const order = orders.data() + part * n;
    index_t count = 0;
    for (index_t k = part; k < options.permutations; k += parts) {
      const random_stream random(options.seed, static_cast<std::uint64_t>(k));
      std::iota(order, order + n, index_t{0});
      for (index_t i = n - 1; i > 0; --i)
        std::swap(order[i], order[random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(i) + 1)]);
      count += extreme(detail::permuted_product(x.data(), y.data(), n, order));
    }
    counts[static_cast<std::size_t>(part)] = count;
  });
  be.synchronize();
  const index_t as_extreme = std::accumulate(counts.begin(), counts.end(), index_t{0});
  result.p_value = (1 + static_cast<double>(as_extreme)) / (1 + static_cast<double>(options.permutations));
  return result;
}

}  // namespace headred
