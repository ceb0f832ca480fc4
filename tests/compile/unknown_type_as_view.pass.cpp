#include <vector>

#include <headred/core/as_view.hpp>

using values = std::vector<double>;

auto f(values& v) { return headred::as_view(v); }
