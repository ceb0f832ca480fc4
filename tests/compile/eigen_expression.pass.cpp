#include <Eigen/Core>

#include <headred/core/as_view.hpp>

auto f(Eigen::MatrixXd& sum, Eigen::MatrixXd& a, Eigen::MatrixXd& b) {
  sum = a + b;
  return headred::as_view(sum);
}
