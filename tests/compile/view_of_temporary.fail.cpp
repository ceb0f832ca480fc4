// expect: the view would outlive this temporary
#include <vector>

#include <headred/core/as_view.hpp>

int main() { return static_cast<int>(headred::as_view(std::vector<double>(3)).size()); }
