// gemm on the CPU: operands packed into panels, tiles of the product kept in registers.
#pragma once

#include <algorithm>
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

/// A packed product for a pool of workers: A is packed as a whole; then each task packs a strip of B, which stays in its
/// second-level cache, and multiplies. Each entry of C is summed in an order that depends on the depth alone, so that
/// results do not depend on how many workers there are, though the strips do.
template <class T>
class packed_gemm {
  using tile = gemm_tile<T>;

 public:
  packed_gemm(const gemm_operands<T>& g, int workers) : g_(g), workers_(workers) {
    const index_t wanted = workers == 1 ? 1 : 3 * index_t{workers};  // tasks
    a_panels_ = blocks(g.m, tile::rows);
    b_panels_ = blocks(g.n, tile::cols);
    slice_ = std::min(g.k, slice_depth);
    const index_t most = std::max<index_t>(1, strip_elements / (slice_ * tile::cols));
    strips_ = blocks(b_panels_, std::clamp(b_panels_ / wanted, std::min<index_t>(3, most), most));
    row_blocks_ = std::min(blocks(wanted, strips_), blocks(a_panels_, block_panels));
    a_group_ = std::max<index_t>(1, group_elements / (tile::rows * g.k));
    a_tasks_ = blocks(a_panels_, a_group_);
  }

  /// Memory that `multiply` needs, in elements.
  index_t scratch() const { return a_size() + workers_ * strip_size(); }

  /// `run(count, f)` must hand out tasks f(task, worker) in order: when one waits for A, others are already packing it.
  template <class Run>
  void multiply(T* scratch, Run&& run) const {
    std::atomic<index_t> packed{0};
    const auto wait = [&packed, this] {
      while (packed.load(std::memory_order_acquire) < a_tasks_) std::this_thread::yield();
    };
    run(a_tasks_ + strips_ * row_blocks_, [&](index_t task, int worker) {
      if (task < a_tasks_) {
        pack_group(g_.a, g_.m, g_.k, tile::rows, g_.alpha, scratch, a_panels_,
                   {task * a_group_, std::min(a_panels_, (task + 1) * a_group_)});
        packed.fetch_add(1, std::memory_order_release);
        return;
      }
      const index_t strip = (task - a_tasks_) / row_blocks_, block = (task - a_tasks_) % row_blocks_;
      multiply_strip(scratch, scratch + a_size() + worker * strip_size(),
                     {a_panels_ * block / row_blocks_, a_panels_ * (block + 1) / row_blocks_},
                     {b_panels_ * strip / strips_, b_panels_ * (strip + 1) / strips_}, wait);
    });
  }

 private:
  static constexpr index_t group_elements = 1 << 15, strip_elements = (1 << 19) / index_t{sizeof(T)};
  static constexpr index_t slice_depth = 3 * tile::depth, block_panels = 8;  // C in blocks of about 112 rows
  struct range {
    index_t begin, end;
  };

  static index_t blocks(index_t n, index_t size) { return (n + size - 1) / size; }
  index_t a_size() const { return a_panels_ * tile::rows * g_.k; }
  index_t strip_size() const { return blocks(b_panels_, strips_) * tile::cols * slice_; }

  // Some of `panels` panels, which lie depth block by depth block: [depth block][panel][k][width].
  static void pack_group(strided_matrix<T> from, index_t count, index_t depth, index_t width, T scale, T* to,
                         index_t panels, range group) {
    for (index_t p = group.begin; p < group.end; ++p)
      for (index_t k = 0; k < depth; k += tile::depth) {
        const index_t kd = std::min(tile::depth, depth - k);
        pack_panel<T>({from.data + p * width * from.row + k * from.column, from.row, from.column}, count - p * width,
                      kd, width, scale, to + panels * width * k + p * width * kd);
      }
  }

  // A panel with few rows left is not multiplied as a whole.
  static void tile_product(const T* a, const T* b, index_t depth, T beta, const T* row, T* c, index_t c_row,
                           index_t rows, index_t cols) {
    constexpr int full = tile::rows;
    if (rows > full / 2)
      gemm_tile_product<full>(a, b, depth, beta, row, c, c_row, rows, cols);
    else if (rows > 2)
      gemm_tile_product<full / 2>(a, b, depth, beta, row, c, c_row, rows, cols);
    else
      gemm_tile_product<2>(a, b, depth, beta, row, c, c_row, rows, cols);
  }

  template <class Wait>
  void multiply_strip(const T* a, T* b, range mp, range np, const Wait& wait) const {
    const index_t panels = np.end - np.begin, first = np.begin * tile::cols;
    for (index_t begin = 0; begin < g_.k; begin += slice_depth) {
      const index_t end = std::min(g_.k, begin + slice_depth);
      pack_group({g_.b.data + first * g_.b.column + begin * g_.b.row, g_.b.column, g_.b.row}, g_.n - first, end - begin,
                 tile::cols, T(1), b, panels, {0, panels});
      if (begin == 0) wait();
      for (index_t i = mp.begin; i < mp.end; i += block_panels)
        for (index_t k = begin; k < end; k += tile::depth)
          multiply_block(a, b + panels * tile::cols * (k - begin), k, std::min(tile::depth, end - k),
                         {i, std::min(mp.end, i + block_panels)}, np);
    }
  }

  void multiply_block(const T* a, const T* b, index_t k, index_t depth, range mp, range np) const {
    a += a_panels_ * tile::rows * k;
    for (index_t j = np.begin; j < np.end; ++j)
      for (index_t i = mp.begin; i < mp.end; ++i)
        tile_product(a + i * tile::rows * depth, b + (j - np.begin) * tile::cols * depth, depth,
                     k == 0 ? g_.beta : T(1), k == 0 && g_.row != nullptr ? g_.row + j * tile::cols : nullptr,
                     g_.c + i * tile::rows * g_.c_row + j * tile::cols, g_.c_row,
                     std::min<index_t>(tile::rows, g_.m - i * tile::rows),
                     std::min<index_t>(tile::cols, g_.n - j * tile::cols));
  }

  const gemm_operands<T>& g_;
  int workers_;
  index_t a_panels_, b_panels_, slice_, strips_, row_blocks_, a_group_, a_tasks_;
};

}  // namespace headred::detail
