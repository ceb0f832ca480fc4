// gemm on the CPU: operands packed into panels, tiles of the product kept in registers.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include <headred/core/grow_buffer.hpp>
#include <headred/core/view.hpp>
#include <headred/simd/block_product.hpp>
#include <headred/simd/transpose.hpp>

namespace headred::detail {

/// Tile of C that fits the vector registers: 28 sums of 32 registers, or 12 (8) of 16.
template <class T>
struct gemm_tile {
  static constexpr int lanes = native_lanes<T>;
  static constexpr int rows = native_vector_bytes == 64 ? 14 : native_vector_bytes == 32 ? 6 : 4;
  static constexpr int cols = 2 * lanes;
  static constexpr index_t depth = 256 * 4 / static_cast<index_t>(sizeof(T));  // a panel of B then half fills the L1
};

/// One product C = alpha A B + beta C + row; A (m,k), B (k,n), C (m,n) with entries of a row side by side.
template <class T>
struct gemm_operands {
  index_t m, n, k;
  T alpha;
  strided_matrix<T> a, b;
  T beta;
  const T* row;  // (n) or nullptr
  T* c;
  index_t c_row;
};

/// panel[k * width + i] = scale * from(i, k) for i < min(count, width); zero for the rest of the panel's width.
/// `count` rows may be read.
template <class T>
void pack_panel(const strided_matrix<T>& from, index_t count, index_t depth, index_t width, T scale, T* panel) {
  constexpr int lanes = native_lanes<T>;
  using vec = pack<T, lanes>;
  const index_t used = std::min(count, width);
  index_t k = 0;
  if (from.column == 1 && count >= padded<T, lanes>(width)) {
    // Rows of the panel lie `width` apart and packs are written whole: what spills over is overwritten by the next row,
    // so the last rows of the panel are left to the loop below.
    alignas(64) T block[lanes * lanes];
    for (; k + lanes + (width % lanes == 0 ? 0 : 1) <= depth; k += lanes)
      for (index_t i = 0; i < width; i += lanes) {
        if (width % lanes == 0) {
          transpose_block<T, lanes>(from.data + i * from.row + k, from.row, panel + k * width + i, width);
        } else {
          transpose_block<T, lanes>(from.data + i * from.row + k, from.row, block, lanes);
          const index_t n = std::min<index_t>(lanes, width - i);
          for (index_t q = 0; q < lanes; ++q)
            if (n == width)
              store(panel + (k + q) * width, load<vec>(block + q * lanes));
            else
              for (index_t r = 0; r < n; ++r) panel[(k + q) * width + i + r] = block[q * lanes + r];
        }
      }
  } else if (from.row == 1 && count >= padded<T, lanes>(width)) {
    const bool whole = width % lanes == 0;
    for (; k + (whole ? 0 : 1) < depth && (whole || width <= lanes); ++k)
      for (index_t i = 0; i < width; i += lanes)
        store(panel + k * width + i, load<vec>(from.data + k * from.column + i));
  }
  for (; k < depth; ++k) {
    for (index_t i = 0; i < used; ++i) panel[k * width + i] = from.data[i * from.row + k * from.column];
    for (index_t i = used; i < width; ++i) panel[k * width + i] = T(0);
  }
  if (scale != T(1))
    for (index_t i = 0; i < depth * width; ++i) panel[i] *= scale;
}

/// C tile (rows x cols of it used, rows <= Rows) = A panel times B panel + beta C + row.
template <int Rows, class T>
void gemm_tile_product(const T* a, const T* b, index_t depth, T beta, const T* row, T* c, index_t c_row, index_t rows,
                       index_t cols) {
  using tile = gemm_tile<T>;
  using vec = pack<T, tile::lanes>;
  vec sum[Rows][2] = {};
  for (index_t k = 0; k < depth; ++k) {
    const vec b0 = load<vec>(b + k * tile::cols), b1 = load<vec>(b + k * tile::cols + tile::lanes);
    HEADRED_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const vec x = broadcast<vec>(a[k * tile::rows + r]);
      sum[r][0] += x * b0;
      sum[r][1] += x * b1;
    }
  }
  if (rows == Rows && cols == tile::cols) {
    for (int r = 0; r < Rows; ++r)
      for (int p = 0; p < 2; ++p) {
        T* const to = c + r * c_row + p * tile::lanes;
        vec v = sum[r][p];
        if (row != nullptr) v += load<vec>(row + p * tile::lanes);
        if (beta != T(0)) v += load<vec>(to) * beta;
        store(to, v);
      }
    return;
  }
  alignas(64) T edge[Rows * tile::cols];
  for (int r = 0; r < Rows; ++r)
    for (int p = 0; p < 2; ++p) store(edge + r * tile::cols + p * tile::lanes, sum[r][p]);
  for (index_t r = 0; r < rows; ++r)
    for (index_t j = 0; j < cols; ++j) {
      T v = edge[r * tile::cols + j];
      if (row != nullptr) v += row[j];
      if (beta != T(0)) v += c[r * c_row + j] * beta;
      c[r * c_row + j] = v;
    }
}

/// Packed products for a pool of workers. The partition follows the shapes alone, and each entry of C is summed in one
/// order, so results do not depend on how many workers there are. Packing and multiplying are tasks of one run: tasks
/// are handed out in order, so when one waits for the panels, others are already packing them.
template <class T>
class packed_gemm {
 public:
  /// Scratch memory in elements that `run` needs for these operands.
  static index_t panel_elements(const gemm_operands<T>& g) {
    using tile = gemm_tile<T>;
    return blocks(g.m, tile::rows) * tile::rows * g.k + blocks(g.n, tile::cols) * tile::cols * g.k;
  }

