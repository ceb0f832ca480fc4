// The row kernels, gates and the optimiser step on the device, against naive ones in long double.
#include <algorithm>
#include <limits>

#include <headred/device/adam_step.hpp>
#include <headred/device/cross_entropy.hpp>
#include <headred/device/double_centre.hpp>
#include <headred/device/embedding.hpp>
#include <headred/device/gates.hpp>
#include <headred/device/layer_norm.hpp>
#include <headred/device/sums.hpp>
#include <headred/sparsity/gate_noise.hpp>
#include <headred/sparsity/gumbel_sigmoid_rule.hpp>
#include <headred/sparsity/hard_concrete_rule.hpp>

#include "device.hpp"

using namespace headred_test;

namespace {

namespace device = headred::device;
using wide = long double;
constexpr hr::index_t row_lengths[] = {1, 2, 31, 127, 128, 129, 400};
constexpr hr::index_t rows = 3;

template <class T>
double worst_difference(const std::vector<T>& found, const std::vector<wide>& expected) {
  REQUIRE(found.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i)
    worst = std::max(worst, std::fabs(static_cast<double>(static_cast<wide>(found[i]) - expected[i])) /
                                std::max(1.0, std::fabs(static_cast<double>(expected[i]))));
  return worst;
}
template <class T>
double digits(double multiple) {
  return multiple * static_cast<double>(std::numeric_limits<T>::epsilon());
}
template <class T>
std::vector<wide> widened(const std::vector<T>& x) {
  return {x.begin(), x.end()};
}

std::vector<wide> softmax(const std::vector<wide>& x, hr::index_t cols) {
  std::vector<wide> y(x.size());
  for (std::size_t r = 0; r < x.size(); r += static_cast<std::size_t>(cols)) {
    const auto begin = x.begin() + static_cast<hr::index_t>(r);
    const wide most = *std::max_element(begin, begin + cols);
    wide sum = 0;
    for (auto at = begin; at != begin + cols; ++at) sum += std::exp(*at - most);
    for (hr::index_t k = 0; k < cols; ++k) y[r + static_cast<std::size_t>(k)] = std::exp(begin[k] - most) / sum;
  }
  return y;
}

}  // namespace

