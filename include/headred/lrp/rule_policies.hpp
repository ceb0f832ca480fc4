// The rules as types, for ops that are called one by one.
#pragma once

#include <concepts>

#include <headred/lrp/relevance_rule.hpp>

namespace headred {

/// By sign: R_i = sum_o R_o (alpha z+_oi / (s+_o + eps) + beta z-_oi / (s-_o - eps)), alpha + beta = 1.
struct alpha_beta_rule {
  static constexpr rule_kind kind = rule_kind::alpha_beta;
  double alpha = .5, beta = .5, epsilon = 1e-5;
  bias_mode bias = bias_mode::spread;
};
/// R_i = sum_o R_o z_oi / (s_o + eps sgn(s_o)).
struct epsilon_rule {
  static constexpr rule_kind kind = rule_kind::epsilon;
  double epsilon = 1e-5;
  bias_mode bias = bias_mode::spread;
};
/// alpha_beta_rule with alpha = 1, beta = 0.
struct z_plus_rule {
  static constexpr rule_kind kind = rule_kind::z_plus;
  static constexpr double alpha = 1, beta = 0;
  double epsilon = 1e-5;
  bias_mode bias = bias_mode::spread;
};
/// AttnLRP: epsilon, half to each factor of a product, softmax by a rule of its own.
struct attn_rule {
  static constexpr rule_kind kind = rule_kind::attn;
  double epsilon = 1e-5;
  bias_mode bias = bias_mode::spread;
};
/// R_i = R_o, for ops whose input and output have one shape.
struct identity_rule {
  static constexpr rule_kind kind = rule_kind::identity;
};

template <class R>
concept rule_policy = requires {
  { R::kind } -> std::convertible_to<rule_kind>;
};

/// What an op lost on its way back: sum R_out = sum R_in + bias + eps + nonlinear, each from its own formula.
struct relevance_terms {
  double bias = 0;       ///< to parts of outputs that no input made
  double eps = 0;        ///< to the stabiliser, to contributions of one sign only, or to closed gates
  double nonlinear = 0;  ///< to a softmax gone back by `attn`
};

namespace detail {

/// Rules that treat contributions by their sign; the others need sums alone.
template <class Rule>
inline constexpr bool by_sign = Rule::kind == rule_kind::alpha_beta || Rule::kind == rule_kind::z_plus;

template <class T>
constexpr T sign_of(T x) {
  return x < T(0) ? T(-1) : T(1);
}

/// relevance / (sum + eps sgn(sum)), and what the stabiliser takes.
template <class T>
T factor_of_sum(T epsilon, T relevance, T sum, double& lost) {
  if (relevance == T(0)) return T(0);
  const T stabiliser = epsilon * sign_of(sum), factor = relevance / (sum + stabiliser);
  lost += static_cast<double>(factor) * static_cast<double>(stabiliser);
  return factor;
}

/// f(policy) for the rule as a type.
template <class F>
decltype(auto) with_policy(const relevance_rule& r, const F& f) {
  switch (r.kind) {
    case rule_kind::alpha_beta: return f(alpha_beta_rule{r.alpha, r.beta, r.epsilon, r.bias});
    case rule_kind::epsilon: return f(epsilon_rule{r.epsilon, r.bias});
    case rule_kind::z_plus: return f(z_plus_rule{r.epsilon, r.bias});
    case rule_kind::attn: return f(attn_rule{r.epsilon, r.bias});
    case rule_kind::identity: break;
  }
  return f(identity_rule{});
}

}  // namespace detail
}  // namespace headred
