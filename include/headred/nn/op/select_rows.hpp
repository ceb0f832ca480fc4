// select_rows: some rows of an activation, so that nothing is computed for the others.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <type_traits>

#include <headred/nn/op/checked_matrix.hpp>
#include <headred/nn/op/row_loops.hpp>
#include <headred/nn/relevance_sweep.hpp>

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

/// relevance_in_rows[i] = relevance_out_i, 0 elsewhere; both (.,D), the former overwritten. Errors as before.
template <class T, host_backend Backend>
void select_rows_relevance(Backend& be, std::type_identity_t<tensor_view<const T, 2>> relevance_out,
                           std::span<const index_t> rows, tensor_view<T, 2> relevance_in) {
  detail::require_matrix("select_rows_relevance", "relevance_in", relevance_in, relevance_in.extent(0),
                         relevance_in.extent(1));
  for (index_t r = 0; r < relevance_in.extent(0); ++r)
    std::fill_n(relevance_in.data() + r * relevance_in.stride(0), relevance_in.extent(1), T(0));
  select_rows_gradient<T>(be, relevance_out, rows, relevance_in);
}

namespace detail {

template <class T, backend Backend>
struct select_rows_node {
  static constexpr const char* name = "select_rows";
  static constexpr bool relevance_by_sweep = true;
  slot x, y;
  const index_t* rows;
  void gradient(tape<T, Backend>& t) const {
    if (t.has_gradient(y))
      select_rows_gradient<T>(t.backend(), t.gradient(y), {rows, static_cast<std::size_t>(t.rows(y))}, t.gradient(x));
  }
  void relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s) const {
    if (!t.has_relevance(y)) return;
    const tensor_view<const T, 2> out = t.relevance(y);
    s.pass(relevance_op::select_rows, relevance_rule::identity(), y,
           std::array<typename relevance_sweep<T, Backend>::input, 1>{{{x}}},
           [&](const relevance_rule&, const auto& raw) {
             select_rows_relevance<T>(t.backend(), out, {rows, static_cast<std::size_t>(t.rows(y))}, raw[0]);
             return relevance_terms{};
           });
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
  const auto samples = t.samples(x);
  sequence* const chosen = t.template keep<sequence>(static_cast<index_t>(samples.size()));
  for (std::size_t b = 0; b < samples.size(); ++b) {
    const auto first = std::lower_bound(rows.begin(), rows.end(), samples[b].begin);
    const auto last = std::lower_bound(first, rows.end(), samples[b].begin + samples[b].length);
    chosen[b] = {first - rows.begin(), last - first};
  }
  t.set_samples(y, {chosen, samples.size()});
  t.record(detail::select_rows_node<T, Backend>{x, y, kept});
  return y;
}

}  // namespace headred
