#pragma once

#include <string>
#include <string_view>

#include <headred/core/status.hpp>
#include <headred/distance/matrix_pairs.hpp>
#include <headred/distance/policy.hpp>

namespace headred {

/// Procrustes distance of two heads: 1 - |Xc^T Yc|_* / (|Xc|_F |Yc|_F), Xc and Yc column-centred, |.|_* the sum of
/// singular values: what no rotation, reflection, shift or scaling of X makes equal to Y.
/// Maps (T,S); result in [0,1]. With `squared`, 1 - ratio^2: the disparity of scipy.spatial.procrustes.
/// Two maps with all rows equal (one token included) are at 0, one such map and another at 1.
/// Cost 2 T S^2 + 8/3 S^3 operations a pair. Bian et al. (NAACL 2021), sentence level; Gower (1975).
struct procrustes {
  static constexpr std::string_view name = "procrustes";
  static constexpr distance_level level = distance_level::sentence;
  template <class Real>
  using workspace = detail::matrix_workspace<Real>;

  bool squared = false;

  /// Centres one map; false if nothing is left.
  bool prepare(double* x, index_t tokens, index_t keys, double epsilon, grow_buffer<double>&) const {
    return detail::centre_columns(x, tokens, keys, epsilon);
  }

  /// The options as text: what two accumulators must agree on.
  std::string settings() const { return squared ? "squared" : ""; }

  template <class Real, class Runner>
  status pairs(Runner& tasks, const detail::sentence_maps& maps, workspace<Real>& work,
               tensor_view<double, 2> out) const {
    detail::prepare_matrices<Real>(*this, tasks, maps, work);
    const bool square = squared;
    detail::nuclear_pairs<Real>(
        tasks, maps, {}, work, [square](double rest) { return square ? rest * (2 - rest) : rest; }, out);
    return status::converged;
  }
};

}  // namespace headred
