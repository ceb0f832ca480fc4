#include <headred/backend/cpu.hpp>
#include <headred/backend/tensor.hpp>
#include <headred/interop/dlpack.hpp>

#include "dlpack_structs.hpp"

auto f(dl_tensor_t& t) { return headred::as_view<float, 4>(t); }
