#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/as_view.hpp>
#include <headred/sparsity/attention_mask.hpp>
#include <headred/sparsity/patterns.hpp>

#include "environment.hpp"

namespace hr = headred;

namespace {

struct owned_mask {
  std::vector<double> values;
  hr::shape_t<3> shape;
  explicit owned_mask(hr::shape_t<3> s, double fill = 0)
      : values(static_cast<std::size_t>(s[0] * s[1] * s[2]), fill), shape(s) {}
  hr::tensor_view<double, 3> view() { return {values.data(), shape}; }
};

owned_mask random_mask(hr::shape_t<3> s, std::uint64_t seed) {
  owned_mask m(s);
  const hr::random_stream draws(seed);
  for (std::size_t i = 0; i < m.values.size(); ++i) m.values[i] = draws.uniform(i);
  return m;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

template <class Pattern, class Allowed>
void check_pattern(hr::cpu& be, const Pattern& pattern, const Allowed& allowed) {
  for (const auto& shape : {hr::shape_t<3>{1, 128, 128}, {3, 1, 1}, {2, 17, 31}, {1, 40, 7}, {2, 0, 5}}) {
    owned_mask m(shape, -1);
    hr::pattern_mask(be, pattern, m.view());
    bool same = true;
    for (hr::index_t h = 0; h < shape[0]; ++h)
      for (hr::index_t i = 0; i < shape[1]; ++i)
        for (hr::index_t j = 0; j < shape[2]; ++j) same = same && m.view()(h, i, j) == (allowed(i, j) ? 1 : 0);
    CHECK(same);
  }
}

template <class Pattern>
double percent(hr::cpu& be, const Pattern& pattern, hr::index_t n = 128) {
  owned_mask m({1, n, n});
  hr::pattern_mask(be, pattern, m.view());
  return 100 * hr::mask_sparsity(be, m.view());
}

}  // namespace

TEST_SUITE("sparsity") {
  TEST_CASE("attention_mask: the worked structured mask") {
    hr::cpu be{{.threads = 2}};
    std::vector<double> v{0, 1, 0, 1};
    owned_mask m({1, 4, 4});
    hr::structured_mask(be, hr::tensor_view<const double, 2>(v.data(), {1, 4}), m.view());
    CHECK(m.values == std::vector<double>{0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0});
    CHECK(hr::mask_sparsity(be, m.view()) == .5);
    CHECK(hr::mask_penalty(be, m.view()) == 8);
  }

  TEST_CASE("attention_mask: both forms at any length, and their pull-backs are the transposed maps") {
    hr::cpu be{{.threads = 2}};
    for (const auto& shape :
         {hr::shape_t<3>{12, 128, 128}, {1, 1, 1}, {3, 5, 9}, {2, 9, 5}, {2, 9, 9}, {0, 3, 3}, {2, 0, 4}}) {
      const hr::index_t n = std::max(shape[1], shape[2]) + 3;
      std::vector<double> v = random_mask({shape[0], n, 1}, 1).values, dv(v.size(), .5);
      owned_mask a = random_mask({shape[0], n, n}, 2), da({shape[0], n, n}, .25);
      owned_mask from_v(shape), from_a(shape), d = random_mask(shape, 3);
      hr::structured_mask(be, hr::tensor_view<const double, 2>(v.data(), {shape[0], n}), from_v.view());
      hr::unstructured_mask(be, a.view(), from_a.view());
      bool right = true;
      for (hr::index_t h = 0; h < shape[0]; ++h)
        for (hr::index_t i = 0; i < shape[1]; ++i)
          for (hr::index_t j = 0; j < shape[2]; ++j) {
            right = right && from_v.view()(h, i, j) == v[static_cast<std::size_t>(h * n + std::abs(i - j))];
            right = right && from_a.view()(h, i, j) == a.view()(h, std::min(i, j), std::max(i, j));
          }
      CHECK(right);
      hr::structured_mask_gradient(be, d.view(), hr::tensor_view<double, 2>(dv.data(), {shape[0], n}));
      hr::unstructured_mask_gradient(be, d.view(), da.view());
      for (double& x : dv) x -= .5;
      for (double& x : da.values) x -= .25;
      // <d, M(v)> = <M^T(d), v>, and each entry: d/dv of <d, M(v)>
      CHECK(dot(d.values, from_v.values) == doctest::Approx(dot(dv, v)).epsilon(1e-12));
      CHECK(dot(d.values, from_a.values) == doctest::Approx(dot(da.values, a.values)).epsilon(1e-12));
      if (shape[1] > 9) continue;
      const auto changed = [&](auto& parameters, std::size_t k, auto&& map, owned_mask& m) {
        const double x = parameters[k];
        double loss[4];
        int at = 0;
        for (const double step : {-2., -1., 1., 2.}) {
          parameters[k] = x + step * .1;
          map();
          loss[at++] = dot(d.values, m.values);
        }
        parameters[k] = x;
        return (loss[0] - 8 * loss[1] + 8 * loss[2] - loss[3]) / 1.2;
      };
      for (std::size_t k = 0; k < v.size(); ++k)
        CHECK(
            dv[k] ==
            doctest::Approx(
                changed(
                    v, k,
                    [&] {
                      hr::structured_mask(be, hr::tensor_view<const double, 2>(v.data(), {shape[0], n}), from_v.view());
                    },
                    from_v))
                .epsilon(1e-10));
      for (std::size_t k = 0; k < a.values.size(); ++k)
        CHECK(da.values[k] ==
              doctest::Approx(changed(
                                  a.values, k, [&] { hr::unstructured_mask(be, a.view(), from_a.view()); }, from_a))
                  .epsilon(1e-10));
    }
  }

  TEST_CASE("attention_mask: without the diagonal") {
    hr::cpu be{{.threads = 2}};
    owned_mask m({2, 3, 5}, 1);
    hr::remove_diagonal(be, m.view());
    CHECK(m.values == std::vector<double>{0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1,
                                          0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1});
    owned_mask one({4, 1, 1}, 1), none({3, 0, 0});
    hr::remove_diagonal(be, one.view());
    CHECK(hr::mask_sparsity(be, one.view()) == 1);
    hr::remove_diagonal(be, none.view());
    CHECK(hr::mask_sparsity(be, none.view()) == 0);
  }

  TEST_CASE("attention_mask: parameters of another length or number of heads") {
    hr::cpu be{{.threads = 1}};
    owned_mask m({2, 4, 6}), a({2, 6, 5}), heads({3, 6, 6});
    std::vector<double> v(10);
    CHECK_THROWS_WITH_AS(hr::structured_mask(be, hr::tensor_view<const double, 2>(v.data(), {2, 5}), m.view()),
                         "structured_mask: the parameters are (2,5), expected (2,6) at least for a mask of (2,4,6)",
                         hr::shape_error);
    CHECK_THROWS_AS(hr::structured_mask_gradient(be, m.view(), hr::tensor_view<double, 2>(v.data(), {1, 10})),
                    hr::shape_error);
    CHECK_THROWS_WITH_AS(
        hr::unstructured_mask(be, a.view(), m.view()),
        "unstructured_mask: the parameters are (2,6,5), expected (2,6,6) at least for a mask of (2,4,6)",
        hr::shape_error);
    CHECK_THROWS_AS(hr::unstructured_mask_gradient(be, m.view(), heads.view()), hr::shape_error);
  }

  TEST_CASE("patterns: the sparsities of definitions.md, section 5, at n = 128") {
    hr::cpu be{{.threads = 2}};
    const auto printed = [](double x, double value, double half) { return std::abs(x - value) <= half; };
    CHECK(printed(percent(be, hr::star_pattern{}), 96.130, .0005));
    CHECK(printed(percent(be, hr::logsparse_pattern{}), 89.832, .0005));
    CHECK(printed(percent(be, hr::strided_pattern{}), 70.386, .0005));
    CHECK(printed(percent(be, hr::strided_pattern{.diagonal = false}), 71.167, .0005));
    CHECK(printed(percent(be, hr::fixed_pattern{}), 72.656, .0005));
    CHECK(printed(percent(be, hr::longformer_pattern{}), 88.62, .005));
    double mean = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const double p = percent(be, hr::bigbird_pattern{.seed = seed});
      CHECK(printed(p, 93.1, .15));
      mean += p / 20;
    }
    CHECK(printed(mean, 93.1, .05));
  }

