// The seven distances written down naively in long double, always in the form that does not cancel.
#pragma once

#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace headred_test::oracle {

using wide = long double;
using wide_matrix = Eigen::Matrix<wide, Eigen::Dynamic, Eigen::Dynamic>;  // one map (T,S)
using wide_row = std::vector<wide>;

struct distance_options {
  wide epsilon = std::numeric_limits<double>::epsilon();  // of the type that the library computes in
  bool squared = false;                                   // procrustes
  bool unbiased = false;                                  // distance_correlation
  enum { ridge, half_dof, truncated } kind = ridge;       // canonical_correlation
  wide lambda = .01, variance = .99;
};

// Rows divided by their sums; rows of zeros stay.
inline wide_matrix normalised(wide_matrix x) {
  for (Eigen::Index t = 0; t < x.rows(); ++t) {
    wide sum = 0;
    for (Eigen::Index k = 0; k < x.cols(); ++k) sum += x(t, k);
    if (sum != 0)
      for (Eigen::Index k = 0; k < x.cols(); ++k) x(t, k) /= sum;
  }
  return x;
}

inline wide_row row_of(const wide_matrix& x, Eigen::Index t) {
  wide_row row;
  for (Eigen::Index k = 0; k < x.cols(); ++k) row.push_back(x(t, k));
  return row;
}

inline wide norm_of(const wide_row& p) {
  wide squares = 0;
  for (const wide v : p) squares += v * v;
  return std::sqrt(squares);
}

inline wide half_squared_difference(const wide_row& p, wide p_size, const wide_row& q, wide q_size) {
  wide sum = 0;
  for (std::size_t k = 0; k < p.size(); ++k) sum += (p[k] / p_size - q[k] / q_size) * (p[k] / p_size - q[k] / q_size);
  return sum / 2;
}

// f(t) = (1+t) log1p(t) + (1-t) log1p(-t)
inline wide divergence_term(wide t) {
  if (t == 1) return 2 * std::log(2.0L);
  if (t > .1L) return (1 + t) * std::log1p(t) + (1 - t) * std::log1p(-t);
  wide sum = 0, power = t * t;
  for (int k = 1; k < 40; ++k) {
    sum += power / static_cast<wide>(k * (2 * k - 1));
    power *= t * t;
  }
  return sum;
}

// JSD in nats
inline wide divergence(const wide_row& p, const wide_row& q) {
  wide sum = 0;
  for (std::size_t k = 0; k < p.size(); ++k) {
    const wide total = p[k] + q[k];
    if (total > 0) sum += total / 2 * divergence_term(std::abs(p[k] - q[k]) / total);
  }
  return sum / 2;
}

inline wide row_distance(const std::string& name, wide_row p, wide_row q, const distance_options& options) {
  const bool zero_p = norm_of(p) == 0, zero_q = norm_of(q) == 0;
  if (zero_p || zero_q) return zero_p == zero_q ? 0 : 1;
  if (name == "cosine") return half_squared_difference(p, norm_of(p), q, norm_of(q));
  if (name == "pearson") {
    const auto centre = [&](wide_row& x) {
      const wide size = norm_of(x);
      wide mean = 0;
      for (const wide v : x) mean += v;
      mean /= static_cast<wide>(x.size());
      for (wide& v : x) v -= mean;
      return norm_of(x) <= 16 * options.epsilon * size;
    };
    const bool constant_p = centre(p), constant_q = centre(q);
    if (constant_p || constant_q) return constant_p == constant_q ? 0 : .5L;
    return half_squared_difference(p, norm_of(p), q, norm_of(q)) / 2;
  }
  if (name == "jensen_shannon") return std::sqrt(divergence(p, q) / std::log(2.0L));
  if (name == "bhattacharyya") {
    wide sum = 0;
    for (std::size_t k = 0; k < p.size(); ++k) {
      const wide roots = std::sqrt(p[k]) + std::sqrt(q[k]);
      if (roots > 0) sum += (p[k] - q[k]) / roots * ((p[k] - q[k]) / roots);
    }
    return std::sqrt(sum / 2);
  }
  throw std::logic_error("no row distance " + name);
}

// Column-centred; a matrix of zeros if nothing is left.
inline wide_matrix centred(const wide_matrix& x, wide epsilon) {
  wide_matrix c = x;
  for (Eigen::Index k = 0; k < x.cols(); ++k) {
    wide mean = 0;
    for (Eigen::Index t = 0; t < x.rows(); ++t) mean += x(t, k);
    mean /= static_cast<wide>(x.rows());
    for (Eigen::Index t = 0; t < x.rows(); ++t) c(t, k) = x(t, k) - mean;
  }
  if (c.norm() <= 16 * epsilon * std::sqrt(static_cast<wide>(x.rows())) * x.norm()) c.setZero();
  return c;
}

