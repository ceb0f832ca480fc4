// expect: (could not convert|no viable conversion)
#include <headred/core/view.hpp>

headred::tensor_view<float, 2> f(headred::tensor_view<const float, 2> a) { return a; }
