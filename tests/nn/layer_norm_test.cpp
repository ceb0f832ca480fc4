#include <limits>

#include <headred/backend/row_sums.hpp>
#include <headred/nn/op/layer_norm.hpp>

#include "nn/op_support.hpp"

namespace hr = headred;
using op_test::gapped;

namespace {

std::vector<long double> real_row(const gapped<double>& m) { return op_test::real(m).values; }
std::vector<long double> real_row(const gapped<float>& m) { return op_test::real(m).values; }

template <class T>
struct norm_case {
  gapped<T> x, scale, shift, y, mean, inverse;
  norm_case(hr::index_t rows, hr::index_t cols, hr::index_t gap, double width = 4)
      : x(gapped<T>::random(rows, cols, gap, 3, width)),
        scale(gapped<T>::random(1, cols, 0, 4)),
        shift(gapped<T>::random(1, cols, 0, 5)),
        y(rows, cols, gap),
        mean(1, rows),
        inverse(1, rows) {}
  void forward(hr::cpu& be, T epsilon) {
    hr::layer_norm_forward<T>(be, x.view(), scale.row(), shift.row(), epsilon, y.view(), mean.row(), inverse.row());
  }
};

}  // namespace

TEST_SUITE("nn") {
  TEST_CASE_TEMPLATE("layer_norm equals its formula", T, float, double) {
    hr::cpu be{{.threads = 1}};
    const double tolerance = std::is_same_v<T, float> ? 1e-6 : 2e-15;
    for (const hr::index_t cols : {1, 3, 17, 64, 515})
      for (const hr::index_t gap : {0, 7}) {
        norm_case<T> n(5, cols, gap);
        n.forward(be, T(1e-5));
        CHECK(op_test::deviation(n.y, oracle::layer_norm(op_test::real(n.x), real_row(n.scale), real_row(n.shift),
                                                         static_cast<long double>(T(1e-5)))) < tolerance);
        CHECK(n.y.gaps_kept());
        const gapped<T> y = n.y;
        n.y = n.x;  // in place, and without the statistics
        hr::layer_norm_forward<T>(be, n.y.view(), n.scale.row(), n.shift.row(), T(1e-5), n.y.view(), {}, {});
        CHECK(n.y(4, cols - 1) == y(4, cols - 1));
      }
  }

  TEST_CASE("layer_norm of the worked example") {
    hr::cpu be{{.threads = 1}};
    norm_case<double> n(1, 3, 0);
    const double x[] = {1, 2, 4}, scale[] = {1, 2, .5}, shift[] = {.1, 0, -.1};
    for (int c = 0; c < 3; ++c) {
      n.x(0, c) = x[c];
      n.scale(0, c) = scale[c];
      n.shift(0, c) = shift[c];
    }
    n.forward(be, 1e-6);
    CHECK(n.mean(0, 0) == doctest::Approx(7. / 3).epsilon(1e-15));
    CHECK(n.inverse(0, 0) == doctest::Approx(1 / std::sqrt(14. / 9 + 1e-6)).epsilon(1e-15));
    CHECK(n.y(0, 0) == doctest::Approx(.1 - 4. / 3 * n.inverse(0, 0)).epsilon(1e-14));
    CHECK(n.y(0, 2) == doctest::Approx(-.1 + .5 * 5. / 3 * n.inverse(0, 0)).epsilon(1e-14));
  }

  TEST_CASE("layer_norm keeps its digits on rows far from zero, and constant rows give shift") {
    hr::cpu be{{.threads = 1}};
    norm_case<float> n(1, 515, 0);
    for (hr::index_t c = 0; c < 515; ++c) n.x(0, c) += 1000;
    n.forward(be, 1e-5f);
    CHECK(op_test::deviation(n.y, oracle::layer_norm(op_test::real(n.x), real_row(n.scale), real_row(n.shift),
                                                     static_cast<long double>(1e-5f))) < 1e-6);
    for (const float value : {0.f, -3.5f, 1e4f, 1e30f})
      for (const float epsilon : {0.f, 1e-12f}) {
        n.x.fill(value);
        n.forward(be, epsilon);
        for (hr::index_t c = 0; c < 515; ++c) REQUIRE(n.y(0, c) == n.shift(0, c));
      }
  }

  TEST_CASE("layer_norm's gradients equal 4-point differences") {
    hr::cpu be{{.threads = 1}};
    for (const hr::index_t cols : op_test::widths) {
      norm_case<double> n(4, cols, 2);
      const auto dy = gapped<double>::random(4, cols, 1, 8);
      const auto loss = [&] {
        n.forward(be, .01);
        return op_test::inner(n.y, dy);
      };
      loss();
      gapped<double> dx(4, cols, 3), dscale(1, cols), dshift(1, cols);
      for (auto* d : {&dx, &dscale, &dshift}) d->fill(0);
      const auto gradient = [&](hr::tensor_view<double, 2> to, hr::tensor_view<double, 1> scale,
                                hr::tensor_view<double, 1> shift) {
        hr::layer_norm_gradient<double>(be, n.x.view(), n.scale.row(), n.mean.row(), n.inverse.row(), dy.view(), to,
                                        scale, shift);
      };
      gradient(dx.view(), dscale.row(), dshift.row());
      CHECK(op_test::gradient_error(n.x, dx, loss) < 1e-9);
      CHECK(op_test::gradient_error(n.scale, dscale, loss) < 1e-9);
      CHECK(op_test::gradient_error(n.shift, dshift, loss) < 1e-9);
      CHECK(dx.gaps_kept());
      // each alone, added to what is there
      loss();
      const gapped<double> dx1 = dx, dscale1 = dscale, dshift1 = dshift;
      gradient(dx.view(), {}, {});
      gradient({}, dscale.row(), {});
      gradient({}, {}, dshift.row());
      for (hr::index_t c = 0; c < cols; ++c) {
        CHECK(dx(3, c) == doctest::Approx(2 * dx1(3, c)));
        CHECK(dscale(0, c) == 2 * dscale1(0, c));
        CHECK(dshift(0, c) == 2 * dshift1(0, c));
      }
    }
  }

  TEST_CASE("layer_norm: parameter gradients of a long batch keep their digits in float") {
    hr::cpu be{{.threads = 2}};
    norm_case<float> n(5000, 20, 0);
    gapped<float> dy(5000, 20), dscale(1, 20), dshift(1, 20);
    dy.fill(.1f);
    dshift.fill(0);
    dscale.fill(0);
    n.forward(be, 1e-5f);
    hr::layer_norm_gradient<float>(be, n.x.view(), n.scale.row(), n.mean.row(), n.inverse.row(), dy.view(), {},
                                   dscale.row(), dshift.row());
    for (hr::index_t c = 0; c < 20; ++c) CHECK(std::abs(dshift(0, c) - 5000 * .1f) < 500 * 2e-6f);
  }

  TEST_CASE("layer_norm: threads, empty matrices, errors") {
    const auto dy = gapped<float>::random(300, 129, 0, 10);
    op_test::check_threads([&](hr::cpu& be) {
      norm_case<float> n(300, 129, 0);
      n.forward(be, 1e-5f);
      gapped<float> all(302, 129);
      all.fill(0);
      hr::layer_norm_gradient<float>(be, n.x.view(), n.scale.row(), n.mean.row(), n.inverse.row(), dy.view(),
                                     all.view().narrow(0, 2, 300), all.row(0), all.row(1));
      hr::add_row_sums<float>(be, n.y.view(), all.row(0));
      return all;
    });
    hr::cpu be{{.threads = 1}};
    norm_case<float> none(0, 5, 0), nothing(3, 0, 0);
    CHECK_NOTHROW(none.forward(be, 1e-5f));
    CHECK_NOTHROW(nothing.forward(be, 1e-5f));
    gapped<float> kept(1, 5);
    kept.fill(7);
    hr::layer_norm_gradient<float>(be, none.x.view(), none.scale.row(), none.mean.row(), none.inverse.row(),
                                   none.x.view(), none.y.view(), kept.row(), {});
    CHECK(kept(0, 4) == 7);
    norm_case<float> n(2, 5, 0);
    CHECK_THROWS_WITH_AS(n.forward(be, -1.f), "layer_norm: epsilon is -1, expected a number >= 0", hr::argument_error);
    CHECK_THROWS_AS(n.forward(be, std::numeric_limits<float>::quiet_NaN()), hr::argument_error);
    n.scale = gapped<float>(1, 4);
    CHECK_THROWS_WITH_AS(n.forward(be, 1e-5f), "layer_norm_forward: scale is (4), expected (5)", hr::shape_error);
  }
}
