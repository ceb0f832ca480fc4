// Control plans: the same number of heads kept, chosen by chance.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <headred/core/random.hpp>
#include <headred/prune/plan.hpp>

namespace headred {

/// Keeps `keep_count` heads of one kind, every set of that size equally likely; other kinds stay whole.
/// A pure function of its arguments. Throws argument_error for an unknown kind or a keep_count outside [0, heads of kind].
/// Cost O(heads).
inline prune_plan random_plan(const plan_layout& layout, index_t keep_count, std::uint64_t seed,
                              attention_kind kind = attention_kind::encoder_self) {
  const index_t n = layout.heads(kind).size();
  if (keep_count < 0 || keep_count > n)
    throw argument_error("random_plan: keep_count is " + std::to_string(keep_count) + ", expected 0 to " +
                         std::to_string(n));
  const random_stream random(seed, static_cast<std::uint64_t>(kind));
  std::vector<index_t> heads(static_cast<std::size_t>(n));
  for (index_t i = 0; i < n; ++i) heads[static_cast<std::size_t>(i)] = i;
  for (std::size_t i = 0; i < static_cast<std::size_t>(keep_count); ++i)
    std::swap(heads[i], heads[i + random.below(i, heads.size() - i)]);
  heads.resize(static_cast<std::size_t>(keep_count));
  prune_plan plan(layout);
  plan.set_kept(kind, heads);
  return plan;
}
inline prune_plan random_plan(const head_layout& layout, index_t keep_count, std::uint64_t seed,
                              attention_kind kind = attention_kind::encoder_self) {
  return random_plan(plan_layout(layout, kind), keep_count, seed, kind);
}

}  // namespace headred
