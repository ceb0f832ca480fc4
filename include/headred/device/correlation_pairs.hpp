// Distance correlation of all pairs of heads whose maps lie on a device, in double.
#pragma once

#include <cmath>
#include <limits>

#include <headred/device/checked_maps.hpp>
#include <headred/device/double_centre.hpp>
#include <headred/device/linear.hpp>

namespace headred::device {

/// 1 - dCor, or with `unbiased` 1 - dCor^2 of U-centred distances, as headred::distance_correlation.
struct distance_correlation {
  static constexpr const char* name = "distance_correlation";
  bool unbiased = false;
  index_t least_tokens() const { return unbiased ? 4 : 1; }
};

namespace detail {

/// d_nij = |x_i - x_j| between the rows of head n, divided by their sums: a block for 16 x 16 pairs of rows, i <= j.
template <class T>
struct map_distances_kernel {
  static constexpr int threads = 128, rows = 16, depth = 32, pitch = depth + 1, down = threads / rows;
  template <class Block>
  struct shared {
    typename Block::template array<double, rows * pitch> left, right;
  };

  tensor_view<const T, 4, device_space> maps;
  const double* sums;  // (heads, tokens); what a row is divided by
  double* to;          // (heads, tokens, tokens)

  static constexpr index_t tiles(index_t tokens) { return (tokens + rows - 1) / rows; }

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, shared<Block>& memory) const {
    const index_t tokens = maps.extent(2), keys = maps.extent(3), side = tiles(tokens);
    const index_t head = block.block() / (side * side), i0 = block.block() / side % side * rows,
                  j0 = block.block() % side * rows;
    if (j0 < i0) return;
    const auto map = maps[head / maps.extent(1)][head % maps.extent(1)];
    const double* const sum = sums + head * tokens;
    const int t = block.thread(), row = t / rows, column = t % rows;
    double squares[2] = {};
    for (index_t k0 = 0; k0 < keys; k0 += depth) {
      block.sync();
      for (int e = t; e < rows * depth; e += threads) {
        const index_t r = e / depth, k = k0 + e % depth;
        const auto entry = [&](index_t at) {
          return at < tokens && k < keys ? static_cast<double>(map(at, k)) / sum[at] : 0.;
        };
        memory.left[r * pitch + e % depth] = entry(i0 + r);
        memory.right[r * pitch + e % depth] = entry(j0 + r);
      }
      block.sync();
      for (int k = 0; k < depth; ++k) {
        const double x = memory.right[column * pitch + k];
        for (int half = 0; half < 2; ++half) {
          const double d = memory.left[(row + half * down) * pitch + k] - x;
          squares[half] += d * d;
        }
      }
    }
    for (int half = 0; half < 2; ++half) {
      const index_t i = i0 + row + half * down, j = j0 + column;
      if (i >= tokens || j >= tokens) continue;
      double* const own = to + head * tokens * tokens;
      own[i * tokens + j] = std::sqrt(squares[half]);
      if (j0 > i0) own[j * tokens + i] = std::sqrt(squares[half]);
    }
  }
};

/// What of a head's centred distances counts as nothing: found before they are centred. A block for each head.
template <class T>
struct map_spread_kernel : row_kernel<double> {
  tensor_view<const T, 4, device_space> maps;
  const double *sums, *distances;
  double *least, *zero;  // a norm; whether all rows are equal

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, row_kernel<double>::shared<Block>& memory) const {
    const index_t head = block.block(), tokens = maps.extent(2), keys = maps.extent(3);
    const auto map = maps[head / maps.extent(1)][head % maps.extent(1)];
    const double size = fold(
        block, memory, tokens * keys, 0.,
        [&](index_t at) {
          const double x = static_cast<double>(map(at / keys, at % keys)) / sums[head * tokens + at / keys];
          return x * x;
        },
        headred::detail::add{});
    const double spread = fold(
        block, memory, tokens * tokens, 0.,
        [&](index_t at) {
          const double d = distances[head * tokens * tokens + at];
          return d * d / 2;
        },
        headred::detail::add{});
    if (block.thread() != 0) return;
    const double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon()), count = static_cast<double>(tokens);
    zero[head] = std::sqrt(spread / count) <= 16 * epsilon * std::sqrt(count * size) ? 1 : 0;
    least[head] = 16 * epsilon * std::sqrt(count * 2 * spread);
  }
};

/// Distances become double-centred ones, or U-centred ones, whose means have other divisors and whose diagonal is 0.
struct centred_distance {
  double* distances;
  index_t tokens;
  const double *rows, *all;
  bool unbiased;
  HEADRED_FUNCTION void operator()(index_t at) const {
    const index_t j = at % tokens, i = at / tokens % tokens, head = at / tokens / tokens;
    const double n = static_cast<double>(tokens), of_rows = unbiased ? n / (n - 2) : 1,
                 of_all = unbiased ? n * n / ((n - 1) * (n - 2)) : 1;
    double& d = distances[at];
    d = unbiased && i == j
            ? 0
            : (d - of_rows * rows[head * tokens + i]) - (of_rows * rows[head * tokens + j] - of_all * all[head]);
  }
};

