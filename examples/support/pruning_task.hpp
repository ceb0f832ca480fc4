// What a model is trained on and measured by: sentence pairs, or sentences whose masked tokens are to be found.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/io/vocabulary.hpp>
#include <headred/nn/batches.hpp>
#include <headred/nn/greedy.hpp>
#include <headred/nn/metrics/character_error_rate.hpp>
#include <headred/nn/op/select_rows.hpp>
#include <headred/nn/translation_grammar.hpp>
#include <headred/nn/uniform_config.hpp>

#include "interrupt.hpp"
#include "pair_data.hpp"

namespace examples {

using headred::index_t;
using headred::token_id;

/// Sentences by number; targets only of an encoder-decoder.
struct text_set {
  headred::corpus sources, targets;

  index_t size() const { return static_cast<index_t>(sources.size()); }
  void add(const text_set& from, std::size_t i) {
    sources.push_back(from.sources[i]);
    if (!from.targets.empty()) targets.push_back(from.targets[i]);
  }
};

/// How good a model is on a set.
struct score {
  double nll = NAN;    ///< nats a token that was to be predicted
  double exact = NAN;  ///< sentences decoded as they should be; of a masked LM: masked tokens found
  double edits = NAN;  ///< edited symbols over reference symbols
};

/// The data of a study, and the tokens that are special to it.
struct pruning_task {
  bool masked = false;  ///< a masked language model
  headred::masking_options masking;
  token_id begin_id = 1, end_id = 2;
  text_set train, select, eval;
  std::vector<token_id> special_source, special_target;

  /// A batch to train on.
  void fill(headred::training_batch& batch, const text_set& set, std::span<const index_t> numbers,
            index_t epoch) const {
    if (masked)
      headred::fill_masked(batch, set.sources, numbers, masking, epoch);
    else
      headred::fill_pairs(batch, set.sources, set.targets, numbers, begin_id, end_id);
  }
  std::vector<index_t> lengths(const text_set& set) const {
    return masked ? headred::sentence_lengths(set.sources) : headred::pair_lengths(set.sources, set.targets);
  }

  /// The score on a set; decoding takes most of the time. Masks are the same whenever it is asked.
  score measure(headred::transformer<float, headred::cpu>& model, const text_set& set, bool decode) const {
    headred::batch_order order(lengths(set), {.tokens = 2048, .shuffle = false});
    headred::tape<float, headred::cpu> t(model.backend(), headred::tape_mode::inference);
    headred::training_batch batch;
    double nats = 0;
    index_t tokens = 0, right = 0;
    for (index_t b = 0; b < order.batches(); ++b) {
      stop_if_interrupted();
      fill(batch, set, order.next(), 0);
      t.clear();
      const auto hidden = model.hidden(t, batch.source, batch.target);
      const auto logits = model.logits(t, batch.rows.empty() ? hidden : headred::select_rows(t, hidden, batch.rows));
      const auto losses = t.input(headred::softmax_cross_entropy(t, logits, batch.labels, 0, 1).losses);
      for (std::size_t r = 0; r < batch.labels.size(); ++r) {
        if (batch.labels[r] < 0) continue;
        const auto row = static_cast<index_t>(r);
        nats += static_cast<double>(losses(row, 0));
        ++tokens;
        const auto values = t.input(logits)[row];
        const float* const best = std::max_element(values.data(), values.data() + values.size());
        right += best - values.data() == batch.labels[r] ? 1 : 0;
      }
    }
    score found;
    found.nll = nats / static_cast<double>(tokens);
    if (masked) found.exact = static_cast<double>(right) / static_cast<double>(tokens);
    if (!masked && decode) decode_all(model, set, found);
    return found;
  }

