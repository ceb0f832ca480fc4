// The roles of a translator's heads, before it gets gates.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/nn/for_each_attention.hpp>
#include <headred/prune/model_layout.hpp>

#include "importance_words.hpp"
#include "pruning_task.hpp"

namespace examples {

/// The roles by kind, counted on 300 sentences: of the grammar, whose trees and rare words are known, or of those to
/// report on.
inline std::vector<headred::head_roles> roles_of(headred::transformer<float, headred::cpu>& model,
                                                 const pruning_task& task, bool grammar) {
  constexpr std::size_t most = 300;
  described_sentences words;
  if (grammar) {
    words = grammar_facts(200, most);
  } else {
    words.sources = task.eval.sources;
    words.targets = task.eval.targets;
    words.sources.resize(std::min(most, words.sources.size()));
    if (!words.targets.empty()) words.targets.resize(words.sources.size());
    for (const auto& s : words.sources) words.facts.emplace_back().ids = s;
  }
  headred::token_batch source, target;
  std::vector<sentence_facts> targets;
  bool ends = true;
  for (const auto& s : words.sources) {
    source.add(s);
    ends = ends && !s.empty() && s.back() == task.end_id;
  }
  std::vector<headred::token_id> input;
  for (const auto& t : words.targets) {
    input.assign(1, task.begin_id);
    input.insert(input.end(), t.begin(), t.end());
    target.add(input);
    targets.emplace_back().ids = input;
  }
  const headred::plan_layout layout = headred::model_layout(model.config());
  std::map<headred::attention_kind, role_finder> finders;
  for (const auto kind : layout.kinds()) {
    const bool decoder = kind == headred::attention_kind::decoder_self,
               encoder = kind == headred::attention_kind::encoder_self;
    if (layout.heads(kind).size() > 0)
      finders.emplace(kind, role_finder(kind, layout.heads(kind),
                                        {.has_end = ends && !decoder,
                                         .queries_end = ends && encoder,
                                         .self = kind != headred::attention_kind::cross,
                                         .words = grammar && encoder,
                                         .ranks = grammar && encoder,
                                         .tokens = true,
                                         .separators = false,
                                         .most_frequent = 60}));
  }
  headred::for_each_attention(model, source, target, [&](headred::attention_kind kind, index_t b, const auto& layers) {
    const auto found = finders.find(kind);
    if (found == finders.end()) return;
    const auto i = static_cast<std::size_t>(b);
    const bool decoder = kind == headred::attention_kind::decoder_self && !targets.empty();
    const index_t from = source.sentences[i].length, to = targets.empty() ? from : target.sentences[i].length;
    found->second.add(layers, kind == headred::attention_kind::encoder_self ? from : to, decoder ? to : from,
                      decoder ? targets[i] : words.facts[i]);
  });
  std::vector<headred::head_roles> all;
  for (const auto& [kind, finder] : finders) all.push_back(finder.roles());
  return all;
}

}  // namespace examples
