// expect: as_view: no known view of this type
#include <Eigen/Core>

#include <headred/core/as_view.hpp>

auto f(Eigen::MatrixXd&, Eigen::MatrixXd& a, Eigen::MatrixXd& b) { return headred::as_view(a + b); }
