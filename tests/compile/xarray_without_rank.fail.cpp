// expect: rank is known at run time only; write as_view<Rank>
#include <xtensor/xarray.hpp>

#include <headred/core/as_view.hpp>

auto f(xt::xarray<double>& a) { return headred::as_view(a); }
