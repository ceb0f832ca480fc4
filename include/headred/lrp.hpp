// Rules of relevance, their ledger, and scratch memory; the ops and the tape that follow them come with nn.hpp.
#pragma once

#include <headred/lrp/relevance_ledger.hpp>
#include <headred/lrp/relevance_rule.hpp>
#include <headred/lrp/relevance_rules.hpp>
#include <headred/lrp/relevance_workspace.hpp>
#include <headred/lrp/rule_policies.hpp>
