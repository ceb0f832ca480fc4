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
  /// Correlation -> distance.
  template <int Lanes, class Pack>
  static HEADRED_INLINE Pack finish(const Pack& r) {
    using scalar = detail::lane_type<Pack>;
    const Pack one = detail::broadcast<Pack>(scalar(1));
    const Pack inside = detail::select_less(r, -one, -one, detail::select_less(one, r, one, r));
    return scalar(.5) * (scalar(1) - inside);
  }
  static constexpr bool close_above = true;
  static constexpr double close_limit = 1 - 2e-3;
  /// |a - b|^2 / 4 for centred unit vectors.
  static double stable(const detail::scaled_row& a, const detail::scaled_row& b, index_t keys) {
    return std::min(1.0, .25 * detail::squared_difference<detail::row_scale::centred_length>(a, b, keys));
  }
};

}  // namespace headred
