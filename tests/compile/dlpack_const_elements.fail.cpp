// expect: to_dlpack: DLPack has no const elements
#include <headred/backend/cpu.hpp>
#include <headred/backend/tensor.hpp>
#include <headred/interop/dlpack.hpp>

#include "dlpack_structs.hpp"

auto f(headred::tensor_view<const float, 2> v) { return headred::to_dlpack<managed_t>(v); }