/// Centred distances become a unit vector, or zeros. A block for each head.
struct unit_vector_kernel : row_kernel<double> {
  double* distances;
  index_t size;
  const double* least;
  double* zero;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, row_kernel<double>::shared<Block>& memory) const {
    double* const x = distances + block.block() * size;
    const double squares = fold(
        block, memory, size, 0., [&](index_t k) { return x[k] * x[k]; }, headred::detail::add{});
    const double norm = std::sqrt(squares);
    const bool none = zero[block.block()] != 0 || !(norm > least[block.block()]);
    for (index_t k = block.thread(); k < size; k += threads) x[k] = none ? 0 : x[k] / norm;
    block.sync();
    if (block.thread() == 0) zero[block.block()] = none ? 1 : 0;
  }
};

/// Inner products become distances; of close pairs from the difference of their vectors, which cannot cancel.
struct correlation_distance_kernel : row_kernel<double> {
  static constexpr double close = 4e-3;
  const double *vectors, *zero;
  index_t size;
  tensor_view<const double, 2, device_space> products;
  bool unbiased;
  tensor_view<double, 2, device_space> out;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, row_kernel<double>::shared<Block>& memory) const {
    const index_t i = block.block() / out.extent(1), j = block.block() % out.extent(1);
    if (j < i) return;
    const double product = products(i, j), rest = 1 - product;
    double d = 0;
    if (i != j && (zero[i] != 0 || zero[j] != 0)) {
      d = zero[i] == zero[j] ? 0 : 1;
    } else if (i != j && rest <= close) {
      const double *const a = vectors + i * size, *const b = vectors + j * size;
      const double squares = fold(
          block, memory, size, 0., [&](index_t k) { return (a[k] - b[k]) * (a[k] - b[k]); }, headred::detail::add{});
      const double half = squares / 2 < 1 ? squares / 2 : 1;
      d = unbiased ? half : half / (1 + std::sqrt(1 - half));
    } else if (i != j) {
      const double inside = product < 0 ? 0 : product;
      d = unbiased ? 1 - inside : 1 - std::sqrt(inside);
    }
    if (block.thread() == 0) out(i, j) = out(j, i) = d;
  }
};

/// The rest of `pairwise` for distance correlation; shapes were checked.
template <class T, class Backend>
void correlation_pairs(Backend& be, const tensor_view<const T, 4, device_space>& maps, bool unbiased,
                       const tensor_view<double, 2, device_space>& out, double sum_tolerance) {
  using carved = carved_memory;
  using distances_of = map_distances_kernel<T>;
  const index_t heads = out.extent(0), tokens = maps.extent(2), rows = heads * tokens, size = tokens * tokens;
  carved memory(be.workspace(row_bytes<T>(rows) + carved::bytes<double>(heads * size) + carved::bytes<double>(rows) +
                             3 * carved::bytes<double>(heads) + carved::bytes<double>(heads * heads)));
  const auto m = checked_rows<jensen_shannon>(be, maps, sum_tolerance, memory);  // rows are divided by their sums
  double *const vectors = memory.take<double>(heads * size), *const means = memory.take<double>(rows),
                *const all = memory.take<double>(heads), *const least = memory.take<double>(heads),
                *const zero = memory.take<double>(heads), *const products = memory.take<double>(heads * heads);
  be.launch(heads * distances_of::tiles(tokens) * distances_of::tiles(tokens), distances_of{maps, m.scale, vectors});
  be.launch(heads, map_spread_kernel<T>{{}, maps, m.scale, vectors, least, zero});
  be.launch(rows,
            row_mean_kernel<double>{{}, tensor_view<const double, 2, device_space>(vectors, {rows, tokens}), means});
  be.launch(heads,
            row_mean_kernel<double>{{}, tensor_view<const double, 2, device_space>(means, {heads, tokens}), all});
  be.for_each(heads * size, centred_distance{vectors, tokens, means, all, unbiased});
  be.launch(heads, unit_vector_kernel{{}, vectors, size, least, zero});
  const tensor_view<const double, 2, device_space> a(vectors, {heads, size});
  const tensor_view<double, 2, device_space> gram(products, {heads, heads});
  multiply<double>(be, a, a.transposed(), 0., gram);
  be.launch(heads * heads, correlation_distance_kernel{{}, vectors, zero, size, gram, unbiased, out});
}

}  // namespace detail
}  // namespace headred::device