  TEST_CASE("patterns: every entry at other lengths") {
    hr::cpu be{{.threads = 2}};
    check_pattern(be, hr::star_pattern{}, [](auto i, auto j) { return std::abs(i - j) <= 1 || i == 0 || j == 0; });
    check_pattern(be, hr::logsparse_pattern{}, [](auto i, auto j) {
      const auto d = std::abs(i - j);
      return d == 0 || std::exp2(std::round(std::log2(double(d)))) == double(d);
    });
    check_pattern(be, hr::strided_pattern{.stride = 5},
                  [](auto i, auto j) { return std::abs(i - j) < 5 || std::abs(i - j) % 5 == 0; });
    check_pattern(be, hr::strided_pattern{.stride = 4, .diagonal = false},
                  [](auto i, auto j) { return i != j && (std::abs(i - j) < 4 || std::abs(i - j) % 4 == 0); });
    check_pattern(be, hr::fixed_pattern{.block = 3}, [](auto i, auto j) { return i / 3 == j / 3 || j % 3 == 2; });
    check_pattern(be, hr::longformer_pattern{.window = 2, .global = 1},
                  [](auto i, auto j) { return std::abs(i - j) <= 2 || i < 1 || j < 1; });
    check_pattern(be, hr::bigbird_pattern{.random = 0},
                  [](auto i, auto j) { return std::abs(i - j) <= 1 || i < 1 || j < 1; });
    // as many random keys as there are
    owned_mask all({1, 40, 40});
    hr::pattern_mask(be, hr::bigbird_pattern{.random = 64}, all.view());
    CHECK(hr::mask_penalty(be, all.view()) == 1600);
  }

