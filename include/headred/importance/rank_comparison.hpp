// rank_comparison: whether two criteria think alike about which heads matter.
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <headred/importance/head_scores.hpp>

namespace headred {
namespace detail {

/// Both criteria's values of the same heads, in the same order.
inline std::pair<std::vector<double>, std::vector<double>> values_side_by_side(const char* who, const head_scores& a,
                                                                               const head_scores& b,
                                                                               std::vector<attention_kind> kinds) {
  if (kinds.empty()) {
    kinds = a.kinds();
    if (kinds != b.kinds())
      throw argument_error(std::string(who) + ": " + a.criterion() + " and " + b.criterion() +
                           " score different attention kinds; name the kinds to compare");
  }
  std::pair<std::vector<double>, std::vector<double>> both;
  for (const attention_kind kind : kinds) {
    if (a.layout(kind) != b.layout(kind))
      throw shape_error(std::string(who) + ": " + std::string(to_string(kind)) + " has " +
                        std::to_string(b.layout(kind).size()) + " heads in b, or others than a's " +
                        std::to_string(a.layout(kind).size()));
    both.first.insert(both.first.end(), a.of(kind).begin(), a.of(kind).end());
    both.second.insert(both.second.end(), b.of(kind).begin(), b.of(kind).end());
  }
  return both;
}

/// Ranks from 1; equal values share the mean of their ranks.
inline std::vector<double> average_ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return values[i] < values[j]; });
  std::vector<double> ranks(values.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (std::size_t j = i; j < end; ++j) ranks[order[j]] = static_cast<double>(i + 1 + end) / 2;
    i = end;
  }
  return ranks;
}

}  // namespace detail

/// Spearman's rank correlation of two criteria over the heads of some kinds (none named: all, which must be the same
/// ones), in [-1,1]; equal values share their mean rank. No value where there are fewer than two heads or one criterion
/// calls all heads equal. Symmetric bit by bit. Throws argument_error for a kind that one did not score, shape_error
/// for
/// other heads. Cost O(heads log heads).
inline std::optional<double> spearman(const head_scores& a, const head_scores& b,
                                      std::vector<attention_kind> kinds = {}) {
  const auto [x, y] = detail::values_side_by_side("spearman", a, b, std::move(kinds));
  const auto rank_x = detail::average_ranks(x), rank_y = detail::average_ranks(y);
  // Twice a rank minus the mean is a whole number: the sums are exact.
  const double twice_mean = static_cast<double>(x.size()) + 1;
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double u = 2 * rank_x[i] - twice_mean, v = 2 * rank_y[i] - twice_mean;
    xx += u * u;
    yy += v * v;
    xy += u * v;
  }
  if (xx == 0 || yy == 0) return std::nullopt;
  return std::clamp(xy / std::sqrt(xx * yy), -1., 1.);
}

/// Share of a's k most important heads that are among b's, in [0,1]; ties as in `ranking`. For k = 0 it is 1. Throws
/// argument_error for k outside [0, heads], and what `spearman` throws.
inline double overlap_at(index_t k, const head_scores& a, const head_scores& b,
                         const std::vector<attention_kind>& kinds = {}) {
  const auto heads = static_cast<index_t>(detail::values_side_by_side("overlap_at", a, b, kinds).first.size());
  if (k < 0 || k > heads)
    throw argument_error("overlap_at: k is " + std::to_string(k) + ", expected 0 to " + std::to_string(heads));
  if (k == 0) return 1;
  const auto first = [&](const head_scores& scores) {
    std::vector<std::pair<attention_kind, head_id>> best;
    for (const ranked_head& head : ranking(scores, kinds)) best.emplace_back(head.kind, head.id);
    best.resize(static_cast<std::size_t>(k));
    std::sort(best.begin(), best.end());
    return best;
  };
  const auto x = first(a), y = first(b);
  std::vector<std::pair<attention_kind, head_id>> both;
  std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(both));
  return static_cast<double>(both.size()) / static_cast<double>(k);
}

}  // namespace headred
