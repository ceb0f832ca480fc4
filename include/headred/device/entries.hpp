// Functions of the entries of matrices, one by one.
#pragma once

#include <cstdint>

#include <headred/device/require_shape.hpp>

namespace headred::device::detail {

/// Row and column of entry number `at`; 32 bits divide several times as fast as 64.
struct matrix_place {
  index_t row, column;
  HEADRED_FUNCTION static matrix_place of(index_t at, index_t cols) {
    constexpr index_t most = 0xffffffff;
    if (at > most || cols > most) return {at / cols, at % cols};
    const auto n = static_cast<std::uint32_t>(at), d = static_cast<std::uint32_t>(cols);
    return {static_cast<index_t>(n / d), static_cast<index_t>(n % d)};
  }
};

/// y = F::value(x).
template <class T, class F>
struct entry_value {
  tensor_view<const T, 2, device_space> x;
  tensor_view<T, 2, device_space> y;
  HEADRED_FUNCTION void operator()(index_t at) const {
    const auto [r, c] = matrix_place::of(at, y.extent(1));
    y(r, c) = F::value(x(r, c));
  }
};

/// dx += F::slope(x, dy).
template <class T, class F>
struct entry_slope {
  tensor_view<const T, 2, device_space> x, dy;
  tensor_view<T, 2, device_space> dx;
  HEADRED_FUNCTION void operator()(index_t at) const {
    const auto [r, c] = matrix_place::of(at, dx.extent(1));
    dx(r, c) += F::slope(x(r, c), dy(r, c));
  }
};

template <class F, class T, class Backend>
void map_entries(const char* op, Backend& be, const tensor_view<const T, 2, device_space>& x,
                 const tensor_view<T, 2, device_space>& y) {
  require_shape(op, "y", y, x.shape());
  be.for_each(y.size(), entry_value<T, F>{x, y});
}

template <class F, class T, class Backend>
void add_slopes(const char* op, Backend& be, const tensor_view<const T, 2, device_space>& x,
                const tensor_view<const T, 2, device_space>& dy, const tensor_view<T, 2, device_space>& dx) {
  if (dx.data() == nullptr) return;
  require_shape(op, "dy", dy, x.shape());
  require_shape(op, "dx", dx, x.shape());
  be.for_each(dx.size(), entry_slope<T, F>{x, dy, dx});
}

/// x within [-most, most]; NaN stays NaN.
template <class T>
HEADRED_FUNCTION T within(T x, T most) {
  return x < -most ? -most : most < x ? most : x;
}

}  // namespace headred::device::detail
