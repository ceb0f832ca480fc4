#pragma once
#include <ATen/core/Tensor.h>
#include <functional>

namespace at {
Tensor from_blob(void*, const IntArrayRef&, const IntArrayRef&, const std::function<void(void*)>&,
                 const TensorOptions&);
}  // namespace at
