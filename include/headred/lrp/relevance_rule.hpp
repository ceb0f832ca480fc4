// relevance_rule: how an op hands the relevance of its outputs to its inputs.
#pragma once

#include <cmath>
#include <string>

#include <headred/core/error.hpp>
#include <headred/core/number_text.hpp>

namespace headred {

/// The formula of a rule, see relevance_rule.
enum class rule_kind { alpha_beta, epsilon, z_plus, attn, identity };

/// Where the part of an output that no input made (a bias) goes: to all inputs alike, or nowhere, which the ledger
/// reports.
enum class bias_mode { spread, absorbed };

/// Attention is a function of queries, keys and values (joint), or of the values alone, its probabilities being
/// constants.
enum class attention_mode { joint, constant };

/// A rule as a value. With contributions z_oi of input i to output o, s_o = sum_i z_oi, s+ and s- the sums by sign:
///   alpha_beta  R_i = sum_o R_o (alpha z+_oi / (s+_o + eps) + beta z-_oi / (s-_o - eps)), alpha + beta = 1
///   epsilon     R_i = sum_o R_o z_oi / (s_o + eps sgn(s_o)), sgn(0) = 1
///   z_plus      alpha_beta with alpha = 1, beta = 0
///   attn        epsilon for linear and add, half to each factor of a product, its own rule for softmax
///   identity    R_i = R_o, for ops whose input and output have one shape
/// With `rescale` what an op hands on is multiplied per sample: R <- R sum|R_out| / (sum|R_in| + eps).
/// Source: Bach et al. 2015; Voita et al. 2019, section 4; Achtibat et al. 2024 (attn).
struct relevance_rule {
  rule_kind kind = rule_kind::alpha_beta;
  double alpha = .5;
  double beta = .5;
  double epsilon = 1e-5;
  bool rescale = true;
  bias_mode bias = bias_mode::spread;
  attention_mode attention = attention_mode::joint;

  /// By sign, rescaled. Throws argument_error unless a + b = 1 and eps is in [1e-30,1].
  static relevance_rule alpha_beta(double a = .5, double b = .5, double eps = 1e-5) {
    relevance_rule r{rule_kind::alpha_beta, a, b, eps};
    r.validate();
    return r;
  }
  /// By sums with a stabiliser, not rescaled, as all that follow. Throws argument_error for eps outside [1e-30,1].
  static relevance_rule of_epsilon(double eps = 1e-5) { return plain(rule_kind::epsilon, eps); }
  /// By positive contributions alone.
  static relevance_rule z_plus(double eps = 1e-5) { return plain(rule_kind::z_plus, eps); }
  /// AttnLRP.
  static relevance_rule attn(double eps = 1e-5) { return plain(rule_kind::attn, eps); }
  /// What comes out goes in.
  static relevance_rule identity() { return plain(rule_kind::identity, 1e-5); }

  /// Throws argument_error unless alpha + beta = 1 and epsilon is in [1e-30,1].
  void validate() const {
    if (!(epsilon >= 1e-30 && epsilon <= 1))
      throw argument_error("relevance_rule: epsilon is " + number_text(epsilon) + ", expected [1e-30,1]");
    if (kind < rule_kind::alpha_beta || kind > rule_kind::identity)
      throw argument_error("relevance_rule: unknown kind " + std::to_string(static_cast<int>(kind)));
    if (kind == rule_kind::alpha_beta && !(std::abs(alpha + beta - 1) <= 1e-12))
      throw argument_error("relevance_rule: alpha is " + number_text(alpha) + " and beta " + number_text(beta) +
                           ", expected alpha + beta = 1; a rule (a,b) with a - b = 1 is (a,-b) here");
  }

 private:
  static relevance_rule plain(rule_kind k, double eps) {
    relevance_rule r{k, 1, 0, eps, false};
    r.validate();
    return r;
  }
};

}  // namespace headred
