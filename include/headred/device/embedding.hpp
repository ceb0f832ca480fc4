// Rows of a table, chosen by number, on the device.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include <headred/device/first_index.hpp>
#include <headred/device/require_shape.hpp>

namespace headred::device {
namespace detail {

template <class T>
struct embedded_entry {
  tensor_view<const std::int32_t, 1, device_space> ids;
  tensor_view<const T, 2, device_space> table;
  T scale;
  tensor_view<T, 2, device_space> y;
  bool add;
  HEADRED_FUNCTION void operator()(index_t at) const {
    const index_t r = at / y.extent(1), c = at % y.extent(1);
    const T value = scale * table(ids(r), c);
    y(r, c) = add ? y(r, c) + value : value;
  }
};

/// A block for each position: that of an id's first occurrence sums all of them, in order.
template <class T>
struct embedding_gradient_kernel {
  static constexpr int threads = 128;
  template <class Block>
  struct shared {
    typename Block::template array<int, threads / 32> part;
    typename Block::template array<int, threads> same;
  };

  tensor_view<const std::int32_t, 1, device_space> ids;
  tensor_view<const T, 2, device_space> dy;
  T scale;
  tensor_view<T, 2, device_space> dtable;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, shared<Block>& memory) const {
    const index_t r = block.block(), rows = ids.extent(0);
    const int t = block.thread();
    const std::int32_t id = ids(r);
    int earlier = 0;
    for (index_t k = t; k < r; k += threads) earlier += ids(k) == id ? 1 : 0;
    if (headred::detail::block_fold<threads>(block, memory.part, earlier, headred::detail::add{}) > 0) return;
    for (index_t begin = r; begin < rows; begin += threads) {
      block.sync();
      memory.same[t] = begin + t < rows && ids(begin + t) == id ? 1 : 0;
      block.sync();
      for (int m = 0; m < threads; ++m) {
        if (memory.same[m] == 0) continue;
        for (index_t c = t; c < dy.extent(1); c += threads) dtable(id, c) += scale * dy(begin + m, c);
      }
    }
  }
};

}  // namespace detail

/// Throws argument_error unless every id is in [0, count); once a batch, since it waits for the device.
/// ids : (R) on the device. Uses 8 bytes of the workspace.
template <device_backend Backend>
void require_ids(Backend& be, tensor_view<const std::int32_t, 1, device_space> ids, index_t count) {
  if (ids.empty()) return;
  const index_t at = detail::first_index(be, ids.extent(0), detail::outside{ids, 0, count},
                                         static_cast<index_t*>(be.workspace(sizeof(index_t))));
  if (at == ids.extent(0)) return;
  std::int32_t id = 0;
  be.download(&id, ids.data() + at * ids.stride(0), sizeof id);
  throw argument_error("embedding: id " + std::to_string(id) + " at position " + std::to_string(at) + ", expected [0," +
                       std::to_string(count) + ")");
}

/// y_r = scale table[ids_r], or added to y_r.
/// ids : (R), which require_ids has seen, table : (V,D) -> y : (R,D). Throws shape_error. Cost: R D.
template <class T, device_backend Backend>
void embedding_forward(Backend& be, tensor_view<const std::int32_t, 1, device_space> ids,
                       std::type_identity_t<tensor_view<const T, 2, device_space>> table, std::type_identity_t<T> scale,
                       tensor_view<T, 2, device_space> y, bool add = false) {
  detail::require_shape("embedding_forward", "table", table, {table.extent(0), y.extent(1)});
  detail::require_shape("embedding_forward", "y", y, {ids.extent(0), y.extent(1)});
  be.for_each(y.size(), detail::embedded_entry<T>{ids, table, scale, y, add});
}

/// dtable[ids_r] += scale dy_r, in the order of r: no atomics, the same bits in each run.
/// Shapes as in embedding_forward. Throws shape_error. Cost: R D, and R^2 / 2 reads of ids, which the caches serve.
template <class T, device_backend Backend>
void embedding_gradient(Backend& be, tensor_view<const std::int32_t, 1, device_space> ids,
                        std::type_identity_t<tensor_view<const T, 2, device_space>> dy, std::type_identity_t<T> scale,
                        tensor_view<T, 2, device_space> dtable) {
  detail::require_shape("embedding_gradient", "dy", dy, {ids.extent(0), dtable.extent(1)});
  if (!dy.empty()) be.launch(ids.extent(0), detail::embedding_gradient_kernel<T>{ids, dy, scale, dtable});
}

}  // namespace headred::device
