// The engine of the distances that compare whole matrices: 1 - |X^T Y|_* for all pairs of heads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include <headred/core/grow_buffer.hpp>
#include <headred/distance/close_matrices.hpp>
#include <headred/distance/sentence_maps.hpp>
#include <headred/numeric/cross_product.hpp>
#include <headred/numeric/nuclear_norm.hpp>
#include <headred/numeric/polar.hpp>
#include <headred/numeric/single_nuclear_norm.hpp>

namespace headred::detail {

/// Whether products are reduced one at a time, rows in the lanes: from here on as many as there are lanes do not fit the
/// caches. Never for how many pairs there are: two heads alone must give the bits of their entry among many.
template <class Real>
constexpr bool one_at_a_time(index_t n) {
  return n * static_cast<index_t>(sizeof(Real)) >= 512;
}

/// Entries of a row of a prepared matrix in Real.
template <class Real>
constexpr index_t narrow_stride(index_t n) {
  return one_at_a_time<Real>(n) ? single_stride<Real, native_lanes<Real>>(n) : n;
}

/// Reused from sentence to sentence.
template <class Real>
struct matrix_workspace {
  struct worker {
    grow_buffer<Real> product, scratch;
    grow_buffer<double> line, dense, wide;

    // All of it at once, so that no later sentence allocates, whichever worker its tasks go to.
    void reserve(index_t tokens, index_t n) {
      constexpr int count = native_lanes<Real>;
      product.get(one_at_a_time<Real>(n) ? n * narrow_stride<Real>(n) : n * n * count);
      scratch.get(one_at_a_time<Real>(n) ? 3 * narrow_stride<Real>(n) + 3 * n : 5 * n * count);
      line.get(2 * n);
      dense.get(2 * n * n + 4 * n);
      if (sizeof(Real) == 8) wide.get(close_matrices::scratch_size(tokens, n));
    }
  };
  std::vector<worker> workers;
  grow_buffer<double> matrices;  // (N,T,S): prepared, Frobenius norm 1
  grow_buffer<Real> narrow;      // the same in Real, rows narrow_stride apart
  grow_buffer<Real> lanes;       // (groups,T,S,lane): the same interleaved, in the order of `order`
  std::vector<unsigned char> zero;
  std::vector<std::uint64_t> content;
  std::vector<index_t> order;
};

/// Subtracts the column means of x (tokens, n); false if nothing is left: |Xc|_F <= 16 eps sqrt(T) |X|_F.
inline bool centre_columns(double* x, index_t tokens, index_t n, double epsilon) {
  double whole = 0, centred = 0;
  for (index_t k = 0; k < n; ++k) {
    double sum = 0;
    for (index_t t = 0; t < tokens; ++t) {
      const double value = x[t * n + k];
      sum += value;
      whole += value * value;
    }
    const double mean = sum / static_cast<double>(tokens);
    for (index_t t = 0; t < tokens; ++t) {
      double& value = x[t * n + k];
      value -= mean;
      centred += value * value;
    }
  }
  return std::sqrt(centred) > 16 * epsilon * std::sqrt(static_cast<double>(tokens) * whole);
}

/// Divides by the Frobenius norm.
inline void normalise(double* x, index_t size) {
  double squares = 0;
  for (index_t i = 0; i < size; ++i) squares += x[i] * x[i];
  const double norm = std::sqrt(squares);
  for (index_t i = 0; i < size; ++i) x[i] /= norm;
}

/// A number that identical matrices share (FNV-1a over the words of x).
inline std::uint64_t content_of(const double* x, index_t size) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (index_t i = 0; i < size; ++i) {
    std::uint64_t word;
    std::memcpy(&word, x + i, sizeof word);
    hash = (hash ^ word) * 0x100000001b3u;
    hash ^= hash >> 29;
  }
  return hash;
}

/// Fills work.matrices; Distance::prepare centres or whitens one matrix and says whether anything is left of it.
template <class Real, class Distance, class Runner>
void prepare_matrices(const Distance& distance, Runner& tasks, const sentence_maps& maps,
                      matrix_workspace<Real>& work) {
  const index_t heads = maps.heads(), tokens = maps.queries(), n = maps.keys(), size = tokens * n;
  const index_t stride = narrow_stride<Real>(n);
  double* matrices = work.matrices.get(heads * size);
  Real* narrow = work.narrow.get(heads * tokens * stride);
  work.zero.resize(static_cast<std::size_t>(heads));
  work.content.resize(static_cast<std::size_t>(heads));
  work.workers.resize(std::max(work.workers.size(), static_cast<std::size_t>(tasks.workers())));
  for (auto& own : work.workers) own.reserve(tokens, n);
  tasks.run(heads, [&](index_t h, int worker) {
    double* x = matrices + h * size;
    for (index_t t = 0; t < tokens; ++t)
      if (!maps.read_row(h, t, x + t * n)) std::fill(x + t * n, x + (t + 1) * n, 0.0);
    const bool any = distance.prepare(x, tokens, n, static_cast<double>(std::numeric_limits<Real>::epsilon()),
                                      work.workers[static_cast<std::size_t>(worker)].dense);
    work.zero[static_cast<std::size_t>(h)] = any ? 0 : 1;
    if (any) {
      normalise(x, size);
    } else {
      std::fill(x, x + size, 0.0);
    }
    work.content[static_cast<std::size_t>(h)] = content_of(x, size);
    for (index_t t = 0; t < tokens; ++t) {
      Real* row = narrow + (h * tokens + t) * stride;
      for (index_t k = 0; k < n; ++k) row[k] = static_cast<Real>(x[t * n + k]);
      std::fill(row + n, row + stride, Real(0));
    }
  });
}

