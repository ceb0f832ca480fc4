#include <limits>

#include <headred/nn/op/softmax_cross_entropy.hpp>

#include "nn/op_support.hpp"

namespace hr = headred;
using op_test::gapped;
using targets = std::vector<std::int32_t>;

namespace {

constexpr double no_smoothing = 0, smoothing = .1;

template <class T>
struct loss_case {
  gapped<T> logits, losses, log_sums;
  targets wanted;
  loss_case(hr::index_t rows, hr::index_t classes, hr::index_t gap, double width = 8)
      : logits(gapped<T>::random(rows, classes, gap, 21, width)), losses(1, rows), log_sums(1, rows) {
    for (hr::index_t r = 0; r < rows; ++r)
      wanted.push_back(r % 4 == 3 ? -1 : static_cast<std::int32_t>(r * 7 % classes));
  }
  void forward(hr::cpu& be, double e) {
    hr::softmax_cross_entropy_forward<T>(be, logits.view(), wanted, e, losses.row(), log_sums.row());
  }
  void gradient(hr::cpu& be, double e, T scale, hr::tensor_view<T, 2> to) {
    hr::softmax_cross_entropy_gradient<T>(be, logits.view(), wanted, e, log_sums.row(), scale, to);
  }
};

}  // namespace

TEST_SUITE("nn") {
  TEST_CASE_TEMPLATE("softmax equals its formula", T, float, double) {
    hr::cpu be{{.threads = 1}};
    for (const hr::index_t cols : {1, 3, 17, 64, 130})
      for (const hr::index_t gap : {0, 3}) {
        const auto x = gapped<T>::random(5, cols, gap, 1, 30);
        gapped<T> y(5, cols, gap);
        hr::softmax_forward<T>(be, x.view(), y.view());
        const auto expected = oracle::softmax(op_test::real(x));
        for (hr::index_t r = 0; r < 5; ++r)
          for (hr::index_t c = 0; c < cols; ++c) {
            const long double e = expected(static_cast<std::size_t>(r), static_cast<std::size_t>(c));
            // relative: small ones count too, though the difference to the greatest is rounded before e^
            const double allowed = std::numeric_limits<T>::epsilon() * (2 - static_cast<double>(std::log(e)) / 2);
            CHECK(std::abs(static_cast<double>((y(r, c) - e) / e)) <= allowed);
          }
        CHECK(y.gaps_kept());
        gapped<T> in_place = x;
        hr::softmax_forward<T>(be, in_place.view(), in_place.view());
        CHECK(in_place.same_bits(y));
      }
  }

  TEST_CASE_TEMPLATE("softmax at extremes", T, float, double) {
    hr::cpu be{{.threads = 1}};
    constexpr T infinity = std::numeric_limits<T>::infinity(), greatest = std::numeric_limits<T>::max();
    gapped<T> x(1, 19), y(1, 19);
    const auto softmax = [&] { hr::softmax_forward<T>(be, x.view(), y.view()); };
    x.fill(-infinity);
    softmax();
    for (hr::index_t c = 0; c < 19; ++c) CHECK(y(0, c) == T(0));
    x(0, 18) = -greatest;  // the lowest finite score is a score
    softmax();
    CHECK(y(0, 18) == T(1));
    CHECK(y(0, 0) == T(0));
    x.fill(-greatest);
    x(0, 3) = greatest;
    softmax();
    CHECK(y(0, 3) == T(1));
    CHECK(y(0, 4) == T(0));
    x.fill(greatest);
    softmax();
    CHECK(y(0, 7) == doctest::Approx(1. / 19));
    x(0, 2) = std::numeric_limits<T>::quiet_NaN();
    softmax();
    CHECK(std::isnan(y(0, 0)));
  }

  TEST_CASE("softmax's gradient equals 4-point differences") {
    hr::cpu be{{.threads = 1}};
    for (const hr::index_t cols : op_test::widths) {
      auto x = gapped<double>::random(3, cols, 1, 2);
      const auto dy = gapped<double>::random(3, cols, 2, 3);
      gapped<double> y(3, cols), dx(3, cols, 1);
      const auto loss = [&] {
        hr::softmax_forward<double>(be, x.view(), y.view());
        return op_test::inner(y, dy);
      };
      loss();
      dx.fill(0);
      hr::softmax_gradient<double>(be, y.view(), dy.view(), dx.view());
      CHECK(op_test::gradient_error(x, dx, loss) < 1e-10);
      gapped<double> in_place = dy;  // the kernel of attention: overwrites
      loss();
      hr::detail::softmax_gradient_row<false>(&y(1, 0), &in_place(1, 0), &in_place(1, 0), cols);
      for (hr::index_t c = 0; c < cols; ++c) CHECK(in_place(1, c) == dx(1, c));
    }
  }

  TEST_CASE_TEMPLATE("cross-entropy equals its formula", T, float, double) {
    hr::cpu be{{.threads = 1}};
    const double tolerance = std::is_same_v<T, float> ? 2e-7 : 1e-15;
    for (const hr::index_t classes : {1, 3, 17, 64, 4001})
      for (const double e : {no_smoothing, smoothing, 1.}) {
        loss_case<T> n(9, classes, 5);
        n.forward(be, e);
        const auto x = op_test::real(n.logits);
        for (std::size_t r = 0; r < 9; ++r) {
          const double expected = static_cast<double>(oracle::cross_entropy(x, r, n.wanted[r], e));
          const double found = static_cast<double>(n.losses(0, static_cast<hr::index_t>(r)));
          CHECK(std::abs(found - expected) < tolerance * std::max(1., expected));
          if (n.wanted[r] < 0) CHECK(found == 0);
        }
      }
  }

  TEST_CASE("cross-entropy's gradient equals 4-point differences") {
    hr::cpu be{{.threads = 1}};
    for (const hr::index_t classes : op_test::widths)
      for (const double e : {no_smoothing, smoothing, 1.}) {
        loss_case<double> n(5, classes, 2);
        const auto loss = [&] {
          n.forward(be, e);
          double sum = 0;
          for (hr::index_t r = 0; r < 5; ++r) sum += .3 * n.losses(0, r);
          return sum;
        };
        loss();
        gapped<double> dx(5, classes, 1);
        dx.fill(0);
        n.gradient(be, e, .3, dx.view());
        CHECK(op_test::gradient_error(n.logits, dx, loss) < 1e-10);
        CHECK(dx.gaps_kept());
        for (hr::index_t c = 0; c < classes; ++c) CHECK(dx(3, c) == 0);  // does not count
        n.forward(be, e);
        const double once = dx(4, 0);
        n.gradient(be, e, .3, dx.view());
        CHECK(dx(4, 0) == doctest::Approx(2 * once));
      }
  }

  TEST_CASE_TEMPLATE("cross-entropy at extremes", T, float, double) {
    hr::cpu be{{.threads = 1}};
    constexpr T infinity = std::numeric_limits<T>::infinity();
    loss_case<T> n(1, 40, 0);
    gapped<T> dx(1, 40);
    const auto run = [&](double e) {
      n.forward(be, e);
      dx.fill(T(0));
      n.gradient(be, e, T(1), dx.view());
      T sum = 0;
      for (hr::index_t c = 0; c < 40; ++c) sum += dx(0, c);
      return sum;
    };
    n.wanted = {5};
    n.logits.fill(T(1e30));
    CHECK(run(.1) == doctest::Approx(0).epsilon(1e-6));
    CHECK(n.losses(0, 0) == doctest::Approx(std::log(40.)).epsilon(1e-6));
    n.logits.fill(T(0));
    n.logits(0, 7) = T(1e6);  // sure, and wrong
    CHECK(run(0) == doctest::Approx(0));
    CHECK(n.losses(0, 0) == T(1e6));
    CHECK(dx(0, 5) == T(-1));
    CHECK(dx(0, 7) == T(1));
    n.logits(0, 5) = T(1e6 + 1e3);
    run(0);
    CHECK(n.losses(0, 0) == T(0));
    n.logits.fill(-infinity);  // masked classes cost nothing unless they are wanted
    n.logits(0, 5) = T(2);
    run(0);
    CHECK(n.losses(0, 0) == T(0));
    CHECK(dx(0, 5) == doctest::Approx(0));
    run(.1);
    CHECK(n.losses(0, 0) == infinity);
    n.logits(0, 5) = -infinity;
    run(0);
    CHECK(n.losses(0, 0) == infinity);
    CHECK(dx(0, 5) == T(-1));
    CHECK(dx(0, 6) == T(0));
  }

  TEST_CASE("softmax and cross-entropy: threads, empty matrices, errors") {
    loss_case<float> big(100, 1003, 5);
    op_test::check_threads([&](hr::cpu& be) {
      gapped<float> dx(101, 1003);
      dx.fill(0);
      big.forward(be, smoothing);
      big.gradient(be, smoothing, .01f, dx.view().narrow(0, 1, 100));
      for (hr::index_t r = 0; r < 100; ++r) dx(0, r) = big.losses(0, r);
      gapped<float> y(100, 1003);
      hr::softmax_forward<float>(be, big.logits.view(), y.view());
      hr::softmax_gradient<float>(be, y.view(), big.logits.view(), dx.view().narrow(0, 1, 100));
      return dx;
    });
    hr::cpu be{{.threads = 1}};
    loss_case<float> none(0, 5, 0);
    CHECK_NOTHROW(none.forward(be, smoothing));
    CHECK_NOTHROW(none.gradient(be, smoothing, 1.f, none.logits.view()));
    CHECK_NOTHROW(hr::softmax_forward<float>(be, none.logits.view(), none.logits.view()));
    loss_case<float> n(5, 6, 0);
    n.losses.fill(3);
    n.wanted[2] = 6;
    CHECK_THROWS_WITH_AS(n.forward(be, 0), "softmax_cross_entropy: target 6 of row 2, expected [0,6) or -1 for none",
                         hr::argument_error);
    n.wanted[2] = -2;
    CHECK_THROWS_WITH_AS(n.forward(be, 0), "softmax_cross_entropy: target -2 of row 2, expected [0,6) or -1 for none",
                         hr::argument_error);
    CHECK(n.losses(0, 0) == 3);
    n.wanted[2] = 1;
    CHECK_THROWS_WITH_AS(n.forward(be, 1.5), "softmax_cross_entropy: the label smoothing is 1.5, expected [0,1]",
                         hr::argument_error);
    CHECK_THROWS_AS(n.forward(be, std::nan("")), hr::argument_error);
    n.wanted.pop_back();
    CHECK_THROWS_WITH_AS(n.forward(be, 0), "softmax_cross_entropy: 4 targets, expected 5", hr::shape_error);
    gapped<float> small(4, 6);
    CHECK_THROWS_WITH_AS(hr::softmax_forward<float>(be, n.logits.view(), small.view()),
                         "softmax_forward: y is (4,6), expected (5,6)", hr::shape_error);
  }
}
