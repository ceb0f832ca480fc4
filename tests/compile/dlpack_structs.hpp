// DLPack's structs, as far as the pairs dlpack_* need them: no dlpack.h is required.
#pragma once

#include <cstdint>

struct dl_tensor_t {
  void* data;
  struct {
    int device_type, device_id;
  } device;
  std::int32_t ndim;
  struct {
    std::uint8_t code, bits;
    std::uint16_t lanes;
  } dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
struct managed_t {
  dl_tensor_t dl_tensor;
  void* manager_ctx;
  void (*deleter)(managed_t*);
};
