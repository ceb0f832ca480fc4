// relevance_ledger: where the relevance of a sweep went, op by op.
#pragma once

#include <cmath>
#include <vector>

#include <headred/lrp/relevance_rules.hpp>

namespace headred {

/// An op's account: out = in + bias + eps + rescale + nonlinear, sums of relevance, none computed from the others.
struct ledger_entry {
  relevance_op op = relevance_op::linear;
  double out = 0;           ///< sum R of the op's outputs
  double in = 0;            ///< sum R that it handed to its inputs
  relevance_terms lost;     ///< bias, eps, nonlinear
  double rescale = 0;       ///< what rescaling took; negative where it gave
  double absolute_out = 0;  ///< sum |R|
  double absolute_in = 0;
  index_t output = -1;  ///< number of the slot on the tape that the op wrote: which of its kind it is

  /// out - (in + all terms): rounding errors.
  double residual() const { return out - (in + lost.bias + lost.eps + rescale + lost.nonlinear); }
};

/// Entries in the order of the sweep, last op first.
struct relevance_ledger {
  std::vector<ledger_entry> entries;

  /// Greatest |residual| / max(sum|R_out|, sum|R_in|) of an op; 0 without entries.
  double worst_residual() const {
    double worst = 0;
    for (const ledger_entry& e : entries) {
      const double size = std::max(e.absolute_out, e.absolute_in);
      const double r = size > 0 ? std::abs(e.residual()) / size : std::abs(e.residual());
      if (!(r <= worst)) worst = r;
    }
    return worst;
  }
};

}  // namespace headred
