// select_rows: some rows of an activation, so that nothing is computed for the others.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <type_traits>

#include <headred/nn/op/checked_matrix.hpp>
#include <headred/nn/op/row_loops.hpp>
#include <headred/nn/tape.hpp>

namespace headred {

namespace detail {

inline void require_ascending_rows(std::string_view op, std::span<const index_t> rows, index_t count) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i] < (i == 0 ? 0 : rows[i - 1] + 1) || rows[i] >= count)
      throw argument_error(std::string(op) + ": row " + std::to_string(rows[i]) + " at position " + std::to_string(i) +
                           ", expected ascending rows in [0," + std::to_string(count) + ")");
}

}  // namespace detail

/// y_i = x_rows[i]. x : (N,D), rows : (R) ascending in [0,N) -> y : (R,D). Throws shape_error, argument_error.
template <class T, host_backend Backend>
void select_rows_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2>> x, std::span<const index_t> rows,
                         tensor_view<T, 2> y) {
  const index_t count = static_cast<index_t>(rows.size()), cols = x.extent(1);
  detail::require_matrix("select_rows_forward", "x", x, x.extent(0), cols);
  detail::require_matrix("select_rows_forward", "y", y, count, cols);
  detail::require_ascending_rows("select_rows_forward", rows, x.extent(0));
  detail::for_row_blocks(be, count, cols, [&](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r)
      std::copy_n(x.data() + rows[static_cast<std::size_t>(r)] * x.stride(0), cols, y.data() + r * y.stride(0));
  });
}

/// dx_rows[i] += dy_i; an empty dx is not wanted. Shapes and errors as in select_rows_forward.
template <class T, host_backend Backend>
void select_rows_gradient(Backend& be, std::type_identity_t<tensor_view<const T, 2>> dy, std::span<const index_t> rows,
                          tensor_view<T, 2> dx) {
  if (dx.data() == nullptr) return;
  const index_t count = static_cast<index_t>(rows.size()), cols = dx.extent(1);
  detail::require_matrix("select_rows_gradient", "dx", dx, dx.extent(0), cols);
  detail::require_matrix("select_rows_gradient", "dy", dy, count, cols);
  detail::require_ascending_rows("select_rows_gradient", rows, dx.extent(0));
  detail::for_row_blocks(be, count, cols, [&](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r) {
      T* const to = dx.data() + rows[static_cast<std::size_t>(r)] * dx.stride(0);
      const T* const from = dy.data() + r * dy.stride(0);
      for (index_t c = 0; c < cols; ++c) to[c] += from[c];
    }
  });
}

namespace detail {

template <class T, backend Backend>
struct select_rows_node {
  slot x, y;
  const index_t* rows;
  void gradient(tape<T, Backend>& t) const {
    if (t.has_gradient(y))
      select_rows_gradient<T>(t.backend(), t.gradient(y), {rows, static_cast<std::size_t>(t.rows(y))}, t.gradient(x));
  }
};

}  // namespace detail

/// These rows of an activation, ascending; the numbers are copied.
template <class T, host_backend Backend>
slot select_rows(tape<T, Backend>& t, slot x, std::span<const index_t> rows) {
  const slot y = t.add(static_cast<index_t>(rows.size()), t.cols(x));
  select_rows_forward<T>(t.backend(), t.input(x), rows, t.value(y));
  if (!t.recording()) return y;
  index_t* const kept = t.template keep<index_t>(static_cast<index_t>(rows.size()));
  std::copy(rows.begin(), rows.end(), kept);
  t.record(detail::select_rows_node<T, Backend>{x, y, kept});
  return y;
}

}  // namespace headred
