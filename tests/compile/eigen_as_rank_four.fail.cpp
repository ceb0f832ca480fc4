// expect: as_view<Rank>: this type has another rank
#include <Eigen/Core>

#include <headred/core/as_view.hpp>

auto f(Eigen::MatrixXd& a) { return headred::as_view<4>(a); }
