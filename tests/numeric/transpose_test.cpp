#include <headred/simd/transpose.hpp>

#include <vector>

#include <doctest/doctest.h>

namespace {

template <class T, int Lanes>
void check() {
  using headred::index_t;
  for (index_t rows = 0; rows <= 2 * Lanes + 3; ++rows)
    for (index_t cols = 0; cols <= 2 * Lanes + 3; ++cols) {
      const index_t stride = cols + 2, padded = headred::detail::padded<T, Lanes>(rows) + Lanes;
      std::vector<T> from(static_cast<std::size_t>(rows * stride)), to(static_cast<std::size_t>(cols * padded), T(-1));
      for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(i + 1);
      headred::detail::transpose<T, Lanes>(from.data(), stride, rows, cols, to.data(), padded);
      bool right = true;
      for (index_t c = 0; c < cols; ++c)
        for (index_t r = 0; r < padded; ++r) {
          const T expected = r < rows ? from[static_cast<std::size_t>(r * stride + c)] : T(0);
          right = right && to[static_cast<std::size_t>(c * padded + r)] == expected;
        }
      CHECK_MESSAGE(right, rows << " x " << cols << ", " << Lanes << " lanes");
    }
}

}  // namespace

TEST_SUITE("numeric") {
  TEST_CASE("transpose of any shape, padding set to zero") {
    check<float, 4>();
    check<double, 2>();
    check<float, headred::native_lanes<float>>();
    check<double, headred::native_lanes<double>>();
  }
}
