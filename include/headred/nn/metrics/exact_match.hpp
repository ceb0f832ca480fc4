// exact_match: the share of sentences that are right to the last byte.
#pragma once

#include <limits>
#include <span>
#include <string>

#include <headred/core/error.hpp>

namespace headred {

/// The share of hypotheses equal to their references, in [0,1]; NaN for none. Throws argument_error for lists of different
/// lengths.
inline double exact_match(std::span<const std::string> hypotheses, std::span<const std::string> references) {
  if (hypotheses.size() != references.size())
    throw argument_error("exact_match: " + std::to_string(hypotheses.size()) + " hypotheses for " +
                         std::to_string(references.size()) + " references");
  if (references.empty()) return std::numeric_limits<double>::quiet_NaN();
  index_t right = 0;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) right += hypotheses[i] == references[i] ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(references.size());
}

}  // namespace headred
