// expect: attention is stored as float, double, float16, bfloat16 or an integer
#include <cstdint>

#include <headred/backend/cpu.hpp>
#include <headred/distance/cosine.hpp>
#include <headred/distance/pairwise.hpp>

void f(headred::cpu& be, headred::tensor_view<const bool, 4> a) { (void)headred::pairwise(be, a, headred::cosine{}); }
