// expect: the view would outlive this temporary
#include <unsupported/Eigen/CXX11/Tensor>

#include <headred/core/as_view.hpp>

auto f() { return headred::as_view(Eigen::Tensor<float, 2>(4, 4)); }
