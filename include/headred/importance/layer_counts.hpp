// layer_counts: what each layer's scores rest on, where layers are added one by one.
#pragma once

#include <string>
#include <vector>

#include <headred/importance/head_scores.hpp>

namespace headred::detail {

/// Counts of each layer; all layers with heads must have seen the same in the end.
class layer_counts {
 public:
  layer_counts() = default;
  explicit layer_counts(index_t layers) : counts_(static_cast<std::size_t>(layers)) {}

  void add(index_t layer, const score_counts& more) {
    score_counts& own = counts_[static_cast<std::size_t>(layer)];
    own.examples += more.examples;
    own.tokens += more.tokens;
    own.skipped += more.skipped;
  }
  void merge(const layer_counts& other) {
    for (std::size_t l = 0; l < counts_.size(); ++l) add(static_cast<index_t>(l), other.counts_[l]);
  }

  /// What all saw. Throws argument_error if a layer with heads saw none or another number; `what` they are: "step".
  score_counts common(const std::string& who, const std::string& what, const head_layout& layout) const {
    score_counts seen;
    bool first = true;
    for (index_t l = 0; l < layout.layers(); ++l) {
      if (layout.heads(l) == 0) continue;
      const score_counts& own = counts_[static_cast<std::size_t>(l)];
      if (!first && own.examples != seen.examples)
        throw argument_error(who + ": layer " + std::to_string(l) + " saw " + std::to_string(own.examples) + " " +
                             what + "s, the layers before it " + std::to_string(seen.examples));
      seen = own;
      first = false;
    }
    if (!first && seen.examples == 0)
      throw argument_error(who + ": no " + what + " was added (" + std::to_string(seen.skipped) + " skipped)");
    return seen;
  }

 private:
  std::vector<score_counts> counts_;
};

}  // namespace headred::detail
