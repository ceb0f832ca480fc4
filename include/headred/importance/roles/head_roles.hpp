// head_roles: what was found out about the heads of one attention kind.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <headred/core/head.hpp>
#include <headred/core/head_layout.hpp>
#include <headred/importance/roles/verdict.hpp>

namespace headred {

/// One head and one role.
struct head_role {
  std::string role;    ///< "positional", "syntactic", "rare_word", or what the caller named it
  std::string detail;  ///< "offset -1", "nsubj dependent_to_head"; empty where the role says it all
  head_id head;
  role_evidence evidence;
  double mass = -1;    ///< mean attention on what the role looks at, in [0,1]; -1: not measured
  double chance = -1;  ///< what guessing reaches: the syntactic baseline, or uniform attention; -1: not measured
};

/// The roles of the heads of one attention kind, gathered from any of the accumulators.
struct head_roles {
  attention_kind kind = attention_kind::encoder_self;
  head_layout layout;
  std::vector<head_role> roles;

  /// Adds what an accumulator has found.
  void append(std::vector<head_role> more) {
    for (head_role& role : more) roles.push_back(std::move(role));
  }
  /// Entries whose verdict is yes, in order.
  std::vector<head_role> found() const {
    std::vector<head_role> yes;
    for (const head_role& role : roles)
      if (role.evidence.says == verdict::yes) yes.push_back(role);
    return yes;
  }
};

}  // namespace headred
