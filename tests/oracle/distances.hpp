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

// p/a - q/b without the rounding of either quotient, which for rows that differ by 1e-9 would show in the tenth digit.
inline wide quotient_difference(wide p, wide a, wide q, wide b) {
  return ((p - q) * (a + b) + (p + q) * (b - a)) / (2 * a * b);
}

inline wide half_squared_difference(const wide_row& p, wide p_size, const wide_row& q, wide q_size) {
  wide sum = 0;
  for (std::size_t k = 0; k < p.size(); ++k) {
    const wide difference = quotient_difference(p[k], p_size, q[k], q_size);
    sum += difference * difference;
  }
  return sum / 2;
}

inline wide sum_of(const wide_row& p) {
  wide sum = 0;
  for (const wide v : p) sum += v;
  return sum;
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

// JSD in nats of the rows divided by their sums
inline wide divergence(const wide_row& p, const wide_row& q) {
  const wide a = sum_of(p), b = sum_of(q);
  wide sum = 0;
  for (std::size_t k = 0; k < p.size(); ++k) {
    const wide total = p[k] / a + q[k] / b;
    if (total > 0)
      sum += total / 2 * divergence_term(std::min(1.0L, std::abs(quotient_difference(p[k], a, q[k], b)) / total));
  }
  return sum / 2;
}

// p, q as they were given.
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
    wide_row difference, total;
    for (std::size_t k = 0; k < p.size(); ++k) {
      difference.push_back(p[k] - q[k]);
      total.push_back(p[k] + q[k]);
    }
    const bool constant_p = centre(p), constant_q = centre(q);
    if (constant_p || constant_q) return constant_p == constant_q ? 0 : .5L;
    // p/a - q/b from what the rows differ by: the entries' own rounding, 1e-19, would show for rows that differ by 1e-9
    centre(difference);
    centre(total);
    const wide a = norm_of(p), b = norm_of(q);
    wide product = 0, sum = 0;
    for (std::size_t k = 0; k < p.size(); ++k) product += difference[k] * total[k];
    for (std::size_t k = 0; k < p.size(); ++k) {
      const wide d = (difference[k] * (a + b) - total[k] * product / (a + b)) / (2 * a * b);
      sum += d * d;
    }
    return sum / 4;
  }
  if (name == "jensen_shannon") return std::sqrt(divergence(p, q) / std::log(2.0L));
  if (name == "bhattacharyya") {
    const wide a = sum_of(p), b = sum_of(q);
    wide sum = 0;
    for (std::size_t k = 0; k < p.size(); ++k) {
      const wide roots = std::sqrt(p[k] / a) + std::sqrt(q[k] / b), difference = quotient_difference(p[k], a, q[k], b);
      if (roots > 0) sum += difference / roots * (difference / roots);
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

// Double-centred (biased) or U-centred.
inline wide_matrix double_centred(const wide_matrix& a, bool unbiased) {
  const auto tokens = static_cast<wide>(a.rows());
  const wide divisor = unbiased ? tokens - 2 : tokens;
  const wide whole = a.sum() / (unbiased ? (tokens - 1) * (tokens - 2) : tokens * tokens);
  wide_matrix c = a;
  for (Eigen::Index i = 0; i < a.rows(); ++i)
    for (Eigen::Index j = 0; j < a.rows(); ++j)
      c(i, j) = unbiased && i == j ? 0 : a(i, j) - a.row(i).sum() / divisor - a.col(j).sum() / divisor + whole;
  return c;
}

// a, b as they were given. What x = a / sum(a) and y differ by is carried along, so that twins do not cancel.
inline wide distance_correlation(const wide_matrix& a, const wide_matrix& b, const distance_options& options) {
  const wide_matrix x = normalised(a), y = normalised(b);
  const Eigen::Index tokens = x.rows();
  wide_matrix difference = x - y;
  for (Eigen::Index t = 0; t < tokens; ++t) {
    const wide sum_a = sum_of(row_of(a, t)), sum_b = sum_of(row_of(b, t));
    if (sum_a == 0 || sum_b == 0) continue;
    for (Eigen::Index k = 0; k < x.cols(); ++k) difference(t, k) = quotient_difference(a(t, k), sum_a, b(t, k), sum_b);
  }
  wide_matrix u(tokens, tokens), v(tokens, tokens), rest(tokens, tokens);  // distances, and u - v
  for (Eigen::Index i = 0; i < tokens; ++i)
    for (Eigen::Index j = 0; j < tokens; ++j) {
      u(i, j) = (x.row(i) - x.row(j)).norm();
      v(i, j) = (y.row(i) - y.row(j)).norm();
      const wide product = (difference.row(i) - difference.row(j)).dot(x.row(i) - x.row(j) + y.row(i) - y.row(j));
      rest(i, j) = u(i, j) + v(i, j) > 0 ? product / (u(i, j) + v(i, j)) : 0;
    }
  const wide_matrix c = double_centred(u, options.unbiased), d = double_centred(v, options.unbiased);
  // all rows equal, or all distances between rows equal, which U-centring takes away: nothing above rounding is left
  const auto nothing = [&](const wide_matrix& m, const wide_matrix& distances, const wide_matrix& centred_distances) {
    return centred(m, options.epsilon).norm() == 0 ||
           centred_distances.norm() <= 16 * options.epsilon * std::sqrt(static_cast<wide>(tokens)) * distances.norm();
  };
  const bool zero_x = nothing(x, u, c), zero_y = nothing(y, v, d);
  if (zero_x || zero_y) return zero_x == zero_y ? 0 : 1;
  const wide_matrix minus = double_centred(rest, options.unbiased), plus = c + d;
  const wide p = c.norm(), q = d.norm(), q_minus_p = -minus.cwiseProduct(plus).sum() / (p + q);
  const wide e = ((minus * (p + q) + plus * q_minus_p) / (2 * p * q)).squaredNorm() / 2;
  if (options.unbiased) return std::clamp<wide>(e, 0, 1);
  return e >= 1 ? 1 : e / (1 + std::sqrt(1 - e));
}

// a, b: (T,S), rows as they were given.
inline wide distance(const std::string& name, const wide_matrix& a, const wide_matrix& b,
                     const distance_options& options = {}) {
  if (name == "distance_correlation") return distance_correlation(a, b, options);
  if (name == "procrustes" || name == "canonical_correlation") {
    wide_matrix c = centred(normalised(a), options.epsilon), d = centred(normalised(b), options.epsilon);
    if (name == "canonical_correlation") {
      c = whitened(c, options);
      d = whitened(d, options);
    }
    const wide rest = std::clamp<wide>(polar_residual(c, d), 0, 1);
    return options.squared ? rest * (2 - rest) : rest;
  }
  wide sum = 0;
  for (Eigen::Index t = 0; t < a.rows(); ++t) sum += row_distance(name, row_of(a, t), row_of(b, t), options);
  return std::min<wide>(1, sum / static_cast<wide>(a.rows()));
}

}  // namespace headred_test::oracle
