// What becomes of a quantity as a rate rises: order, steps and strength, with what the seeds carry.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <headred/core/random.hpp>
#include <headred/importance/rank_comparison.hpp>

namespace examples {

/// A mean over seeds and its standard error.
struct estimate {
  double mean = NAN, error = NAN;
};

inline estimate estimate_of(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double x : values) sum += x;
  for (const double x : values) squares += (x - sum / n) * (x - sum / n);
  return {sum / n, std::sqrt(squares / (n - 1) / n)};
}

/// A quantity over ascending rates, seed by seed.
struct dropout_trend {
  std::vector<double> mean, deviation;  ///< (rates), over seeds
  double spearman = NAN;                ///< with the rate, in [-1,1]: mean over the seeds
  double p = NAN;                       ///< share of permutations within each seed that come out as far from 0
  std::vector<estimate> steps;          ///< (rates - 1): from one rate to the next
  std::vector<double> strength;         ///< (seeds): root mean square of the changes from the first rate

  /// The steps beyond two standard errors: '+' up, '-' down, '0' neither.
  std::string shape() const {
    std::string text;
    for (const estimate& s : steps) text += !(std::abs(s.mean) > 2 * s.error) ? '0' : s.mean > 0 ? '+' : '-';
    return text;
  }
  /// How often the means turn: 0 where they only rise or only fall, 2 for the shape of an N or its mirror image.
  int turns() const {
    int count = 0;
    double before = 0;
    for (const estimate& s : steps) {
      if (s.mean == 0) continue;
      count += s.mean * before < 0 ? 1 : 0;
      before = s.mean;
    }
    return count;
  }
};

namespace detail {

/// Spearman's correlation of values with their places; 0 where all are equal.
inline double rank_trend(const std::vector<double>& values) {
  const std::vector<double> ranks = headred::detail::average_ranks(values);
  const double middle = static_cast<double>(values.size() + 1) / 2;
  double both = 0, own = 0, places = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const double place = static_cast<double>(i + 1) - middle, rank = ranks[i] - middle;
    both += place * rank;
    own += rank * rank;
    places += place * place;
  }
  return own > 0 ? both / std::sqrt(own * places) : 0;
}

}  // namespace detail

/// values : (seeds, rates), at least two of each. A seed is a block: its models share first weights and batches. So
/// ranks and permutations (9999, from a fixed seed, both sides) stay within it, and the error of a step comes from what
/// is left of the values without the means of seeds and rates, with (seeds - 1)(rates - 1) degrees of freedom.
inline dropout_trend trend_of(const std::vector<std::vector<double>>& values) {
  const std::size_t seeds = values.size(), rates = values.front().size();
  dropout_trend t;
  const auto column = [&](std::size_t r) {
    std::vector<double> all;
    for (const auto& row : values) all.push_back(row[r]);
    return all;
  };
  for (std::size_t r = 0; r < rates; ++r) {
    const estimate e = estimate_of(column(r));
    t.mean.push_back(e.mean);
    t.deviation.push_back(e.error * std::sqrt(static_cast<double>(seeds)));
  }
  double whole = 0, left = 0;
  for (const double m : t.mean) whole += m / static_cast<double>(rates);
  for (const auto& row : values) {
    double own = 0;
    for (const double x : row) own += x / static_cast<double>(rates);
    double changes = 0;
    for (std::size_t r = 0; r < rates; ++r) {
      const double rest = row[r] - own - t.mean[r] + whole;
      left += rest * rest;
      changes += (row[r] - row[0]) * (row[r] - row[0]);
    }
    t.strength.push_back(std::sqrt(changes / static_cast<double>(rates - 1)));
  }
  const double variance = left / static_cast<double>((seeds - 1) * (rates - 1));
  for (std::size_t r = 1; r < rates; ++r)
    t.steps.push_back({t.mean[r] - t.mean[r - 1], std::sqrt(2 * variance / static_cast<double>(seeds))});

  const auto mean_trend = [&](const std::vector<std::vector<double>>& rows) {
    double sum = 0;
    for (const auto& row : rows) sum += detail::rank_trend(row);
    return sum / static_cast<double>(seeds);
  };
  t.spearman = mean_trend(values);
  constexpr std::uint64_t permutations = 9999;
  std::uint64_t as_far = 1;  // the values as they are count too
  auto rows = values;
  for (std::uint64_t k = 0; k < permutations; ++k) {
    const headred::random_stream draws(1, k);
    std::uint64_t n = 0;
    for (auto& row : rows)
      for (std::size_t i = rates - 1; i > 0; --i) std::swap(row[i], row[draws.below(n++, i + 1)]);
    if (std::abs(mean_trend(rows)) >= std::abs(t.spearman) - 1e-12) ++as_far;
  }
  t.p = static_cast<double>(as_far) / static_cast<double>(permutations + 1);
  return t;
}

}  // namespace examples
