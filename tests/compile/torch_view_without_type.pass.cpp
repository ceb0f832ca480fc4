#include <headred/interop/torch.hpp>

auto f(const at::Tensor& t) { return headred::torch_view<const float, 4>(t); }
