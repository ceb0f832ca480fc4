// What the suites of relevance on the device share.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include <headred/lrp/rule_policies.hpp>

#include "../oracle/lrp.hpp"
#include "device.hpp"

namespace headred_test {

inline const hr::relevance_rule all_rules[] = {hr::relevance_rule::alpha_beta(),
                                               hr::relevance_rule::alpha_beta(2, -1, 1e-3),
                                               hr::relevance_rule::z_plus(), hr::relevance_rule::of_epsilon(1e-2)};

/// f(policy) for the rule as a type.
template <class F>
auto with_rule(const hr::relevance_rule& r, const F& f) {
  if (r.kind == hr::rule_kind::alpha_beta) return f(hr::alpha_beta_rule{r.alpha, r.beta, r.epsilon, r.bias});
  if (r.kind == hr::rule_kind::z_plus) return f(hr::z_plus_rule{r.epsilon, r.bias});
  if (r.kind == hr::rule_kind::attn) return f(hr::attn_rule{r.epsilon, r.bias});
  return f(hr::epsilon_rule{r.epsilon, r.bias});
}

template <class T>
::oracle::reals real(const std::vector<T>& v) {
  return {v.begin(), v.end()};
}
template <class V>
double total(const V& v) {
  long double sum = 0;
  for (const auto x : v) sum += static_cast<long double>(x);
  return static_cast<double>(sum);
}
template <class V>
double size_of(const V& v) {
  long double sum = 0;
  for (const auto x : v) sum += std::fabs(static_cast<long double>(x));
  return static_cast<double>(sum);
}
template <class T>
double worst(const std::vector<T>& found, const ::oracle::reals& expected, std::size_t from = 0) {
  double d = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double e = std::fabs(static_cast<double>(static_cast<long double>(found[i]) - expected[from + i]));
    if (!(e <= d)) d = e;
  }
  return d;
}
template <class T>
double digits(double multiple) {
  return multiple * static_cast<double>(std::numeric_limits<T>::epsilon());
}

/// What an op hands on, and what it does not: bias, eps, nonlinear.
template <class T>
struct outcome {
  std::vector<T> in, other;
  std::vector<double> terms;
  bool operator==(const outcome&) const = default;
  double lost() const { return terms[0] + terms[1] + terms[2]; }
};

}  // namespace headred_test
