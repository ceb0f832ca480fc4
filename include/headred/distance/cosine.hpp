#pragma once

#include <cmath>

#include <headred/distance/row_forms.hpp>
#include <headred/distance/token_pairs.hpp>
#include <headred/numeric/vector_loops.hpp>

namespace headred {

/// Cosine distance of two heads: the mean over query rows of 1 - p.q / (|p| |q|).
/// Maps (T,S), entries >= 0; result in [0,1]. Two zero rows are at 0, a zero row and another at 1.
/// Cost T S multiply-adds a pair of heads. Bian et al. (NAACL 2021), token level.
struct cosine : detail::token_distance<cosine> {
  static constexpr std::string_view name = "cosine";

  using terms = detail::product_terms;
  static constexpr double one_constant = 1;

  /// Scale: the row's length.
  static detail::row_form prepare(double* row, index_t /*keys*/, index_t padded_keys, double /*sum*/,
                                  double /*epsilon*/) {
    return {detail::row_kind::regular, 0, std::sqrt(detail::inner_product(row, row, padded_keys))};
  }
  /// Unit vectors.
  template <class Real>
  static HEADRED_INLINE bool shape(const detail::column_block<Real>& rows, const detail::lane_doubles<Real>&, double,
                                   bool*) {
    using vec = typename detail::column_block<Real>::vec;
    const auto [squares] = rows.template sums<1>([](const vec& x, vec* sum) { sum[0] += x * x; });
    const vec unit = squares.root().reciprocal().narrow();
    rows.apply([&](const vec& x) { return x * unit; });
    return false;
  }
  static constexpr bool linear = true;
  static constexpr double slope = 1;
  static constexpr double close_distance = 1e-3;
  /// |a - b|^2 / 2 for unit vectors.
  static double stable(const detail::scaled_row& a, const detail::scaled_row& b, index_t keys) {
    return std::min(1.0, .5 * detail::squared_difference<detail::row_scale::length>(a, b, keys));
  }
};

}  // namespace headred
