// verdict: what counted tokens say about a share, and how surely.
#pragma once

#include <cmath>
#include <string>
#include <string_view>

#include <headred/core/config.hpp>
#include <headred/core/error.hpp>
#include <headred/core/number_text.hpp>

namespace headred {

/// Whether a head has a role; too_few: fewer tokens speak than the least number asked for.
enum class verdict { no, yes, too_few };

/// The name of a verdict.
constexpr std::string_view to_string(verdict v) noexcept {
  switch (v) {
    case verdict::no: return "no";
    case verdict::yes: return "yes";
    case verdict::too_few: return "too_few";
  }
  return "unknown";
}

/// An interval of shares, in [0,1].
struct share_interval {
  double low = 0, high = 1;
};

/// Wilson's 95 % interval of a share: (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n), p = count/n, z = 1.96.
/// In [0,1]; [0,1] for n = 0; ends at 0 and 1 exactly for count = 0 and count = n. It takes the tokens for independent,
/// which tokens of one sentence are not quite. Wilson (JASA 1927).
inline share_interval wilson_interval(index_t count, index_t tokens) {
  if (tokens <= 0) return {};
  constexpr double z = 1.959963984540054, square = z * z;
  const double n = static_cast<double>(tokens), p = static_cast<double>(count) / n, unit = 1 / (1 + square / n);
  const double middle = (p + square / (2 * n)) * unit;
  const double half = z * std::sqrt(p * (1 - p) / n + square / (4 * n * n)) * unit;
  return {count <= 0 ? 0 : middle - half, count >= tokens ? 1 : middle + half};
}

/// When a share is a role.
struct verdict_rule {
  double threshold = .5;    ///< least share that is a yes, itself included
  index_t min_tokens = 30;  ///< below, no verdict: at 30 tokens the interval is up to 34 points wide
  /// Also no verdict while the interval holds the threshold. Off: the definition decides by the share alone, and
  /// `role_evidence::settled` says whether the interval agrees.
  bool settled_only = false;
};

/// Tokens that speak for a role out of those that were asked, and what follows.
struct role_evidence {
  index_t count = 0;   ///< tokens that speak for the role
  index_t tokens = 0;  ///< tokens asked
  double share = 0;    ///< count / tokens, 0 for no token
  share_interval interval{};
  double threshold = 0;
  verdict says = verdict::too_few;
  bool settled = false;  ///< the threshold lies outside of the interval
};

namespace detail {

inline void require_rule(const char* who, const verdict_rule& rule) {
  if (!(rule.threshold >= 0 && rule.threshold <= 1))
    throw argument_error(std::string(who) + ": threshold is " + number_text(rule.threshold) +
                         ", expected a number in [0,1]");
  if (rule.min_tokens < 1)
    throw argument_error(std::string(who) + ": min_tokens is " + std::to_string(rule.min_tokens) +
                         ", expected at least 1");
}

}  // namespace detail

/// The evidence of `count` out of `tokens` tokens under a rule. `over` tokens are had for nothing: yes is
/// (count - over) / tokens >= rule.threshold, on unrounded values (a quotient, so that 9 of 10 reaches .9).
inline role_evidence judge(index_t count, index_t tokens, const verdict_rule& rule, index_t over = 0) {
  role_evidence e;
  e.count = count;
  e.tokens = tokens;
  const double n = static_cast<double>(tokens);
  e.interval = wilson_interval(count, tokens);
  e.threshold = rule.threshold + (tokens > 0 ? static_cast<double>(over) / n : 0);
  if (tokens > 0) e.share = static_cast<double>(count) / n;
  e.settled = tokens > 0 && (e.threshold < e.interval.low || e.threshold > e.interval.high);
  if (tokens < rule.min_tokens || (rule.settled_only && !e.settled)) return e;
  e.says = static_cast<double>(count - over) / n >= rule.threshold ? verdict::yes : verdict::no;
  return e;
}

}  // namespace headred
