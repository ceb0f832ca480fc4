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

  /// Row -> square roots: a unit vector.
  static detail::row_kind prepare(double* row, index_t keys, double /*epsilon*/) {
    constexpr int lanes = native_lanes<double>;
    using vec = detail::pack<double, lanes>;
    // the row's memory is padded with zeros to whole packs
    for (index_t k = 0; k < keys; k += lanes) detail::store(row + k, detail::sqrt_of<lanes>(detail::load<vec>(row + k)));
    return detail::row_kind::regular;
  }
  /// Bhattacharyya coefficient -> distance.
  template <int Lanes>
  static HEADRED_INLINE detail::pack<double, Lanes> finish(const detail::pack<double, Lanes>& coefficient) {
    using vec = detail::pack<double, Lanes>;
    const vec zero{};
    const vec rest = 1. - coefficient;
    return detail::sqrt_of<Lanes>(detail::select_less(rest, zero, zero, rest));
  }
  static bool close(double coefficient) { return coefficient > 1 - 1e-2; }
  /// sqrt of 1 - BC = |a - b|^2 / 2 for square roots.
  static double stable(const double* a, const double* b, index_t n) {
    return std::min(1.0, std::sqrt(.5 * detail::squared_difference(a, b, n)));
  }
};

}  // namespace headred
