// gate_report: which gates have been decided, and can no longer learn.
#pragma once

#include <span>
#include <vector>

#include <headred/sparsity/hard_concrete_rule.hpp>

namespace headred {

/// Gates by what noise still does to them. A gate learns from the loss only in samples strictly between 0 and 1; one
/// that is there in fewer than `alive` of all samples has collapsed, to closed or to open.
struct gate_report {
  std::vector<index_t> closed;     ///< collapsed, log_a <= 0
  std::vector<index_t> open;       ///< collapsed, log_a > 0
  std::vector<index_t> undecided;  ///< the others
  double expected_open = 0;        ///< sum of P(g != 0)

  index_t size() const noexcept { return static_cast<index_t>(closed.size() + open.size() + undecided.size()); }
  /// Whether no gate of at least one is left that could open.
  bool all_closed() const noexcept { return !closed.empty() && open.empty() && undecided.empty(); }
};

/// Sorts gates by P(0 < g < 1) = P(g != 0) - P(g = 1) against `alive`; numbers ascend within each list.
/// Throws argument_error for a NaN, settings out of range, `alive` outside (0,1). Cost O(gates).
inline gate_report report_gates(const hard_concrete& policy, std::span<const double> log_a, double alive = .01) {
  if (!(alive > 0 && alive < 1))
    throw argument_error("report_gates: alive is " + number_text(alive) + ", expected (0,1)");
  gate_report report;
  for (std::size_t i = 0; i < log_a.size(); ++i) {
    const double open = policy.open(log_a[i]);
    const bool learns = open - policy.full(log_a[i]) >= alive;
    (learns ? report.undecided : log_a[i] > 0 ? report.open : report.closed).push_back(static_cast<index_t>(i));
    report.expected_open += open;
  }
  return report;
}

}  // namespace headred
