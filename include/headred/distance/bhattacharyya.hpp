#pragma once

#include <cmath>

#include <headred/distance/row_forms.hpp>
#include <headred/distance/token_pairs.hpp>

namespace headred {

/// Bhattacharyya distance of two heads in its bounded form (the Hellinger metric): the mean over query rows of
/// sqrt(1 - sum_k sqrt(p_k q_k)).
/// Maps (T,S), rows sum to 1; result in [0,1], 1 for rows without a common key. Two zero rows are at 0, one at 1.
/// Cost T S multiply-adds a pair of heads and one square root an entry. Bian et al. (NAACL 2021), token level.
struct bhattacharyya : detail::token_distance<bhattacharyya> {
  static constexpr std::string_view name = "bhattacharyya";

  using terms = detail::product_terms;
  static constexpr double one_constant = 1;

  static detail::row_form prepare(double*, index_t, index_t, double sum, double) {
    return {detail::row_kind::regular, 0, sum};
  }
  /// Square roots, a unit vector.
  template <class Real>
  static HEADRED_INLINE bool shape(const detail::column_block<Real>& rows, const detail::lane_doubles<Real>& sum,
                                   double, bool*) {
    using vec = typename detail::column_block<Real>::vec;
    const vec unit = sum.reciprocal().narrow();
    rows.apply([&](const vec& x) { return detail::sqrt_of<native_lanes<Real>>(x * unit); });
    return false;
  }
  /// Bhattacharyya coefficient -> distance.
  template <int Lanes, class Pack>
  static HEADRED_INLINE Pack finish(const Pack& coefficient) {
    using scalar = detail::lane_type<Pack>;
    const Pack zero{};
    const Pack rest = scalar(1) - coefficient;
    return detail::sqrt_of<Lanes>(detail::select_less(rest, zero, zero, rest));
  }
  static constexpr bool close_above = true;
  template <class Real>
  static constexpr double close_limit(index_t) {
    return 1 - 1e-2;
  }
  /// sqrt of 1 - BC = sum (sqrt p - sqrt q)^2 / 2.
  static double stable(const detail::scaled_row& a, const detail::scaled_row& b, index_t keys) {
    return std::min(1.0, std::sqrt(.5 * detail::squared_root_difference(a, b, keys)));
  }
};

}  // namespace headred
