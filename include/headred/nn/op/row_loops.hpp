// Loops that the row-wise ops share: blocks of rows over the backend's threads, packs along a row.
#pragma once

#include <algorithm>
#include <utility>

#include <headred/backend/task_runner.hpp>
#include <headred/simd/partial_pack.hpp>

namespace headred::detail {

/// f(begin, end) for blocks of rows that together are [0, rows), cut by the shape alone; a small matrix is one block.
template <host_backend Backend, class F>
void for_row_blocks(Backend& be, index_t rows, index_t cols, const F& f) {
  constexpr index_t entries = index_t{1} << 14;
  const index_t block = std::max<index_t>(1, entries / std::max<index_t>(1, cols));
  task_runner<Backend>(be).run((rows + block - 1) / block,
                               [&](index_t task, int) { f(task * block, std::min(rows, (task + 1) * block)); });
}

/// Width of the strips of columns that sums over rows are cut into.
inline constexpr index_t column_strip = 64;

/// f(begin, end) for strips of columns that together are [0, cols).
template <host_backend Backend, class F>
void for_column_strips(Backend& be, index_t cols, const F& f) {
  task_runner<Backend>(be).run((cols + column_strip - 1) / column_strip, [&](index_t task, int) {
    f(task * column_strip, std::min(cols, (task + 1) * column_strip));
  });
}

/// to[i] = f(from[i]...) for i in [0,n), f on packs; `to` may be one of `from`. Every entry goes through the same
/// instructions wherever it stands.
template <class T, class F, class... From>
HEADRED_INLINE void map_row(index_t n, T* to, const F& f, const From*... from) {
  using vec = pack<T, native_lanes<T>>;
  constexpr index_t lanes = native_lanes<T>;
  index_t i = 0;
  for (; i + lanes <= n; i += lanes) store(to + i, f(load<vec>(from + i)...));
  if (i < n) store_part(to + i, f(load_part<vec>(from + i, n - i, T(0))...), n - i);
}

/// map_row on every row of matrices of one shape, entries of a row side by side.
template <class T, host_backend Backend, class F, class... From>
void map_rows(Backend& be, const tensor_view<T, 2>& to, const F& f, const tensor_view<const From, 2>&... from) {
  const index_t rows = to.extent(0), cols = to.extent(1);
  const bool dense = ((to.stride(0) == cols) && ... && (from.stride(0) == cols));
  for_row_blocks(be, rows, cols, [&](index_t begin, index_t end) {
    if (dense) return map_row((end - begin) * cols, to.data() + begin * cols, f, from.data() + begin * cols...);
    for (index_t r = begin; r < end; ++r)
      map_row(cols, to.data() + r * to.stride(0), f, from.data() + r * from.stride(0)...);
  });
}

}  // namespace headred::detail
