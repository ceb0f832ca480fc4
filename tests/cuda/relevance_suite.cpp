// Relevance on the device: worked values, explicit contribution matrices in long double, the balance of each op.
#include <algorithm>
#include <limits>
#include <string>

#include <headred/device/add_relevance.hpp>
#include <headred/device/layer_norm.hpp>
#include <headred/device/layer_norm_relevance.hpp>
#include <headred/device/linear_relevance.hpp>
#include <headred/device/softmax_relevance.hpp>

#include "device.hpp"
#include "relevance_support.hpp"

using namespace headred_test;

namespace {

namespace device = headred::device;
using hr::index_t;

template <class T>
outcome<T> linear(hr::cuda& be, index_t rows, const std::vector<T>& x, const std::vector<T>& w, const std::vector<T>& b,
                  const std::vector<T>& relevance, const hr::relevance_rule& rule) {
  const auto out = static_cast<index_t>(b.size()), in = static_cast<index_t>(w.size()) / out;
  return in_every_order([&] {
    auto xs = put<T, 2>(be, x, {rows, in}), ws = put<T, 2>(be, w, {out, in}), r = put<T, 2>(be, relevance, {rows, out});
    auto bs = put<T, 1>(be, b, {out});
    hr::tensor<T, 2, hr::cuda> y(be, {rows, out}), to(be, {rows, in});
    hr::tensor<double, 1, hr::cuda> terms(be, {3});
    device::linear_forward<T>(be, xs.view(), ws.view(), bs.view(), y.view());
    with_rule(rule, [&](const auto& p) {
      device::linear_relevance<T>(be, xs.view(), ws.view(), bs.view(), y.view(), p, r.view(), to.view(), terms.view());
    });
    return outcome<T>{get(be, to), {}, get(be, terms)};
  });
}

template <class T>
outcome<T> add(hr::cuda& be, index_t rows, const std::vector<T>& a, const std::vector<T>& b,
               const std::vector<T>& relevance, const hr::relevance_rule& rule) {
  const index_t cols = static_cast<index_t>(a.size()) / rows;
  return in_every_order([&] {
    auto x = put<T, 2>(be, a, {rows, cols}), y = put<T, 2>(be, b, {rows, cols}),
         r = put<T, 2>(be, relevance, {rows, cols});
    hr::tensor<T, 2, hr::cuda> to_x(be, {rows, cols}), to_y(be, {rows, cols});
    hr::tensor<double, 1, hr::cuda> terms(be, {3});
    with_rule(rule, [&](const auto& p) {
      device::add_relevance<T>(be, x.view(), y.view(), p, r.view(), to_x.view(), to_y.view(), terms.view());
    });
    return outcome<T>{get(be, to_x), get(be, to_y), get(be, terms)};
  });
}

template <class T>
outcome<T> layer_norm(hr::cuda& be, index_t rows, const std::vector<T>& x, const std::vector<T>& scale,
                      const std::vector<T>& shift, const std::vector<T>& relevance, const hr::relevance_rule& rule) {
  const index_t cols = static_cast<index_t>(scale.size());
  return in_every_order([&] {
    auto xs = put<T, 2>(be, x, {rows, cols}), r = put<T, 2>(be, relevance, {rows, cols});
    auto s = put<T, 1>(be, scale, {cols}), t = put<T, 1>(be, shift, {cols});
    hr::tensor<T, 2, hr::cuda> y(be, {rows, cols}), to(be, {rows, cols});
    hr::tensor<T, 1, hr::cuda> mean(be, {rows}), inverse(be, {rows});
    hr::tensor<double, 1, hr::cuda> terms(be, {3});
    device::layer_norm_forward<T>(be, xs.view(), s.view(), t.view(), T(1e-6), y.view(), mean.view(), inverse.view());
    with_rule(rule, [&](const auto& p) {
      device::layer_norm_relevance<T>(be, xs.view(), s.view(), t.view(), mean.view(), inverse.view(), p, r.view(),
                                      to.view(), terms.view());
    });
    return outcome<T>{get(be, to), {}, get(be, terms)};
  });
}

}  // namespace

