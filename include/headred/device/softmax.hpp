// softmax on the device: each row becomes a distribution.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include <headred/device/block_context.hpp>
#include <headred/device/require_shape.hpp>

namespace headred::device {
namespace detail {

/// A block for each row; what the row kernels share.
template <class T>
struct row_kernel {
  static constexpr int threads = 128;
  template <class Block>
  struct shared {
    typename Block::template array<T, threads / 32> part;
  };

  /// combine over f(k) for the columns k, the same in every thread.
  template <class Block, class F, class Combine>
  HEADRED_FUNCTION static T fold(Block& block, shared<Block>& memory, index_t cols, T init, const F& f,
                                 const Combine& combine) {
    T value = init;
    for (index_t k = block.thread(); k < cols; k += threads) value = combine(value, f(k));
    return headred::detail::block_fold<threads>(block, memory.part, value, combine);
  }
  /// The sum of a value of each thread, the same in every thread.
  template <class Block>
  HEADRED_FUNCTION static T total(Block& block, shared<Block>& memory, T value) {
    return headred::detail::block_fold<threads>(block, memory.part, value, headred::detail::add{});
  }
};

template <class T>
struct softmax_kernel : row_kernel<T> {
  tensor_view<const T, 2, device_space> x;
  tensor_view<T, 2, device_space> y;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, typename row_kernel<T>::template shared<Block>& memory) const {
    constexpr T lowest = -std::numeric_limits<T>::infinity();
    const index_t row = block.block(), cols = x.extent(1);
    const T most = this->fold(
        block, memory, cols, lowest, [&](index_t k) { return x(row, k); }, headred::detail::take_greater{});
    const T sum = this->fold(
        block, memory, cols, T(0), [&](index_t k) { return std::exp(x(row, k) - most); }, headred::detail::add{});
    const T unit = T(1) / sum;
    for (index_t k = block.thread(); k < cols; k += this->threads)
      y(row, k) = most == lowest && x(row, k) == lowest ? T(0) : std::exp(x(row, k) - most) * unit;
  }
};

template <class T>
struct softmax_gradient_kernel : row_kernel<T> {
  tensor_view<const T, 2, device_space> y, dy;
  tensor_view<T, 2, device_space> dx;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, typename row_kernel<T>::template shared<Block>& memory) const {
    const index_t row = block.block(), cols = y.extent(1);
    const T dot = this->fold(
        block, memory, cols, T(0), [&](index_t k) { return y(row, k) * dy(row, k); }, headred::detail::add{});
    for (index_t k = block.thread(); k < cols; k += this->threads) dx(row, k) += y(row, k) * (dy(row, k) - dot);
  }
};

}  // namespace detail

/// y_rj = e^x_rj / sum_k e^x_rk, without overflow.
/// x, y : (R,D) on the device, y may be x. A row of -infinity gives zeros; NaN or +infinity in a row give NaN there.
/// Throws shape_error. Cost: three reads of x, which the caches serve, and one write.
template <class T, device_backend Backend>
void softmax_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> x,
                     tensor_view<T, 2, device_space> y) {
  detail::require_shape("softmax_forward", "y", y, x.shape());
  if (!x.empty()) be.launch(x.extent(0), detail::softmax_kernel<T>{{}, x, y});
}

/// dx_rj += y_rj (dy_rj - sum_k y_rk dy_rk), y what softmax_forward gave. Throws shape_error.
template <class T, device_backend Backend>
void softmax_gradient(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> y,
                      std::type_identity_t<tensor_view<const T, 2, device_space>> dy,
                      tensor_view<T, 2, device_space> dx) {
  detail::require_shape("softmax_gradient", "dy", dy, y.shape());
  detail::require_shape("softmax_gradient", "dx", dx, y.shape());
  if (!y.empty()) be.launch(y.extent(0), detail::softmax_gradient_kernel<T>{{}, y, dy, dx});
}

}  // namespace headred::device
