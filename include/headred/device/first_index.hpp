// The first index for which something holds, found on the device.
#pragma once

#include <cstdint>

#include <headred/device/block_context.hpp>

namespace headred::device::detail {

/// i where the condition holds, `count` elsewhere.
template <class Condition>
struct index_if {
  Condition holds;
  index_t count;
  HEADRED_FUNCTION index_t operator()(index_t, index_t i) const { return holds(i) ? i : count; }
};
struct take_least {
  HEADRED_FUNCTION index_t operator()(index_t a, index_t b) const { return a < b ? a : b; }
};
struct store_index {
  index_t* to;
  HEADRED_FUNCTION void operator()(index_t, index_t value) const { *to = value; }
};

/// The least i in [0,count) for which condition(i) holds, else count; `found` is memory of the device for one index.
/// Waits for the device.
template <device_backend Backend, class Condition>
index_t first_index(Backend& be, index_t count, const Condition& condition, index_t* found) {
  be.reduce(1, count, count, index_if<Condition>{condition, count}, take_least{}, store_index{found});
  index_t first = count;
  be.download(&first, found, sizeof first);
  return first;
}

/// Whether an entry lies outside [least, end).
struct outside {
  tensor_view<const std::int32_t, 1, device_space> entries;
  index_t least, end;
  HEADRED_FUNCTION bool operator()(index_t i) const { return entries(i) < least || entries(i) >= end; }
};

}  // namespace headred::device::detail
