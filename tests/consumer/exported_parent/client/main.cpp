#include <parent.hpp>

int main() {
  headred::cpu be{{.threads = 1}};
  Eigen::MatrixXf const one = Eigen::MatrixXf::Constant(8, 8, 1.f / 8);
  return parent::alike(be, one, one) == 0 ? 0 : 1;
}
