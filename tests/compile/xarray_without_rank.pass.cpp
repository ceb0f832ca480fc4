#include <xtensor/xarray.hpp>

#include <headred/core/as_view.hpp>

auto f(xt::xarray<double>& a) { return headred::as_view<4>(a); }
