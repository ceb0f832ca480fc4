#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <headred/core/grow_buffer.hpp>
#include <headred/core/status.hpp>
#include <headred/distance/policy.hpp>
#include <headred/distance/sentence_maps.hpp>
#include <headred/numeric/centred_distances.hpp>
#include <headred/numeric/pair_tiles.hpp>

namespace headred {
namespace detail {

/// Reused from sentence to sentence.
template <class Real>
struct correlation_workspace {
  struct worker {
    grow_buffer<double> map, distances;  // of one head; of a close pair
    grow_buffer<Real> slab, values;
  };
  std::vector<worker> workers;
  grow_buffer<double> vectors;  // (N, padded entries): unit vectors of centred distances
  grow_buffer<double> sums;     // (groups, columns, columns)
  std::vector<unsigned char> zero;
};

}  // namespace detail

/// Distance-correlation distance of two heads: 1 - dCor, the rows of each map taken as observations.
/// a_ij = |x_i - x_j|, double-centred to A; dCor^2 = <A,B> / sqrt(<A,A> <B,B>), biased estimator.
/// Maps (T,S); result in [0,1]. With `unbiased`, U-centred distances and 1 - clamp(dCor^2_U, 0, 1), which needs T >= 4
/// (shorter sentences are skipped): independent maps then come out near 1, where the biased form gives .13 to .19.
/// Two maps with all rows equal (one token included) are at 0, one such map and another at 1.
/// Cost T^2 S / 2 a head and T^2 / 2 a pair. Szekely, Rizzo and Bakirov (2007); Bian et al. (NAACL 2021).
struct distance_correlation {
  static constexpr std::string_view name = "distance_correlation";
  static constexpr distance_level level = distance_level::sentence;
  template <class Real>
  using workspace = detail::correlation_workspace<Real>;

  bool unbiased = false;

  /// Sentences of fewer tokens are skipped.
  index_t least_tokens() const { return unbiased ? 4 : 1; }

  /// The options as text: what two accumulators must agree on.
  std::string settings() const { return unbiased ? "unbiased" : ""; }

  template <class Real, class Runner>
  status pairs(Runner& tasks, const detail::sentence_maps& maps, workspace<Real>& work,
               tensor_view<double, 2> out) const {
    using namespace detail;
    const index_t heads = maps.heads(), tokens = maps.queries(), keys = maps.keys();
    const index_t entries = centred_entries(tokens), stride = padded<double, native_lanes<double>>(entries);
    const index_t columns = slab_columns<Real>(heads);
    double* vectors = work.vectors.get(heads * stride);
    work.zero.resize(static_cast<std::size_t>(heads));
    work.workers.resize(std::max(work.workers.size(), static_cast<std::size_t>(tasks.workers())));
    const double epsilon = static_cast<double>(std::numeric_limits<Real>::epsilon());
    tasks.run(heads, [&](index_t h, int worker) {
      auto& own = work.workers[static_cast<std::size_t>(worker)];
      const index_t row_size = padded<double, native_lanes<double>>(keys);
      double* map = own.map.get(tokens * row_size);
      for (index_t t = 0; t < tokens; ++t) {
        double* row = map + t * row_size;
        std::fill(row + keys, row + row_size, 0.0);
        if (!maps.read_row(h, t, row)) std::fill(row, row + keys, 0.0);
      }
      double* vector = vectors + h * stride;
      std::fill(vector + entries, vector + stride, 0.0);
      const bool any = centred_distances(map, tokens, row_size, unbiased, epsilon,
                                         own.distances.get(tokens * tokens + tokens), vector);
      work.zero[static_cast<std::size_t>(h)] = any ? 0 : 1;
    });

    // Gram matrix of the vectors: entries are cut into chunks, chunks into groups whose sums are added in order
    constexpr index_t chunk = 256;
    const index_t chunks = (entries + chunk - 1) / chunk, groups = std::min<index_t>(chunks, heads <= 256 ? 16 : 4);
    double* sums = work.sums.get(groups * columns * columns);
    tasks.run(groups, [&](index_t g, int worker) {
      auto& own = work.workers[static_cast<std::size_t>(worker)];
      double* sum = sums + g * columns * columns;
      std::fill(sum, sum + columns * columns, 0.0);
      Real* slab = own.slab.get(chunk * columns);
      Real* values = own.values.get(columns * columns);
      for (index_t c = chunks * g / groups; c < chunks * (g + 1) / groups; ++c) {
        const index_t begin = c * chunk, count = std::min(chunk, entries - begin);
        constexpr index_t strip = 16;  // heads whose lines stay in the first cache
        for (index_t first = 0; first < columns; first += strip) {
          const index_t last = std::min(columns, first + strip), used = std::clamp(heads, first, last);
          for (index_t k = 0; k < count; ++k) {
            Real* to = slab + k * columns;
            for (index_t h = first; h < used; ++h) to[h] = static_cast<Real>(vectors[h * stride + begin + k]);
            for (index_t h = used; h < last; ++h) to[h] = 0;
          }
        }
        pair_tiles<product_terms, Real>(slab, nullptr, count, columns, values);
        for (index_t i = 0; i + 1 < heads; ++i)
          for (index_t j = i + 1; j < heads; ++j) sum[i * columns + j] += static_cast<double>(values[i * columns + j]);
      }
    });
    tasks.run(heads, [&](index_t i, int worker) {
      out(i, i) = 0;
      for (index_t j = i + 1; j < heads; ++j) {
        double product = 0;
        for (index_t g = 0; g < groups; ++g) product += sums[(g * columns + i) * columns + j];
        const bool zero_i = work.zero[static_cast<std::size_t>(i)] != 0,
                   zero_j = work.zero[static_cast<std::size_t>(j)] != 0;
        double d = 0;
        if (zero_i || zero_j) {
          d = zero_i == zero_j ? 0 : 1;
        } else {
          const auto residual = [&] {
            return close_residual(maps, i, j, work.workers[static_cast<std::size_t>(worker)]);
          };
          d = finish(product, vectors + i * stride, vectors + j * stride, stride, residual);
        }
        out(i, j) = out(j, i) = d;
      }
    });
    return status::converged;
  }

 private:
  /// Inner product of unit vectors -> distance; recomputed in double where the product's rounding would show, and from
  /// the maps where that of the vectors would.
  template <class Residual>
  double finish(double product, const double* a, const double* b, index_t n, const Residual& residual) const {
    const double rest = 1 - product;
    if (rest < 4e-3) {
      double e = .5 * detail::squared_distance(a, b, n);
      if (e > 0 && e < 1e-6) e = residual();
      e = std::clamp(e, 0.0, 1.0);
      return unbiased ? e : e / (1 + std::sqrt(1 - e));
    }
    if (unbiased) return std::clamp(rest, 0.0, 1.0);
    if (product < .05) product = detail::inner_product(a, b, n);  // the root magnifies errors near 0
    return 1 - std::sqrt(std::clamp(product, 0.0, 1.0));
  }

  template <class Worker>
  double close_residual(const detail::sentence_maps& maps, index_t i, index_t j, Worker& own) const {
    using namespace detail;
    const index_t tokens = maps.queries(), keys = maps.keys(), row_size = padded<double, native_lanes<double>>(keys);
    double* difference = own.map.get(2 * tokens * row_size);
    double* total = difference + tokens * row_size;
    for (index_t t = 0; t < tokens; ++t) maps.read_pair(i, j, t, difference + t * row_size, total + t * row_size);
    return centred_residual(difference, total, tokens, row_size, unbiased,
                            own.distances.get(2 * tokens * (tokens + 1)));
  }
};

}  // namespace headred
