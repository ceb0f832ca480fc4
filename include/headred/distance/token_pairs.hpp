// The engine of the token-level distances: mean over query rows of a distance between two rows, for all pairs of heads.
#pragma once

#include <algorithm>
#include <vector>

#include <headred/core/grow_buffer.hpp>
#include <headred/core/status.hpp>
#include <headred/distance/group_sums.hpp>
#include <headred/distance/policy.hpp>
#include <headred/distance/token_block.hpp>

namespace headred::detail {

/// Reused from sentence to sentence.
template <class Distance, class Real>
struct token_workspace {
  struct worker {
    token_block<Distance, Real> block;
    grow_buffer<Real> table;  // (tokens, chunks, columns)
  };
  std::vector<worker> workers;
  group_sums sums;
  std::vector<unsigned char> close_rows;  // heads that are close to a later one
};

/// Tokens are summed in this many groups, whatever the number of threads, and the groups in order.
constexpr index_t token_groups(index_t queries) { return std::clamp<index_t>(queries / 8, 1, 16); }

/// Distance of two rows at least one of which is not regular.
template <class Distance>
double special_distance(row_kind a, row_kind b) {
  if (a == b) return 0;
  return a == row_kind::zero || b == row_kind::zero ? 1 : Distance::one_constant;
}

/// Terms of a Jensen-Shannon table: sums of x (log2 x + shift) over chunks of keys, of the columns that are used.
template <class Op, class Real>
void fill_table(const Real* slab, index_t keys, index_t columns, index_t used, Real* table) {
  constexpr int lanes = native_lanes<Real>;
  using vec = pack<Real, lanes>;
  for (index_t begin = 0; begin < keys; begin += Op::chunk)
    for (index_t h = 0; h < used; h += lanes) {
      vec sum{};
      for (index_t k = begin; k < std::min(keys, begin + Op::chunk); ++k) {
        const vec x = load<vec>(slab + k * columns + h);
        sum += x * log2_of<lanes, Op::shift>(x);
      }
      store(table + begin / Op::chunk * columns + h, sum);
    }
}

/// Turns tiles of sums over keys into distances and adds those of a block of tokens to the sums in double: in Real over
/// the block, pairs of close rows by their stable form in double.
template <class Distance, class Real>
class distance_sums {
  static constexpr int lanes = native_lanes<Real>, most = 3 * 8;
  using vec = pack<Real, lanes>;

 public:
  distance_sums(token_block<Distance, Real>& block, index_t heads, double* sums)
      : block_(block),
        heads_(heads),
        sums_{sums, block.columns(), false},
        limit_(broadcast<vec>(static_cast<Real>(Distance::template close_limit<Real>(block.keys())))) {
    for (int l = 0; l < lanes; ++l) lane_[l] = static_cast<Real>(l);
  }

  template <int Rows, int Packs>
  HEADRED_INLINE void take(index_t i, index_t j, index_t u, const Real* total) {
    static_assert(Rows * Packs <= most);
    if (u == 0) std::fill(distances_, distances_ + Rows * Packs * lanes, Real(0));
    const bool partial = j < i + Rows || j + Packs * lanes > heads_;
    vec nearest = broadcast<vec>(Real(-1));
    for (int r = 0; r < Rows; ++r)
      for (int c = 0; c < Packs; ++c) {
        vec beyond = excess(load<vec>(total + (r * Packs + c) * lanes));
        if (partial) beyond = among_pairs(i + r, j + c * lanes, beyond);
        nearest = select_less(nearest, beyond, beyond, nearest);
      }
    if (block_.special(u) || any_positive(nearest)) return take_apart<Rows, Packs>(i, j, u, total);
    for (int at = 0; at < Rows * Packs * lanes; at += lanes)
      store(distances_ + at, load<vec>(distances_ + at) + Distance::template finish<lanes>(load<vec>(total + at)));
  }
  template <int Rows, int Packs>
  HEADRED_INLINE void done(index_t i, index_t j) const {
    sums_.template take<Rows, Packs>(i, j, 0, distances_);
  }

