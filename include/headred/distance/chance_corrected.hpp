#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <headred/core/matrix.hpp>
#include <headred/core/random.hpp>
#include <headred/core/status.hpp>
#include <headred/distance/policy.hpp>
#include <headred/distance/sentence_maps.hpp>

namespace headred {
namespace detail {

template <class Base>
struct chance_workspace {
  Base base;
  sentence_maps maps;  // the heads and their permuted copies
  matrix distances;    // (2N,2N)
  matrix chance;       // (N,N): sum over permutations of the distance to permuted partners
  std::vector<index_t> order;
};

}  // namespace detail

/// A sentence-level distance measured against chance: d / d0, d0 the mean distance to the partner with its query rows
/// permuted, cut off at 1. In similarities s = 1 - d: 1 - (s - s0) / (1 - s0).
/// Independent heads, which the plain distances put well below 1 (Procrustes .3, distance correlation .13 to .19), come
/// out near 1; 0 stays 0. Maps (T,S); result in [0,1]; where even permuted partners are at 0, d itself.
/// `permutations` orders are drawn from `seed`, the same for all pairs; both heads are permuted in turn, so the result is
/// symmetric. Cost: 4 `permutations` + 1 times that of the distance. Ours; the permutation idea is Mantel's (1967).
template <distance_policy Distance>
  requires(Distance::level == distance_level::sentence)
struct chance_corrected {
  static constexpr std::string_view name = Distance::name;
  static constexpr distance_level level = distance_level::sentence;
  template <class Real>
  using workspace = detail::chance_workspace<typename Distance::template workspace<Real>>;

  Distance distance{};
  index_t permutations = 4;  ///< at least 1
  std::uint64_t seed = 0;

  index_t least_tokens() const {
    if constexpr (requires { distance.least_tokens(); }) {
      return distance.least_tokens();
    } else {
      return 1;
    }
  }
  /// The options as text: what two accumulators must agree on.
  std::string settings() const {
    const std::string options = distance.settings();
    return options + (options.empty() ? "" : " ") + "chance_corrected " + std::to_string(permutations) + " " +
           std::to_string(seed);
  }

  template <class Real, class Runner>
  status pairs(Runner& tasks, const detail::sentence_maps& maps, workspace<Real>& work,
               tensor_view<double, 2> out) const {
    if (permutations < 1)
      throw argument_error("chance_corrected: permutations is " + std::to_string(permutations) +
                           ", expected at least 1");
    const index_t n = maps.heads(), tokens = maps.queries();
    if (work.chance.rows() != n) {
      work.chance = matrix(n, n);
      work.distances = matrix(2 * n, 2 * n);
    }
    std::fill(work.chance.data(), work.chance.data() + n * n, 0.0);
    work.order.resize(static_cast<std::size_t>(tokens));
    status outcome = status::converged;
    for (index_t r = 0; r < permutations; ++r) {
      std::iota(work.order.begin(), work.order.end(), index_t{0});
      const random_stream random(seed, static_cast<std::uint64_t>(r));
      for (std::size_t i = work.order.size(); i-- > 1;) std::swap(work.order[i], work.order[random.below(i, i + 1)]);
      work.maps = maps;
      work.maps.append_permuted(work.order);
      outcome = distance.template pairs<Real>(tasks, work.maps, work.base, work.distances.view());
      for (index_t i = 0; i < n; ++i)
        for (index_t j = 0; j < n; ++j) work.chance(i, j) += .5 * (work.distances(i, n + j) + work.distances(j, n + i));
    }
    for (index_t i = 0; i < n; ++i) {
      out(i, i) = 0;
      for (index_t j = i + 1; j < n; ++j) {
        const double d = work.distances(i, j), d0 = work.chance(i, j) / static_cast<double>(permutations);
        out(i, j) = out(j, i) = d0 > 0 ? std::min(1.0, d / d0) : d;
      }
    }
    return outcome;
  }
};

}  // namespace headred
