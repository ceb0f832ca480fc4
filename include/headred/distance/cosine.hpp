#pragma once

#include <cmath>

#include <headred/distance/row_forms.hpp>
#include <headred/distance/token_pairs.hpp>

namespace headred {

/// Cosine distance of two heads: the mean over query rows of 1 - p.q / (|p| |q|).
/// Maps (T,S), entries >= 0; result in [0,1]. Two zero rows are at 0, a zero row and another at 1.
/// Cost T S multiply-adds a pair of heads. Bian et al. (NAACL 2021), token level.
struct cosine : detail::token_distance<cosine> {
  static constexpr std::string_view name = "cosine";

  using terms = detail::product_terms;
  static constexpr double one_constant = 1;

  /// Row -> unit vector.
  static detail::row_kind prepare(double* row, index_t keys, double /*epsilon*/) {
    double squares = 0;
    for (index_t k = 0; k < keys; ++k) squares += row[k] * row[k];
    const double norm = std::sqrt(squares);
    for (index_t k = 0; k < keys; ++k) row[k] /= norm;
    return detail::row_kind::regular;
  }
  /// Inner product of unit vectors -> distance.
  template <int Lanes>
  static HEADRED_INLINE detail::pack<double, Lanes> finish(const detail::pack<double, Lanes>& product) {
    using vec = detail::pack<double, Lanes>;
    const vec zero{}, one = detail::broadcast<vec>(1.);
    return 1. - detail::select_less(product, zero, zero, detail::select_less(one, product, one, product));
  }
  static bool close(double product) { return product > 1 - 1e-3; }
  /// |a - b|^2 / 2 for unit vectors.
  static double stable(const double* a, const double* b, index_t n) {
    return std::min(1.0, .5 * detail::squared_difference(a, b, n));
  }
};

}  // namespace headred
