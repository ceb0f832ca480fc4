// Sums of the columns of a matrix on the device: the gradient of a bias.
#pragma once

#include <type_traits>

#include <headred/device/block_context.hpp>
#include <headred/device/require_shape.hpp>

namespace headred::device {
namespace detail {

/// A block for 128 rows of 32 columns: thread (r, c) sums the rows r, r + 4, ...; the four sums are added in order.
template <class T>
struct column_part_kernel {
  static constexpr int threads = 128, across = 32, down = threads / across, rows = 128;
  template <class Block>
  struct shared {
    typename Block::template array<T, threads> part;
  };

  tensor_view<const T, 2, device_space> x;
  index_t strips;
  T* sums;  // (parts, columns)

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, shared<Block>& memory) const {
    const int t = block.thread();
    const index_t part = block.block() / strips, c = block.block() % strips * across + t % across;
    const index_t end = (part + 1) * rows < x.extent(0) ? (part + 1) * rows : x.extent(0);
    T sum = T(0);
    if (c < x.extent(1))
      for (index_t r = part * rows + t / across; r < end; r += down) sum += x(r, c);
    memory.part[t] = sum;
    block.sync();
    if (t >= across || c >= x.extent(1)) return;
    for (int k = 1; k < down; ++k) sum += memory.part[k * across + t];
    sums[part * x.extent(1) + c] = sum;
  }
};

template <class T>
struct add_column_parts {
  const T* sums;
  index_t parts;
  tensor_view<T, 1, device_space> to;
  HEADRED_FUNCTION void operator()(index_t c) const {
    T all = T(0);
    for (index_t p = 0; p < parts; ++p) all += sums[p * to.extent(0) + c];
    to(c) += all;
  }
};

}  // namespace detail

/// to_c += sum_r x_rc, in an order that the shape decides.
/// x : (R,C), to : (C) on the device. Scratch memory C R / 128 T of the workspace. Throws shape_error. Cost: one read.
template <class T, device_backend Backend>
void add_column_sums(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> x,
                     tensor_view<T, 1, device_space> to) {
  using kernel = detail::column_part_kernel<T>;
  detail::require_shape("add_column_sums", "to", to, {x.extent(1)});
  if (x.empty()) return;
  const index_t parts = (x.extent(0) + kernel::rows - 1) / kernel::rows,
                strips = (x.extent(1) + kernel::across - 1) / kernel::across;
  T* const sums = static_cast<T*>(be.workspace(static_cast<std::size_t>(parts * x.extent(1)) * sizeof(T)));
  be.launch(parts * strips, kernel{x, strips, sums});
  be.for_each(x.extent(1), detail::add_column_parts<T>{sums, parts, to});
}

}  // namespace headred::device
