#include <headred/core/view.hpp>
#include <headred/interop/torch.hpp>

auto f(headred::tensor_view<float, 2> v) { return headred::to_torch(std::move(v)); }
