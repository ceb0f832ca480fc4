// expect: rank is known at run time only; write as_view<Rank>
#include <headred/core/as_view.hpp>

#include "xtensor_headers.hpp"

auto f(xt::xarray<double>& a) { return headred::as_view(a); }
