#include <utility>

#include <headred/backend/cpu.hpp>
#include <headred/backend/tensor.hpp>
#include <headred/interop/dlpack.hpp>

#include "dlpack_structs.hpp"

auto f(headred::tensor<float, 2, headred::cpu>& t) { return headred::to_dlpack<managed_t>(std::move(t)); }
