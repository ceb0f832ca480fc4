#include <limits>

#include <headred/nn/op/add.hpp>
#include <headred/nn/op/gelu.hpp>
#include <headred/nn/op/relu.hpp>
#include <headred/nn/op/silu.hpp>

#include "nn/op_support.hpp"

namespace hr = headred;
using op_test::gapped;

namespace {

struct relu_op {
  static constexpr double tolerance_f32 = 0;
  template <class T>
  static void forward(hr::cpu& be, const gapped<T>& x, gapped<T>& y) {
    hr::relu_forward<T>(be, x.view(), y.view());
  }
  template <class T>
  static void gradient(hr::cpu& be, const gapped<T>& x, const gapped<T>& dy, gapped<T>& dx) {
    hr::relu_gradient<T>(be, x.view(), dy.view(), dx.view());
  }
  static long double exact(long double x) { return oracle::relu(x); }
};
struct silu_op {
  static constexpr double tolerance_f32 = 3e-7;
  template <class T>
  static void forward(hr::cpu& be, const gapped<T>& x, gapped<T>& y) {
    hr::silu_forward<T>(be, x.view(), y.view());
  }
  template <class T>
  static void gradient(hr::cpu& be, const gapped<T>& x, const gapped<T>& dy, gapped<T>& dx) {
    hr::silu_gradient<T>(be, x.view(), dy.view(), dx.view());
  }
  static long double exact(long double x) { return oracle::silu(x); }
};
template <hr::gelu_form Form>
struct gelu_op {
  static constexpr double tolerance_f32 = 3e-7;
  template <class T>
  static void forward(hr::cpu& be, const gapped<T>& x, gapped<T>& y) {
    hr::gelu_forward<T>(be, x.view(), Form, y.view());
  }
  template <class T>
  static void gradient(hr::cpu& be, const gapped<T>& x, const gapped<T>& dy, gapped<T>& dx) {
    hr::gelu_gradient<T>(be, x.view(), Form, dy.view(), dx.view());
  }
  static long double exact(long double x) {
    return Form == hr::gelu_form::erf ? oracle::gelu_erf(x) : oracle::gelu_tanh(x);
  }
};
using gelu_erf_op = gelu_op<hr::gelu_form::erf>;
using gelu_tanh_op = gelu_op<hr::gelu_form::tanh>;

template <class Op, class T>
void check_values(double tolerance) {
  hr::cpu be{{.threads = 1}};
  for (const hr::index_t cols : op_test::widths)
    for (const hr::index_t gap : {0, 5}) {
      const auto x = gapped<T>::random(4, cols, gap, 11, 16);
      gapped<T> y(4, cols, gap);
      Op::forward(be, x, y);
      CHECK(op_test::deviation(y, oracle::map(op_test::real(x), Op::exact)) <= tolerance);
      CHECK(y.gaps_kept());
      gapped<T> same = x;
      Op::forward(be, same, same);
      CHECK(same.same_bits(y));
    }
}

template <class Op, class T>
T value_at(T x) {
  hr::cpu be{{.threads = 1}};
  gapped<T> in(1, 1), out(1, 1);
  in(0, 0) = x;
  Op::forward(be, in, out);
  return out(0, 0);
}
template <class Op, class T>
T slope_at(T x) {
  hr::cpu be{{.threads = 1}};
  gapped<T> in(1, 1), dy(1, 1), dx(1, 1);
  in(0, 0) = x;
  dy(0, 0) = T(1);
  dx(0, 0) = T(0);
  Op::gradient(be, in, dy, dx);
  return dx(0, 0);
}

}  // namespace

