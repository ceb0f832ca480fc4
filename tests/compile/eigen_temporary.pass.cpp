#include <Eigen/Core>

#include <headred/core/as_view.hpp>

auto f(Eigen::MatrixXd& a) { return headred::as_view(a.topRows(2)); }