 private:
  // how far a sum is beyond the limit of what counts as close
  HEADRED_INLINE vec excess(const vec& x) const { return Distance::close_above ? x - limit_ : limit_ - x; }
  static HEADRED_INLINE bool any_positive(const vec& x) {
    const vec zero{}, one = broadcast<vec>(Real(1));
    return lane_total<Real, lanes>(select_less(zero, x, one, zero)) != 0;
  }
  /// -1 in the lanes that are not pairs i < j.
  HEADRED_INLINE vec among_pairs(index_t i, index_t j, const vec& x) const {
    const vec no = broadcast<vec>(Real(-1));
    const vec after = broadcast<vec>(static_cast<Real>(std::clamp<index_t>(i - j, -1, lanes)));
    const vec end = broadcast<vec>(static_cast<Real>(std::clamp<index_t>(heads_ - j, 0, lanes)));
    return select_less(after, lane_, select_less(lane_, end, x, no), no);
  }

  /// The same pair by pair.
  template <int Rows, int Packs>
  void take_apart(index_t i, index_t j, index_t u, const Real* total) {
    for (int r = 0; r < Rows && i + r < heads_; ++r)
      for (int c = 0; c < Packs; ++c) {
        const int at = (r * Packs + c) * lanes;
        const vec x = load<vec>(total + at), beyond = excess(x);
        vec found = Distance::template finish<lanes>(x);
        for (int l = 0; l < lanes; ++l) {
          const index_t a = i + r, b = j + c * lanes + l;
          if (b <= a || b >= heads_) continue;
          const row_kind kind_a = block_.kind(u, a), kind_b = block_.kind(u, b);
          if (kind_a != row_kind::regular || kind_b != row_kind::regular) {
            found[l] = static_cast<Real>(special_distance<Distance>(kind_a, kind_b));
          } else if (beyond[l] > 0) {
            found[l] = 0;
            sums_.sums[a * sums_.columns + b] +=
                Distance::stable(block_.wide_row(u, a), block_.wide_row(u, b), block_.keys());
          }
        }
        store(distances_ + at, load<vec>(distances_ + at) + found);
      }
  }

