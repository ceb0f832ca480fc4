#include <headred/core/as_view.hpp>

#include "xtensor_headers.hpp"

auto f(xt::xarray<double>& a) { return headred::as_view<4>(a); }
