// expect: (use of deleted function|call to deleted constructor)
#include <utility>

#include <headred/backend/cpu.hpp>
#include <headred/backend/tensor.hpp>

headred::tensor<float, 2, headred::cpu> f(headred::tensor<float, 2, headred::cpu>& a) { return a; }
