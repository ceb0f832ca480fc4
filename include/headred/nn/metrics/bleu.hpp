// bleu: how many short runs of words a translation shares with its reference.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <headred/nn/metrics/lower_case.hpp>
#include <headred/nn/metrics/tokenize_13a.hpp>

namespace headred {

/// How BLEU is counted; the defaults are sacreBLEU's.
struct bleu_options {
  bool lowercase = false;        ///< compare without regard to case
  bool effective_order = false;  ///< average over the run lengths that the hypothesis has: for single sentences
};

/// What BLEU counts, summed over sentences; n-grams of n = 1 to 4 words.
struct bleu_counts {
  std::array<index_t, 4> correct{};  ///< n-grams of the hypothesis that the reference has, each as often as there
  std::array<index_t, 4> total{};    ///< n-grams of the hypothesis
  index_t hypothesis_length = 0;     ///< words
  index_t reference_length = 0;
};

/// A BLEU score and its parts.
struct bleu_score {
  double score = 0;                    ///< in [0,100]
  std::array<double, 4> precisions{};  ///< in [0,100], smoothed
  double brevity_penalty = 1;          ///< in [0,1]
  bleu_counts counts;
};

/// Adds a pair of UTF-8 texts, cut by tokenize_13a. Throws argument_error for text that is not UTF-8.
inline void add_to_bleu(bleu_counts& counts, std::string_view hypothesis, std::string_view reference,
                        bool lowercase = false) {
  const auto words = [lowercase](std::string_view text) {
    std::u32string points = code_points(text);
    if (lowercase)
      for (char32_t& c : points) c = lower_case(c);
    return tokenize_13a(points);
  };
  const auto found = words(hypothesis), expected = words(reference);
  counts.hypothesis_length += static_cast<index_t>(found.size());
  counts.reference_length += static_cast<index_t>(expected.size());
  for (std::size_t n = 1; n <= 4; ++n) {
    // words hold no blank, so joined by one they stay apart
    const auto count = [n](const std::vector<std::u32string>& all) {
      std::unordered_map<std::u32string, index_t> grams;
      for (std::size_t i = 0; i + n <= all.size(); ++i) {
        std::u32string gram = all[i];
        for (std::size_t j = 1; j < n; ++j) (gram += U' ') += all[i + j];
        ++grams[gram];
      }
      return grams;
    };
    const auto there = count(expected);
    for (const auto& [gram, times] : count(found)) {
      counts.total[n - 1] += times;
      const auto same = there.find(gram);
      if (same != there.end()) counts.correct[n - 1] += std::min(times, same->second);
    }
  }
}

/// BLEU = 100 bp (p_1 p_2 p_3 p_4)^(1/4), p_n = correct_n / total_n, bp = min(1, e^(1 - reference / hypothesis length)).
///   The k-th p_n without a correct n-gram is 1 / (2^k total_n) (exponential smoothing); 0 if nothing is correct or the
///   hypothesis has no n-gram of some n (with effective_order: the mean runs over those that it has).
/// Equal to sacreBLEU's for one reference. Source: Papineni et al. 2002, section 2.3; Chen and Cherry 2014, smoothing 3.
inline bleu_score bleu_of(const bleu_counts& counts, const bleu_options& options = {}) {
  bleu_score b;
  b.counts = counts;
  const double found = static_cast<double>(counts.hypothesis_length);
  if (counts.hypothesis_length < counts.reference_length)
    b.brevity_penalty = found > 0 ? std::exp(1 - static_cast<double>(counts.reference_length) / found) : 0;
  if (std::all_of(counts.correct.begin(), counts.correct.end(), [](index_t n) { return n == 0; })) return b;
  double smoothing = 1, logarithms = 0;
  std::size_t orders = 0;
  for (; orders < 4 && counts.total[orders] > 0; ++orders) {
    const double total = static_cast<double>(counts.total[orders]);
    double& p = b.precisions[orders];
    if (counts.correct[orders] == 0) {
      smoothing *= 2;
      p = 100 / (smoothing * total);
    } else {
      p = 100 * static_cast<double>(counts.correct[orders]) / total;
    }
    logarithms += std::log(p);
  }
  if (orders == 4 || options.effective_order)
    b.score = b.brevity_penalty * std::exp(logarithms / static_cast<double>(orders));
  return b;
}

/// BLEU of all sentences together. Throws argument_error for lists of different lengths and text that is not UTF-8.
inline bleu_score bleu(std::span<const std::string> hypotheses, std::span<const std::string> references,
                       const bleu_options& options = {}) {
  if (hypotheses.size() != references.size())
    throw argument_error("bleu: " + std::to_string(hypotheses.size()) + " hypotheses for " +
                         std::to_string(references.size()) + " references");
  bleu_counts counts;
  for (std::size_t i = 0; i < hypotheses.size(); ++i)
    add_to_bleu(counts, hypotheses[i], references[i], options.lowercase);
  return bleu_of(counts, options);
}

/// BLEU of one sentence, with effective order.
inline bleu_score sentence_bleu(std::string_view hypothesis, std::string_view reference, bool lowercase = false) {
  bleu_counts counts;
  add_to_bleu(counts, hypothesis, reference, lowercase);
  return bleu_of(counts, {.lowercase = lowercase, .effective_order = true});
}

}  // namespace headred
