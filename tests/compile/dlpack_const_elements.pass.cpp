#include <headred/backend/cpu.hpp>
#include <headred/backend/tensor.hpp>
#include <headred/interop/dlpack.hpp>

#include "dlpack_structs.hpp"

auto f(headred::tensor_view<float, 2> v) { return headred::to_dlpack<managed_t>(v); }