  token_block<Distance, Real>& block_;
  index_t heads_;
  pair_sums<Real, lanes> sums_;
  vec limit_, lane_{};
  alignas(64) Real distances_[most * lanes];
};

/// Adds a block of tokens to `sums`: distances, or sums over keys where the distance is linear in them.
template <class Distance, class Real>
void add_block(typename token_workspace<Distance, Real>::worker& own, index_t count, const pair_range& pairs,
               index_t keys, double* sums, bool first) {
  using terms = typename Distance::terms;
  auto& block = own.block;
  const index_t columns = block.columns(), heads = pairs.heads;
  if constexpr (Distance::linear) {
    pair_sums<Real, native_lanes<Real>> sink{sums, columns, first};
    walk_pair_tiles<terms, Real>(block.slab(), nullptr, 1, count * keys, columns, heads, sink, pairs.split);
    // rows that are not regular are zeros there: their sums are set right
    for (index_t u = 0; u < count; ++u)
      if (block.special(u))
        for (index_t i = 0; i < pairs.rows(); ++i)
          for (index_t j = pairs.first(i); j < heads; ++j) {
            const row_kind a = block.kind(u, i), b = block.kind(u, j);
            if (a != row_kind::regular || b != row_kind::regular)
              sums[i * columns + j] += 1 - special_distance<Distance>(a, b) / Distance::slope;
          }
  } else {
    if (first) std::fill(sums, sums + columns * columns, 0.0);
    Real* table = nullptr;
    if constexpr (terms::tabulated) {
      const index_t chunks = (keys + terms::chunk - 1) / terms::chunk;
      table = own.table.get(block_tokens(keys) * chunks * columns);
      for (index_t u = 0; u < count; ++u)
        fill_table<terms>(block.slab() + u * keys * columns, keys, columns, used_columns<Real>(heads),
                          table + u * chunks * columns);
    }
    distance_sums<Distance, Real> sink(block, heads, sums);
    walk_pair_tiles<terms, Real>(block.slab(), table, count, keys, columns, heads, sink, pairs.split);
  }
}

/// out (N,N): the mean over the sentence's query rows, for the pairs in the range; computed in Real, close pairs in double.
/// Cost: N^2/2 T S terms of the distance, in memory O(groups N^2 + workers N S).
template <class Distance, class Real, class Runner>
void token_pairs(Runner& tasks, const sentence_maps& maps, token_workspace<Distance, Real>& work,
                 tensor_view<double, 2> out, index_t split = 0) {
  const index_t heads = maps.heads(), queries = maps.queries(), keys = maps.keys();
  const index_t columns = slab_columns<Real>(heads), groups = token_groups(queries);
  const pair_range pairs{heads, split};
  const double count = static_cast<double>(queries);
  work.workers.resize(std::max(work.workers.size(), static_cast<std::size_t>(tasks.workers())));
  for (auto& own : work.workers) {
    own.block.reserve(heads, keys);
    if constexpr (Distance::terms::tabulated)
      own.table.get(block_tokens(keys) * ((keys + Distance::terms::chunk - 1) / Distance::terms::chunk) * columns);
  }
  work.close_rows.resize(static_cast<std::size_t>(heads));
  work.sums.reserve(groups, columns, pairs);
  work.sums.run(tasks, [&](index_t g, int worker, double* sums) {
    auto& own = work.workers[static_cast<std::size_t>(worker)];
    const index_t begin = queries * g / groups, end = queries * (g + 1) / groups;
    for (index_t t = begin; t < end; t += block_tokens(keys)) {
      const index_t block = std::min(block_tokens(keys), end - t);
      own.block.read(maps, t, block);
      add_block<Distance, Real>(own, block, pairs, keys, sums, t == begin);
    }
  });
  tasks.run_rows(pairs.rows(), [&](index_t i, int) {
    bool close = false;
    out(i, i) = 0;
    const double* total = work.sums.row(i);
    for (index_t j = pairs.first(i); j < heads; ++j) {
      double mean = total[j] / count;
      if constexpr (Distance::linear) {
        mean = Distance::slope * std::max(0.0, 1 - mean);
        close = close || mean < Distance::close_distance;
      }
      out(i, j) = out(j, i) = std::min(1.0, mean);
    }
    work.close_rows[static_cast<std::size_t>(i)] = close;
  });
  if constexpr (Distance::linear) {
    const auto rows = work.close_rows.begin();
    if (std::find(rows, rows + pairs.rows(), 1) == rows + pairs.rows()) return;
    // heads that are close in the mean once more, every row by the stable form
    const auto close = [&](index_t i, index_t j) { return out(i, j) < Distance::close_distance; };
    work.sums.run(tasks, [&](index_t g, int worker, double* sum) {
      auto& block = work.workers[static_cast<std::size_t>(worker)].block;
      const index_t begin = queries * g / groups, end = queries * (g + 1) / groups;
      for (index_t t = begin; t < end; ++t) {
        block.point_at(maps, t, 1);
        for (index_t i = 0; i < pairs.rows(); ++i) {
          if (!work.close_rows[static_cast<std::size_t>(i)]) continue;
          for (index_t j = pairs.first(i); j < heads; ++j) {
            if (!close(i, j)) continue;
            const row_kind a = block.wide_form(0, i).kind, b = block.wide_form(0, j).kind;
            const double d = a == row_kind::regular && b == row_kind::regular
                                 ? Distance::stable(block.wide_row(0, i), block.wide_row(0, j), keys)
                                 : special_distance<Distance>(a, b);
            sum[i * columns + j] = t == begin ? d : sum[i * columns + j] + d;
          }
        }
      }
    });
    tasks.run_rows(pairs.rows(), [&](index_t i, int) {
      if (!work.close_rows[static_cast<std::size_t>(i)]) return;
      const double* total = work.sums.row(i);
      for (index_t j = pairs.first(i); j < heads; ++j)
        if (close(i, j)) out(i, j) = out(j, i) = std::min(1.0, total[j] / count);
    });
  }
}

/// Base of the token-level distances. Derived says, as static members, what it needs of the engine:
///   shape                 what of a row enters the sum over keys, for as many rows as a pack has lanes; which may be
///                         constant
///   terms                 the sum over keys
///   linear                whether the distance is slope (1 - sum): then it is taken of the mean over rows, and only heads
///                         nearer than close_distance in the mean are computed again. Else:
///   finish                sum -> distance
///   close_limit<Real>(keys), close_above   which sums are too near to identity
///   prepare, stable       shift and scale of a row and its kind; the form that serves for close rows
///   one_constant          distance of a constant row to one that is not
template <class Derived>
struct token_distance {
  static constexpr distance_level level = distance_level::token;
  static constexpr bool linear = false;
  template <class Real>
  using workspace = token_workspace<Derived, Real>;

  /// split > 0: pairs of the first `split` heads with the others alone.
  template <class Real, class Runner>
  status pairs(Runner& tasks, const sentence_maps& maps, workspace<Real>& work, tensor_view<double, 2> out,
               index_t split = 0) const {
    token_pairs<Derived, Real>(tasks, maps, work, out, split);
    return status::converged;
  }

  friend bool operator==(const token_distance&, const token_distance&) = default;
};

}  // namespace headred::detail
