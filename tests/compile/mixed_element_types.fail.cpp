// expect: distance: a and b have different element types
#include <headred/backend/cpu.hpp>
#include <headred/distance/cosine.hpp>
#include <headred/distance/pairwise.hpp>

double f(headred::cpu& be, headred::tensor_view<const float, 2> a, headred::tensor_view<const double, 2> b) {
  return headred::distance(be, a, b, headred::cosine{});
}
