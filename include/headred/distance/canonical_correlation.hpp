#pragma once

#include <string>
#include <string_view>

#include <headred/core/number_text.hpp>
#include <headred/core/status.hpp>
#include <headred/distance/matrix_pairs.hpp>
#include <headred/distance/policy.hpp>
#include <headred/numeric/whiten.hpp>

namespace headred {

/// Canonical-correlation distance of two heads: 1 - |Wx^T Wy|_* / (|Wx|_F |Wy|_F), W = Xc (C + lambda tr(C)/S I)^(-1/2),
/// C = Xc^T Xc / T: the Procrustes distance of the whitened maps. The ridge (headred's choice) is what makes it mean
/// something: without it all canonical correlations of two T x T maps are 1 and every distance is 0.
/// Maps (T,S); result in [0,1]; status underdetermined where T < S (the ridge does not help there).
/// Two maps with all rows equal (one token included) are at 0, one such map and another at 1.
/// Cost: Procrustes' plus one symmetric eigendecomposition (S,S) a head. Hotelling (1936); Bian et al. (NAACL 2021).
struct canonical_correlation {
  static constexpr std::string_view name = "canonical_correlation";
  static constexpr distance_level level = distance_level::sentence;
  template <class Real>
  using workspace = detail::matrix_workspace<Real>;

  whitening kind = whitening::ridge;
  double lambda = .01;    ///< of the ridge, relative to the mean eigenvalue of C; in [1e-12,1e6]
  double variance = .99;  ///< share kept by `truncated`; in [0.001,1]

  /// Centres and whitens one map; false if nothing is left.
  bool prepare(double* x, index_t tokens, index_t keys, double epsilon, grow_buffer<double>& scratch) const {
    if (!detail::centre_columns(x, tokens, keys, epsilon)) return false;
    detail::whiten(x, tokens, keys, kind, kind == whitening::truncated ? variance : lambda, scratch);
    return true;
  }

  /// The options as text: what two accumulators must agree on.
  std::string settings() const {
    constexpr std::string_view names[] = {"ridge", "half_dof", "truncated"};
    const double amount = kind == whitening::truncated ? variance : kind == whitening::ridge ? lambda : 0;
    return std::string(names[static_cast<int>(kind)]) + " " + number_text(amount);
  }

  template <class Real, class Runner>
  status pairs(Runner& tasks, const detail::sentence_maps& maps, workspace<Real>& work,
               tensor_view<double, 2> out) const {
    if (!(lambda >= 1e-12 && lambda <= 1e6))
      throw argument_error("canonical_correlation: lambda is " + number_text(lambda) + ", expected 1e-12 to 1e6");
    if (!(variance >= 1e-3 && variance <= 1))
      throw argument_error("canonical_correlation: variance is " + number_text(variance) + ", expected 0.001 to 1");
    detail::prepare_matrices<Real>(*this, tasks, maps, work);
    detail::nuclear_pairs<Real>(
        tasks, maps, {.none = false, .kind = kind, .amount = kind == whitening::truncated ? variance : lambda}, work,
        [](double rest) { return rest; }, out);
    return maps.queries() < maps.keys() ? status::underdetermined : status::converged;
  }
};

}  // namespace headred
