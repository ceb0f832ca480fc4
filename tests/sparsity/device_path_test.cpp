// The element-by-element path of backends whose memory is not the host's, on one that only says so.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/as_view.hpp>
#include <headred/sparsity.hpp>

#include "environment.hpp"
#include "sparsity/serial_backend.hpp"

namespace hr = headred;

namespace {

struct device_backend : headred_test::serial_backend {
  using space = hr::device_space;
};
static_assert(hr::backend<device_backend> && !hr::host_backend<device_backend>);

template <class T>
hr::tensor_view<T, 1, hr::device_space> there(std::vector<T>& v) {
  return {v.data(), {static_cast<hr::index_t>(v.size())}};
}

template <class T>
double apart(const std::vector<T>& a, const std::vector<T>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(a[i] - b[i])));
  return worst;
}

}  // namespace

TEST_SUITE("sparsity") {
  TEST_CASE_TEMPLATE("device path: the same gates and masks as in vector registers", T, float, double) {
    const double eps = std::is_same_v<T, float> ? 4e-6 : 1e-14;
    hr::cpu host{{.threads = 2}};
    device_backend device;
    const hr::random_stream draws(headred_test::seed(), 2);
    std::vector<T> a, d;
    for (std::uint64_t i = 0; i < 333; ++i) {
      a.push_back(static_cast<T>(6 * draws.uniform(i) - 3));
      d.push_back(static_cast<T>(draws.uniform(1000 + i) - .5));
    }
    const hr::hard_concrete gate;
    std::vector<T> x(a.size()), y(a.size());
    const auto both = [&](auto&& f) {
      std::fill(x.begin(), x.end(), T(1));
      std::fill(y.begin(), y.end(), T(1));
      f(
          host, [](auto& v) { return hr::as_view(v); }, x);
      f(
          device, [](auto& v) { return there(v); }, y);
      return apart(x, y);
    };
    CHECK(both([&](auto& be, auto at, auto& to) { hr::hard_concrete_sample(be, gate, at(a), draws, at(to)); }) < eps);
    CHECK(both([&](auto& be, auto at, auto& to) { hr::hard_concrete_evaluate(be, gate, at(a), at(to)); }) < eps);
    CHECK(both([&](auto& be, auto at, auto& to) { hr::hard_concrete_open(be, gate, at(a), at(to)); }) < eps);
    CHECK(both([&](auto& be, auto at, auto& to) { hr::hard_concrete_full(be, gate, at(a), at(to)); }) < eps);
    std::vector<T> t(1, T(0)), s(1, T(0));
    CHECK(both([&](auto& be, auto at, auto& to) {
            hr::hard_concrete_gradient(be, gate, at(a), draws, at(d), at(to), at(&to == &x ? t : s));
          }) < 2 * eps);
    CHECK(static_cast<double>(t[0]) == doctest::Approx(static_cast<double>(s[0])).epsilon(100 * eps));
    CHECK(both([&](auto& be, auto at, auto& to) {
            hr::hard_concrete_penalty_gradient(be, gate, at(a), .5, at(to), at(&to == &x ? t : s));
          }) < eps);
    CHECK(static_cast<double>(t[0]) == doctest::Approx(static_cast<double>(s[0])).epsilon(100 * eps));
    CHECK(hr::hard_concrete_penalty(host, gate, hr::as_view(a)) ==
          doctest::Approx(hr::hard_concrete_penalty(device, gate, there(a))).epsilon(eps));

    const hr::gumbel_sigmoid entry{.temperature = .7};
    CHECK(both([&](auto& be, auto at, auto& to) { hr::gumbel_sigmoid_sample(be, entry, at(a), draws, at(to)); }) < eps);
    CHECK(both([&](auto& be, auto at, auto& to) { hr::gumbel_sigmoid_evaluate(be, at(a), at(to)); }) == 0);
    CHECK(both([&](auto& be, auto at, auto& to) { hr::gumbel_sigmoid_open(be, at(a), at(to)); }) < eps);
    CHECK(both([&](auto& be, auto at, auto& to) {
            hr::gumbel_sigmoid_gradient(be, entry, at(a), draws, at(d), at(to), at(&to == &x ? t : s));
          }) < eps);
    CHECK(static_cast<double>(t[0]) == doctest::Approx(static_cast<double>(s[0])).epsilon(100 * eps));

    std::vector<T> m(3 * 11 * 9), n(m.size());
    hr::pattern_mask(host, hr::bigbird_pattern{}, hr::tensor_view<T, 3>(m.data(), {3, 11, 9}));
    const hr::tensor_view<T, 3, hr::device_space> mask(n.data(), {3, 11, 9});
    hr::pattern_mask(device, hr::bigbird_pattern{}, mask);
    CHECK(m == n);
    CHECK(hr::mask_sparsity(device, mask) > 0);
    hr::structured_mask(device, hr::tensor_view<const T, 2, hr::device_space>(a.data(), {3, 11}), mask);
    hr::structured_mask(host, hr::tensor_view<const T, 2>(a.data(), {3, 11}),
                        hr::tensor_view<T, 3>(m.data(), {3, 11, 9}));
    CHECK(m == n);
    a[7] = std::numeric_limits<T>::quiet_NaN();
    CHECK_THROWS_WITH_AS(hr::hard_concrete_sample(device, gate, there(a), draws, there(y)),
                         "hard_concrete_sample: element 7 of log_a is NaN, expected a number", hr::argument_error);
  }
}
