// expect: as_view: no known view of this type
#include <headred/core/as_view.hpp>

#include "xtensor_headers.hpp"

auto f(xt::xtensor<float, 2>&, xt::xtensor<float, 2>& a) { return headred::as_view(a + a); }
