// character_error_rate: how many characters must be changed.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <headred/nn/metrics/code_points.hpp>

namespace headred {

/// The least number of insertions, deletions and replacements that make one sequence of the other (Levenshtein 1966).
/// Cost: the product of the lengths.
template <class Sequence>
index_t edit_distance(const Sequence& a, const Sequence& b) {
  const std::size_t n = std::size(b);
  std::vector<index_t> row(n + 1);
  for (std::size_t j = 0; j <= n; ++j) row[j] = static_cast<index_t>(j);
  for (const auto& symbol : a) {
    index_t corner = row[0]++;
    for (std::size_t j = 0; j < n; ++j) {
      const index_t replaced = corner + (symbol == b[j] ? 0 : 1);
      corner = row[j + 1];
      row[j + 1] = std::min({replaced, corner + 1, row[j] + 1});
    }
  }
  return row[n];
}

/// Edits and reference characters, summed over sentences.
struct character_errors {
  index_t edits = 0;
  index_t reference_characters = 0;

  /// Edits over reference characters, in [0,infinity); NaN without a reference character.
  double rate() const {
    if (reference_characters == 0) return std::numeric_limits<double>::quiet_NaN();
    return static_cast<double>(edits) / static_cast<double>(reference_characters);
  }
  /// Adds a pair of UTF-8 texts, compared by code points. Throws argument_error for text that is not UTF-8.
  void add(std::string_view hypothesis, std::string_view reference) {
    const std::u32string to = code_points(reference);
    edits += edit_distance(code_points(hypothesis), to);
    reference_characters += static_cast<index_t>(to.size());
  }
};

/// Edits over reference characters of all sentences together. Throws argument_error for lists of different lengths, and
/// for text that is not UTF-8.
inline double character_error_rate(std::span<const std::string> hypotheses, std::span<const std::string> references) {
  if (hypotheses.size() != references.size())
    throw argument_error("character_error_rate: " + std::to_string(hypotheses.size()) + " hypotheses for " +
                         std::to_string(references.size()) + " references");
  character_errors errors;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) errors.add(hypotheses[i], references[i]);
  return errors.rate();
}

}  // namespace headred
