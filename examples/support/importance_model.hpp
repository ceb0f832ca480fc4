// A model's heads: scored on samples of sentences, their roles, and what is left of the model without them.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <headred/io/load_transformer.hpp>

#include "importance_criteria.hpp"
#include "importance_curves.hpp"
#include "importance_report.hpp"
#include "importance_words.hpp"

namespace examples {

/// The model, read or trained, and its task.
class scored_model {
 public:
  scored_model(headred::cpu& be, const importance_settings& s) : settings_(s) {
    if (s.of_grammar()) {
      name_ = "a model trained on the invented language";
      task_ = grammar_task(4000);
      model_.emplace(be, grammar_model());
      headred::initialize(be, model_->weights(), s.study.seed);
      pruning_settings first = s.study;
      first.rate = 5e-3;
      pruning_lab(be, first, task_, *model_).train(*model_, s.train);
    } else {
      const std::filesystem::path folder(s.model);
      name_ = one_line((folder.has_filename() ? folder : folder.parent_path()).filename().string());
      auto loaded = headred::load_transformer<float>(be, s.model);
      task_ = read_task(s.model, loaded.config, s.data, s.eval);
      model_.emplace(be, loaded.config, std::move(loaded.weights));
    }
    model_->train(false);
    if (!s.conllu.empty()) {
      if (!task_.masked)
        throw headred::error("--conllu: " + name_ + " translates; expected a masked LM that reads word pieces");
      treebank_ = read_treebank(s.conllu, read_frequencies(s.frequencies), std::filesystem::path(s.model) / "vocab.txt",
                                model_->config().source.max_positions);
    }
    layout_ = headred::model_layout(model_->config());
    for (const attention_kind kind : s.kinds.empty() ? layout_.kinds() : s.kinds) {
      if (!layout_.contains(kind))
        throw headred::error("--kinds: the model has no " + std::string(to_string(kind)) + ", expected of " +
                             to_string(layout_));
      const index_t heads = layout_.heads(kind).size();
      if (heads > 0) kinds_.push_back(kind);
      if (heads > 0 && !s.remove.empty() && s.remove.back() >= heads)
        throw headred::error("--remove: " + std::to_string(s.remove.back()) + " heads of " +
                             std::string(to_string(kind)) + ", expected fewer than the " + std::to_string(heads) +
                             " that there are");
    }
    if (kinds_.empty()) throw headred::error("the model has no heads of these kinds");
  }

  importance_report report() {
    importance_report r;
    r.name = name_ + ": " + to_string(layout_);
    r.methods = settings_.methods;
    const sampler sentences(task_, task_.train, settings_.sentences, settings_.study.seed);
    const scoring_sample first = sentences.sample(0);
    const bool ends = sources_end(task_, first.source);
    r.remarks.push_back("Scored on " + plural(sentences.sentences(), "sentence") + " of the training data" +
                        (ends ? ", whose end tokens confidence leaves out." : "."));
    for (index_t i = 0; i < settings_.samples; ++i) {
      const scoring_sample sample = i == 0 ? first : sentences.sample(i);
      auto& found = samples_.emplace_back();
      for (const std::string& method : settings_.methods)
        found.push_back(score_heads(method, *model_, sample, ends, kinds_, i == 0 ? &r.ledger : nullptr));
    }
    for (const criterion& c : samples_.front()) r.scores.push_back(c.scores);
    r.plan = samples_.front().front().plan(layout_, kinds_, settings_.prune);
    find_roles(r, first, ends);
    return r;
  }

  /// What --curve asks for, after report().
  importance_curves curves(headred::cpu& be) {
    pruning_lab lab(be, settings_.study, task_, *model_);
    return measure_curves(lab, settings_, layout_, kinds_, samples_);
  }
  index_t eval_sentences() const { return task_.eval.size(); }

