#include <headred/nn/op/embedding.hpp>
#include <headred/nn/op/sinusoidal_positions.hpp>

#include "nn/op_support.hpp"

namespace hr = headred;
using op_test::gapped;
using id_list = std::vector<std::int32_t>;

TEST_SUITE("nn") {
  TEST_CASE_TEMPLATE("embedding looks rows up, scales and adds", T, float, double) {
    hr::cpu be{{.threads = 1}};
    const id_list ids{4, 0, 4, 6, 1};
    for (const hr::index_t cols : op_test::widths) {
      const auto table = gapped<T>::random(7, cols, 2, 1);
      gapped<T> y(5, cols, 3);
      hr::embedding_forward<T>(be, ids, table.view(), T(2), y.view());
      for (hr::index_t r = 0; r < 5; ++r)
        for (hr::index_t c = 0; c < cols; ++c) CHECK(y(r, c) == 2 * table(ids[static_cast<std::size_t>(r)], c));
      hr::embedding_forward<T>(be, ids, table.view(), T(-2), y.view(), true);
      for (hr::index_t c = 0; c < cols; ++c) CHECK(y(3, c) == 0);
      CHECK(y.gaps_kept());
    }
  }

  TEST_CASE("embedding's gradient equals 4-point differences, repeated ids included") {
    hr::cpu be{{.threads = 1}};
    const id_list ids{4, 0, 4, 6, 4};
    for (const hr::index_t cols : op_test::widths) {
      auto table = gapped<double>::random(7, cols, 1, 1);
      const auto dy = gapped<double>::random(5, cols, 2, 2);
      gapped<double> y(5, cols), dtable(7, cols, 4);
      dtable.fill(0);
      hr::embedding_gradient<double>(be, ids, dy.view(), 1.5, dtable.view());
      CHECK(op_test::gradient_error(table, dtable, [&] {
              hr::embedding_forward<double>(be, ids, table.view(), 1.5, y.view());
              return op_test::inner(y, dy);
            }) < 1e-10);
      CHECK(dtable(5, 0) == 0);
      CHECK(dtable.gaps_kept());
      CHECK(dtable(4, 0) == doctest::Approx(1.5 * (dy(0, 0) + dy(2, 0) + dy(4, 0))));
    }
  }

  TEST_CASE("embedding: threads, empty lists, errors") {
    id_list many(500);
    for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<std::int32_t>(i * i % 11);
    const auto dy = gapped<float>::random(500, 200, 3, 9);
    op_test::check_threads([&](hr::cpu& be) {
      gapped<float> dtable(511, 200);
      dtable.fill(0);
      hr::embedding_gradient<float>(be, many, dy.view(), .3f, dtable.view().narrow(0, 0, 11));
      hr::embedding_forward<float>(be, many, dtable.view().narrow(0, 0, 11), 1.f, dtable.view().narrow(0, 11, 500));
      return dtable;
    });
    hr::cpu be{{.threads = 1}};
    const auto table = gapped<float>::random(7, 5, 0, 1);
    gapped<float> none(0, 5), y(3, 5), dtable(7, 5);
    CHECK_NOTHROW(hr::embedding_forward<float>(be, {}, table.view(), 1.f, none.view()));
    CHECK_NOTHROW(hr::embedding_gradient<float>(be, {}, none.view(), 1.f, dtable.view()));
    CHECK_NOTHROW(hr::embedding_gradient<float>(be, id_list{1, 2, 3}, y.view(), 1.f, {}));
    y.fill(3);
    CHECK_THROWS_WITH_AS(hr::embedding_forward<float>(be, id_list{1, 2, 7}, table.view(), 1.f, y.view()),
                         "embedding_forward: id 7 at position 2, expected [0,7)", hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::embedding_gradient<float>(be, id_list{1, -1, 0}, y.view(), 1.f, dtable.view()),
                         "embedding_gradient: id -1 at position 1, expected [0,7)", hr::argument_error);
    CHECK(y(0, 0) == 3);
    CHECK_THROWS_WITH_AS(hr::embedding_forward<float>(be, id_list{1, 2}, table.view(), 1.f, y.view()),
                         "embedding_forward: y is (3,5), expected (2,5)", hr::shape_error);
  }

  TEST_CASE("sinusoidal positions of all forms") {
    gapped<double> table(50, 8, 1);
    hr::sinusoidal_positions(table.view(), hr::sinusoid_form::interleaved);
    CHECK(table(0, 0) == 0);
    CHECK(table(0, 1) == 1);
    CHECK(table(3, 2) == doctest::Approx(std::sin(3 / 10.)).epsilon(1e-14));
    CHECK(table(3, 3) == doctest::Approx(std::cos(3 / 10.)).epsilon(1e-14));
    CHECK(table(49, 6) == doctest::Approx(std::sin(49 / 1000.)).epsilon(1e-14));
    gapped<double> split(50, 8);
    hr::sinusoidal_positions(split.view(), hr::sinusoid_form::split);
    for (hr::index_t p = 0; p < 50; ++p)
      for (hr::index_t j = 0; j < 4; ++j) {
        CHECK(split(p, j) == table(p, 2 * j));
        CHECK(split(p, 4 + j) == table(p, 2 * j + 1));
      }
    hr::sinusoidal_positions(table.view(), hr::sinusoid_form::split_from_one);
    for (hr::index_t p = 0; p < 50; ++p)
      for (hr::index_t j = 0; j < 4; ++j) {
        const double angle = static_cast<double>(p + 1) * std::pow(1e-4, static_cast<double>(j) / 3);
        CHECK(table(p, j) == doctest::Approx(std::sin(angle)).epsilon(1e-13));
        CHECK(table(p, 4 + j) == doctest::Approx(std::cos(angle)).epsilon(1e-13));
      }
    CHECK(table.gaps_kept());
    gapped<float> two(3, 2), odd(3, 5), none(0, 4);
    hr::sinusoidal_positions(two.view(), hr::sinusoid_form::split_from_one);
    CHECK(two(1, 1) == doctest::Approx(std::cos(2.)));
    hr::sinusoidal_positions(odd.view(), hr::sinusoid_form::split);
    CHECK(odd(1, 2) == doctest::Approx(std::sin(std::pow(1e-4, .8))));
    CHECK(odd(1, 3) == doctest::Approx(std::cos(1.)));
    hr::sinusoidal_positions(odd.view(), hr::sinusoid_form::interleaved);
    CHECK(odd(1, 4) == doctest::Approx(std::sin(std::pow(1e-4, .8))));
    CHECK_NOTHROW(hr::sinusoidal_positions(none.view(), hr::sinusoid_form::split));
    CHECK_THROWS_WITH_AS(hr::sinusoidal_positions(odd.view(), hr::sinusoid_form::split_from_one),
                         "sinusoidal_positions: the width is 5, expected an even number", hr::argument_error);
  }
}
