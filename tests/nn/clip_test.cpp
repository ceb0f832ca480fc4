#include <headred/nn/clip_gradients.hpp>
#include <limits>

#include "nn/training_support.hpp"

using namespace training_test;

TEST_SUITE("nn") {
  TEST_CASE_TEMPLATE("gradient_norm: over all parameters, the same bits for any number of threads", T, float, double) {
    double expected = 0;
    for (const int threads : {1, 2, 3}) {
      hr::cpu be{{.threads = threads}};
      few_parameters<T> w(be, 211, 307);
      long double sum = 0;
      std::uint64_t k = 0;
      visit_parameters(w, [&](const std::string&, auto& p) {
        for (hr::index_t i = 0; i < p.value.size(); ++i) {
          p.gradient.data()[i] = static_cast<T>(hr::random_stream(9).uniform(k++) - .3);
          sum += static_cast<long double>(p.gradient.data()[i]) * p.gradient.data()[i];
        }
      });
      const hr::parameter_list<T, hr::cpu> list(w);
      const double norm = hr::gradient_norm(be, list);
      CHECK(norm == doctest::Approx(static_cast<double>(std::sqrt(sum))).epsilon(1e-14));
      if (threads == 1) expected = norm;
      CHECK(norm == expected);
    }
  }

  TEST_CASE("clip_gradients: 3 and 4 are 5 long") {
    hr::cpu be{{.threads = 1}};
    few_parameters<double> w(be);
    const hr::parameter_list<double, hr::cpu> list(w);
    w.matrix.gradient(2, 6) = 3;
    w.gates.gradient(1) = -4;
    auto done = hr::clip_gradients(be, list, 10);
    CHECK(done.norm == 5);
    CHECK(done.factor == 1);
    CHECK(w.gates.gradient(1) == -4);
    done = hr::clip_gradients(be, list, 2);
    CHECK(done.norm == 5);
    CHECK(done.factor == 2 / (5 + 1e-6));
    CHECK(w.matrix.gradient(2, 6) == doctest::Approx(1.2).epsilon(1e-6));
    CHECK(w.gates.gradient(1) == doctest::Approx(-1.6).epsilon(1e-6));
    CHECK(hr::clip_gradients(be, list, 0).factor == 1);
    hr::zero_gradients(be, list);
    CHECK(hr::clip_gradients(be, list, 2).norm == 0);
    CHECK(w.gates.gradient(1) == 0);
  }

  TEST_CASE_TEMPLATE("clip_gradients: what is not finite stays as it is and is told", T, float, double) {
    hr::cpu be{{.threads = 1}};
    few_parameters<T> w(be);
    const hr::parameter_list<T, hr::cpu> list(w);
    for (const T bad : {std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN()}) {
      w.matrix.gradient(0, 0) = bad;
      w.bias.gradient(3) = T(7);
      const auto done = hr::clip_gradients(be, list, 1);
      CHECK_FALSE(done.finite());
      CHECK(w.bias.gradient(3) == T(7));
      hr::zero_gradients(be, list);
      CHECK(w.matrix.gradient(0, 0) == 0);
    }
    w.matrix.gradient(0, 0) = T(1e30);  // its square is beyond float
    CHECK(hr::gradient_norm(be, list) == doctest::Approx(1e30).epsilon(1e-6));
  }
}
