// Distance correlation of maps that are close, from its definition in numbers of 32 digits.
#pragma once

#include "oracle/matrix_distances.hpp"

namespace headred_test::oracle {

// The distances between rows, double-centred, of norm 1, as one long row.
inline twofold_matrix unit_distances(const wide_matrix& x) {
  const auto size = static_cast<std::size_t>(x.rows());
  twofold_matrix rows(size, twofold_row(static_cast<std::size_t>(x.cols())));
  for (std::size_t t = 0; t < size; ++t) {
    twofold sum;
    for (std::size_t k = 0; k < rows[t].size(); ++k) {
      rows[t][k] = twofold(static_cast<double>(x(static_cast<Eigen::Index>(t), static_cast<Eigen::Index>(k))));
      sum = sum + rows[t][k];
    }
    for (twofold& value : rows[t]) value = value / sum;
  }
  twofold_matrix a(size, twofold_row(size));
  const twofold count(static_cast<double>(size));
  twofold_row mean(size);
  twofold whole;
  for (std::size_t i = 0; i < size; ++i)
    for (std::size_t j = 0; j < size; ++j) {
      twofold squares;
      for (std::size_t k = 0; k < rows[i].size(); ++k) {
        const twofold d = rows[i][k] - rows[j][k];
        squares = squares + d * d;
      }
      a[i][j] = root(squares);
      mean[i] = mean[i] + a[i][j] / count;
    }
  for (const twofold& m : mean) whole = whole + m / count;
  for (std::size_t i = 0; i < size; ++i)
    for (std::size_t j = 0; j < size; ++j) a[i][j] = a[i][j] - mean[i] - mean[j] + whole;
  scale_to_one(a);
  return a;
}

// e / (1 + sqrt(1 - e)), e = |A - B|^2 / 2 of unit distances.
inline double twin_distance_correlation(const wide_matrix& x, const wide_matrix& y) {
  const twofold_matrix a = unit_distances(x), b = unit_distances(y);
  twofold e;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a.size(); ++j) {
      const twofold d = a[i][j] - b[i][j];
      e = e + d * d * twofold(.5);
    }
  return (e / (twofold(1) + root(twofold(1) - e))).high;
}

}  // namespace headred_test::oracle
