// How a numerical computation ended, returned beside its result where failing is part of the mathematics.
#pragma once

#include <string_view>

namespace headred {

/// What the numbers allowed: stands beside a result that is defined in any case.
enum class status {
  converged,        ///< the result is what was asked for
  not_converged,    ///< an iteration stopped at its limit; the result is its last iterate
  degenerate,       ///< the input leaves nothing to decide (all distances zero)
  fewer_clusters,   ///< fewer non-empty clusters were found than were asked for
  undefined,        ///< the quantity is not defined here (silhouette for k = 1 and k = N)
  underdetermined,  ///< fewer observations than unknowns (canonical correlation with T < S)
};

/// The name of a status.
constexpr std::string_view to_string(status s) noexcept {
  switch (s) {
    case status::converged: return "converged";
    case status::not_converged: return "not_converged";
    case status::degenerate: return "degenerate";
    case status::fewer_clusters: return "fewer_clusters";
    case status::undefined: return "undefined";
    case status::underdetermined: return "underdetermined";
  }
  return "unknown";
}

}  // namespace headred