 private:
  /// What is known of the sentences that roles are counted on, and these themselves.
  described_sentences described(const scoring_sample& sample, bool& ends, scoring_sample& read) {
    described_sentences words;
    if (settings_.of_grammar()) {
      words = grammar_facts(200, 300);
    } else if (!treebank_.empty()) {
      words = treebank_;
    } else {
      read.source = sample.source;
      read.target = sample.target;
      for (const auto& s : sample.source.sentences) {
        sentence_facts& facts = words.facts.emplace_back();
        facts.ids.assign(sample.source.ids.begin() + s.begin, sample.source.ids.begin() + s.begin + s.length);
        facts.separator = marked(facts.ids, task_.special_source);
      }
      return words;
    }
    for (const auto& s : words.sources) read.source.add(s);
    std::vector<headred::token_id> input;
    for (const auto& t : words.targets) {
      input.assign(1, task_.begin_id);
      input.insert(input.end(), t.begin(), t.end());
      read.target.add(input);
    }
    ends = words.has_end;
    return words;
  }
  static std::vector<std::uint8_t> marked(const std::vector<std::int32_t>& ids,
                                          const std::vector<headred::token_id>& special) {
    std::vector<std::uint8_t> found;
    for (const auto id : ids) found.push_back(std::find(special.begin(), special.end(), id) != special.end() ? 1 : 0);
    return found;
  }

  static bool separated(const std::vector<sentence_facts>& all) {
    return std::any_of(all.begin(), all.end(), [](const sentence_facts& f) {
      return std::find(f.separator.begin(), f.separator.end(), 1) != f.separator.end();
    });
  }

  void find_roles(importance_report& r, const scoring_sample& sample, bool ends) {
    scoring_sample read;
    const described_sentences sources = described(sample, ends, read);
    std::vector<sentence_facts> targets;
    for (const auto& s : read.target.sentences) {
      sentence_facts& facts = targets.emplace_back();
      facts.ids.assign(read.target.ids.begin() + s.begin, read.target.ids.begin() + s.begin + s.length);
      facts.separator = marked(facts.ids, task_.special_target);
    }
    const bool two = model_->config().has_cross();
    const bool trees = !sources.facts.front().heads.empty(), ranks = !sources.facts.front().ranks.empty();
    std::map<attention_kind, role_finder> finders;
    for (const attention_kind kind : kinds_) {
      const bool decoder = kind == attention_kind::decoder_self, encoder = kind == attention_kind::encoder_self;
      finders.emplace(kind, role_finder(kind, layout_.heads(kind),
                                        {.has_end = ends && !decoder,
                                         .queries_end = ends && encoder,
                                         .self = kind != attention_kind::cross,
                                         .words = trees && encoder,
                                         .ranks = ranks && encoder,
                                         .tokens = true,
                                         .separators = separated(decoder && two ? targets : sources.facts),
                                         .most_frequent = settings_.of_grammar() ? 60 : 500}));
    }
    progress_bar bar("roles", static_cast<long>(read.source.size()));
    headred::for_each_attention(*model_, read.source, read.target,
                                [&](attention_kind kind, index_t b, const auto& layers) {
                                  const auto found = finders.find(kind);
                                  if (found == finders.end()) return;
                                  const auto i = static_cast<std::size_t>(b);
                                  const index_t source = read.source.sentences[i].length,
                                                target = two ? read.target.sentences[i].length : source;
                                  const bool decoder = kind == attention_kind::decoder_self && two;
                                  found->second.add(layers, kind == attention_kind::encoder_self ? source : target,
                                                    decoder ? target : source, decoder ? targets[i] : sources.facts[i]);
                                },
                                {.progress = [&](index_t done) {
                                  stop_if_interrupted();
                                  bar.advance(static_cast<long>(done));
                                  return true;
                                }});
    for (const auto& [kind, finder] : finders) r.roles.push_back(finder.roles());
    std::string text = "Roles counted on " + plural(read.source.size(), "sentence");
    if (!sources.file.empty()) text += " of " + one_line(std::filesystem::path(sources.file).filename().string());
    if (sources.left_out > 0) text += "; " + std::to_string(sources.left_out) + " that the model cannot read left out";
    r.remarks.push_back(text + (trees ? "." : "; without trees nothing can be said of syntactic and rare-word heads."));
  }

  const importance_settings& settings_;
  std::string name_;
  pruning_task task_;
  std::optional<model_type> model_;
  headred::plan_layout layout_;
  std::vector<attention_kind> kinds_;
  described_sentences treebank_;
  std::vector<std::vector<criterion>> samples_;  // [sample][method]
};

}  // namespace examples
