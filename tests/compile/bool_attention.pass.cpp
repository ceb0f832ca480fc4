#include <cstdint>

#include <headred/backend/cpu.hpp>
#include <headred/distance/cosine.hpp>
#include <headred/distance/pairwise.hpp>

void f(headred::cpu& be, headred::tensor_view<const std::uint8_t, 4> a) {
  (void)headred::pairwise(be, a, headred::cosine{});
}
