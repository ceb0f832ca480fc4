#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <headred/core/grow_buffer.hpp>
#include <headred/core/status.hpp>
#include <headred/distance/group_sums.hpp>
#include <headred/distance/policy.hpp>
#include <headred/distance/read_columns.hpp>
#include <headred/numeric/centred_distances.hpp>
#include <headred/numeric/pair_tiles.hpp>
#include <headred/numeric/vector_loops.hpp>
#include <headred/simd/lane_total.hpp>
#include <headred/simd/transpose.hpp>

namespace headred {
namespace detail {

/// Entries of the centred distances that are summed at a time.
inline constexpr index_t gram_chunk = 128;

/// Reused from sentence to sentence.
template <class Real>
struct correlation_workspace {
  struct worker {
    centred_scratch<Real> centred;
    grow_buffer<Real> rows;        // of as many tokens as a pack has lanes
    grow_buffer<Real> slab;        // of the Gram matrix
    centred_scratch<double> wide;  // of a pair that is done again in double
    grow_buffer<double> wide_rows, wide_maps, wide_vectors, residual;

    // Of a close pair: differences, two raw maps and their sums; what centred_residual takes, and a row.
    static index_t close_size(index_t tokens, index_t row_size) { return 3 * tokens * row_size + 2 * tokens; }
    static index_t residual_size(index_t tokens, index_t row_size) { return 2 * tokens * (tokens + 1) + row_size; }

    // All of it at once: which pairs are close differs from sentence to sentence, and no later one is to allocate.
    void reserve(index_t tokens, index_t keys, index_t columns) {
      const index_t row_size = padded<double, native_lanes<double>>(keys), entries = centred_entries(tokens);
      centred.reserve(tokens, keys);
      rows.get((native_lanes<Real> + 1) * keys);
      slab.get(gram_chunk * columns);
      wide.reserve(tokens, keys);
      wide_rows.get((native_lanes<double> + 1) * keys);
      wide_maps.get(close_size(tokens, row_size));
      wide_vectors.get(2 * entries);
      residual.get(residual_size(tokens, row_size));
    }
  };
  std::vector<worker> workers;
  grow_buffer<Real> vectors;  // (N, padded entries): unit vectors of centred distances
  group_sums sums;
  std::vector<unsigned char> zero;
};

/// The centred distances of head h: what centred_slab makes of its rows divided by their sums. Row 0 is taken away from all,
/// which leaves their distances as they are, and their rounding that of what they differ by:
///   x_t - x_0 = ((row_t - row_0) - row_0 (sum_t - sum_0) / sum_0) / sum_t
template <class Real>
bool centred_head(const sentence_maps& maps, index_t h, bool unbiased, centred_scratch<Real>& scratch, Real* rows,
                  Real* vector) {
  constexpr int lanes = native_lanes<Real>;
  using vec = pack<Real, lanes>;
  using sums_of_rows = lane_doubles<Real>;
  using doubles = typename sums_of_rows::doubles;
  const index_t tokens = maps.queries(), keys = maps.keys(), columns = slab_columns<Real>(tokens);
  Real* slab = scratch.slab.get(keys * columns);
  double* sums = scratch.mean.get(2 * columns);
  bool any_zero_row = false;
  for (index_t t = 0; t < columns; t += lanes) {
    const int count = static_cast<int>(std::clamp<index_t>(tokens - t, 0, lanes));
    const auto sum = read_columns<Real>(
        maps, count,
        [&](int l) {
          return row_place{h, t + l};
        },
        rows, slab + t, columns, [&](int) { any_zero_row = true; });
    sum.store_to(sums + t);
    for (int l = count; l < lanes; ++l) sums[t + l] = 0;
  }
  Real* const row_0 = rows;
  for (index_t k = 0; k < keys; ++k) row_0[k] = slab[k * columns];
  const double sum_0 = sums[0];
  sums_of_rows sizes;
  for (index_t t = 0; t < columns; t += lanes) {
    const auto sum = sums_of_rows::load_from(sums + t);
    const vec unit = sum.reciprocal().narrow();  // 0 beyond the last token
    const column_block<Real> block{slab + t, columns, keys};
    const auto [squares, differences] = block.template sums_at<2>([&](index_t k, const vec& x, vec* total) {
      const vec scaled = x * unit;
      total[0] += scaled * scaled;
      total[1] += x - broadcast<vec>(row_0[k]);
    });
    sizes = sizes.map([](const doubles& a, const doubles& b) { return a + b; }, squares);
    // of a row of zeros the entries do not tell the sum, which is 1
    const vec change = (any_zero_row ? sum.map([&](const doubles& s) { return (s - sum_0) / sum_0; })
                                     : differences.map([&](const doubles& d) { return d / sum_0; }))
                           .narrow();
    block.apply_at([&](index_t k, const vec& x) {
      const vec own = broadcast<vec>(row_0[k]);
      return ((x - own) - own * change) * unit;
    });
  }
  double size = 0;
  for (int l = 0; l < lanes; ++l) size += sizes[l];
  return centred_slab(tokens, keys, size, unbiased, scratch, vector);
}

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
    const index_t entries = centred_entries(tokens), stride = padded<Real, native_lanes<Real>>(entries);
    const index_t columns = slab_columns<Real>(heads);
    Real* vectors = work.vectors.get(heads * stride);
    work.zero.resize(static_cast<std::size_t>(heads));
    work.workers.resize(std::max(work.workers.size(), static_cast<std::size_t>(tasks.workers())));
    for (auto& own : work.workers) own.reserve(tokens, keys, columns);
    tasks.run(heads, [&](index_t h, int worker) {
      auto& own = work.workers[static_cast<std::size_t>(worker)];
      Real* vector = vectors + h * stride;
      std::fill(vector + entries, vector + stride, Real(0));
      const bool any =
          centred_head(maps, h, unbiased, own.centred, own.rows.get((native_lanes<Real> + 1) * keys), vector);
      work.zero[static_cast<std::size_t>(h)] = any ? 0 : 1;
    });