/// |X R - Y|^2 / 2 of prepared matrices x, y of heads a, b, R the polar factor of X^T Y: for maps in float from the
/// matrices, for maps in double from the heads, in twice the precision.
template <class Real>
double close_residual(const sentence_maps& maps, index_t a, index_t b, const double* x, const double* y,
                      const map_whitening& how, typename matrix_workspace<Real>::worker& own) {
  const index_t tokens = maps.queries(), n = maps.keys();
  if (sizeof(Real) == 8) {
    const double found = close_matrices(tokens, n, own.wide).residual(maps, a, b, how);
    if (found >= 0) return found;
  }
  const bool same = std::memcmp(x, y, static_cast<std::size_t>(tokens * n) * sizeof(double)) == 0;
  return same ? 0 : procrustes_residual(x, y, tokens, n, own.dense);
}

/// Nuclear distances of all pairs of prepared matrices; `finish` maps |X^T Y|_* (or, for close pairs, 1 minus it exactly)
/// to the distance. Heads are taken in an order given by their content, so that X^T Y and never Y^T X is reduced
/// whichever head comes first: that makes the result symmetric, and equivariant to permuted heads, bit by bit.
/// Cost: N^2/2 (2 T S^2 + 8/3 S^3) operations; memory O(N T S + workers lanes S^2) for matrices that are reduced as many at a
/// time as there are lanes, O(N T S + workers S^2) for larger ones.
template <class Real, class Runner, class Finish>
void nuclear_pairs(Runner& tasks, const sentence_maps& maps, const map_whitening& how, matrix_workspace<Real>& work,
                   const Finish& finish, tensor_view<double, 2> out) {
  constexpr int lanes = native_lanes<Real>;
  const index_t heads = maps.heads(), tokens = maps.queries(), n = maps.keys();
  const index_t size = tokens * n, groups = (heads + lanes - 1) / lanes;
  const double* matrices = work.matrices.get(heads * size);
  const Real* narrow = work.narrow.get(heads * tokens * narrow_stride<Real>(n));
  work.order.resize(static_cast<std::size_t>(heads));
  std::iota(work.order.begin(), work.order.end(), index_t{0});
  std::sort(work.order.begin(), work.order.end(), [&](index_t a, index_t b) {
    const auto x = work.content[static_cast<std::size_t>(a)], y = work.content[static_cast<std::size_t>(b)];
    return x != y ? x < y : a < b;
  });
  const auto head_at = [&](index_t position) { return work.order[static_cast<std::size_t>(position)]; };
  for (index_t i = 0; i < heads; ++i) out(i, i) = 0;
  const auto settle = [&](index_t a, index_t b, double norm, typename matrix_workspace<Real>::worker& own) {
    const bool zero_a = work.zero[static_cast<std::size_t>(a)] != 0,
               zero_b = work.zero[static_cast<std::size_t>(b)] != 0;
    double rest = 1 - norm;
    if (zero_a || zero_b) {
      rest = zero_a == zero_b ? 0 : 1;
    } else if (rest < 2e-3) {
      rest = close_residual<Real>(maps, a, b, matrices + a * size, matrices + b * size, how, own);
    }
    out(a, b) = out(b, a) = finish(rest > 0 ? std::min(rest, 1.0) : 0);
  };

  if (one_at_a_time<Real>(n)) {
    const index_t stride = narrow_stride<Real>(n);
    tasks.run(heads * heads, [&](index_t task, int worker) {
      const index_t first = task / heads, second = task % heads;
      if (second <= first) return;
      auto& own = work.workers[static_cast<std::size_t>(worker)];
      const index_t a = head_at(first), b = head_at(second);
      const double norm = single_nuclear_norm<Real>(narrow + a * tokens * stride, narrow + b * tokens * stride, tokens,
                                                    n, own.product.get(n * stride), own.scratch.get(3 * stride + 3 * n),
                                                    own.line.get(2 * n));
      settle(a, b, norm, own);
    });
    return;
  }
  Real* interleaved = work.lanes.get(groups * size * lanes);
  tasks.run(groups, [&](index_t g, int) {
    Real* to = interleaved + g * size * lanes;
    for (int l = 0; l < lanes; ++l) {
      const index_t position = g * lanes + l;
      for (index_t i = 0; i < size; ++i)
        to[i * lanes + l] = position < heads ? narrow[head_at(position) * size + i] : Real(0);
    }
  });
  tasks.run(heads * groups, [&](index_t task, int worker) {
    const index_t first = task / groups, g = task % groups;
    if ((g + 1) * lanes <= first + 1) return;  // every pair of this task belongs to another one
    auto& own = work.workers[static_cast<std::size_t>(worker)];
    Real* product = own.product.get(n * n * lanes);
    double norms[lanes];
    const index_t a = head_at(first);
    cross_product<Real, lanes>(narrow + a * size, interleaved + g * size * lanes, tokens, n, product);
    nuclear_norms<Real, lanes>(product, n, own.scratch.get(5 * n * lanes), own.line.get(2 * n), norms);
    for (int l = 0; l < lanes; ++l) {
      const index_t second = g * lanes + l;
      if (second > first && second < heads) settle(a, head_at(second), norms[l], own);
    }
  });
}

}  // namespace headred::detail
