// expect: the view would outlive this temporary
#include <xtensor/xtensor.hpp>
#include <xtensor/xview.hpp>

#include <headred/core/as_view.hpp>

auto f(xt::xtensor<float, 2>& a) { return headred::as_view(xt::xtensor<float, 2>(a)); }
