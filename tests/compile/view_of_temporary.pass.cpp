// Named memory, and temporaries that own nothing, may be viewed.
#include <span>
#include <vector>

#include <headred/core/as_view.hpp>

int main() {
  const std::vector<double> named(3);
  return static_cast<int>(headred::as_view(named).size() + headred::as_view(std::span(named)).size());
}
