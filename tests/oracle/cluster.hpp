// Clustering, written the slow and obvious way in long double.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <headred/core/matrix.hpp>

namespace headred_test::oracle {

using headred::index_t;
using wide_matrix = std::vector<std::vector<long double>>;

inline wide_matrix widened(const headred::matrix& m) {
  wide_matrix w(static_cast<std::size_t>(m.rows()), std::vector<long double>(static_cast<std::size_t>(m.cols())));
  for (std::size_t i = 0; i < w.size(); ++i)
    for (std::size_t j = 0; j < w[i].size(); ++j) w[i][j] = m(static_cast<index_t>(i), static_cast<index_t>(j));
  return w;
}

struct wide_eigen {
  std::vector<long double> values;  // ascending
  wide_matrix vectors;              // row j belongs to values[j]
};

// Cyclic Jacobi rotations.
inline wide_eigen jacobi_eigen(wide_matrix a) {
  const std::size_t n = a.size();
  wide_matrix v(n, std::vector<long double>(n, 0));
  for (std::size_t i = 0; i < n; ++i) v[i][i] = 1;
  for (int sweep = 0; sweep < 60; ++sweep) {
    long double off = 0;
    for (std::size_t p = 0; p < n; ++p)
      for (std::size_t q = p + 1; q < n; ++q) {
        off += a[p][q] * a[p][q];
        if (a[p][q] == 0) continue;
        const long double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
        const long double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
        const long double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (std::size_t k = 0; k < n; ++k) {
          const long double x = a[k][p], y = a[k][q];
          a[k][p] = c * x - s * y;
          a[k][q] = s * x + c * y;
        }
        for (std::size_t k = 0; k < n; ++k) {
          const long double x = a[p][k], y = a[q][k];
          a[p][k] = c * x - s * y;
          a[q][k] = s * x + c * y;
        }
        for (std::size_t k = 0; k < n; ++k) {
          const long double x = v[p][k], y = v[q][k];
          v[p][k] = c * x - s * y;
          v[q][k] = s * x + c * y;
        }
      }
    if (off < 1e-40L) break;
  }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return a[i][i] < a[j][j]; });
  wide_eigen result;
  for (const std::size_t i : order) {
    result.values.push_back(a[i][i]);
    result.vectors.push_back(v[i]);
  }
  return result;
}

// I - W^-1 S W^-1, the diagonal of S ignored; w as a second result.
inline std::pair<wide_matrix, std::vector<long double>> laplacian(wide_matrix s) {
  const std::size_t n = s.size();
  std::vector<long double> w(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j)
      if (i != j) w[i] += s[i][j];
    w[i] = w[i] > 0 ? std::sqrt(w[i]) : 1;
  }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) s[i][j] = i == j ? 1 : -s[i][j] / (w[i] * w[j]);
  return {s, w};
}

// labels renumbered in order of first appearance
inline std::vector<index_t> by_appearance(const std::vector<index_t>& labels) {
  std::vector<index_t> seen, result;
  for (const index_t label : labels) {
    const auto at = std::find(seen.begin(), seen.end(), label);
    result.push_back(static_cast<index_t>(at - seen.begin()));
    if (at == seen.end()) seen.push_back(label);
  }
  return result;
}

// Pivots by repeated projection; polar factor of M by way of the eigenvectors of M^T M.  v : (N,K)
inline std::vector<index_t> cluster_qr(const wide_matrix& v) {
  const std::size_t n = v.size(), k = v[0].size();
  wide_matrix rest = v, basis;
  std::vector<std::size_t> pivots;
  for (std::size_t step = 0; step < k; ++step) {
    std::size_t pivot = 0;
    long double largest = -1;
    for (std::size_t i = 0; i < n; ++i) {
      const long double square = std::inner_product(rest[i].begin(), rest[i].end(), rest[i].begin(), 0.0L);
      if (square > largest && std::find(pivots.begin(), pivots.end(), i) == pivots.end()) largest = square, pivot = i;
    }
    pivots.push_back(pivot);
    std::vector<long double> q = rest[pivot];
    for (long double& x : q) x /= std::sqrt(largest);
    for (auto& row : rest) {
      const long double along = std::inner_product(row.begin(), row.end(), q.begin(), 0.0L);
      for (std::size_t d = 0; d < k; ++d) row[d] -= along * q[d];
    }
  }
  // M = V[pivots]^T, (K,K); U = M (M^T M)^(-1/2)
  wide_matrix gram(k, std::vector<long double>(k, 0)), root = gram, u = gram;
  for (std::size_t a = 0; a < k; ++a)
    for (std::size_t b = 0; b < k; ++b)
      gram[a][b] = std::inner_product(v[pivots[a]].begin(), v[pivots[a]].end(), v[pivots[b]].begin(), 0.0L);
  const wide_eigen e = jacobi_eigen(gram);
  for (std::size_t j = 0; j < k; ++j)
    for (std::size_t a = 0; a < k; ++a)
      for (std::size_t b = 0; b < k; ++b) root[a][b] += e.vectors[j][a] * e.vectors[j][b] / std::sqrt(e.values[j]);
  for (std::size_t d = 0; d < k; ++d)
    for (std::size_t b = 0; b < k; ++b)
      for (std::size_t a = 0; a < k; ++a) u[d][b] += v[pivots[a]][d] * root[a][b];
  std::vector<index_t> labels;
  for (std::size_t i = 0; i < n; ++i) {
    long double best = -1;
    index_t label = 0;
    for (std::size_t c = 0; c < k; ++c) {
      long double score = 0;
      for (std::size_t d = 0; d < k; ++d) score += v[i][d] * u[d][c];
      if (std::abs(score) > best) best = std::abs(score), label = static_cast<index_t>(c);
    }
    labels.push_back(label);
  }
  return by_appearance(labels);
}

