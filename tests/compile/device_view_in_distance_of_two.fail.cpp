// expect: attention lies in a device's memory
#include <headred/backend/cpu.hpp>
#include <headred/distance/cosine.hpp>
#include <headred/distance/pairwise.hpp>

double f(headred::cpu& be, headred::tensor_view<const float, 2, headred::device_space> a) {
  return headred::distance(be, a, a, headred::cosine{});
}