TEST_SUITE("nn") {
  TEST_CASE_TEMPLATE("activations equal their formulas", Op, relu_op, gelu_erf_op, gelu_tanh_op, silu_op) {
    check_values<Op, float>(Op::tolerance_f32);
    check_values<Op, double>(Op::tolerance_f32 == 0 ? 0 : 1e-15);
  }

  TEST_CASE_TEMPLATE("gradients of activations equal 4-point differences and add up", Op, relu_op, gelu_erf_op,
                     gelu_tanh_op, silu_op) {
    hr::cpu be{{.threads = 1}};
    for (const hr::index_t cols : op_test::widths) {
      auto x = gapped<double>::random(3, cols, 2, 5, 8);
      for (hr::index_t r = 0; r < 3; ++r)  // away from relu's kink
        for (hr::index_t c = 0; c < cols; ++c)
          if (std::abs(x(r, c)) < .01) x(r, c) = .5;
      const auto dy = gapped<double>::random(3, cols, 0, 6);
      gapped<double> dx(3, cols, 1), y(3, cols);
      dx.fill(0);
      Op::gradient(be, x, dy, dx);
      CHECK(op_test::gradient_error(x, dx, [&] {
              Op::forward(be, x, y);
              return op_test::inner(y, dy);
            }) < 1e-10);
      CHECK(dx.gaps_kept());
      gapped<double> twice(3, cols);
      twice.fill(0);
      Op::gradient(be, x, dy, twice);
      Op::gradient(be, x, dy, twice);
      for (hr::index_t c = 0; c < cols; ++c) CHECK(twice(2, c) == doctest::Approx(2 * dx(2, c)));
    }
  }

  TEST_CASE_TEMPLATE("float gradients follow the double ones", Op, gelu_erf_op, gelu_tanh_op, silu_op) {
    hr::cpu be{{.threads = 1}};
    for (double at = -12; at <= 12; at += .01) {
      const float x = static_cast<float>(at);
      CHECK(std::abs(static_cast<double>(slope_at<Op>(x)) - slope_at<Op>(static_cast<double>(x))) < 1e-6);
    }
  }

  TEST_CASE_TEMPLATE("activations at extremes", Op, relu_op, gelu_erf_op, gelu_tanh_op) {
    const auto check = []<class T>(T) {
      constexpr T greatest = std::numeric_limits<T>::max(), infinity = std::numeric_limits<T>::infinity();
      for (const T x : {T(50), T(1e10), greatest, infinity}) {
        CHECK(value_at<Op>(x) == x);
        CHECK(value_at<Op>(-x) == T(0));
        CHECK(slope_at<Op>(x) == doctest::Approx(1).epsilon(1e-12));
        CHECK(std::abs(slope_at<Op>(-x)) < T(1e-30));
      }
      CHECK(value_at<Op>(T(0)) == T(0));
      CHECK(std::isnan(value_at<Op>(std::numeric_limits<T>::quiet_NaN())));
    };
    check(0.f);
    check(0.);
    CHECK(slope_at<relu_op>(0.) == 0);
    CHECK(slope_at<gelu_erf_op>(0.) == doctest::Approx(.5));
  }

  TEST_CASE_TEMPLATE("silu: known values and extremes", T, float, double) {
    const double epsilon = sizeof(T) == 4 ? 1e-6 : 1e-15;
    CHECK(value_at<silu_op>(T(1)) == doctest::Approx(.7310585786300049).epsilon(epsilon));
    CHECK(value_at<silu_op>(T(-50)) == doctest::Approx(-50 * std::exp(-50.)).epsilon(epsilon * 10));
    CHECK(slope_at<silu_op>(T(0)) == T(.5));
    CHECK(slope_at<silu_op>(T(-50)) == doctest::Approx(-49 * std::exp(-50.)).epsilon(epsilon * 10));
    for (const T x : {T(1000), T(1e30), std::numeric_limits<T>::max(), std::numeric_limits<T>::infinity()}) {
      CHECK(value_at<silu_op>(x) == x);
      CHECK(value_at<silu_op>(-x) == T(0));
      CHECK(slope_at<silu_op>(x) == T(1));
      CHECK(std::abs(slope_at<silu_op>(-x)) < T(1e-30));
    }
    CHECK(std::isnan(value_at<silu_op>(std::numeric_limits<T>::quiet_NaN())));
  }

  TEST_CASE("gelu: known values") {
    CHECK(value_at<gelu_erf_op>(1.) == doctest::Approx(.8413447460685429).epsilon(1e-15));
    CHECK(value_at<gelu_tanh_op>(1.) == doctest::Approx(.8411919906082768).epsilon(1e-15));
    CHECK(value_at<gelu_erf_op>(-1.f) == doctest::Approx(-.15865525393145707).epsilon(1e-6));
  }

  TEST_CASE_TEMPLATE("add and its gradient", T, float, double) {
    hr::cpu be{{.threads = 1}};
    const auto a = gapped<T>::random(5, 17, 3, 1), b = gapped<T>::random(5, 17, 0, 2);
    gapped<T> y(5, 17, 1);
    hr::add_forward<T>(be, a.view(), b.view(), y.view());
    for (hr::index_t r = 0; r < 5; ++r)
      for (hr::index_t c = 0; c < 17; ++c) CHECK(y(r, c) == a(r, c) + b(r, c));
    CHECK(y.gaps_kept());
    gapped<T> in_place = a;
    hr::add_forward<T>(be, in_place.view(), b.view(), in_place.view());
    CHECK(in_place(4, 16) == y(4, 16));
    gapped<T> da(5, 17), db(5, 17, 2);
    da.fill(T(1));
    db.fill(T(2));
    hr::add_gradient<T>(be, y.view(), da.view(), db.view());
    CHECK(da(3, 9) == T(1) + y(3, 9));
    CHECK(db(3, 9) == T(2) + y(3, 9));
    hr::add_gradient<T>(be, y.view(), {}, db.view());
    CHECK(db(3, 9) == T(2) + y(3, 9) + y(3, 9));
    hr::add_gradient<T>(be, y.view(), da.view(), {});
    CHECK(da(3, 9) == T(1) + y(3, 9) + y(3, 9));
  }

  TEST_CASE("activations: threads, empty matrices, errors") {
    const auto x = gapped<float>::random(300, 129, 3, 9, 10), dy = gapped<float>::random(300, 129, 0, 10);
    op_test::check_threads([&](hr::cpu& be) {
      gapped<float> y(300, 129);
      gelu_erf_op::forward(be, x, y);
      gelu_tanh_op::gradient(be, x, dy, y);
      relu_op::gradient(be, x, dy, y);
      hr::add_forward<float>(be, y.view(), dy.view(), y.view());
      return y;
    });
    hr::cpu be{{.threads = 1}};
    gapped<float> none(0, 5), nothing(3, 0);
    CHECK_NOTHROW(relu_op::forward(be, none, none));
    CHECK_NOTHROW(gelu_erf_op::gradient(be, nothing, nothing, nothing));
    CHECK_NOTHROW(hr::add_forward<float>(be, none.view(), none.view(), none.view()));
    CHECK_NOTHROW(hr::relu_gradient<float>(be, x.view(), dy.view(), {}));
    gapped<float> small(300, 128);
    CHECK_THROWS_WITH_AS(hr::relu_forward<float>(be, x.view(), small.view()),
                         "relu_forward: y is (300,128), expected (300,129)", hr::shape_error);
    CHECK_THROWS_WITH_AS(hr::gelu_forward<float>(be, x.view(), hr::gelu_form::erf, small.view()),
                         "gelu_forward: y is (300,128), expected (300,129)", hr::shape_error);
    CHECK_THROWS_WITH_AS(hr::add_forward<float>(be, x.view(), small.view(), small.view()),
                         "add_forward: b is (300,128), expected (300,129)", hr::shape_error);
    CHECK_THROWS_WITH_AS(hr::relu_forward<float>(be, x.view().transposed(), small.view()),
                         "relu_forward: the entries of a row of x are 132 apart, expected 1", hr::shape_error);
  }
}
