// Procrustes and canonical correlation by their definition, 1 - |X^T Y|_*, in numbers of 32 digits: what maps that differ by
// 1e-9 leave of them is enough, where the stable form in long double keeps five. Absolute error about 1e-31.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "oracle/distances.hpp"
#include "oracle/twofold.hpp"

namespace headred_test::oracle {

using twofold_row = std::vector<twofold>;
using twofold_matrix = std::vector<twofold_row>;

inline twofold product_of(const twofold_row& a, const twofold_row& b) {
  twofold sum;
  for (std::size_t k = 0; k < a.size(); ++k) sum = sum + a[k] * b[k];
  return sum;
}

inline twofold_matrix transposed(const twofold_matrix& x) {
  twofold_matrix y(x.front().size(), twofold_row(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < y.size(); ++j) y[j][i] = x[i][j];
  return y;
}

// c_ij = a_i . b_j of rows
inline twofold_matrix products_of(const twofold_matrix& a, const twofold_matrix& b) {
  twofold_matrix c(a.size(), twofold_row(b.size()));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < b.size(); ++j) c[i][j] = product_of(a[i], b[j]);
  return c;
}

inline void scale_to_one(twofold_matrix& x) {
  twofold squares;
  for (const auto& row : x) squares = squares + product_of(row, row);
  for (auto& row : x)
    for (twofold& value : row) value = value / root(squares);
}

// Rows divided by their sums, columns centred, norm 1: column by column.
inline twofold_matrix centred_columns(const wide_matrix& x) {
  twofold_matrix c(static_cast<std::size_t>(x.cols()), twofold_row(static_cast<std::size_t>(x.rows())));
  for (std::size_t t = 0; t < c.front().size(); ++t) {
    const auto at = [&](std::size_t k) {
      return static_cast<double>(x(static_cast<Eigen::Index>(t), static_cast<Eigen::Index>(k)));
    };
    twofold sum;
    for (std::size_t k = 0; k < c.size(); ++k) sum = sum + at(k);
    for (std::size_t k = 0; k < c.size(); ++k) c[k][t] = sum.high == 0 ? twofold() : twofold(at(k)) / sum;
  }
  for (auto& column : c) {
    twofold mean;
    for (const twofold& value : column) mean = mean + value;
    mean = mean / twofold(static_cast<double>(column.size()));
    for (twofold& value : column) value = value - mean;
  }
  scale_to_one(c);
  return c;
}

// Rows turned by Jacobi rotations until they are orthogonal: their lengths are the singular values then.
inline twofold_matrix orthogonal_rows(twofold_matrix a) {
  const std::size_t n = a.size();
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < 60; ++sweep) {
    rotated = false;
    std::vector<twofold> squares(n);
    for (std::size_t i = 0; i < n; ++i) squares[i] = product_of(a[i], a[i]);
    for (std::size_t p = 0; p + 1 < n; ++p)
      for (std::size_t q = p + 1; q < n; ++q) {
        if (squares[p].high < 1e-66 || squares[q].high < 1e-66) continue;  // nothing of 1e-32
        const twofold product = product_of(a[p], a[q]);
        if (std::abs(product.high) <= 1e-29 * std::sqrt(squares[p].high * squares[q].high)) continue;
        rotated = true;
        const twofold half = (squares[q] - squares[p]) / (twofold(2) * product),
                      length = root(half * half + twofold(1));
        const twofold t = twofold(1) / (half.high < 0 ? half - length : half + length);
        const twofold c = twofold(1) / root(twofold(1) + t * t), s = c * t;
        for (std::size_t k = 0; k < a[p].size(); ++k) {
          const twofold x = a[p][k], y = a[q][k];
          a[p][k] = c * x - s * y;
          a[q][k] = s * x + c * y;
        }
        squares[p] = squares[p] - t * product;
        squares[q] = squares[q] + t * product;
      }
  }
  return a;
}

// The leading left singular vectors of X that carry the share of variance.
inline twofold_matrix leading_columns(const twofold_matrix& x, const distance_options& options) {
  std::vector<std::pair<twofold, twofold_row>> components;
  for (auto& row : orthogonal_rows(x)) components.emplace_back(product_of(row, row), row);
  std::sort(components.begin(), components.end(),
            [](const auto& a, const auto& b) { return a.first.high > b.first.high; });
  double carried = 0;
  twofold_matrix kept;
  for (const auto& [square, row] : components) {
    if (!(carried < static_cast<double>(options.variance) && square.high > 1e-12 * components.front().first.high))
      break;
    carried += square.high;
    kept.push_back(row);
    for (twofold& value : kept.back()) value = value / root(square);
  }
  scale_to_one(kept);
  return kept;
}

