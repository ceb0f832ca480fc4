#include <headred/core/view.hpp>

auto f(float* p) { return headred::tensor_view<float, 2>(p, {3, 4}, {8, 2}); }
