// What attention maps alone tell: confidence and roles.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/backend/tensor.hpp>
#include <headred/cluster/cluster_count.hpp>
#include <headred/importance/confidence.hpp>
#include <headred/prune/schedule.hpp>

#include "attention_files.hpp"
#include "importance_report.hpp"
#include "importance_settings.hpp"
#include "importance_words.hpp"
#include "interrupt.hpp"
#include "progress_bar.hpp"

namespace examples {

namespace detail {

/// The accumulators, made when the first sentence has shown the layout.
class map_reader {
 public:
  map_reader(headred::cpu& be, const importance_settings& s, described_sentences& words, bool ranks)
      : be_(be), settings_(s), words_(words), ranks_(ranks) {}

  void add(const headred::tensor_view<const double, 4>& maps, index_t length, const sentence_name& name) {
    const index_t queries = length < 0 ? maps.extent(2) : length, keys = length < 0 ? maps.extent(3) : length;
    const headred::sentence_options options{.length = length};
    static const sentence_facts nothing;
    const sentence_facts& facts = words_.empty() ? nothing : words_.match(name.text(), sentences_, keys);
    if (!confidence_) {
      const bool ends = words_.empty() ? !settings_.no_end_token : words_.has_end;
      const headred::head_layout layout(maps.extent(0), maps.extent(1));
      const bool self = maps.extent(2) == maps.extent(3);
      const auto end = self ? headred::end_token::excluded : headred::end_token::excluded_as_key;
      confidence_.emplace(be_, layout, headred::confidence_options{.end = ends ? end : headred::end_token::included});
      roles_.emplace(attention_kind::encoder_self, layout,
                     role_settings{.has_end = ends,
                                   .queries_end = self,
                                   .self = self,
                                   .words = !words_.empty(),
                                   .ranks = ranks_,
                                   .tokens = !words_.empty(),
                                   .separators = ends || (!words_.empty() && !words_.by_words)});
    }
    try {
      confidence_->add(maps, options);
      roles_->add(maps, queries, keys, facts, options);
    } catch (const headred::file_error&) {
      throw;
    } catch (const headred::error& problem) {
      throw headred::error(name.text() + ": " + problem.what());
    }
    ++sentences_;
  }

  std::size_t sentences() const { return sentences_; }
  const headred::confidence<headred::cpu>& confidence() const { return *confidence_; }
  headred::head_roles roles() const { return roles_->roles(); }

 private:
  headred::cpu& be_;
  const importance_settings& settings_;
  described_sentences& words_;
  bool ranks_;
  std::optional<headred::confidence<headred::cpu>> confidence_;
  std::optional<role_finder> roles_;
  std::size_t sentences_ = 0;
};

}  // namespace detail

/// Throws file_error for files that cannot be used, or words that do not fit the maps.
inline importance_report report_of_maps(headred::cpu& be, const importance_settings& s) {
  const auto files = attention_files(s.attention);
  index_t all = 0;
  for (const auto& file : files) all += count_sentences(file);
  const auto list = read_frequencies(s.frequencies);
  described_sentences words;
  if (!s.sentences_json.empty()) words = read_sentences_json(s.sentences_json, list);
  if (!s.conllu.empty()) words = read_treebank(s.conllu, list);
  if (!words.empty() && words.ids.empty() && static_cast<index_t>(words.facts.size()) != all)
    throw headred::file_error(
        words.file, "has " + plural(words.facts.size(), "sentence") + ", but the maps " + std::to_string(all));
  importance_report r;
  detail::map_reader reader(be, s, words, list.has_value());
  progress_bar bar("sentences", static_cast<long>(all));
  for (const auto& file : files) {
    const std::string remark =
        for_each_sentence<double>(be, file, s.scale, [&](const auto& maps, index_t length, const auto& name) {
          stop_if_interrupted();
          reader.add(maps, length, name);
          bar.advance(static_cast<long>(reader.sentences()));
        });
    if (!remark.empty()) r.remarks.push_back(one_line(file.filename().string()) + ": " + remark);
  }
  if (reader.sentences() == 0) throw headred::file_error(files.front().string(), "holds no sentence");
  const auto& confidence = reader.confidence();
  r.methods = {"confidence"};
  r.scores = {confidence.scores()};
  r.roles = {reader.roles()};
  const headred::plan_layout layout(confidence.layout());
  r.plan = headred::keep_highest(r.scores.front(), layout, headred::cluster_count(layout.size(), s.prune));
  r.name = plural(reader.sentences(), "sentence") + " of attention maps, " + to_string(layout);
  const auto& counts = confidence.counts();
  r.remarks.push_back("Confidence over " + plural(counts.tokens, "token") +
                      (counts.skipped > 0 ? "; " + plural(counts.skipped, "sentence") + " without one skipped" : "") +
                      (confidence.options().end != headred::end_token::included ? "; end tokens are left out." : "."));
  return r;
}

}  // namespace examples
