#include <headred/backend/cpu.hpp>
#include <headred/distance/cosine.hpp>
#include <headred/distance/pairwise.hpp>

void f(headred::cpu& be, headred::tensor_view<const float, 4, headred::host_space> a) {
  (void)headred::pairwise(be, a, headred::cosine{});
}
