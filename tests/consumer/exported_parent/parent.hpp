#pragma once
#include <Eigen/Core>
#include <headred/headred.hpp>

namespace parent {
float alike(headred::cpu& be, Eigen::MatrixXf const& a, Eigen::MatrixXf const& b);
}
