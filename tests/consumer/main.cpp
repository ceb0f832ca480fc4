#include <Eigen/Core>
#include <headred/headred.hpp>
#ifdef WITH_IO
#include <headred/io.hpp>
#endif

namespace hr = headred;

int main() {
  hr::cpu be{{.threads = 2}};
  Eigen::MatrixXf const one = Eigen::MatrixXf::Constant(64, 64, 1.f / 64), two = one;
  return hr::distance(be, one, two, hr::jensen_shannon{}) == 0 ? 0 : 1;
}
