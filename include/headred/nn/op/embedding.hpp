// embedding: rows of a table, chosen by number.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <headred/nn/op/checked_matrix.hpp>
#include <headred/nn/op/row_loops.hpp>
#include <headred/nn/parameter.hpp>
#include <headred/nn/relevance_sweep.hpp>

namespace headred {

namespace detail {

/// Throws argument_error unless all ids are in [0, count).
inline void require_ids(std::string_view op, std::span<const std::int32_t> ids, index_t count) {
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= count)
      throw argument_error(std::string(op) + ": id " + std::to_string(ids[i]) + " at position " + std::to_string(i) +
                           ", expected [0," + std::to_string(count) + ")");
}

}  // namespace detail

/// y_r = scale table[ids_r], or added to y_r.
/// ids : (R) in [0,V), table : (V,D) -> y : (R,D). Throws shape_error; argument_error for an id outside [0,V), before
/// anything is written. Cost: R D.
template <class T, host_backend Backend>
void embedding_forward(Backend& be, std::span<const std::int32_t> ids,
                       std::type_identity_t<tensor_view<const T, 2>> table, std::type_identity_t<T> scale,
                       tensor_view<T, 2> y, bool add = false) {
  const index_t rows = static_cast<index_t>(ids.size()), cols = table.extent(1);
  detail::require_matrix("embedding_forward", "table", table, table.extent(0), cols);
  detail::require_matrix("embedding_forward", "y", y, rows, cols);
  detail::require_ids("embedding_forward", ids, table.extent(0));
  detail::for_row_blocks(be, rows, cols, [&](index_t begin, index_t end) {
    using vec = detail::pack<T, native_lanes<T>>;
    for (index_t r = begin; r < end; ++r) {
      const T* const from = table.data() + ids[static_cast<std::size_t>(r)] * table.stride(0);
      T* const to = y.data() + r * y.stride(0);
      if (add)
        detail::map_row(
            cols, to, [scale](const vec& a, const vec& b) { return a + scale * b; }, static_cast<const T*>(to), from);
      else
        detail::map_row(
            cols, to, [scale](const vec& a) { return scale * a; }, from);
    }
  });
}

/// dtable[ids_r] += scale dy_r, in the order of r whatever the number of threads; an empty dtable is not wanted.
/// Shapes and errors as in embedding_forward. Cost: R D.
template <class T, host_backend Backend>
void embedding_gradient(Backend& be, std::span<const std::int32_t> ids,
                        std::type_identity_t<tensor_view<const T, 2>> dy, std::type_identity_t<T> scale,
                        tensor_view<T, 2> dtable) {
  if (dtable.data() == nullptr) return;
  const index_t rows = static_cast<index_t>(ids.size()), cols = dtable.extent(1);
  detail::require_matrix("embedding_gradient", "dtable", dtable, dtable.extent(0), cols);
  detail::require_matrix("embedding_gradient", "dy", dy, rows, cols);
  detail::require_ids("embedding_gradient", ids, dtable.extent(0));
  // A task owns columns, so no two tasks write one entry.
  detail::for_column_strips(be, cols, [&](index_t begin, index_t end) {
    using vec = detail::pack<T, native_lanes<T>>;
    for (index_t r = 0; r < rows; ++r) {
      T* const to = dtable.data() + ids[static_cast<std::size_t>(r)] * dtable.stride(0) + begin;
      detail::map_row(
          end - begin, to, [scale](const vec& a, const vec& b) { return a + scale * b; }, static_cast<const T*>(to),
          dy.data() + r * dy.stride(0) + begin);
    }
  });
}

namespace detail {

template <class T, backend Backend>
struct embedding_node {
  static constexpr const char* name = "embedding";
  static constexpr bool relevance_by_sweep = true;
  slot y;
  parameter<T, 2, Backend>* table;
  const std::int32_t* ids;
  index_t count;
  T scale;
  void gradient(tape<T, Backend>& t) const {
    if (t.has_gradient(y) && table->trained())
      embedding_gradient<T>(t.backend(), {ids, static_cast<std::size_t>(count)}, t.gradient(y), scale,
                            table->gradient.view());
  }
  // Relevance ends at the embedded tokens: t.relevance(y), a row for each.
  void relevance(tape<T, Backend>&, relevance_sweep<T, Backend>&) const {}
};

}  // namespace detail

/// Adds scale table[ids_r] to row r of an activation that no recorded op has read yet: positions and token types on top
/// of `embedding`. The ids are copied; the table must outlive the recording.
template <class T, host_backend Backend>
void add_embedding(tape<T, Backend>& t, slot y, std::span<const std::int32_t> ids, parameter<T, 2, Backend>& table,
                   std::type_identity_t<T> scale = T(1), bool add = true) {
  embedding_forward<T>(t.backend(), ids, std::as_const(table.value).view(), scale, t.value(y), add);
  if (!t.recording()) return;
  const index_t count = static_cast<index_t>(ids.size());
  std::int32_t* const kept = t.template keep<std::int32_t>(count);
  std::copy(ids.begin(), ids.end(), kept);
  t.record(detail::embedding_node<T, Backend>{y, &table, kept, count, scale});
}

/// The same from a table that is never trained.
template <class T, host_backend Backend>
void add_embedding(tape<T, Backend>& t, slot y, std::span<const std::int32_t> ids,
                   std::type_identity_t<tensor_view<const T, 2>> table, std::type_identity_t<T> scale = T(1)) {
  embedding_forward<T>(t.backend(), ids, table, scale, t.value(y), true);
}

/// A new activation (R,D): row r is scale table[ids_r].
template <class T, host_backend Backend>
slot embedding(tape<T, Backend>& t, std::span<const std::int32_t> ids, parameter<T, 2, Backend>& table,
               std::type_identity_t<T> scale = T(1)) {
  const slot y = t.add(static_cast<index_t>(ids.size()), table.value.extent(1));
  add_embedding<T>(t, y, ids, table, scale, false);
  return y;
}

}  // namespace headred