// 1/2 |X^ R - Y^|_F^2, R the polar factor of X^T Y.
inline wide polar_residual(const wide_matrix& x, const wide_matrix& y) {
  if (x.norm() == 0 || y.norm() == 0) return x.norm() == y.norm() ? 0 : 1;
  if (x == y) return 0;
  const wide_matrix a = x / x.norm(), b = y / y.norm();
  const Eigen::JacobiSVD<wide_matrix> svd(a.transpose() * b, Eigen::ComputeFullU | Eigen::ComputeFullV);
  return (a * (svd.matrixU() * svd.matrixV().transpose()) - b).squaredNorm() / 2;
}

inline wide_matrix whitened(const wide_matrix& c, const distance_options& options) {
  if (c.norm() == 0) return c;
  const auto tokens = static_cast<wide>(c.rows()), n = static_cast<wide>(c.cols());
  const wide_matrix covariance = c.transpose() * c / tokens;
  const Eigen::SelfAdjointEigenSolver<wide_matrix> eigen(covariance);
  Eigen::Matrix<wide, Eigen::Dynamic, 1> factor = eigen.eigenvalues().cwiseMax(0.0L);
  const Eigen::Index size = factor.size();
  const wide largest = factor[size - 1];
  if (options.kind == distance_options::truncated) {
    const wide total = factor.sum();
    wide carried = 0;
    for (Eigen::Index i = size; i-- > 0;) {
      const wide value = factor[i];
      factor[i] = carried < options.variance * total && value > 1e-12L * largest ? 1 / std::sqrt(value) : 0;
      carried += value;
    }
  } else {
    wide ridge = options.lambda * covariance.trace() / n;
    if (options.kind == distance_options::half_dof) {
      const auto degrees = [&](wide lambda) {
        wide sum = 0;
        for (Eigen::Index i = 0; i < size; ++i) sum += factor[i] / (factor[i] + lambda);
        return sum;
      };
      wide rank = 0;
      for (Eigen::Index i = 0; i < size; ++i) rank += factor[i] > 1e-12L * largest ? 1 : 0;
      wide low = largest * 1e-16L, high = largest * 1e16L;
      for (int i = 0; i < 300; ++i) {
        const wide middle = std::sqrt(low) * std::sqrt(high);
        (degrees(middle) > rank / 2 ? low : high) = middle;
      }
      ridge = low;
    }
    for (Eigen::Index i = 0; i < size; ++i) factor[i] = 1 / std::sqrt(factor[i] + ridge);
  }
  return c * eigen.eigenvectors() * factor.asDiagonal() * eigen.eigenvectors().transpose();
}

inline wide distance_correlation(const wide_matrix& x, const wide_matrix& y, const distance_options& options) {
  const auto tokens = static_cast<wide>(x.rows());
  const auto distances = [&](const wide_matrix& m) {
    wide_matrix a(m.rows(), m.rows());
    for (Eigen::Index i = 0; i < m.rows(); ++i)
      for (Eigen::Index j = 0; j < m.rows(); ++j) a(i, j) = (m.row(i) - m.row(j)).norm();
    wide_matrix c = a;
    const wide divisor = options.unbiased ? tokens - 2 : tokens;
    const wide whole = a.sum() / (options.unbiased ? (tokens - 1) * (tokens - 2) : tokens * tokens);
    for (Eigen::Index i = 0; i < m.rows(); ++i)
      for (Eigen::Index j = 0; j < m.rows(); ++j)
        c(i, j) =
            options.unbiased && i == j ? 0 : a(i, j) - a.row(i).sum() / divisor - a.col(j).sum() / divisor + whole;
    // all rows equal, or all distances between rows equal, which U-centring takes away: nothing above rounding is left
    if (centred(m, options.epsilon).norm() == 0 || c.norm() <= 16 * options.epsilon * std::sqrt(tokens) * a.norm())
      c.setZero();
    return c;
  };
  const wide_matrix a = distances(x), b = distances(y);
  if (a.norm() == 0 || b.norm() == 0) return a.norm() == b.norm() ? 0 : 1;
  const wide e = (a / a.norm() - b / b.norm()).squaredNorm() / 2;
  if (options.unbiased) return std::clamp<wide>(e, 0, 1);
  return e >= 1 ? 1 : e / (1 + std::sqrt(1 - e));
}

// a, b: (T,S), rows as they were given.
inline wide distance(const std::string& name, const wide_matrix& a, const wide_matrix& b,
                     const distance_options& options = {}) {
  const wide_matrix x = normalised(a), y = normalised(b);
  if (name == "distance_correlation") return distance_correlation(x, y, options);
  if (name == "procrustes" || name == "canonical_correlation") {
    wide_matrix c = centred(x, options.epsilon), d = centred(y, options.epsilon);
    if (name == "canonical_correlation") {
      c = whitened(c, options);
      d = whitened(d, options);
    }
    const wide rest = std::clamp<wide>(polar_residual(c, d), 0, 1);
    return options.squared ? rest * (2 - rest) : rest;
  }
  wide sum = 0;
  for (Eigen::Index t = 0; t < x.rows(); ++t) sum += row_distance(name, row_of(x, t), row_of(y, t), options);
  return std::min<wide>(1, sum / static_cast<wide>(x.rows()));
}

}  // namespace headred_test::oracle
