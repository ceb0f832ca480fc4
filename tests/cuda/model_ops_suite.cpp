// What a model needs beside attention and norms, on the device, against naive ones in long double.
#include <algorithm>
#include <limits>
#include <string>

#include <headred/device/add.hpp>
#include <headred/device/clip_gradients.hpp>
#include <headred/device/dropout.hpp>
#include <headred/device/gelu.hpp>
#include <headred/device/linear.hpp>
#include <headred/device/relu.hpp>
#include <headred/device/silu.hpp>
#if defined(HEADRED_CUDA_EMULATE)
#include <headred/nn/op/dropout.hpp>
#endif

#include "../oracle/nn_ops.hpp"
#include "device.hpp"

using namespace headred_test;

namespace {

namespace device = headred::device;
using hr::index_t;
using wide = long double;

template <class T>
double digits(double multiple) {
  return multiple * static_cast<double>(std::numeric_limits<T>::epsilon());
}
/// Greatest |found - expected| / max(1, |expected|).
template <class T>
double worst_difference(const std::vector<T>& found, const std::vector<wide>& expected) {
  REQUIRE(found.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const wide d = std::fabs(static_cast<wide>(found[i]) - expected[i]) / std::max(1.0L, std::fabs(expected[i]));
    if (!(static_cast<double>(d) <= worst)) worst = static_cast<double>(d);
  }
  return worst;
}
template <class T>
void append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

enum class activation { relu, silu, gelu_erf, gelu_tanh };
constexpr activation every_activation[] = {activation::relu, activation::silu, activation::gelu_erf,
                                           activation::gelu_tanh};

wide naive(activation a, wide x) {
  return a == activation::relu       ? oracle::relu(x)
         : a == activation::silu     ? oracle::silu(x)
         : a == activation::gelu_erf ? oracle::gelu_erf(x)
                                     : oracle::gelu_tanh(x);
}
/// By four-point differences; relu has none at 0, where its slope is taken as 0.
wide naive_slope(activation a, wide x) {
  if (a == activation::relu) return x > 0 ? 1 : 0;
  const wide h = 1e-3L;
  return (naive(a, x - 2 * h) - 8 * naive(a, x - h) + 8 * naive(a, x + h) - naive(a, x + 2 * h)) / (12 * h);
}

template <class T, class X, class Y>
void forward(hr::cuda& be, activation a, const X& x, const Y& y) {
  if (a == activation::relu) return device::relu_forward<T>(be, x, y);
  if (a == activation::silu) return device::silu_forward<T>(be, x, y);
  device::gelu_forward<T>(be, x, a == activation::gelu_erf ? headred::gelu_form::erf : headred::gelu_form::tanh, y);
}
template <class T, class X, class Y>
void gradient(hr::cuda& be, activation a, const X& x, const X& dy, const Y& dx) {
  if (a == activation::relu) return device::relu_gradient<T>(be, x, dy, dx);
  if (a == activation::silu) return device::silu_gradient<T>(be, x, dy, dx);
  device::gelu_gradient<T>(be, x, a == activation::gelu_erf ? headred::gelu_form::erf : headred::gelu_form::tanh, dy,
                           dx);
}

}  // namespace