 private:
  static void decode_all(headred::transformer<float, headred::cpu>& model, const text_set& set, score& found) {
    headred::incremental_decoder<float, headred::cpu> decoder(model);
    index_t right = 0, edits = 0, symbols = 0, longest = 1;
    for (const auto& t : set.targets) longest = std::max(longest, static_cast<index_t>(t.size()));
    for (std::size_t begin = 0; begin < set.sources.size(); begin += 64) {
      stop_if_interrupted();
      headred::token_batch part;
      const std::size_t end = std::min(begin + 64, set.sources.size());
      for (std::size_t i = begin; i < end; ++i) part.add(set.sources[i]);
      const auto words = headred::greedy(decoder, part, {.max_length = 2 * longest + 12});
      for (std::size_t i = begin; i < end; ++i) {
        right += words[i - begin].ids == set.targets[i] ? 1 : 0;
        edits += headred::edit_distance(words[i - begin].ids, set.targets[i]);
        symbols += static_cast<index_t>(set.targets[i].size());
      }
    }
    found.exact = static_cast<double>(right) / static_cast<double>(set.sources.size());
    found.edits = static_cast<double>(edits) / static_cast<double>(symbols);
  }
};

namespace detail {

/// Symbols that stand for no text.
inline std::vector<token_id> special_tokens(const headred::vocabulary& v) {
  std::vector<token_id> ids;
  for (const char* name :
       {"<blank>", "<s>", "</s>", "<unk>", "<pad>", "<mask>", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
    if (const auto id = v.find(name)) ids.push_back(*id);
  for (const std::string& symbol : v.symbols())
    if (symbol.starts_with("[unused") && symbol.ends_with("]")) ids.push_back(*v.find(symbol));
  return ids;
}

inline std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    if (end > at) words.emplace_back(line.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

/// SOURCE<tab>TARGET lines by character, or lines of tokens between spaces, of which those above the positions are left out.
inline text_set read_texts(const std::filesystem::path& file, const headred::transformer_config& c,
                           const headred::vocabulary& source, const headred::vocabulary& target) {
  text_set set;
  if (c.has_cross()) {
    pair_data pairs = character_pairs(file, source, target);
    require_positions(pairs, c);
    set.sources = std::move(pairs.sources);
    set.targets = std::move(pairs.targets);
  } else {
    const headred::mapped_file mapped(file);
    for (const std::string_view line : headred::detail::text_lines(headred::detail::text_of(mapped))) {
      auto ids = source.encode(words_of(line));
      if (!ids.empty() && static_cast<index_t>(ids.size()) <= positions_of(c.source))
        set.sources.push_back(std::move(ids));
    }
    if (set.sources.empty()) throw headred::file_error(file.string(), "has no sentence that fits the model");
  }
  return set;
}

/// Every `step`-th sentence goes to `to`, from the first on.
inline void split(text_set& from, text_set& to, std::size_t step) {
  text_set rest;
  for (std::size_t i = 0; i < from.sources.size(); ++i) (i % step == 0 ? to : rest).add(from, i);
  from = std::move(rest);
}

}  // namespace detail

/// The task of a model in a folder with its vocabularies. Every tenth sentence of the training file is set aside to
/// select by, and, where there is no file to report on, every tenth of the rest for that.
inline pruning_task read_task(const std::filesystem::path& folder, const headred::transformer_config& c,
                              const std::string& data, const std::string& eval) {
  pruning_task task;
  task.begin_id = c.begin_id;
  task.end_id = c.end_id;
  task.masked = c.kind == headred::architecture::encoder;
  const auto source = headred::load_vocabulary(folder / (task.masked ? "vocab.txt" : "source_vocabulary.txt"));
  const auto target = task.masked ? headred::vocabulary() : headred::load_vocabulary(folder / "target_vocabulary.txt");
  task.special_source = detail::special_tokens(source);
  task.special_target = detail::special_tokens(target);
  if (task.masked) {
    task.masking.mask_id = source.id("[MASK]");
    task.masking.vocabulary = c.source.vocabulary;
    task.masking.never = task.special_source;
  }
  if (data.empty()) return task;
  task.train = detail::read_texts(data, c, source, target);
  if (!eval.empty())
    task.eval = detail::read_texts(eval, c, source, target);
  else
    detail::split(task.train, task.eval, 10);
  detail::split(task.train, task.select, 10);
  if (task.train.size() == 0 || task.select.size() == 0 || task.eval.size() == 0)
    throw headred::file_error(data, "has too few sentences to train, select and report on");
  return task;
}

/// The invented language pair, for a study without files.
inline pruning_task grammar_task(index_t sentences) {
  pruning_task task;
  const auto draw = [&](text_set& set, std::uint64_t begin, index_t count) {
    pair_data pairs = grammar_pairs(0, begin, count);
    set.sources = std::move(pairs.sources);
    set.targets = std::move(pairs.targets);
  };
  draw(task.train, 1000, sentences);
  draw(task.select, 0, 60);
  draw(task.eval, 200, 200);
  task.special_source =
      task.special_target = {headred::translation_grammar::pad_id, headred::translation_grammar::begin_id,
                             headred::translation_grammar::end_id};
  return task;
}
inline headred::transformer_config grammar_model() {
  const headred::translation_grammar grammar;
  return headred::uniform_config({.layers = 2,
                                  .width = 48,
                                  .heads = 6,
                                  .source_vocabulary = grammar.source_vocabulary(),
                                  .target_vocabulary = grammar.target_vocabulary(),
                                  .max_positions = 64});
}

}  // namespace examples
