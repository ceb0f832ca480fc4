// expect: no matching function for call to
#include <headred/backend/cpu.hpp>
#include <headred/distance/cosine.hpp>
#include <headred/distance/pairwise.hpp>

void f(headred::cpu& be, headred::tensor_view<const float, 3> a) { (void)headred::pairwise(be, a, headred::cosine{}); }
