#pragma once

#include <algorithm>
#include <cmath>

#include <headred/distance/row_forms.hpp>
#include <headred/distance/token_pairs.hpp>

namespace headred {

/// Pearson distance of two heads: the mean over query rows of (1 - r) / 2, r the correlation of the two rows.
/// Maps (T,S); result in [0,1]. A row is constant where |x - mean| <= 16 eps |x|: two constant rows are at 0, one
/// constant row is at 1/2; two zero rows are at 0, a zero row and another at 1.
/// Cost T S multiply-adds a pair of heads. Bian et al. (NAACL 2021), token level.
struct pearson : detail::token_distance<pearson> {
  static constexpr std::string_view name = "pearson";

  using terms = detail::product_terms;
  static constexpr double one_constant = .5;

  /// Shift: the row's mean; scale: the length of what is left, in a second pass.
  static detail::row_form prepare(double* row, index_t keys, index_t padded_keys, double sum, double epsilon) {
    const double mean = sum / static_cast<double>(keys);
    constexpr int lanes = native_lanes<double>;
    using vec = detail::pack<double, lanes>;
    std::fill(row + keys, row + padded_keys, mean);
    vec centred{};
    for (index_t k = 0; k < padded_keys; k += lanes) {
      const vec x = detail::load<vec>(row + k) - mean;
      centred += x * x;
    }
    const double left = detail::lane_sum<lanes>(centred);
    // |x|^2 = |x - mean|^2 + keys mean^2
    const double squares = left + static_cast<double>(keys) * mean * mean;
    const double norm = std::sqrt(left);
    if (norm <= 16 * epsilon * std::sqrt(squares)) return {detail::row_kind::constant, mean, 1};
    return {detail::row_kind::regular, mean, norm};
  }
  /// Centred unit vectors: the mean is taken away twice, since the first time it is rounded to Real.
  template <class Real>
  static HEADRED_INLINE bool shape(const detail::column_block<Real>& rows, const detail::lane_doubles<Real>& sum,
                                   double epsilon, bool* doubtful) {
    using vec = typename detail::column_block<Real>::vec;
    using doubles = typename detail::lane_doubles<Real>::doubles;
    const double keys = static_cast<double>(rows.keys);
    const vec mean = sum.map([&](const doubles& x) { return x / keys; }).narrow();
    const auto [rest, squares] = rows.template sums<2>([&](const vec& x, vec* total) {
      const vec d = x - mean;
      total[0] += d;
      total[1] += d * d;
    });
    const auto left = rest.map([&](const doubles& d, const doubles& d2) { return d2 - d * d / keys; }, squares);
    // clearly not constant: |x - mean| > 64 eps |x|, |x|^2 = |x - mean|^2 + sum^2 / keys
    bool any = false;
    for (int l = 0; l < detail::lane_doubles<Real>::parts * detail::lane_doubles<Real>::wide; ++l) {
      doubtful[l] = !(left[l] > 4096 * epsilon * epsilon * (left[l] + sum[l] * sum[l] / keys));
      any = any || doubtful[l];
    }
    const vec unit = left.root().reciprocal().narrow();
    const vec second = rest.map([&](const doubles& d) { return d / keys; }).narrow();
    rows.apply([&](const vec& x) { return ((x - mean) - second) * unit; });
    return any;
  }
  static constexpr bool linear = true;
  static constexpr double slope = .5;
  static constexpr double close_distance = 1e-3;
  /// |a - b|^2 / 4 for centred unit vectors.
  static double stable(const detail::scaled_row& a, const detail::scaled_row& b, index_t keys) {
    return std::min(1.0, .25 * detail::squared_difference<detail::row_scale::centred_length>(a, b, keys));
  }
};

}  // namespace headred