TEST_SUITE("cuda") {
  TEST_CASE_TEMPLATE("softmax and its gradient", T, float, double) {
    hr::cuda be;
    for (const hr::index_t cols : row_lengths) {
      const auto x = numbers<T>(rows * cols, 11, -30, 30), g = numbers<T>(rows * cols, 12),
                 before = numbers<T>(rows * cols, 13);
      const auto y = in_every_order([&] {
        auto at = put<T, 2>(be, x, {rows, cols});
        device::softmax_forward(be, at.view(), at.view());
        return get(be, at);
      });
      CHECK(worst_difference(y, softmax(widened(x), cols)) < digits<T>(8));
      const auto dx = in_every_order([&] {
        auto p = put<T, 2>(be, y, {rows, cols}), dy = put<T, 2>(be, g, {rows, cols}),
             to = put<T, 2>(be, before, {rows, cols});
        device::softmax_gradient(be, p.view(), dy.view(), to.view());
        return get(be, to);
      });
      auto expected = widened(before);
      for (std::size_t r = 0; r < expected.size(); r += static_cast<std::size_t>(cols)) {
        wide dot = 0;
        for (std::size_t k = r; k < r + static_cast<std::size_t>(cols); ++k)
          dot += static_cast<wide>(y[k]) * static_cast<wide>(g[k]);
        for (std::size_t k = r; k < r + static_cast<std::size_t>(cols); ++k)
          expected[k] += static_cast<wide>(y[k]) * (static_cast<wide>(g[k]) - dot);
      }
      CHECK(worst_difference(dx, expected) < digits<T>(8));
    }
  }

  TEST_CASE_TEMPLATE("softmax of rows without a distribution", T, float, double) {
    hr::cuda be;
    constexpr T inf = std::numeric_limits<T>::infinity();
    auto x = put<T, 2>(be, {-inf, -inf, 0, -inf, 1, static_cast<T>(std::nan("")), inf, 1, T(1e4), T(1e4)}, {5, 2});
    device::softmax_forward(be, x.view(), x.view());
    const auto y = get(be, x);
    CHECK((y[0] == 0 && y[1] == 0));
    CHECK((y[2] == 1 && y[3] == 0));
    CHECK((std::isnan(y[4]) && std::isnan(y[5])));
    CHECK(std::isnan(y[6]));
    CHECK((y[8] == T(.5) && y[9] == T(.5)));
  }

  TEST_CASE_TEMPLATE("layer norm and its gradients", T, float, double) {
    hr::cuda be;
    const T epsilon = T(1e-5);
    for (const hr::index_t cols : row_lengths) {
      const double base = cols == 129 ? 1000 : 0;  // far from 0: the mean must not eat the deviations
      const auto x = numbers<T>(rows * cols, 21, base - 1, base + 1), g = numbers<T>(rows * cols, 22);
      const auto scale = numbers<T>(cols, 23), shift = numbers<T>(cols, 24);
      const auto all = in_every_order([&] {
        auto xs = put<T, 2>(be, x, {rows, cols}), dy = put<T, 2>(be, g, {rows, cols});
        auto s = put<T, 1>(be, scale, {cols}), t = put<T, 1>(be, shift, {cols});
        hr::tensor<T, 2, hr::cuda> y(be, {rows, cols});
        hr::tensor<T, 1, hr::cuda> mean(be, {rows}), inverse(be, {rows});
        auto dx = put<T, 2>(be, std::vector<T>(x.size(), 1), {rows, cols});
        auto ds = put<T, 1>(be, std::vector<T>(scale.size(), 2), {cols}),
             dt = put<T, 1>(be, std::vector<T>(scale.size(), 3), {cols});
        device::layer_norm_forward(be, xs.view(), s.view(), t.view(), epsilon, y.view(), mean.view(), inverse.view());
        device::layer_norm_gradient(be, xs.view(), s.view(), mean.view(), inverse.view(), dy.view(), dx.view(),
                                    ds.view(), dt.view());
        auto values = get(be, y);
        for (const auto& more : {get(be, dx), get(be, ds), get(be, dt)})
          values.insert(values.end(), more.begin(), more.end());
        return values;
      });
      std::vector<wide> y, dx, ds(scale.size(), 2), dt(scale.size(), 3);
      for (std::size_t r = 0; r < x.size(); r += scale.size()) {
        const auto n = static_cast<wide>(cols);
        wide mean = 0, square = 0, even = 0, slope = 0;
        for (std::size_t k = 0; k < scale.size(); ++k) mean += static_cast<wide>(x[r + k]) / n;
        for (std::size_t k = 0; k < scale.size(); ++k) square += std::pow(static_cast<wide>(x[r + k]) - mean, 2.0L) / n;
        const wide inverse = 1 / std::sqrt(square + static_cast<wide>(epsilon));
        for (std::size_t k = 0; k < scale.size(); ++k) {
          const wide d = (static_cast<wide>(x[r + k]) - mean) * inverse,
                     gs = static_cast<wide>(g[r + k]) * static_cast<wide>(scale[k]);
          y.push_back(d * static_cast<wide>(scale[k]) + static_cast<wide>(shift[k]));
          even += gs / n;
          slope += gs * d / n;
          ds[k] += static_cast<wide>(g[r + k]) * d;
          dt[k] += static_cast<wide>(g[r + k]);
        }
        for (std::size_t k = 0; k < scale.size(); ++k)
          dx.push_back(1 + inverse * (static_cast<wide>(g[r + k]) * static_cast<wide>(scale[k]) - even -
                                      (static_cast<wide>(x[r + k]) - mean) * inverse * slope));
      }
      for (const auto* more : {&dx, &ds, &dt}) y.insert(y.end(), more->begin(), more->end());
      // the mean is handed on in T: from a base of 1000 its rounding shows in the gradients
      CHECK(worst_difference(all, y) < digits<T>(base == 0 ? 60 : 3000));
      if (base != 0)
        CHECK(worst_difference(std::vector<T>(all.begin(), all.begin() + rows * cols),
                               {y.begin(), y.begin() + rows * cols}) < digits<T>(20));
    }
    hr::tensor<T, 2, hr::cuda> x(be, {2, 3});
    hr::tensor<T, 1, hr::cuda> s(be, {3}), t(be, {2});
    CHECK_THROWS_WITH_AS(device::layer_norm_forward(be, x.view(), s.view(), t.view(), epsilon, x.view()),
                         "layer_norm_forward: shift is (2), expected (3)", hr::shape_error);
    CHECK_THROWS_WITH_AS(device::layer_norm_forward(be, x.view(), s.view(), s.view(), T(-1), x.view()),
                         "layer_norm_forward: epsilon is -1, expected a number >= 0", hr::argument_error);
  }

  TEST_CASE_TEMPLATE("cross-entropy and its gradient", T, float, double) {
    hr::cuda be;
    for (const hr::index_t cols : {hr::index_t{2}, hr::index_t{129}, hr::index_t{300}})
      for (const double e : {0.0, .1, 1.0}) {
        const auto x = numbers<T>(rows * cols, 31, -10, 10), before = numbers<T>(rows * cols, 32);
        const std::vector<std::int32_t> targets = {1, -1, static_cast<std::int32_t>(cols) - 1};
        const auto all = in_every_order([&] {
          auto logits = put<T, 2>(be, x, {rows, cols}), d = put<T, 2>(be, before, {rows, cols});
          auto t = put<std::int32_t, 1>(be, targets, {rows});
          hr::tensor<T, 1, hr::cuda> losses(be, {rows}), log_sums(be, {rows});
          const auto& seen = t;
          device::require_targets(be, seen.view(), cols);
          device::cross_entropy_forward(be, logits.view(), seen.view(), e, losses.view(), log_sums.view());
          device::cross_entropy_gradient(be, logits.view(), seen.view(), e, log_sums.view(), T(.5), d.view());
          auto values = get(be, losses);
          const auto more = get(be, d);
          values.insert(values.end(), more.begin(), more.end());
          return values;
        });
        const auto p = softmax(widened(x), cols);
        std::vector<wide> losses, d = widened(before);
        for (hr::index_t r = 0; r < rows; ++r) {
          wide loss = 0;
          const auto target = targets[static_cast<std::size_t>(r)];
          for (hr::index_t k = 0; k < cols && target >= 0; ++k) {
            const auto i = static_cast<std::size_t>(r * cols + k);
            const wide weight =
                (k == target ? 1 - static_cast<wide>(e) : 0) + static_cast<wide>(e) / static_cast<wide>(cols);
            loss -= weight * std::log(p[i]);
            d[i] += .5L * (p[i] - weight);
          }
          losses.push_back(loss);
        }
        losses.insert(losses.end(), d.begin(), d.end());
        CHECK(worst_difference(all, losses) < digits<T>(20));
      }
    auto t = put<std::int32_t, 1>(be, {0, 7, -2}, {3});
    const auto& seen = t;
    CHECK_THROWS_WITH_AS(device::require_targets(be, seen.view(), 5),
                         "cross_entropy: target 7 of row 1, expected [0,5) or -1 for none", hr::argument_error);
    CHECK_THROWS_WITH_AS(device::require_targets(be, seen.view(), 8),
                         "cross_entropy: target -2 of row 2, expected [0,8) or -1 for none", hr::argument_error);
  }

  TEST_CASE_TEMPLATE("double centring", T, float, double) {
    hr::cuda be;
    for (const hr::index_t n : {1, 5, 130}) {
      const hr::index_t r = n, c = n + 2;
      const auto x = numbers<T>(2 * r * c, 41, 0, 2);
      const auto found = in_every_order([&] {
        auto at = put<T, 3>(be, x, {2, r, c});
        device::double_centre(be, at.view());
        return get(be, at);
      });
      std::vector<wide> expected = widened(x);
      for (hr::index_t m = 0; m < 2; ++m) {
        const auto at = [&](hr::index_t i, hr::index_t j) -> wide {
          return static_cast<wide>(x[static_cast<std::size_t>((m * r + i) * c + j)]);
        };
        std::vector<wide> row_mean(static_cast<std::size_t>(r)), column_mean(static_cast<std::size_t>(c));
        wide all = 0;
        for (hr::index_t i = 0; i < r; ++i)
          for (hr::index_t j = 0; j < c; ++j) {
            row_mean[static_cast<std::size_t>(i)] += at(i, j) / static_cast<wide>(c);
            column_mean[static_cast<std::size_t>(j)] += at(i, j) / static_cast<wide>(r);
            all += at(i, j) / static_cast<wide>(r * c);
          }
        for (hr::index_t i = 0; i < r; ++i)
          for (hr::index_t j = 0; j < c; ++j)
            expected[static_cast<std::size_t>((m * r + i) * c + j)] =
                at(i, j) - row_mean[static_cast<std::size_t>(i)] - column_mean[static_cast<std::size_t>(j)] + all;
      }
      CHECK(worst_difference(found, expected) < digits<T>(6));
    }
  }

  TEST_CASE_TEMPLATE("gates and masks see the noise of the cpu", T, float, double) {
    hr::cuda be;
    const hr::gate_noise noise(hr::random_stream(7, 3));
    const hr::index_t n = 300;
    const auto log_a = numbers<T>(n, 51, -6, 6);
    const hr::hard_concrete gates;
    const auto rule = gates.rule<T>("test");
    const hr::gumbel_sigmoid masks;
    const auto mask_rule = masks.rule<T>("test");
    const auto found = in_every_order([&] {
      const auto a = put<T, 1>(be, log_a, {n});
      hr::tensor<T, 1, hr::cuda> gate(be, {n}), entry(be, {n}), argument(be, {n});
      device::sample_gates(be, rule, noise, a.view(), gate.view(), argument.view());
      device::sample_mask(be, mask_rule, noise, a.view(), entry.view());
      auto all = get(be, gate);
      for (const auto& more : {get(be, entry), get(be, argument)}) all.insert(all.end(), more.begin(), more.end());
      return all;
    });
    int open = 0, shut = 0;
    for (hr::index_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i), size = static_cast<std::size_t>(n);
      const double a = static_cast<double>(log_a[at]);
      const T u = noise.one<T>(static_cast<std::uint64_t>(i));
      const auto [u1, u2] = noise.two<T>(static_cast<std::uint64_t>(i));
      // Louizos et al. 2018, equations 10 and 11, the noise in [epsilon, 1 - epsilon]
      const wide inner = 1 - 2 * static_cast<wide>(gates.epsilon), moved = static_cast<wide>(u) * inner;
      const wide odds =
          std::log((moved + static_cast<wide>(gates.epsilon)) / (inner - moved + static_cast<wide>(gates.epsilon)));
      const wide s = 1 / (1 + std::exp(-(odds + static_cast<wide>(a)) / static_cast<wide>(gates.temperature)));
      const wide g = s * static_cast<wide>(gates.upper - gates.lower) + static_cast<wide>(gates.lower);
      CHECK(std::fabs(static_cast<double>(static_cast<wide>(found[at]) - (g < 0 ? 0 : g > 1 ? 1 : g))) < digits<T>(20));
      CHECK(std::fabs(static_cast<double>(found[size + at]) -
                      masks.sample(a, static_cast<double>(u1), static_cast<double>(u2))) < digits<T>(20));
      CHECK(std::fabs(static_cast<double>(found[2 * size + at] - rule.argument(log_a[at], u))) <
            digits<T>(8) * std::max(1.0, std::fabs(static_cast<double>(found[2 * size + at]))));
      open += found[at] == 1;
      shut += found[at] == 0;
    }
    CHECK(open > 10);
    CHECK(shut > 10);
  }

  TEST_CASE_TEMPLATE("a step of adam", T, float, double) {
    hr::cuda be;
    const hr::index_t n = 300;
    const auto w = numbers<T>(n, 61), g = numbers<T>(n, 62), m = numbers<T>(n, 63), v = numbers<T>(n, 64, 0, 1);
    const device::adam_factors<T> f{T(.5), T(.01), T(.999), T(.1), T(.999), T(.001), T(1.5), T(1e-8), T(1e-2)};
    const auto all = in_every_order([&] {
      auto weights = put<T, 1>(be, w, {n}), gradient = put<T, 1>(be, g, {n}), first = put<T, 1>(be, m, {n}),
           second = put<T, 1>(be, v, {n});
      device::adam_step(be, f, weights.view(), gradient.view(), first.view(), second.view(), true);
      auto values = get(be, weights);
      for (const auto& more : {get(be, gradient), get(be, first), get(be, second)})
        values.insert(values.end(), more.begin(), more.end());
      return values;
    });
    std::vector<wide> ws, gs(static_cast<std::size_t>(n)), ms, vs;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const wide shrunk = static_cast<wide>(w[i]) * static_cast<wide>(f.shrink);
      const wide gradient = static_cast<wide>(g[i]) * static_cast<wide>(f.scale) + shrunk * static_cast<wide>(f.decay);
      ms.push_back(static_cast<wide>(m[i]) + (gradient - static_cast<wide>(m[i])) * static_cast<wide>(f.rest1));
      vs.push_back(static_cast<wide>(v[i]) * static_cast<wide>(f.beta2) +
                   gradient * gradient * static_cast<wide>(f.rest2));
      ws.push_back(shrunk - ms.back() * static_cast<wide>(f.step) /
                                (std::sqrt(vs.back()) * static_cast<wide>(f.root) + static_cast<wide>(f.epsilon)));
    }
    for (const auto* more : {&gs, &ms, &vs}) ws.insert(ws.end(), more->begin(), more->end());
    CHECK(worst_difference(all, ws) < digits<T>(4));
  }

  TEST_CASE_TEMPLATE("embedding and its gradient", T, float, double) {
    hr::cuda be;
    const hr::index_t vocabulary = 9, positions = 300;
    const hr::random_stream random(seed(), 70);
    std::vector<std::int32_t> numbered;
    for (std::uint64_t i = 0; i < 300; ++i) {
      const auto id = static_cast<std::int32_t>(random.below(i, 7));
      numbered.push_back(i == 200 ? 8 : id);  // 7 is never met, 8 once
    }
    for (const hr::index_t cols : {hr::index_t{1}, hr::index_t{130}}) {
      const auto table = numbers<T>(vocabulary * cols, 71), dy = numbers<T>(positions * cols, 72);
      const auto all = in_every_order([&] {
        auto ids = put<std::int32_t, 1>(be, numbered, {positions});
        const auto& seen = ids;
        auto x = put<T, 2>(be, table, {vocabulary, cols}), d = put<T, 2>(be, dy, {positions, cols});
        hr::tensor<T, 2, hr::cuda> y(be, {positions, cols});
        device::require_ids(be, seen.view(), vocabulary);
        device::embedding_forward(be, seen.view(), x.view(), T(2), y.view());
        device::embedding_forward(be, seen.view(), x.view(), T(1), y.view(), true);
        device::embedding_gradient(be, seen.view(), d.view(), T(.5), x.view());
        auto values = get(be, y);
        const auto more = get(be, x);
        values.insert(values.end(), more.begin(), more.end());
        return values;
      });
      std::vector<wide> expected, d = widened(table);
      for (std::size_t r = 0; r < 300; ++r)
        for (std::size_t c = 0; c < static_cast<std::size_t>(cols); ++c) {
          const std::size_t at = static_cast<std::size_t>(numbered[r]) * static_cast<std::size_t>(cols) + c;
          expected.push_back(3 * static_cast<wide>(table[at]));
          d[at] += .5L * static_cast<wide>(dy[r * static_cast<std::size_t>(cols) + c]);
        }
      expected.insert(expected.end(), d.begin(), d.end());
      CHECK(worst_difference(all, expected) < digits<T>(20));
    }
    auto ids = put<std::int32_t, 1>(be, {3, 9, -1}, {3});
    const auto& seen = ids;
    CHECK_THROWS_WITH_AS(device::require_ids(be, seen.view(), 9), "embedding: id 9 at position 1, expected [0,9)",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(device::require_ids(be, seen.view(), 10), "embedding: id -1 at position 2, expected [0,10)",
                         hr::argument_error);
    hr::tensor<T, 2, hr::cuda> x(be, {9, 3}), y(be, {2, 3});
    CHECK_THROWS_WITH_AS(device::embedding_forward(be, seen.view(), x.view(), T(1), y.view()),
                         "embedding_forward: y is (2,3), expected (3,3)", hr::shape_error);
  }

  TEST_CASE_TEMPLATE("sums over all entries", T, float, double) {
    hr::cuda be;
    for (const hr::index_t n : {0, 1, 4096, 4097, 9000}) {
      const auto x = numbers<T>(n, 81);
      wide total = 0, squares = 0;
      for (const T v : x) {
        total += static_cast<wide>(v);
        squares += static_cast<wide>(v) * static_cast<wide>(v);
      }
      const auto found = in_every_order([&] {
        auto at = put<T, 1>(be, x, {n});
        return std::vector<double>{device::sum(be, at.view()), device::sum_of_squares(be, std::as_const(at).view())};
      });
      CHECK(std::fabs(static_cast<double>(static_cast<wide>(found[0]) - total)) < 1e-12);
      CHECK(std::fabs(static_cast<double>(static_cast<wide>(found[1]) - squares)) < 1e-12);
    }
  }
}
