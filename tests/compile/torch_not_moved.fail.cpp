// expect: no matching function for call to .*to_torch
#include <utility>

#include <headred/core/matrix.hpp>
#include <headred/interop/torch.hpp>

auto f(headred::matrix& m) { return headred::to_torch(m); }
