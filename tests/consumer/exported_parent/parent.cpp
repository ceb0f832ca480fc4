#include "parent.hpp"

float parent::alike(headred::cpu& be, Eigen::MatrixXf const& a, Eigen::MatrixXf const& b) {
  return static_cast<float>(headred::distance(be, a, b, headred::jensen_shannon{}));
}
