// expect: the view would outlive this temporary
#include <Eigen/Core>

#include <headred/core/as_view.hpp>

auto f(Eigen::MatrixXd& a) { return headred::as_view(Eigen::MatrixXd(a.topRows(2))); }
