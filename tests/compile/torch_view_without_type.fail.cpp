// expect: no matching function for call to .*torch_view
#include <headred/interop/torch.hpp>

auto f(const at::Tensor& t) { return headred::torch_view<4>(t); }
