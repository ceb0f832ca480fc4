// Sums over all entries, in double and in one order.
#pragma once

#include <headred/device/block_context.hpp>

namespace headred::device {
namespace detail {

template <class T, bool Squares>
struct entry_as_double {
  tensor_view<const T, 1, device_space> x;
  index_t cols;
  HEADRED_FUNCTION double operator()(index_t row, index_t col) const {
    const index_t i = row * cols + col;
    const double value = i < x.extent(0) ? static_cast<double>(x(i)) : 0;
    return Squares ? value * value : value;
  }
};
struct partial_sum {
  const double* sums;
  HEADRED_FUNCTION double operator()(index_t, index_t i) const { return sums[i]; }
};
struct store_sum {
  double* to;
  HEADRED_FUNCTION void operator()(index_t row, double value) const { to[row] = value; }
};

template <bool Squares, class T, device_backend Backend>
double sum_entries(Backend& be, const tensor_view<const T, 1, device_space>& x) {
  constexpr index_t cols = 4096;
  if (x.empty()) return 0;
  const index_t rows = (x.extent(0) + cols - 1) / cols;
  double* const sums = static_cast<double*>(be.workspace(static_cast<std::size_t>(rows + 1) * sizeof(double)));
  be.reduce(rows, cols, 0., entry_as_double<T, Squares>{x, cols}, headred::detail::add{}, store_sum{sums});
  be.reduce(1, rows, 0., partial_sum{sums}, headred::detail::add{}, store_sum{sums + rows});
  double total = 0;
  be.download(&total, sums + rows, sizeof total);
  return total;
}

}  // namespace detail

/// sum_i x_i, on the host. x : (N) on the device. In double; the order depends on N alone. Waits for the device.
/// Scratch memory 8 N / 4096 bytes of the workspace. Cost: one read of x.
template <class T, device_backend Backend>
double sum(Backend& be, tensor_view<T, 1, device_space> x) {
  return detail::sum_entries<false, std::remove_const_t<T>>(be, x);
}

/// sum_i x_i^2, likewise: the squared norm that a clipped gradient is measured by.
template <class T, device_backend Backend>
double sum_of_squares(Backend& be, tensor_view<T, 1, device_space> x) {
  return detail::sum_entries<true, std::remove_const_t<T>>(be, x);
}

}  // namespace headred::device
