// expect: the view would outlive this temporary
#include <headred/core/as_view.hpp>

#include "xtensor_headers.hpp"

auto f(xt::xtensor<float, 2>& a) { return headred::as_view(xt::xtensor<float, 2>(a)); }
