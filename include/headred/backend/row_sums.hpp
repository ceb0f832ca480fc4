// Products that add one row to every row, and sums over rows: what biases need.
#pragma once

#include <type_traits>

#include <headred/backend/concept.hpp>

namespace headred {

namespace detail {

template <class T, class Space>
struct fill_rows {
  tensor_view<const T, 1, Space> row;
  tensor_view<T, 2, Space> to;
  HEADRED_FUNCTION void operator()(index_t r) const {
    for (index_t c = 0; c < to.extent(1); ++c) to(r, c) = row(c);
  }
};

// One task is a strip of columns, so that each sum runs over the rows in order.
template <class T, class Space>
struct column_strip_sums {
  static constexpr index_t width = 64;
  tensor_view<const T, 2, Space> from;
  tensor_view<T, 1, Space> to;
  HEADRED_FUNCTION void operator()(index_t strip) const {
    const index_t begin = strip * width;
    const index_t n = to.extent(0) - begin < width ? to.extent(0) - begin : width;
    T sum[width] = {};
    for (index_t r = 0; r < from.extent(0); ++r) {
      const T* const row = from.data() + r * from.stride(0) + begin;
      for (index_t c = 0; c < n; ++c) sum[c] += row[c];
    }
    for (index_t c = 0; c < n; ++c) to(begin + c) += sum[c];
  }
};

}  // namespace detail

/// c = a b + row on every row; an empty row adds nothing. a : (M,K), b : (K,P), row : (P), c : (M,P).
/// Uses the backend's own `gemm_plus_row` where it has one.
template <class T, backend Backend, class Space = typename Backend::space>
void gemm_plus_row(Backend& be, std::type_identity_t<tensor_view<const T, 2, Space>> a,
                   std::type_identity_t<tensor_view<const T, 2, Space>> b,
                   std::type_identity_t<tensor_view<const T, 1, Space>> row, tensor_view<T, 2, Space> c) {
  if constexpr (requires { be.gemm_plus_row(a, b, row, c); }) {
    be.gemm_plus_row(a, b, row, c);
  } else {
    const bool add = row.data() != nullptr;
    if (add) be.for_each(c.extent(0), detail::fill_rows<T, Space>{row, c});
    const auto batch = [](auto m) {
      using element = typename decltype(m)::element_type;
      return tensor_view<element, 3, Space>(m.data(), {1, m.extent(0), m.extent(1)}, {0, m.stride(0), m.stride(1)});
    };
    be.gemm(T(1), batch(a), batch(b), add ? T(1) : T(0), batch(c));
  }
}

/// to += the sum of the rows of `from`, in order. from : (R,C), entries of a row side by side; to : (C).
template <class T, backend Backend, class Space = typename Backend::space>
void add_row_sums(Backend& be, std::type_identity_t<tensor_view<const T, 2, Space>> from, tensor_view<T, 1, Space> to) {
  using body = detail::column_strip_sums<T, Space>;
  be.for_each((to.extent(0) + body::width - 1) / body::width, body{from, to});
}

}  // namespace headred
