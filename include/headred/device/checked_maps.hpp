// The rows of attention maps on a device, checked before pairs of them are compared.
#pragma once

#include <cstddef>
#include <string>

#include <headred/device/first_index.hpp>
#include <headred/device/pair_rows.hpp>

namespace headred::device::detail {

/// Pieces of one allocation, each aligned to 256 bytes.
class carved_memory {
 public:
  explicit carved_memory(void* from) : at_(static_cast<std::byte*>(from)) {}
  template <class T>
  T* take(index_t count) {
    T* const p = reinterpret_cast<T*>(at_);
    at_ += bytes<T>(count);
    return p;
  }
  template <class T>
  static std::size_t bytes(index_t count) {
    return (static_cast<std::size_t>(count) * sizeof(T) + 255) / 256 * 256;
  }

 private:
  std::byte* at_;
};

struct is_broken_row {
  const int* kind;
  HEADRED_FUNCTION bool operator()(index_t r) const { return kind[r] == broken_row; }
};

/// Memory of the rows' forms, without that of sums over pairs; a last index serves the check.
template <class T>
std::size_t row_bytes(index_t rows) {
  using carved = carved_memory;
  return 3 * carved::bytes<double>(rows) + 3 * carved::bytes<T>(rows) + carved::bytes<int>(rows) +
         carved::bytes<index_t>(1);
}

/// Finds the rows' forms. Throws data_error naming layer, head and row for what is no row of attention.
template <class Rule, class T, class Backend>
pair_memory<T> checked_rows(Backend& be, const tensor_view<const T, 4, device_space>& maps, double sum_tolerance,
                            carved_memory& memory) {
  const index_t tokens = maps.extent(2), rows = maps.extent(0) * maps.extent(1) * tokens;
  pair_memory<T> m{};
  m.sum = memory.take<double>(rows);
  m.shift = memory.take<double>(rows);
  m.scale = memory.take<double>(rows);
  m.first = memory.take<T>(rows);
  m.rest = memory.take<T>(rows);
  m.unit = memory.take<T>(rows);
  m.kind = memory.take<int>(rows);
  index_t* const found = memory.take<index_t>(1);
  be.launch(rows, pair_rows_kernel<T, Rule>{maps, m, sum_tolerance});
  const index_t broken = first_index(be, rows, is_broken_row{m.kind}, found);
  if (broken == rows) return m;
  double sum = 0;
  be.download(&sum, m.sum + broken, sizeof sum);
  const index_t head = broken / tokens;
  throw data_error(
      "attention: the row has an entry that is no number >= 0, or sums to " + std::to_string(sum) + ", expected 1",
      {head / maps.extent(1), head % maps.extent(1), broken % tokens});
}

}  // namespace headred::device::detail
