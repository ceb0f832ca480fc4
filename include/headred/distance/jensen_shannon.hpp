#pragma once

#include <algorithm>
#include <cmath>

#include <headred/distance/row_forms.hpp>
#include <headred/distance/token_pairs.hpp>

namespace headred {

/// Jensen-Shannon distance of two heads: the mean over query rows of the square root of the Jensen-Shannon divergence
/// in bits, JSD = H((p+q)/2) - (H(p) + H(q))/2; the root of the divergence is the metric.
/// Maps (T,S), rows sum to 1; result in [0,1], 1 for rows without a common key. Two zero rows are at 0, one at 1.
/// Cost T S logarithms a pair of heads. Bian et al. (NAACL 2021), token level; Endres and Schindelin (2003).
struct jensen_shannon : detail::token_distance<jensen_shannon> {
  static constexpr std::string_view name = "jensen_shannon";

  using terms = detail::entropy_terms;
  static constexpr double one_constant = 1;

  static detail::row_form prepare(double*, index_t, index_t, double sum, double) {
    return {detail::row_kind::regular, 0, sum};
  }
  /// Rows that sum to 1.
  template <class Real>
  static HEADRED_INLINE bool shape(const detail::column_block<Real>& rows, const detail::lane_doubles<Real>& sum,
                                   double, bool*) {
    using vec = typename detail::column_block<Real>::vec;
    const vec unit = sum.reciprocal().narrow();
    rows.apply([&](const vec& x) { return x * unit; });
    return false;
  }
  /// Divergence in bits -> distance.
  template <int Lanes, class Pack>
  static HEADRED_INLINE Pack finish(const Pack& divergence) {
    using scalar = detail::lane_type<Pack>;
    const Pack zero{}, one = detail::broadcast<Pack>(scalar(1));
    return detail::sqrt_of<Lanes>(
        detail::select_less(divergence, zero, zero, detail::select_less(one, divergence, one, divergence)));
  }
  /// Below this divergence the difference of entropies has lost too many digits.
  static constexpr bool close_above = false;
  /// An error of 1.8e-7 |log2 x + shift| in float is 2e-6 of the distance at the root of this.
  template <class Real>
  static double close_limit(index_t keys) {
    if (sizeof(Real) == 8) return 4e-3;
    const double bits = std::max(4.0, std::log2(static_cast<double>(keys)) - terms::shift);
    return .045 * .045 * bits * bits;
  }
  static double stable(const detail::scaled_row& a, const detail::scaled_row& b, index_t keys) {
    return std::min(1.0, std::sqrt(.5 / 0.69314718055994530942 * detail::jensen_shannon_terms(a, b, keys)));
  }
};

}  // namespace headred
