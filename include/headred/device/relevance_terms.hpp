// What the relevance of ops on the device shares: rules as numbers, and the terms of the ledger.
//
// Rules are the types of lrp/rule_policies.hpp, a header for .cu files as well: epsilon_rule, attn_rule, z_plus_rule,
// alpha_beta_rule, identity_rule. They stand above this folder and are asked for their `kind` alone.
#pragma once

#include <cmath>
#include <string>
#include <type_traits>

#include <headred/core/number_text.hpp>
#include <headred/device/entries.hpp>
#include <headred/device/softmax.hpp>

namespace headred::device {

/// A rule of relevance as a type.
template <class Rule>
concept relevance_policy = requires {
  Rule::kind;
  std::remove_cvref_t<decltype(Rule::kind)>::alpha_beta;
};

namespace detail {

template <class Rule>
using kind_of_rule = std::remove_cvref_t<decltype(Rule::kind)>;
/// Rules that treat contributions by their sign; the others need sums alone.
template <class Rule>
inline constexpr bool by_sign =
    Rule::kind == kind_of_rule<Rule>::alpha_beta || Rule::kind == kind_of_rule<Rule>::z_plus;
template <class Rule>
inline constexpr bool is_identity = Rule::kind == kind_of_rule<Rule>::identity;
template <class Rule>
inline constexpr bool is_attn = Rule::kind == kind_of_rule<Rule>::attn;
/// Whether a bias is spread over the contributions to an output.
template <class Rule>
bool spreads_bias(const Rule& rule) {
  return rule.bias == std::remove_cvref_t<decltype(rule.bias)>::spread;
}
template <class Rule>
void refuse_identity(const char* op) {
  if constexpr (is_identity<Rule>) throw argument_error(std::string(op) + ": cannot follow the rule identity");
}

/// Factors of the contributions to an output, by their signs or by their sum; `lost` grows by what they do not hand on.
template <class T>
struct rule_numbers {
  T alpha = T(0), beta = T(0), epsilon = T(0), rest = T(0);

  template <class Rule>
  static rule_numbers of(const Rule& rule) {
    rule_numbers n;
    if constexpr (requires { rule.epsilon; }) {
      if (!(rule.epsilon >= 1e-30 && rule.epsilon <= 1))
        throw argument_error("relevance: epsilon is " + number_text(rule.epsilon) + ", expected within [1e-30,1]");
    }
    n.epsilon = static_cast<T>(rule.epsilon);
    if constexpr (by_sign<Rule>) {
      if (!(std::abs(rule.alpha + rule.beta - 1) <= 1e-12))
        throw argument_error("relevance: alpha " + number_text(rule.alpha) + " and beta " + number_text(rule.beta) +
                             ", expected a sum of 1");
      n.alpha = static_cast<T>(rule.alpha);
      n.beta = static_cast<T>(rule.beta);
      n.rest = static_cast<T>(1 - static_cast<double>(n.alpha) - static_cast<double>(n.beta));
    }
    return n;
  }

  /// In: sums by sign. Out: alpha R / (s+ + eps) and beta R / (s- - eps); no relevance, no factors.
  HEADRED_FUNCTION void turn(T relevance, T& plus, T& minus, T& lost) const {
    const bool none = relevance == T(0);
    plus = none ? T(0) : relevance * alpha / (plus + epsilon);
    minus = none ? T(0) : relevance * beta / (minus - epsilon);
    lost += (plus - minus) * epsilon + relevance * rest;
  }
  /// R / (s + eps sgn(s)), sgn(0) = 1.
  HEADRED_FUNCTION T of_sum(T relevance, T sum, T& lost) const {
    if (relevance == T(0)) return T(0);
    const T stabiliser = sum < T(0) ? -epsilon : epsilon, factor = relevance / (sum + stabiliser);
    lost += factor * stabiliser;
    return factor;
  }
};

/// R as it is.
struct as_it_is {
  template <class T>
  HEADRED_FUNCTION static T value(T x) {
    return x;
  }
};

template <class T>
struct term_as_double {
  const T* terms;  // (count, 3)
  HEADRED_FUNCTION double operator()(index_t term, index_t i) const { return static_cast<double>(terms[3 * i + term]); }
};
struct store_term {
  tensor_view<double, 1, device_space> to;
  HEADRED_FUNCTION void operator()(index_t term, double value) const { to(term) = value; }
};

using term_sums = tensor_view<double, 1, device_space>;

inline void require_terms(const char* op, const term_sums& to) {
  if (to.data() != nullptr) require_shape(op, "terms", to, {3});
}
/// to = the sums of `count` triples, in double and in one order.
template <class T, class Backend>
void sum_terms(Backend& be, const T* terms, index_t count, const term_sums& to) {
  if (to.data() == nullptr) return;
  be.reduce(3, count, 0., term_as_double<T>{terms}, headred::detail::add{}, store_term{to});
}

}  // namespace detail
}  // namespace headred::device