TEST_SUITE("cuda") {
  TEST_CASE_TEMPLATE("activations and their gradients", T, float, double) {
    hr::cuda be;
    const index_t rows = 5, cols = 67, apart = 70;  // rows of a wider matrix
    auto x = numbers<T>(rows * apart, 201, -9, 9);
    x[0] = 0;
    const auto g = numbers<T>(rows * apart, 202), before = numbers<T>(rows * apart, 203);
    for (const activation a : every_activation) {
      const auto all = in_every_order([&] {
        auto at = put<T, 2>(be, x, {rows, apart}), dy = put<T, 2>(be, g, {rows, apart}),
             dx = put<T, 2>(be, before, {rows, apart}), y = put<T, 2>(be, before, {rows, apart});
        const auto part = [&](auto& m) { return m.view().narrow(1, 0, cols); };
        forward<T>(be, a, part(std::as_const(at)), part(y));
        gradient<T>(be, a, part(std::as_const(at)), part(std::as_const(dy)), part(dx));
        auto values = get(be, y);
        append(values, get(be, dx));
        return values;
      });
      std::vector<wide> y(before.begin(), before.end()), dx = y;
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (i % apart >= cols) continue;
        y[i] = naive(a, static_cast<wide>(x[i]));
        dx[i] += naive_slope(a, static_cast<wide>(x[i])) * static_cast<wide>(g[i]);
      }
      y.insert(y.end(), dx.begin(), dx.end());
      CHECK(worst_difference(all, y) < std::max(digits<T>(4), 1e-11));
    }
    hr::tensor<T, 2, hr::cuda> two(be, {2, 3}), three(be, {3, 3});
    CHECK_THROWS_WITH_AS(device::relu_forward<T>(be, two.view(), three.view()),
                         "relu_forward: y is (3,3), expected (2,3)", hr::shape_error);
    CHECK_THROWS_WITH_AS(device::gelu_gradient<T>(be, two.view(), headred::gelu_form::erf, three.view(), two.view()),
                         "gelu_gradient: dy is (3,3), expected (2,3)", hr::shape_error);
  }

  TEST_CASE_TEMPLATE("activations far from 0", T, float, double) {
    hr::cuda be;
    constexpr T inf = std::numeric_limits<T>::infinity(), most = std::numeric_limits<T>::max();
    const std::vector<T> x = {-inf, -most, -T(1e3), T(1e3), most, inf, std::numeric_limits<T>::quiet_NaN()};
    for (const activation a : every_activation) {
      auto at = put<T, 2>(be, x, {1, 7}), dy = put<T, 2>(be, std::vector<T>(7, 1), {1, 7}),
           dx = put<T, 2>(be, std::vector<T>(7, 0), {1, 7});
      gradient<T>(be, a, std::as_const(at).view(), std::as_const(dy).view(), dx.view());
      forward<T>(be, a, at.view(), at.view());  // in place
      const auto y = get(be, at), slope = get(be, dx);
      for (std::size_t i = 0; i < 3; ++i) CHECK((y[i] == 0 && std::fabs(slope[i]) < T(1e-30)));
      for (std::size_t i = 3; i < 6; ++i) CHECK((y[i] == x[i] && slope[i] == 1));
      CHECK(std::isnan(y[6]));
      CHECK(std::isnan(slope[6]) == (a != activation::relu));
    }
  }

  TEST_CASE_TEMPLATE("add and its gradient", T, float, double) {
    hr::cuda be;
    const auto a = numbers<T>(300, 211), b = numbers<T>(300, 212);
    const auto all = in_every_order([&] {
      auto x = put<T, 2>(be, a, {3, 100}), y = put<T, 2>(be, b, {3, 100});
      hr::tensor<T, 2, hr::cuda> sum(be, {3, 100});
      device::add_forward<T>(be, x.view(), y.view(), sum.view());
      device::add_gradient<T>(be, sum.view(), x.view(), {});
      auto values = get(be, sum);
      append(values, get(be, x));
      return values;
    });
    for (std::size_t i = 0; i < 300; ++i) {
      REQUIRE(all[i] == a[i] + b[i]);
      REQUIRE(all[300 + i] == a[i] + (a[i] + b[i]));
    }
    hr::tensor<T, 2, hr::cuda> x(be, {2, 3}), y(be, {3, 2});
    CHECK_THROWS_WITH_AS(device::add_forward<T>(be, x.view(), y.view(), x.view()),
                         "add_forward: b is (3,2), expected (2,3)", hr::shape_error);
    CHECK_THROWS_WITH_AS(device::add_gradient<T>(be, x.view(), y.view(), {}),
                         "add_gradient: da is (3,2), expected (2,3)", hr::shape_error);
  }

  TEST_CASE_TEMPLATE("linear and its gradients", T, float, double) {
    hr::cuda be;
    struct geometry {
      index_t rows, in, out;
    };
    for (const auto& [rows, in, out] : {geometry{1, 1, 1}, {5, 7, 33}, {300, 4, 3}, {129, 3, 32}, {2, 0, 3}}) {
      const auto x = numbers<T>(rows * in, 221), w = numbers<T>(out * in, 222), b = numbers<T>(out, 223),
                 g = numbers<T>(rows * out, 224);
      const auto all = in_every_order([&] {
        auto xs = put<T, 2>(be, x, {rows, in}), ws = put<T, 2>(be, w, {out, in}), dy = put<T, 2>(be, g, {rows, out});
        auto bs = put<T, 1>(be, b, {out}), db = put<T, 1>(be, b, {out});
        auto dx = put<T, 2>(be, x, {rows, in}), dw = put<T, 2>(be, w, {out, in});
        hr::tensor<T, 2, hr::cuda> y(be, {rows, out}), plain(be, {rows, out});
        device::linear_forward<T>(be, xs.view(), ws.view(), bs.view(), y.view());
        device::linear_forward<T>(be, xs.view(), ws.view(), {}, plain.view());
        device::linear_gradient<T>(be, xs.view(), ws.view(), dy.view(), dx.view(), dw.view(), db.view());
        auto values = get(be, y);
        for (const auto& more : {get(be, plain), get(be, dx), get(be, dw), get(be, db)}) append(values, more);
        return values;
      });
      const auto at = [](const std::vector<T>& m, index_t i) {
        return static_cast<wide>(m[static_cast<std::size_t>(i)]);
      };
      std::vector<wide> y, plain, dx(x.begin(), x.end()), dw(w.begin(), w.end()), db(b.begin(), b.end());
      for (index_t r = 0; r < rows; ++r)
        for (index_t o = 0; o < out; ++o) {
          wide sum = 0;
          for (index_t i = 0; i < in; ++i) {
            sum += at(x, r * in + i) * at(w, o * in + i);
            dx[static_cast<std::size_t>(r * in + i)] += at(g, r * out + o) * at(w, o * in + i);
            dw[static_cast<std::size_t>(o * in + i)] += at(g, r * out + o) * at(x, r * in + i);
          }
          plain.push_back(sum);
          y.push_back(sum + at(b, o));
          db[static_cast<std::size_t>(o)] += at(g, r * out + o);
        }
      for (const auto* more : {&plain, &dx, &dw, &db}) append(y, *more);
      CHECK(worst_difference(all, y) < digits<T>(20));
    }
    hr::tensor<T, 2, hr::cuda> x(be, {2, 3}), w(be, {4, 2}), y(be, {2, 4});
    CHECK_THROWS_WITH_AS(device::linear_forward<T>(be, x.view(), w.view(), {}, y.view()),
                         "linear_forward: weight is (4,2), expected (4,3)", hr::shape_error);
    CHECK_THROWS_WITH_AS(device::linear_gradient<T>(be, y.view(), w.view().transposed(), y.view(), {}, {}, {}),
                         "linear_gradient: dy is (2,4), expected (2,2)", hr::shape_error);
  }

  TEST_CASE_TEMPLATE("dropout drops what the cpu drops", T, float, double) {
    hr::cuda be;
    const hr::random_stream stream(99, 7);
    const auto draw = [&](std::uint64_t i) {  // 16 bits for each element, as nn/op/dropout.hpp says
      const auto e = static_cast<unsigned>(i % 64);
      const std::uint64_t two = stream.bits(i / 64 * 8 + e % 16 / 2);
      const auto four = hr::philox({static_cast<std::uint32_t>(i / 64 * 8 + e % 16 / 2), 0, 7, 0}, {99, 0});
      CHECK((four[0] == static_cast<std::uint32_t>(two) && four[1] == two >> 32));
      return four[e % 2 + e / 32 * 2] >> (e / 16 % 2 * 16) & 0xffffu;
    };
    for (const double p : {0.0, .25, .9}) {
      const index_t rows = 4, cols = 41, apart = 45;
      const auto x = numbers<T>(rows * apart, 231), before = numbers<T>(rows * apart, 232);
      const auto all = in_every_order([&] {
        auto from = put<T, 2>(be, x, {rows, apart}), to = put<T, 2>(be, before, {rows, apart}),
             dx = put<T, 2>(be, before, {rows, apart});
        const auto part = [&](auto& m) { return m.view().narrow(1, 0, cols); };
        device::dropout_forward<T>(be, part(std::as_const(from)), p, stream, part(to));
        device::dropout_gradient<T>(be, p, stream, part(std::as_const(from)), part(dx));
        auto values = get(be, to);
        append(values, get(be, dx));
        return values;
      });
      int dropped = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        T y = before[i], dx = before[i];
        if (i % apart < cols) {
          const std::uint64_t element = i / apart * cols + i % apart;
          const bool kept = draw(element) >= p * 65536;
#if defined(HEADRED_CUDA_EMULATE)
          CHECK(kept == hr::dropout_keeps(stream, element, p));
#endif
          y = kept ? x[i] * static_cast<T>(65536. / static_cast<double>(65536 - std::lround(p * 65536))) : 0;
          dx += y;
          dropped += kept ? 0 : 1;
        }
        REQUIRE(all[i] == y);
        REQUIRE(all[x.size() + i] == dx);
      }
      CHECK(std::fabs(dropped - p * rows * cols) < 30);
    }
    hr::tensor<T, 2, hr::cuda> x(be, {2, 3}), y(be, {2, 4});
    CHECK_THROWS_WITH_AS(device::dropout_forward<T>(be, x.view(), 1, stream, x.view()),
                         "dropout_forward: the probability is 1, expected [0,1)", hr::argument_error);
    CHECK_THROWS_WITH_AS(device::dropout_gradient<T>(be, .5, stream, x.view(), y.view()),
                         "dropout_gradient: dx is (2,4), expected (2,3)", hr::shape_error);
  }

  TEST_CASE_TEMPLATE("gradients are clipped together", T, float, double) {
    hr::cuda be;
    const auto a = numbers<T>(5000, 241), b = numbers<T>(3, 242);
    wide squares = 0;
    for (const auto* x : {&a, &b})
      for (const T v : *x) squares += static_cast<wide>(v) * static_cast<wide>(v);
    const double norm = static_cast<double>(std::sqrt(squares));
    using gradients = std::vector<hr::tensor_view<T, 1, hr::device_space>>;
    for (const double longest : {0.0, 1e3, .5}) {
      device::clipping done;
      const auto all = in_every_order([&] {
        auto x = put<T, 1>(be, a, {5000}), y = put<T, 1>(be, b, {3});
        hr::tensor<T, 1, hr::cuda> none(be, {0});
        const gradients g = {x.view(), none.view(), y.view()};
        done = device::clip_gradients<T>(be, g, longest);
        auto values = get(be, x);
        append(values, get(be, y));
        return values;
      });
      CHECK(std::fabs(done.norm - norm) < 1e-13 * norm);
      CHECK(done.factor == (longest == .5 ? .5 / (done.norm + 1e-6) : 1));
      for (std::size_t i = 0; i < 3; ++i) CHECK(all[5000 + i] == b[i] * static_cast<T>(done.factor));
    }
    CHECK(device::gradient_norm<T>(be, gradients{}) == 0);
    const T nan = std::numeric_limits<T>::quiet_NaN();
    auto x = put<T, 1>(be, {1, nan, 2}, {3});
    const auto done = device::clip_gradients<T>(be, gradients{x.view()}, .1);
    CHECK_FALSE(done.finite());
    CHECK(get(be, x)[2] == 2);
    device::scale_entries(be, x.view(), 0);
    CHECK(get(be, x) == std::vector<T>{0, 0, 0});
  }
}
