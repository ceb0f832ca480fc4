// expect: as_view: no known view of this type
#include <vector>

#include <headred/core/as_view.hpp>

using values = std::vector<std::vector<double>>;

auto f(values& v) { return headred::as_view(v); }
