// Double centring on the device: what distance correlation is made of.
#pragma once

#include <headred/device/softmax.hpp>

namespace headred::device {
namespace detail {

/// Means of rows, a block each; row r of matrix n at n rows + r. With one row a matrix: the mean of each matrix.
template <class T>
struct row_mean_kernel : row_kernel<T> {
  tensor_view<const T, 2, device_space> x;
  T* means;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, typename row_kernel<T>::template shared<Block>& memory) const {
    const index_t row = block.block(), cols = x.extent(1);
    const T sum = this->fold(
        block, memory, cols, T(0), [&](index_t k) { return x(row, k); }, headred::detail::add{});
    if (block.thread() == 0) means[row] = sum / static_cast<T>(cols);
  }
};

template <class T>
struct column_mean {
  tensor_view<const T, 3, device_space> x;
  T* means;
  HEADRED_FUNCTION void operator()(index_t i) const {
    const index_t n = i / x.extent(2), c = i % x.extent(2);
    T sum = T(0);
    for (index_t begin = 0; begin < x.extent(1); begin += 32) {
      T some = T(0);
      for (index_t r = begin; r < begin + 32 && r < x.extent(1); ++r) some += x(n, r, c);
      sum += some;
    }
    means[i] = sum / static_cast<T>(x.extent(1));
  }
};

template <class T>
struct subtract_means {
  tensor_view<T, 3, device_space> x;
  const T *rows, *columns, *all;
  HEADRED_FUNCTION void operator()(index_t i) const {
    const index_t c = i % x.extent(2), r = i / x.extent(2) % x.extent(1), n = i / x.extent(2) / x.extent(1);
    T& to = x(n, r, c);
    to = (to - rows[n * x.extent(1) + r]) - (columns[n * x.extent(2) + c] - all[n]);
  }
};

}  // namespace detail

/// x_nij -= mean_j x_nij + mean_i x_nij - mean_ij x_nij for each of N matrices, in place; means in T.
/// x : (N,R,C), densely packed. Scratch memory N (R + C + 1) T of the workspace. Throws shape_error.
/// Source: Szekely, Rizzo & Bakirov 2007, section 2.
template <class T, device_backend Backend>
void double_centre(Backend& be, tensor_view<T, 3, device_space> x) {
  if (x.empty()) return;
  if (!x.contiguous()) throw shape_error("double_centre: x " + shape_text(x.shape()) + " is not densely packed");
  const index_t n = x.extent(0), rows = x.extent(1), cols = x.extent(2);
  T* const means = static_cast<T*>(be.workspace(static_cast<std::size_t>(n * (rows + cols + 1)) * sizeof(T)));
  T *const column_means = means + n * rows, *const all = column_means + n * cols;
  be.launch(n * rows,
            detail::row_mean_kernel<T>{{}, tensor_view<const T, 2, device_space>(x.data(), {n * rows, cols}), means});
  be.launch(n, detail::row_mean_kernel<T>{{}, tensor_view<const T, 2, device_space>(means, {n, rows}), all});
  be.for_each(n * cols, detail::column_mean<T>{x, column_means});
  be.for_each(x.size(), detail::subtract_means<T>{x, means, column_means, all});
}

}  // namespace headred::device
