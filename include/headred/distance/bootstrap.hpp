// Bootstrap over sentences: how much would a result move with other sentences of the same kind?
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <headred/backend/concept.hpp>
#include <headred/core/random.hpp>
#include <headred/distance/upper_triangle.hpp>

namespace headred {

/// How a bootstrap draws.
struct bootstrap_options {
  index_t resamples = 1000;
  double level = 0.95;  ///< probability that an interval covers, in (0,1)
  std::uint64_t seed = 0;
};

/// Entry q is about the q-th number of the statistic.
struct bootstrap_result {
  std::vector<double> estimate;  ///< of the sentences as they are
  std::vector<double> lower;     ///< percentile (1 - level) / 2 of the resamples
  std::vector<double> upper;     ///< percentile (1 + level) / 2
};

/// Maps how often each sentence occurs (one count a sentence, their sum is the number of sentences) to numbers.
template <class F>
concept sentence_statistic = requires(const F& f, std::span<const index_t> counts) {
  { f(counts) } -> std::convertible_to<std::vector<double>>;
};

namespace detail {

// The p-quantile of ascending numbers, linear between neighbours (type 7 of Hyndman and Fan 1996, NumPy's default).
inline double quantile_of_sorted(std::span<const double> sorted, double p) {
  const double at = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  if (below + 1 >= sorted.size()) return sorted.back();
  return std::lerp(sorted[below], sorted[below + 1], at - static_cast<double>(below));
}

}  // namespace detail

/// Percentile intervals of any statistic when sentences are drawn again with replacement.
///   statistic : counts (sentences) -> std::vector<double>, always of one size; called from several threads at once
///   resample r draws `sentences` numbers from random_stream(seed, r)
/// A pure function of its arguments, for any number of threads. One sentence or one resample: intervals of width 0.
/// Throws argument_error for options out of range, sentences < 1, and a statistic that changes its size or is not
/// finite; what the statistic throws passes through. Cost: resamples + 1 calls, 8 resamples bytes a number.
/// Source: Efron and Tibshirani 1993, section 13.3 (the percentile interval).
template <host_backend Backend, sentence_statistic Statistic>
bootstrap_result bootstrap(Backend& be, index_t sentences, const Statistic& statistic, bootstrap_options options = {}) {
  if (sentences < 1)
    throw argument_error("bootstrap: sentences is " + std::to_string(sentences) + ", expected at least 1");
  if (options.resamples < 1)
    throw argument_error("bootstrap: resamples is " + std::to_string(options.resamples) + ", expected at least 1");
  if (!(options.level > 0 && options.level < 1))
    throw argument_error("bootstrap: level is " + std::to_string(options.level) + ", expected between 0 and 1");

  bootstrap_result result;
  result.estimate = statistic(std::vector<index_t>(static_cast<std::size_t>(sentences), 1));
  const std::size_t size = result.estimate.size();
  const auto check = [size](const std::vector<double>& values, const std::string& name) {
    if (values.size() != size)
      throw argument_error("bootstrap: the statistic of " + name + " has " + std::to_string(values.size()) +
                           " numbers, expected " + std::to_string(size));
    for (std::size_t q = 0; q < size; ++q)
      if (!std::isfinite(values[q]))
        throw argument_error("bootstrap: number " + std::to_string(q) + " of the statistic of " + name +
                             " is not finite");
  };
  check(result.estimate, "all sentences");

  const auto resamples = static_cast<std::size_t>(options.resamples);
  if (size > 0 && resamples > std::numeric_limits<std::size_t>::max() / sizeof(double) / size)
    throw argument_error("bootstrap: resamples is " + std::to_string(options.resamples) + ", too many for " +
                         std::to_string(size) + " numbers each");
  std::vector<double> drawn(size * resamples);  // [number][resample]
  be.for_each(options.resamples, [&](index_t r) {
    const random_stream random(options.seed, static_cast<std::uint64_t>(r));
    std::vector<index_t> counts(static_cast<std::size_t>(sentences));
    for (std::size_t i = 0; i < counts.size(); ++i) ++counts[random.below(i, counts.size())];
    const std::vector<double> values = statistic(std::span<const index_t>(counts));
    check(values, "resample " + std::to_string(r));
    for (std::size_t q = 0; q < size; ++q) drawn[q * resamples + static_cast<std::size_t>(r)] = values[q];
  });
  be.synchronize();

  result.lower.resize(size);
  result.upper.resize(size);
  be.for_each(static_cast<index_t>(size), [&](index_t number) {
    const auto q = static_cast<std::size_t>(number);
    const std::span<double> sorted(drawn.data() + q * resamples, resamples);
    std::sort(sorted.begin(), sorted.end());
    result.lower[q] = detail::quantile_of_sorted(sorted, (1 - options.level) / 2);
    result.upper[q] = detail::quantile_of_sorted(sorted, (1 + options.level) / 2);
  });
  be.synchronize();
  return result;
}

/// Intervals for means over sentences: of each column of a table with one row a sentence.
///   values : (sentences, quantities), such as the layer_gap profile of each sentence's matrix
/// Throws as bootstrap; the first row that is not finite is named. Cost O(resamples sentences quantities).
template <host_backend Backend, host_matrix Matrix>
bootstrap_result bootstrap_mean(Backend& be, const Matrix& values, bootstrap_options options = {}) {
  const auto view = as_view(values);
  const index_t sentences = view.extent(0), quantities = view.extent(1);
  for (index_t i = 0; i < sentences; ++i)
    for (index_t q = 0; q < quantities; ++q) detail::finite_entry(view, i, q, "bootstrap_mean: values");
  const auto mean = [&](std::span<const index_t> counts) {
    std::vector<double> sum(static_cast<std::size_t>(quantities));
    for (index_t i = 0; i < sentences; ++i) {
      const auto count = static_cast<double>(counts[static_cast<std::size_t>(i)]);
      if (count == 0) continue;
      for (index_t q = 0; q < quantities; ++q) sum[static_cast<std::size_t>(q)] += count * double(view(i, q));
    }
    for (double& s : sum) s /= static_cast<double>(sentences);
    return sum;
  };
  return bootstrap(be, sentences, mean, options);
}

}  // namespace headred
