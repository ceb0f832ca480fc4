// An mdspan whose accessor returns references to its elements.
#include <cstddef>

#include <headred/core/as_view.hpp>

struct span {
  using element_type = double;
  using reference = double&;
  static constexpr std::size_t rank() { return 2; }
  double* data_handle() const { return nullptr; }
  int extent(std::size_t) const { return 3; }
  int stride(std::size_t i) const { return i == 0 ? 3 : 1; }
};

auto f(span s) { return headred::as_view(s); }