    // Gram matrix of the vectors: entries are cut into chunks, chunks into groups whose sums are added in order
    const index_t chunks = (entries + gram_chunk - 1) / gram_chunk, groups = std::min<index_t>(chunks, 16);
    work.sums.reserve(groups, columns, {heads});
    work.sums.run(tasks, [&](index_t g, int worker, double* sum) {
      auto& own = work.workers[static_cast<std::size_t>(worker)];
      Real* slab = own.slab.get(gram_chunk * columns);
      const index_t first = chunks * g / groups;
      for (index_t c = first; c < chunks * (g + 1) / groups; ++c) {
        const index_t begin = c * gram_chunk, count = std::min(gram_chunk, entries - begin);
        transpose(vectors + begin, stride, heads, count, slab, columns);
        pair_sums<Real, native_lanes<Real>> sink{sum, columns, c == first};
        walk_pair_tiles<product_terms, Real>(slab, nullptr, 1, count, columns, heads, sink);
      }
    });
    const bool any_zero = std::find(work.zero.begin(), work.zero.end(), 1) != work.zero.end();
    tasks.run_rows(heads, [&](index_t i, int worker) {
      auto& own = work.workers[static_cast<std::size_t>(worker)];
      const bool zero_i = work.zero[static_cast<std::size_t>(i)] != 0;
      const double* products = work.sums.row(i);
      out(i, i) = 0;
      constexpr int wide = native_lanes<double>;
      using doubles = pack<double, wide>;
      const doubles least = broadcast<doubles>(lowest<Real>), most = broadcast<doubles>(1 - close_limit);
      const doubles none{}, one = broadcast<doubles>(1.);
      doubles lane{};
      for (int l = 0; l < wide; ++l) lane[l] = l;
      for (index_t begin = (i + 1) / wide * wide; begin < heads; begin += wide) {
        const doubles product = load<doubles>(products + begin);
        double fast[wide];
        store(fast, unbiased ? 1. - product : 1. - sqrt_of<wide>(product));
        const index_t first = std::max(begin, i + 1), end = std::min(begin + wide, heads);
        const doubles i_lane = broadcast<doubles>(static_cast<double>(i - begin));  // before it, and at it, is no pair
        const doubles in_doubt = select_less(least, product, select_less(product, most, none, one), one);
        if (!any_zero && end == begin + wide &&
            lane_total<double, wide>(select_less(i_lane, lane, in_doubt, none)) == 0) {
          for (index_t j = first; j < end; ++j) out(i, j) = out(j, i) = fast[j - begin];
          continue;
        }
        for (index_t j = first; j < end; ++j) {
          double d = fast[j - begin];
          const bool zero_j = any_zero && work.zero[static_cast<std::size_t>(j)] != 0;
          if (zero_i || zero_j) {
            d = zero_i == zero_j ? 0 : 1;
          } else if (!(products[j] > lowest<Real> && products[j] < 1 - close_limit)) {
            d = careful<Real>(products[j], maps, i, j, own, vectors + i * stride, vectors + j * stride, entries);
          }
          out(i, j) = out(j, i) = d;
        }
      }
    });
    return status::converged;
  }