inline std::vector<index_t> spectral_labels(const wide_matrix& affinities, std::size_t k) {
  const auto [l, w] = laplacian(affinities);
  const wide_eigen e = jacobi_eigen(l);
  wide_matrix v(l.size(), std::vector<long double>(k));
  for (std::size_t i = 0; i < l.size(); ++i)
    for (std::size_t j = 0; j < k; ++j) v[i][j] = e.vectors[j][i] / w[i];
  return cluster_qr(v);
}

inline std::vector<long double> silhouettes(const wide_matrix& d, const std::vector<index_t>& labels) {
  const std::size_t n = d.size();
  std::vector<long double> result;
  for (std::size_t i = 0; i < n; ++i) {
    long double own = 0, nearest = std::numeric_limits<long double>::infinity();
    index_t others = 0;
    for (std::size_t j = 0; j < n; ++j)
      if (j != i && labels[j] == labels[i]) own += d[i][j], ++others;
    for (const index_t c : labels) {
      if (c == labels[i]) continue;
      long double sum = 0;
      for (std::size_t j = 0; j < n; ++j)
        if (labels[j] == c) sum += d[i][j];
      nearest = std::min(nearest, sum / static_cast<long double>(std::count(labels.begin(), labels.end(), c)));
    }
    if (others == 0) {
      result.push_back(0);
      continue;
    }
    own /= static_cast<long double>(others);
    const long double larger = std::max(own, nearest);
    result.push_back(larger > 0 ? (nearest - own) / larger : 0);
  }
  return result;
}

struct linkage_step {
  std::vector<index_t> heads;  // of the new node, ascending
  long double height;
};

// Average linkage by looking at all pairs of nodes in every step.
inline std::vector<linkage_step> average_linkage(const wide_matrix& d) {
  std::vector<std::vector<index_t>> nodes;
  for (std::size_t i = 0; i < d.size(); ++i) nodes.push_back({static_cast<index_t>(i)});
  std::vector<linkage_step> steps;
  while (nodes.size() > 1) {
    std::size_t a = 0, b = 1;
    long double least = std::numeric_limits<long double>::infinity();
    for (std::size_t i = 0; i < nodes.size(); ++i)
      for (std::size_t j = i + 1; j < nodes.size(); ++j) {
        long double sum = 0;
        for (const index_t x : nodes[i])
          for (const index_t y : nodes[j]) sum += d[static_cast<std::size_t>(x)][static_cast<std::size_t>(y)];
        sum /= static_cast<long double>(nodes[i].size() * nodes[j].size());
        if (sum < least) least = sum, a = i, b = j;
      }
    nodes[a].insert(nodes[a].end(), nodes[b].begin(), nodes[b].end());
    std::sort(nodes[a].begin(), nodes[a].end());
    steps.push_back({nodes[a], least});
    nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(b));
  }
  return steps;
}

// Sum of squared distances to the mean of the own cluster.
inline long double inertia(const wide_matrix& points, const std::vector<index_t>& labels) {
  long double total = 0;
  for (index_t c = 0; c <= *std::max_element(labels.begin(), labels.end()); ++c) {
    std::vector<long double> mean(points[0].size(), 0);
    long double members = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (labels[i] != c) continue;
      members += 1;
      for (std::size_t d = 0; d < mean.size(); ++d) mean[d] += points[i][d];
    }
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (labels[i] != c) continue;
      for (std::size_t d = 0; d < mean.size(); ++d)
        total += (points[i][d] - mean[d] / members) * (points[i][d] - mean[d] / members);
    }
  }
  return total;
}

}  // namespace headred_test::oracle