TEST_SUITE("cuda") {
  TEST_CASE("worked relevance: linear, add and layer norm") {
    hr::cuda be;
    using values = std::vector<double>;
    const auto near = [](double expected) { return doctest::Approx(expected).epsilon(1e-7); };
    const values x{2, -1}, w{1, 3, -2, .5}, b{.2, -.4};
    auto r = linear<double>(be, 1, x, w, b, {1, .5}, hr::relevance_rule::alpha_beta());
    CHECK((r.in[0] == near(.7142829) && r.in[1] == near(.53571249)));
    r = linear<double>(be, 1, x, w, b, {1, .5}, hr::relevance_rule::of_epsilon());
    CHECK((r.in[0] == near(-2.19639663) && r.in[1] == near(3.69638311)));
    r = add<double>(be, 1, {1, -2, .5}, {3, 1, -.5}, {1, 1, 1}, hr::relevance_rule::alpha_beta());
    double f = 3 / (size_of(r.in) + size_of(r.other) + 1e-5);
    CHECK((f * r.in[0] == near(.15000075) && f * r.in[1] == near(.6000015) && f * r.in[2] == near(.5999925)));
    CHECK((f * r.other[0] == near(.45000225) && f * r.other[1] == near(.5999985)));
    r = layer_norm<double>(be, 1, {1, 2, 4}, {1, 2, .5}, {.1, 0, -.1}, {1, 1, 1}, hr::relevance_rule::alpha_beta());
    f = 3 / (size_of(r.in) + 1e-5);
    CHECK((f * r.in[0] == near(.45452892) && f * r.in[1] == near(1.50000608) && f * r.in[2] == near(1.045455)));
  }

  TEST_CASE_TEMPLATE("relevance of linear", T, float, double) {
    hr::cuda be;
    struct geometry {
      index_t rows, in, out;
      double shift;  // .5: all contributions positive, so that one sign outweighs the other
    };
    for (const auto& [rows, in, out, shift] : {geometry{6, 21, 9, 0}, {35, 70, 67, 0}, {3, 40, 33, .5}, {2, 5, 1, .4}})
      for (const auto bias : {hr::bias_mode::spread, hr::bias_mode::absorbed})
        for (hr::relevance_rule rule : all_rules) {
          if (rows > 30 && rule.alpha == 2) continue;  // the emulator takes its time
          rule.bias = bias;
          const auto x = numbers<T>(rows * in, 301, 2 * shift - 1, 2 * shift + 1),
                     w = numbers<T>(out * in, 302, 2 * shift - 1, 2 * shift + 1),
                     b = numbers<T>(out, 303, shift > 0 ? -.05 : -1, shift > 0 ? .05 : 1);
          auto relevance = numbers<T>(rows * out, 304);
          std::fill_n(relevance.begin(), out, T(0));  // a row that nothing reaches
          const auto found = linear(be, rows, x, w, b, relevance, rule);
          const auto at = [](const std::vector<T>& v, index_t i) {
            return static_cast<long double>(v[static_cast<std::size_t>(i)]);
          };
          oracle::reals expected;
          for (index_t r = 0; r < rows; ++r) {
            std::vector<oracle::reals> z;
            for (index_t o = 0; o < out; ++o) {
              auto& row = z.emplace_back();
              for (index_t i = 0; i < in; ++i)
                row.push_back(at(w, o * in + i) * at(x, r * in + i) +
                              (bias == hr::bias_mode::spread ? at(b, o) / static_cast<long double>(in) : 0));
              if (bias == hr::bias_mode::absorbed) row.push_back(at(b, o));
            }
            const oracle::reals from(relevance.begin() + r * out, relevance.begin() + (r + 1) * out);
            const auto one = oracle::contract(z, from, rule);
            expected.insert(expected.end(), one.begin(), one.begin() + in);
          }
          const double size = size_of(relevance) + size_of(found.in);
          CHECK(worst(found.in, expected) < digits<T>(30) * (1 + size));
          CHECK(std::fabs(total(relevance) - total(found.in) - found.lost()) < digits<T>(30) * size);
          CHECK(found.terms[2] == 0);
          if (out > 1) CHECK((found.terms[0] != 0) == (bias == hr::bias_mode::absorbed));
        }
  }

  TEST_CASE_TEMPLATE("relevance of add", T, float, double) {
    hr::cuda be;
    const index_t rows = 3, cols = 150;
    const auto a = numbers<T>(rows * cols, 311), b = numbers<T>(rows * cols, 312),
               relevance = numbers<T>(rows * cols, 313);
    for (const auto& rule : all_rules) {
      const auto found = add(be, rows, a, b, relevance, rule);
      double off = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        const auto one = oracle::contract({{static_cast<long double>(a[i]), static_cast<long double>(b[i])}},
                                          {static_cast<long double>(relevance[i])}, rule);
        off = std::max({off, worst<T>({found.in[i]}, one), worst<T>({found.other[i]}, one, 1)});
      }
      CHECK(off < digits<T>(400));  // sums near 0 lose digits: eps is .01, contributions below 1
      const double size = size_of(relevance) + size_of(found.in) + size_of(found.other);
      CHECK(std::fabs(total(relevance) - total(found.in) - total(found.other) - found.lost()) < digits<T>(10) * size);
    }
    hr::tensor<T, 2, hr::cuda> x(be, {2, 3}), y(be, {3, 2});
    CHECK_THROWS_WITH_AS(
        device::add_relevance<T>(be, x.view(), x.view(), hr::epsilon_rule{}, x.view(), x.view(), y.view()),
        "add_relevance: relevance_b is (3,2), expected (2,3)", hr::shape_error);
    CHECK_THROWS_WITH_AS(
        device::add_relevance<T>(be, x.view(), x.view(), hr::identity_rule{}, x.view(), x.view(), x.view()),
        "add: cannot follow the rule identity", hr::argument_error);
  }

  TEST_CASE_TEMPLATE("relevance of layer norm", T, float, double) {
    hr::cuda be;
    for (const index_t cols : {index_t{1}, index_t{3}, index_t{40}, index_t{133}})
      for (const bool spread : {true, false})
        for (hr::relevance_rule rule : all_rules) {
          if (cols > 100 && !spread) continue;
          rule.bias = spread ? hr::bias_mode::spread : hr::bias_mode::absorbed;
          const index_t rows = 2;
          const auto x = numbers<T>(rows * cols, 321), scale = numbers<T>(cols, 322), shift = numbers<T>(cols, 323);
          auto relevance = numbers<T>(rows * cols, 324);
          if (cols > 3) std::fill_n(relevance.begin(), cols, T(0));
          const auto found = layer_norm(be, rows, x, scale, shift, relevance, rule);
          oracle::reals expected;
          for (index_t r = 0; r < rows; ++r) {
            const oracle::reals at(x.begin() + r * cols, x.begin() + (r + 1) * cols);
            const auto n = static_cast<oracle::real>(cols);
            oracle::real mean = 0, square = 0;
            for (const auto v : at) mean += v / n;
            for (const auto v : at) square += (v - mean) * (v - mean) / n;
            const oracle::real inverse = 1 / std::sqrt(square + static_cast<oracle::real>(T(1e-6)));
            std::vector<oracle::reals> z;
            for (std::size_t o = 0; o < at.size(); ++o) {
              auto& row = z.emplace_back();
              for (std::size_t i = 0; i < at.size(); ++i)
                row.push_back((spread ? static_cast<oracle::real>(shift[o]) / n : 0) +
                              static_cast<oracle::real>(scale[o]) * inverse * at[i] *
                                  ((o == i ? 1 : 0) - (1 + (at[o] - mean) * (at[i] - mean) * inverse * inverse) / n));
              if (!spread) row.push_back(shift[o]);
            }
            const oracle::reals from(relevance.begin() + r * cols, relevance.begin() + (r + 1) * cols);
            const auto one = oracle::contract(z, from, rule);
            expected.insert(expected.end(), one.begin(), one.begin() + cols);
          }
          const double size = size_of(relevance) + size_of(found.in);
          CHECK(worst(found.in, expected) < digits<T>(100) * (1 + size));
          CHECK(std::fabs(total(relevance) - total(found.in) - found.lost()) < digits<T>(100) * size);
        }
    const auto same = layer_norm<T>(be, 1, {1, 2, 4}, {1, 2, 3}, {0, 0, 0}, {5, -6, 7}, hr::relevance_rule::attn());
    CHECK(same.in == std::vector<T>{5, -6, 7});
    CHECK(same.terms == std::vector<double>{0, 0, 0});
  }

  TEST_CASE_TEMPLATE("relevance of softmax", T, float, double) {
    hr::cuda be;
    const index_t rows = 2, cols = 140;
    auto x = numbers<T>(rows * cols, 331, -2, 2);
    x[3] = T(-1e4);  // excluded: a score without a way to the output
    const auto relevance = numbers<T>(rows * cols, 332);
    std::vector<T> y;
    const auto found = in_every_order([&] {
      auto xs = put<T, 2>(be, x, {rows, cols}), r = put<T, 2>(be, relevance, {rows, cols});
      hr::tensor<T, 2, hr::cuda> p(be, {rows, cols}), to(be, {rows, cols});
      hr::tensor<double, 1, hr::cuda> terms(be, {3});
      device::softmax_forward<T>(be, xs.view(), p.view());
      device::softmax_relevance<T>(be, xs.view(), p.view(), r.view(), to.view(), terms.view());
      y = get(be, p);
      return outcome<T>{get(be, to), {}, get(be, terms)};
    });
    oracle::reals expected;
    for (std::size_t r = 0; r < x.size(); r += static_cast<std::size_t>(cols)) {
      long double sum = 0;
      for (std::size_t c = 0; c < static_cast<std::size_t>(cols); ++c)
        sum += static_cast<long double>(relevance[r + c]);
      for (std::size_t c = r; c < r + static_cast<std::size_t>(cols); ++c)
        expected.push_back(y[c] == 0 ? 0
                                     : static_cast<long double>(x[c]) * (static_cast<long double>(relevance[c]) -
                                                                         static_cast<long double>(y[c]) * sum));
    }
    CHECK(found.in[3] == 0);
    CHECK(worst(found.in, expected) < digits<T>(20));
    CHECK((found.terms[0] == 0 && found.terms[1] == 0 && found.terms[2] != 0));
    CHECK(std::fabs(total(relevance) - total(found.in) - found.lost()) < digits<T>(10) * size_of(relevance));
  }

  TEST_CASE_TEMPLATE("relevance of nothing and next to nothing", T, float, double) {
    hr::cuda be;
    for (const double z : {0.0, 1e-30, -1e-30, 1e30})
      for (const auto& rule : all_rules) {
        const auto t = static_cast<T>(z);
        const auto found = linear<T>(be, 2, std::vector<T>(6, t), std::vector<T>(6, 1), {0, 0}, {1, -1, .5, 2}, rule);
        for (const T v : found.in) CHECK(std::isfinite(v));
        CHECK(std::fabs(2.5 - total(found.in) - found.lost()) < digits<T>(5e3));
      }
    const T nan = std::numeric_limits<T>::quiet_NaN();
    const auto padded = linear<T>(be, 2, {nan, nan, 1, 2}, {1, 1}, {0}, {0, 1}, hr::relevance_rule::z_plus());
    CHECK((padded.in[0] == 0 && padded.in[1] == 0 && padded.in[2] > 0));
    CHECK(std::isfinite(padded.lost()));
    hr::tensor<T, 2, hr::cuda> x(be, {1, 2}), w(be, {2, 2}), wrong(be, {1, 3});
    hr::tensor<double, 1, hr::cuda> four(be, {4});
    const auto run = [&](const auto& rule, const auto& relevance, hr::tensor_view<double, 1, hr::device_space> terms) {
      device::linear_relevance<T>(be, x.view(), w.view(), {}, x.view(), rule, relevance.view(), x.view(), terms);
    };
    CHECK_THROWS_WITH_AS(run(hr::identity_rule{}, x, {}), "linear: cannot follow the rule identity",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(run(hr::epsilon_rule{0}, x, {}), "relevance: epsilon is 0, expected within [1e-30,1]",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(run(hr::alpha_beta_rule{1, 1}, x, {}), "relevance: alpha 1 and beta 1, expected a sum of 1",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(run(hr::epsilon_rule{}, wrong, {}), "linear_relevance: relevance_out is (1,3), expected (1,2)",
                         hr::shape_error);
    CHECK_THROWS_WITH_AS(run(hr::epsilon_rule{}, x, four.view()), "linear_relevance: terms is (4), expected (3)",
                         hr::shape_error);
  }
}
