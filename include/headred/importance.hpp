// Which heads matter, and what they do: scores of every criterion, roles, comparisons. Knows no model.
#pragma once

#include <headred/importance/confidence.hpp>
#include <headred/importance/end_token.hpp>
#include <headred/importance/exact_sum.hpp>
#include <headred/importance/head_relevance.hpp>
#include <headred/importance/head_scores.hpp>
#include <headred/importance/layer_counts.hpp>
#include <headred/importance/rank_comparison.hpp>
#include <headred/importance/roles/attention_patterns.hpp>
#include <headred/importance/roles/head_roles.hpp>
#include <headred/importance/roles/key_targets.hpp>
#include <headred/importance/roles/positional_heads.hpp>
#include <headred/importance/roles/rare_tokens.hpp>
#include <headred/importance/roles/repeated_tokens.hpp>
#include <headred/importance/roles/syntactic_heads.hpp>
#include <headred/importance/roles/target_heads.hpp>
#include <headred/importance/roles/verdict.hpp>
#include <headred/importance/roles/word_attention.hpp>
#include <headred/importance/taylor.hpp>