// X L^-T for X^T X + r I = L L^T: a whitening up to a rotation, which the distance does not see. The ridge r is lambda / S
// for X of norm 1, or (half_dof) such that tr X^T X (X^T X + r I)^-1 is half the rank.
inline twofold_matrix whitened_columns(const twofold_matrix& x, const distance_options& options) {
  const std::size_t n = x.size();
  const twofold_matrix covariance = products_of(x, x);
  twofold ridge = twofold(static_cast<double>(options.lambda)) / twofold(static_cast<double>(n));
  twofold_matrix lower;
  const auto factor = [&] {
    lower = covariance;
    for (std::size_t j = 0; j < n; ++j) {
      lower[j][j] = lower[j][j] + ridge;
      for (std::size_t k = 0; k < j; ++k) lower[j][j] = lower[j][j] - lower[j][k] * lower[j][k];
      lower[j][j] = root(lower[j][j]);
      for (std::size_t i = j + 1; i < n; ++i) {
        for (std::size_t k = 0; k < j; ++k) lower[i][j] = lower[i][j] - lower[i][k] * lower[j][k];
        lower[i][j] = lower[i][j] / lower[j][j];
      }
    }
  };
  // columns of y L^-T for columns y
  const auto solve = [&](twofold_matrix y) {
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t t = 0; t < y.front().size(); ++t) {
        for (std::size_t k = 0; k < j; ++k) y[j][t] = y[j][t] - lower[j][k] * y[k][t];
        y[j][t] = y[j][t] / lower[j][j];
      }
    return y;
  };
  if (options.kind == distance_options::half_dof) {
    Eigen::Matrix<wide, Eigen::Dynamic, Eigen::Dynamic> c(n, n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j)
        c(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j)) = covariance[i][j].high;
    const Eigen::SelfAdjointEigenSolver<wide_matrix> eigen(c, Eigen::EigenvaluesOnly);
    double rank = 0;
    for (const wide value : eigen.eigenvalues()) rank += value > 1e-12L * eigen.eigenvalues().maxCoeff() ? 1 : 0;
    wide low = 1e-20L, high = 1e3L;
    for (int step = 0; step < 100; ++step) {
      const wide middle = std::sqrt(low * high);
      wide degrees = 0;
      for (const wide value : eigen.eigenvalues()) degrees += value / (value + middle);
      (degrees > rank / 2 ? low : high) = middle;
    }
    ridge = twofold(static_cast<double>(low));
    // the last digits by Newton
    for (int step = 0; step < 10; ++step) {
      factor();
      twofold_matrix identity(n, twofold_row(n));
      for (std::size_t i = 0; i < n; ++i) identity[i][i] = twofold(1);
      const twofold_matrix inverse_root = solve(identity);  // L^-T
      twofold trace;
      for (const auto& column : inverse_root) trace = trace + product_of(column, column);
      const twofold_matrix gram = products_of(inverse_root, inverse_root);
      twofold squares;
      for (const auto& column : gram) squares = squares + product_of(column, column);
      const twofold change = (twofold(static_cast<double>(n) - rank / 2) - ridge * trace) / (trace - ridge * squares);
      ridge = ridge + change;
      if (std::abs(change.high) < 1e-25 * ridge.high) break;
    }
  }
  factor();
  twofold_matrix y = solve(x);
  scale_to_one(y);
  return y;
}

// a, b: (T,S), rows as they were given, entries that are doubles.
inline double matrix_distance(const std::string& name, const wide_matrix& a, const wide_matrix& b,
                              const distance_options& options = {}) {
  const auto nothing_left = [&](const wide_matrix& m) { return centred(normalised(m), options.epsilon).norm() == 0; };
  const bool zero_a = nothing_left(a), zero_b = nothing_left(b);
  if (zero_a || zero_b) return zero_a == zero_b ? 0 : 1;
  twofold_matrix x = centred_columns(a), y = centred_columns(b);
  if (name == "canonical_correlation") {
    const bool truncated = options.kind == distance_options::truncated;
    x = truncated ? leading_columns(x, options) : whitened_columns(x, options);
    y = truncated ? leading_columns(y, options) : whitened_columns(y, options);
  }
  twofold sum;
  for (const auto& row : orthogonal_rows(products_of(x, y))) sum = sum + root(product_of(row, row));
  const twofold rest = twofold(1) - sum;
  const double value = std::clamp(rest.high, 0.0, 1.0);
  return options.squared ? value * (2 - value) : value;
}

}  // namespace headred_test::oracle
