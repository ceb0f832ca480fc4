// The device's memory: out of reach of the host but for kernels and copies, full of NaNs, with an unreachable page on
// either side.
#pragma once

#include <cstddef>

namespace headred_emulator {

/// Null when memory is short.
void* allocate_device_memory(std::size_t bytes, int device);
/// False for a pointer that is none of ours; records a fault where somebody wrote behind the end.
bool free_device_memory(void* p);
/// Whether [p, p + bytes) lies within one allocation.
bool is_device_memory(const void* p, std::size_t bytes);
/// Whether any byte of [p, p + bytes) belongs to the device.
bool touches_device_memory(const void* p, std::size_t bytes);

/// While one is alive, device memory can be reached.
class open_device_memory {
 public:
  open_device_memory();
  ~open_device_memory();
  open_device_memory(const open_device_memory&) = delete;
  open_device_memory& operator=(const open_device_memory&) = delete;
};

}  // namespace headred_emulator
