#include <unsupported/Eigen/CXX11/Tensor>

#include <headred/core/as_view.hpp>

auto f(Eigen::Tensor<float, 4>& attention) { return headred::as_view<4>(attention); }