 private:
  /// Nearer to identity than this, products of unit vectors have lost too many digits.
  static constexpr double close_limit = 4e-3;
  /// Nearer to 0 than this, the root magnifies their errors.
  template <class Real>
  static constexpr double lowest = sizeof(Real) == 8 ? 0 : 2e-3;

  /// Inner product of unit vectors -> distance, where its rounding would show: again from the vectors, or from the maps
  /// where that of the vectors would.
  template <class Real, class Worker>
  double careful(double product, const detail::sentence_maps& maps, index_t i, index_t j, Worker& own, const Real* a,
                 const Real* b, index_t entries) const {
    const double rest = 1 - product;
    if (rest <= close_limit) {
      double e = 0;
      for (index_t k = 0; k < entries; ++k) {
        const double d = static_cast<double>(a[k]) - static_cast<double>(b[k]);
        e += .5 * d * d;
      }
      if (e > 0 && e < (sizeof(Real) == 8 ? 1e-6 : 1e-5)) e = close_residual(maps, i, j, own);
      e = std::clamp(e, 0.0, 1.0);
      return unbiased ? e : e / (1 + std::sqrt(1 - e));
    }
    if (unbiased) return std::clamp(rest, 0.0, 1.0);
    if (product < lowest<Real>) product = wide_product(maps, i, j, own);
    return 1 - std::sqrt(std::clamp(product, 0.0, 1.0));
  }

  template <class Worker>
  double close_residual(const detail::sentence_maps& maps, index_t i, index_t j, Worker& own) const {
    using namespace detail;
    const index_t tokens = maps.queries(), keys = maps.keys(), row_size = padded<double, native_lanes<double>>(keys);
    double* difference = own.wide_maps.get(Worker::close_size(tokens, row_size));
    double* sums = difference + 3 * tokens * row_size;
    detail::raw_map raw[2];
    for (int side = 0; side < 2; ++side) {
      double* rows = difference + (side + 1) * tokens * row_size;
      raw[side] = {rows, sums + side * tokens, false};
      for (index_t t = 0; t < tokens; ++t) {
        double* row = rows + t * row_size;
        const double sum = maps.read_raw_row(side == 0 ? i : j, t, row);
        std::fill(row + keys, row + row_size, 0.0);
        sums[side * tokens + t] = sum == 0 ? 1 : sum;
        raw[side].has_zero_row = raw[side].has_zero_row || sum == 0;
      }
    }
    double* total = own.residual.get(Worker::residual_size(tokens, row_size));
    for (index_t t = 0; t < tokens; ++t) maps.read_pair(i, j, t, difference + t * row_size, total);
    return centred_residual(difference, raw[0], raw[1], tokens, row_size, unbiased, total);
  }

  template <class Worker>
  double wide_product(const detail::sentence_maps& maps, index_t i, index_t j, Worker& own) const {
    using namespace detail;
    const index_t keys = maps.keys(), entries = centred_entries(maps.queries());
    double* rows = own.wide_rows.get((native_lanes<double> + 1) * keys);
    double* vectors = own.wide_vectors.get(2 * entries);
    centred_head(maps, i, unbiased, own.wide, rows, vectors);
    centred_head(maps, j, unbiased, own.wide, rows, vectors + entries);
    return dot(vectors, vectors + entries, entries);
  }
};

}  // namespace headred
