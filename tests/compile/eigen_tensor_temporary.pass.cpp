#include <unsupported/Eigen/CXX11/Tensor>

#include <headred/core/as_view.hpp>

auto f(float* p) { return headred::as_view(Eigen::TensorMap<Eigen::Tensor<float, 2>>(p, 4, 4)); }
