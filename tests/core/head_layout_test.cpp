#include <doctest/doctest.h>

#include <limits>
#include <sstream>

#include <headred/core/grow_buffer.hpp>
#include <headred/core/head_layout.hpp>
#include <headred/core/matrix.hpp>
#include <headred/core/status.hpp>

namespace hr = headred;

TEST_SUITE("core") {
  TEST_CASE("flat numbers and head ids are inverse, layers of any size") {
    const hr::head_layout layout(std::vector<hr::index_t>{5, 1, 0, 12, 0});
    CHECK(layout.layers() == 5);
    CHECK(layout.size() == 18);
    CHECK(layout.heads(3) == 12);
    CHECK(layout.flat({0, 4}) == 4);
    CHECK(layout.flat({1, 0}) == 5);
    CHECK(layout.flat({3, 0}) == 6);
    CHECK(layout.id(5) == hr::head_id{1, 0});
    CHECK(layout.id(6) == hr::head_id{3, 0});
    for (hr::index_t i = 0; i < layout.size(); ++i) CHECK(layout.flat(layout.id(i)) == i);
    CHECK(hr::head_layout(12, 12).size() == 144);
    CHECK(hr::head_layout(12, 12).id(143) == hr::head_id{11, 11});
    CHECK(hr::head_layout(2, 1) == hr::head_layout(std::vector<hr::index_t>{1, 1}));
    CHECK(hr::head_layout().size() == 0);
    CHECK(hr::head_layout(0, 5).size() == 0);
  }

  TEST_CASE("what is not in a layout is named") {
    const hr::head_layout layout(2, 3);
    CHECK_THROWS_WITH_AS(layout.flat({2, 0}), "head (2,0) is not in a layout of 2 layers", hr::argument_error);
    CHECK_THROWS_WITH_AS(layout.flat({1, 3}), "head (1,3) is not in a layout of 2 layers", hr::argument_error);
    CHECK_THROWS_AS(layout.flat({-1, 0}), hr::argument_error);
    CHECK_THROWS_AS(layout.flat({0, -1}), hr::argument_error);
    CHECK_THROWS_WITH_AS(layout.id(6), "head number 6 is not in [0,6)", hr::argument_error);
    CHECK_THROWS_AS(layout.id(-1), hr::argument_error);
    CHECK_THROWS_WITH_AS(layout.heads(2), "layer 2 is not in a layout of 2 layers", hr::argument_error);
    CHECK_THROWS_AS(layout.heads(-1), hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::head_layout(-1, 3), "layers is -1, expected 0 to 2147483648", hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::head_layout(std::vector<hr::index_t>{2, -3}),
                         "heads of a layer is -3, expected 0 to 2147483648", hr::argument_error);
    constexpr auto huge = std::numeric_limits<hr::index_t>::max();
    CHECK_THROWS_WITH_AS(hr::head_layout(std::vector<hr::index_t>{huge, 1}),
                         "heads of a layer is 9223372036854775807, expected 0 to 2147483648", hr::argument_error);
  }

  TEST_CASE("names and order of heads, kinds and states") {
    std::ostringstream text;
    text << hr::head_id{2, 9};
    CHECK(text.str() == "(2,9)");
    CHECK(hr::head_id{1, 5} < hr::head_id{2, 0});
    CHECK(hr::head_id{1, 5} < hr::head_id{1, 6});
    CHECK(to_string(hr::attention_kind::encoder_self) == "encoder_self");
    CHECK(to_string(hr::attention_kind::decoder_self) == "decoder_self");
    CHECK(to_string(hr::attention_kind::cross) == "cross");
    CHECK(to_string(hr::status::converged) == "converged");
    CHECK(to_string(hr::status::not_converged) == "not_converged");
    CHECK(to_string(hr::status::degenerate) == "degenerate");
    CHECK(to_string(hr::status::fewer_clusters) == "fewer_clusters");
    CHECK(to_string(hr::status::undefined) == "undefined");
    CHECK(to_string(hr::status::underdetermined) == "underdetermined");
  }

  TEST_CASE("matrix: zeros, errors, overflow") {
    hr::matrix m(2, 3);
    CHECK(m(1, 2) == 0);
    m(1, 2) = 4;
    CHECK(m.data()[5] == 4);
    CHECK(m.view()(1, 2) == 4);
    const hr::matrix copy = m;
    CHECK(copy == m);
    CHECK(hr::matrix(2, 3) != m);
    CHECK_THROWS_WITH_AS(hr::matrix(-1, 3), "matrix: negative extent in (-1,3)", hr::shape_error);
    constexpr hr::index_t half = hr::index_t{1} << 62;
    CHECK_THROWS_AS(hr::matrix(half, 4), hr::shape_error);
    CHECK_THROWS_AS(hr::matrix(half, 16), hr::shape_error);
    CHECK(hr::matrix(half, 0).rows() == half);
  }

  TEST_CASE("grow_buffer grows, keeps and aligns") {
    hr::grow_buffer<double> b;
    CHECK(b.bytes() == 0);
    double* first = b.get(10);
    first[9] = 3;
    CHECK(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
    CHECK(b.get(4) == first);
    CHECK(b.get(10)[9] == 3);
    b.get(1000)[999] = 1;
    CHECK(b.bytes() == 8000);
    hr::grow_buffer<double> moved = std::move(b);
    CHECK(moved.get(1000)[999] == 1);
    CHECK(b.bytes() == 0);
    CHECK(b.get(3) != nullptr);
  }
}
