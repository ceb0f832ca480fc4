// expect: no match for .*operator=|no viable overloaded '='
#include <headred/backend/cpu.hpp>
#include <headred/nn/op/attention.hpp>

void f(headred::attention_inputs<float>& in, headred::head_gates_view<float> gates) { in.mask = gates; }