  TEST_CASE("patterns: bigbird's random keys are different ones, equally likely, seeded") {
    hr::cpu be{{.threads = 3}}, one{{.threads = 1}};
    const hr::bigbird_pattern pattern{.window = 0, .global = 0, .random = 5, .seed = 11};
    owned_mask m({4, 3000, 20}), again({4, 3000, 20}), other({4, 3000, 20});
    hr::pattern_mask(be, pattern, m.view());
    hr::pattern_mask(one, pattern, again.view());
    CHECK(m.values == again.values);
    hr::pattern_mask(be, hr::bigbird_pattern{.window = 0, .global = 0, .random = 5, .seed = 12}, other.view());
    CHECK(m.values != other.values);
    std::vector<double> times(20, 0);
    for (hr::index_t h = 0; h < 4; ++h)
      for (hr::index_t i = 20; i < 3000; ++i) {
        double keys = 0;
        for (hr::index_t j = 0; j < 20; ++j)
          keys += m.view()(h, i, j), times[static_cast<std::size_t>(j)] += m.view()(h, i, j);
        CHECK(keys == 5);
      }
    const double n = 4 * 2980;
    for (const double t : times) CHECK(std::abs(t / n - .25) < 4.5 * std::sqrt(.25 * .75 / n));
  }

  TEST_CASE("patterns: one mask for all heads, and settings out of range") {
    hr::cpu be{{.threads = 1}};
    std::vector<float> m(12);
    hr::pattern_mask(be, hr::star_pattern{}, hr::tensor_view<float, 2>(m.data(), {3, 4}));
    CHECK(m == std::vector<float>{1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1});
    const hr::tensor_view<float, 2> v(m.data(), {3, 4});
    CHECK_THROWS_WITH_AS(hr::pattern_mask(be, hr::strided_pattern{.stride = 0}, v),
                         "strided_pattern: stride is 0, expected [1,1073741824]", hr::argument_error);
    CHECK_THROWS_AS(hr::pattern_mask(be, hr::fixed_pattern{.block = -1}, v), hr::argument_error);
    CHECK_THROWS_AS(hr::pattern_mask(be, hr::longformer_pattern{.window = -1}, v), hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::pattern_mask(be, hr::bigbird_pattern{.random = 65}, v),
                         "bigbird_pattern: random is 65, expected [0,64]", hr::argument_error);
  }
}
