#include <doctest/doctest.h>

#include <vector>

#include <headred/core/error.hpp>
#include <headred/core/view.hpp>

namespace hr = headred;

TEST_SUITE("core") {
  TEST_CASE("a view addresses row-major memory") {
    std::vector<int> values(24);
    for (int i = 0; i < 24; ++i) values[static_cast<std::size_t>(i)] = i;
    const hr::tensor_view<int, 3> v(values.data(), {2, 3, 4});
    CHECK(v.strides() == hr::shape_t<3>{12, 4, 1});
    CHECK(v.size() == 24);
    CHECK(v.contiguous());
    CHECK_FALSE(v.empty());
    CHECK(v(1, 2, 3) == 23);
    CHECK(v[1](2, 3) == 23);
    CHECK(v[1][2](3) == 23);
    v(0, 0, 1) = 100;
    CHECK(values[1] == 100);
  }

  TEST_CASE("narrow, transposed and sliced views share the memory") {
    std::vector<int> values(12);
    for (int i = 0; i < 12; ++i) values[static_cast<std::size_t>(i)] = i;
    const hr::tensor_view<int, 2> v(values.data(), {3, 4});
    const auto cut = v.narrow(1, 1, 2);
    CHECK(cut.shape() == hr::shape_t<2>{3, 2});
    CHECK(cut(2, 1) == 10);
    CHECK_FALSE(cut.contiguous());
    const auto turned = v.transposed();
    CHECK(turned.shape() == hr::shape_t<2>{4, 3});
    CHECK(turned(3, 1) == 7);
    CHECK_FALSE(turned.contiguous());
    CHECK(turned.transposed().contiguous());
    CHECK(v.narrow(0, 1, 1).contiguous());  // one row: the stride of its first axis does not matter
    const hr::tensor_view<int, 2> backwards(values.data() + 11, {3, 4}, {-4, -1});
    CHECK(backwards(0, 0) == 11);
    CHECK(backwards(2, 3) == 0);
    const hr::tensor_view<int, 2> repeated(values.data(), {5, 4}, {0, 1});
    CHECK(repeated(4, 2) == 2);
  }

  TEST_CASE("empty views and axes of length one") {
    const hr::tensor_view<int, 2> none;
    CHECK(none.empty());
    CHECK(none.data() == nullptr);
    const hr::tensor_view<int, 3> hollow(nullptr, {4, 0, 5});
    CHECK(hollow.empty());
    CHECK(hollow.size() == 0);
  }

  TEST_CASE("a view of T converts to a view of T const, never back") {
    double x = 3;
    const hr::tensor_view<double, 1> v(&x, {1});
    const hr::tensor_view<const double, 1> c = v;
    CHECK(c(0) == 3);
    static_assert(std::is_convertible_v<hr::tensor_view<int, 2>, hr::tensor_view<const int, 2>>);
    static_assert(!std::is_convertible_v<hr::tensor_view<const int, 2>, hr::tensor_view<int, 2>>);
    static_assert(!std::is_convertible_v<hr::tensor_view<int, 2, hr::device_space>,
                                         hr::tensor_view<const int, 2, hr::host_space>>);
    static_assert(std::is_trivially_copyable_v<hr::tensor_view<int, 4>>);
  }

  TEST_CASE("error texts name the thing and what was expected") {
    CHECK(hr::shape_text(std::vector<hr::index_t>{12, 12, 64, 64}) == "(12,12,64,64)");
    CHECK(hr::shape_text({}) == "()");
    const hr::data_error e("the row is bad", {2, 3, 5});
    CHECK(std::string(e.what()) == "layer 2, head 3, row 5: the row is bad");
    CHECK(e.where().layer == 2);
    CHECK(e.where().head == 3);
    CHECK(e.where().row == 5);
    const hr::file_error f("a.npy", "byte 6: what");
    CHECK(std::string(hr::file_error("a\nb\x1b.npy", "no").what()) == "a\\x0ab\\x1b.npy: no");
    CHECK(std::string(f.what()) == "a.npy: byte 6: what");
    CHECK(f.file() == "a.npy");
    CHECK(std::string(hr::cancelled().what()) == "cancelled by the caller");
    CHECK_THROWS_AS(throw hr::shape_error("x"), hr::error);
    CHECK_THROWS_AS(throw hr::argument_error("x"), hr::error);
    CHECK_THROWS_AS(throw hr::cancelled(), hr::error);
  }
}
