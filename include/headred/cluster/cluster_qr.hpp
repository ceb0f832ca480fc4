// cluster_qr: clusters from spectral vectors by one pivoted QR factorisation, without an iteration or a seed.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <headred/cluster/clustering.hpp>
#include <headred/core/as_view.hpp>
#include <headred/core/matrix.hpp>
#include <headred/numeric/polar_factor.hpp>

namespace headred {
namespace detail {

/// Householder QR with column pivoting of r : (K,N), K <= N, in place: r becomes Q^T r, its columns left where they are.
/// Returns the pivot columns, one a step; as many as the rank.
inline std::vector<index_t> pivoted_qr(matrix& r) {
  const index_t rows = r.rows(), n = r.cols();
  std::vector<double> squares(static_cast<std::size_t>(n)), products(static_cast<std::size_t>(n));
  std::vector<double> reflector(static_cast<std::size_t>(rows));
  std::vector<index_t> pivots;
  for (index_t k = 0; k < rows; ++k) {
    const double* const row = r.data() + k * n;
    for (index_t j = 0; j < n; ++j) squares[static_cast<std::size_t>(j)] += row[j] * row[j];
  }
  double first_norm = 0;
  for (index_t step = 0; step < rows; ++step) {
    index_t pivot = 0;
    for (index_t j = 1; j < n; ++j)
      if (squares[static_cast<std::size_t>(j)] > squares[static_cast<std::size_t>(pivot)]) pivot = j;
    const double norm = std::sqrt(squares[static_cast<std::size_t>(pivot)]);
    if (step == 0) first_norm = norm;
    if (!(norm > std::numeric_limits<double>::epsilon() * static_cast<double>(n) * first_norm)) break;
    pivots.push_back(pivot);

    // v = x + sign(x_0) |x| e_0;  H = I - 2 v v^T / v^T v  takes x, the pivot's rest, to -sign(x_0) |x| e_0
    const double head = r(step, pivot);
    const double signed_norm = head < 0 ? -norm : norm;
    for (index_t k = step; k < rows; ++k) reflector[static_cast<std::size_t>(k)] = r(k, pivot);
    reflector[static_cast<std::size_t>(step)] += signed_norm;
    const double factor = 1 / (norm * (norm + std::abs(head)));  // 2 / v^T v

    std::fill(products.begin(), products.end(), 0.0);
    for (index_t k = step; k < rows; ++k) {
      const double v = reflector[static_cast<std::size_t>(k)];
      const double* const row = r.data() + k * n;
      for (index_t j = 0; j < n; ++j) products[static_cast<std::size_t>(j)] += v * row[j];
    }
    std::fill(squares.begin(), squares.end(), 0.0);
    for (index_t k = step; k < rows; ++k) {
      const double v = factor * reflector[static_cast<std::size_t>(k)];
      double* const row = r.data() + k * n;
      for (index_t j = 0; j < n; ++j) row[j] -= v * products[static_cast<std::size_t>(j)];
      if (k == step) continue;
      // the norms of what is left are summed anew, not downdated: no cancellation
      for (index_t j = 0; j < n; ++j) squares[static_cast<std::size_t>(j)] += row[j] * row[j];
    }
    r(step, pivot) = -signed_norm;
    for (index_t k = step + 1; k < rows; ++k) r(k, pivot) = 0;
    for (const index_t done : pivots) squares[static_cast<std::size_t>(done)] = 0;
  }
  return pivots;
}

/// cluster_qr of vectors : (K,N), transposed, finite, which are spoilt.
inline clustering cluster_qr_of(matrix vectors) {
  const index_t requested = vectors.rows(), n = vectors.cols();
  const std::vector<index_t> pivots = pivoted_qr(vectors);
  const auto rank = static_cast<index_t>(pivots.size());
  std::vector<index_t> labels(static_cast<std::size_t>(n), 0);
  if (rank == 0) return make_clustering(labels, requested);

  // With V^T = Q R and M = V^T[:, pivots] = Q R_p, the polar factor of M is Q P, P that of R_p, so |V Q P| = |R^T P|.
  matrix pivot_block(rank, rank);
  for (index_t k = 0; k < rank; ++k)
    for (index_t c = 0; c < rank; ++c) pivot_block(k, c) = vectors(k, pivots[static_cast<std::size_t>(c)]);
  const polar_factor_result polar = polar_factor(std::move(pivot_block));
  if (polar.status == status::degenerate) {
    clustering result = make_clustering(labels, requested);
    result.status = status::degenerate;
    return result;
  }

  std::vector<double> best(static_cast<std::size_t>(n), -1.0), score(static_cast<std::size_t>(n));
  for (index_t c = 0; c < rank; ++c) {
    std::fill(score.begin(), score.end(), 0.0);
    for (index_t k = 0; k < rank; ++k) {
      const double p = polar.factor(k, c);
      const double* const row = vectors.data() + k * n;
      for (index_t j = 0; j < n; ++j) score[static_cast<std::size_t>(j)] += p * row[j];
    }
    for (index_t j = 0; j < n; ++j) {
      const auto at = static_cast<std::size_t>(j);
      if (std::abs(score[at]) > best[at]) {
        best[at] = std::abs(score[at]);
        labels[at] = c;
      }
    }
  }
  clustering result = make_clustering(labels, requested);
  if (polar.status == status::not_converged) result.status = status::not_converged;
  return result;
}

}  // namespace detail

/// Clusters of N heads from their K spectral vectors: pivoting picks K heads that lie far apart, the nearest orthogonal
/// matrix turns the axes towards them, and each head joins the axis on which it is largest.
///   V^T Pi = Q R,  M = V^T[:, first K pivots],  U = polar factor of M,  label_i = argmax_c |V U|_ic
/// vectors : (N,K), 1 <= K <= N, finite; ties go to the earlier pivot.
/// Status fewer_clusters where an axis stays empty or the vectors have a smaller rank; rows of zeros join pivot 0.
/// Throws shape_error for K outside [1,N], argument_error for an entry that is not finite.
/// About 6 N K^2 + 16 K^3 operations. Source: Damle, Minden, Ying, Information and Inference 8 (2019), algorithm 1.
template <class Vectors>
  requires viewable_as<const Vectors&, 2>
clustering cluster_qr(const Vectors& vectors) {
  const auto v = as_view(vectors);
  static_assert(std::is_same_v<typename decltype(v)::space, host_space>, "expected vectors in host memory");
  const index_t n = v.extent(0), k = v.extent(1);
  if (k < 1 || k > n)
    throw shape_error("cluster_qr: vectors are " + shape_text(v.shape()) + ", expected (N,K) with K in [1,N]");
  matrix transposed(k, n);
  double largest = 0;
  for (index_t i = 0; i < n; ++i) {
    for (index_t j = 0; j < k; ++j) {
      const double x = static_cast<double>(v(i, j));
      if (!std::isfinite(x))
        throw argument_error("cluster_qr: vectors (" + std::to_string(i) + "," + std::to_string(j) + ") is " +
                             std::to_string(x) + ", expected a finite number");
      transposed(j, i) = x;
      largest = std::max(largest, std::abs(x));
    }
  }
  // A power of two, so exact: squares neither overflow nor vanish.
  const int exponent = largest > 0 ? std::clamp(std::ilogb(largest), -1000, 1000) : 0;
  const double scale = std::ldexp(1.0, -exponent);
  for (index_t i = 0; i < k * n; ++i) transposed.data()[i] *= scale;
  return detail::cluster_qr_of(std::move(transposed));
}

}  // namespace headred