  /// `run(count, f)` must hand out tasks in order.
  template <class Run>
  static void multiply(const gemm_operands<T>& g, T* scratch, Run&& run) {
    using tile = gemm_tile<T>;
    const index_t a_panels = blocks(g.m, tile::rows), b_panels = blocks(g.n, tile::cols);
    T* const a = scratch;
    T* const b = scratch + a_panels * tile::rows * g.k;
    const index_t a_group = std::max<index_t>(1, pack_elements / (tile::rows * g.k)),
                  b_group = std::max<index_t>(1, pack_elements / (tile::cols * g.k));
    const index_t a_tasks = blocks(a_panels, a_group);
    // B in chunks that are still in the second-level cache when they are multiplied
    const index_t chunks = std::min({max_chunks, b_panels, blocks(b_panels * tile::cols * g.k, chunk_elements)});
    const index_t chunk_panels = blocks(b_panels, chunks);
    const index_t b_tasks = blocks(chunk_panels, b_group);
    // blocks of about 112 x 256 entries of C
    const index_t m_blocks = blocks(a_panels, 8), n_blocks = blocks(chunk_panels, 8);
    const index_t chunk_tasks = b_tasks + m_blocks * n_blocks;
    std::array<std::atomic<index_t>, max_chunks + 1> packed{};
    const auto wait = [&packed](index_t which, index_t count) {
      while (packed[static_cast<std::size_t>(which)].load(std::memory_order_acquire) < count) std::this_thread::yield();
    };
    run(a_tasks + chunks * chunk_tasks, [&](index_t task, int) {
      if (task < a_tasks) {
        pack_group(g.a, g.m, g.k, tile::rows, g.alpha, a, task * a_group, std::min(a_panels, (task + 1) * a_group));
        packed[max_chunks].fetch_add(1, std::memory_order_release);
        return;
      }
      const index_t chunk = (task - a_tasks) / chunk_tasks, step = (task - a_tasks) % chunk_tasks;
      const range panels{std::min(b_panels, chunk * chunk_panels), std::min(b_panels, (chunk + 1) * chunk_panels)};
      if (step < b_tasks) {
        const index_t first = panels.begin + step * b_group;
        pack_group({g.b.data, g.b.column, g.b.row}, g.n, g.k, tile::cols, T(1), b, first,
                   std::min(panels.end, first + b_group));
        packed[static_cast<std::size_t>(chunk)].fetch_add(1, std::memory_order_release);
        return;
      }
      wait(max_chunks, a_tasks);
      wait(chunk, b_tasks);
      const index_t mb = (step - b_tasks) / n_blocks, nb = (step - b_tasks) % n_blocks;
      const index_t count = panels.end - panels.begin;
      multiply_block(g, a, b, {a_panels * mb / m_blocks, a_panels * (mb + 1) / m_blocks},
                     {panels.begin + count * nb / n_blocks, panels.begin + count * (nb + 1) / n_blocks});
    });
  }

 private:
  static constexpr index_t pack_elements = 1 << 15, chunk_elements = (1 << 20) / index_t{sizeof(T)}, max_chunks = 32;
  struct range {
    index_t begin, end;
  };

  static index_t blocks(index_t n, index_t size) { return (n + size - 1) / size; }

  // panels lie depth block by depth block: [depth block][panel][k][width]
  static void pack_group(strided_matrix<T> from, index_t count, index_t depth, index_t width, T scale, T* to,
                         index_t begin, index_t end) {
    const index_t panels = blocks(count, width);
    for (index_t k = 0; k < depth; k += gemm_tile<T>::depth) {
      const index_t kd = std::min(gemm_tile<T>::depth, depth - k);
      for (index_t p = begin; p < end; ++p)
        pack_panel<T>({from.data + p * width * from.row + k * from.column, from.row, from.column}, count - p * width,
                      kd, width, scale, to + panels * width * k + p * width * kd);
    }
  }

  // A panel with few rows left is not multiplied as a whole.
  static void tile_product(const T* a, const T* b, index_t depth, T beta, const T* row, T* c, index_t c_row,
                           index_t rows, index_t cols) {
    constexpr int full = gemm_tile<T>::rows;
    if (rows > full / 2)
      gemm_tile_product<full>(a, b, depth, beta, row, c, c_row, rows, cols);
    else if (rows > 2)
      gemm_tile_product<full / 2>(a, b, depth, beta, row, c, c_row, rows, cols);
    else
      gemm_tile_product<2>(a, b, depth, beta, row, c, c_row, rows, cols);
  }

  static void multiply_block(const gemm_operands<T>& g, const T* a, const T* b, range mp, range np) {
    using tile = gemm_tile<T>;
    const index_t a_panels = blocks(g.m, tile::rows), b_panels = blocks(g.n, tile::cols);
    for (index_t k = 0; k < g.k; k += tile::depth) {
      const index_t depth = std::min(tile::depth, g.k - k);
      const T* const ak = a + a_panels * tile::rows * k;
      const T* const bk = b + b_panels * tile::cols * k;
      for (index_t i = mp.begin; i < mp.end; ++i)
        for (index_t j = np.begin; j < np.end; ++j)
          tile_product(ak + i * tile::rows * depth, bk + j * tile::cols * depth, depth, k == 0 ? g.beta : T(1),
                       k == 0 && g.row != nullptr ? g.row + j * tile::cols : nullptr,
                       g.c + i * tile::rows * g.c_row + j * tile::cols, g.c_row,
                       std::min<index_t>(tile::rows, g.m - i * tile::rows),
                       std::min<index_t>(tile::cols, g.n - j * tile::cols));
    }
  }
};

}  // namespace headred::detail
