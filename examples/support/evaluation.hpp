// The measures of evaluate_model: pairs decoded and scored, masked tokens guessed.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <headred/core/random.hpp>
#include <headred/io/load_transformer.hpp>
#include <headred/io/mapped_file.hpp>
#include <headred/nn/beam_search.hpp>
#include <headred/nn/greedy.hpp>
#include <headred/nn/metrics/bleu.hpp>
#include <headred/nn/metrics/character_error_rate.hpp>
#include <headred/nn/metrics/exact_match.hpp>
#include <headred/nn/metrics/masked_tokens.hpp>
#include <headred/nn/metrics/nll.hpp>

#include <nlohmann/json.hpp>

#include "interrupt.hpp"
#include "one_line.hpp"
#include "pair_data.hpp"
#include "progress_bar.hpp"

namespace examples {

struct evaluation_settings {
  std::string model, data, out, hypotheses;
  bool wide = false;   // f64
  bool words = false;  // pairs are cut at blanks, not into characters
  index_t batch = 64;
  headred::beam_options search{.beam = 1, .max_length = 200};
  index_t masked = 20;  // tokens of a sentence
  std::string mask = "[MASK]";
  std::uint64_t seed = 1;
  int threads = 0;
};

struct evaluation_result {
  nlohmann::ordered_json metrics;
  std::vector<std::string> hypotheses;
};

/// The symbols between blanks.
inline std::vector<std::string> symbols_of(const std::string& line) {
  std::vector<std::string> symbols;
  for (std::size_t at = line.find_first_not_of(" \t"); at != line.npos; at = line.find_first_not_of(" \t", at)) {
    const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
    symbols.push_back(line.substr(at, end - at));
    at = end;
  }
  return symbols;
}

/// The model's vocabulary in its folder; its size must be the model's.
inline headred::vocabulary model_vocabulary(const std::filesystem::path& path, index_t expected) {
  headred::vocabulary v = headred::load_vocabulary(path);
  if (v.size() != expected)
    throw headred::file_error(path.string(), "has " + std::to_string(v.size()) + " symbols, expected the model's " +
                                                 std::to_string(expected));
  return v;
}

/// Throws error for more tokens than positions.
inline void require_positions(std::size_t tokens, index_t positions) {
  if (static_cast<index_t>(tokens) > positions)
    throw headred::error(std::to_string(tokens) + " tokens, expected at most the model's " + std::to_string(positions) +
                         " positions");
}
/// Throws file_error where the model's losses are no numbers.
inline void require_finite(const std::string& model, const headred::nll_sum& nll) {
  if (!std::isfinite(nll.nats))
    throw headred::file_error(model, "gives losses that are not finite, as weights do that are not");
}

/// Pairs decoded and scored. Batches hold sentences of like length; results come back in the order of the file.
template <class Real>
evaluation_result evaluate_pairs(headred::transformer<Real, headred::cpu>& model, const evaluation_settings& s) {
  const headred::transformer_config& c = model.config();
  const std::filesystem::path folder = s.model;
  const auto from = model_vocabulary(folder / "source_vocabulary.txt", c.source.vocabulary);
  const auto to = model_vocabulary(folder / "target_vocabulary.txt", c.target.vocabulary);
  const auto pairs = headred::load_parallel_text(s.data);
  const std::string between = s.words ? " " : "";
  std::vector<std::vector<headred::token_id>> sources, targets;
  std::vector<std::string> references;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto encode = [&](const headred::vocabulary& v, const std::string& text, index_t positions) {
      try {
        auto ids = s.words ? v.encode(symbols_of(text)) : v.encode_characters(text);
        if (ids.empty()) throw headred::error("holds no token");
        require_positions(ids.size(), positions);
        return ids;
      } catch (const headred::error& problem) {
        throw headred::file_error(s.data, "line " + std::to_string(i + 1) + ": " + problem.what());
      }
    };
    sources.push_back(encode(from, pairs[i].source, positions_of(c.source)));
    targets.push_back(encode(to, pairs[i].target, positions_of(c.target) - 1));  // behind the first token
    references.push_back(pairs[i].target);
  }
  std::vector<std::size_t> order(pairs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sources[a].size() < sources[b].size(); });

  headred::incremental_decoder<Real, headred::cpu> decoder(model);
  headred::tape<Real, headred::cpu> tape(model.backend(), headred::tape_mode::inference);
  evaluation_result result;
  result.hypotheses.resize(pairs.size());
  headred::nll_sum nll;
  index_t cut_off = 0;
  progress_bar bar("sentences", static_cast<long>(pairs.size()));
  for (std::size_t i = 0; i < order.size(); i += static_cast<std::size_t>(s.batch)) {
    stop_if_interrupted();
    const std::size_t end = std::min(order.size(), i + static_cast<std::size_t>(s.batch));
    headred::token_batch source, target;
    for (std::size_t j = i; j < end; ++j) {
      source.add(sources[order[j]]);
      target.add(targets[order[j]]);
    }
    const auto nats = headred::target_nll(model, tape, source, target);
    std::vector<headred::hypothesis> found;
    if (s.search.beam == 1)
      found = headred::greedy(decoder, source, {.max_length = s.search.max_length});
    else
      for (auto& best : headred::beam_search(decoder, source, s.search)) found.push_back(std::move(best.at(0)));
    for (std::size_t j = i; j < end; ++j) {
      const std::size_t n = order[j];
      result.hypotheses[n] = to.decode(found[j - i].ids, between);
      cut_off += found[j - i].ended ? 0 : 1;
      // the end token counts as one character
      nll += {nats[j - i], static_cast<index_t>(targets[n].size()) + 1,
              static_cast<index_t>(headred::code_points(references[n]).size()) + 1};
    }
    bar.advance(static_cast<long>(end));
  }
  require_finite(s.model, nll);
  auto& m = result.metrics;
  m["sentences"] = pairs.size();
  m["cut_off"] = cut_off;
  m["exact_match"] = headred::exact_match(result.hypotheses, references);
  headred::character_errors errors;
  for (std::size_t i = 0; i < pairs.size(); ++i) errors.add(result.hypotheses[i], references[i]);
  m["cer"] = errors.rate();
  m["edits"] = errors.edits;
  m["reference_characters"] = errors.reference_characters;
  m["nll_per_character"] = nll.per_character();
  m["nll_per_token"] = nll.per_token();
  m["perplexity"] = nll.perplexity();
  if (std::any_of(references.begin(), references.end(), [](const auto& r) { return symbols_of(r).size() > 1; }))
    m["bleu"] = headred::bleu(result.hypotheses, references).score;
  return result;
}

/// Tokens masked one at a time: of each sentence at most s.masked, drawn without repetition, never the first or last.
template <class Real>
evaluation_result evaluate_masked(headred::transformer<Real, headred::cpu>& model, const evaluation_settings& s) {
  const auto symbols = model_vocabulary(std::filesystem::path(s.model) / "vocab.txt", model.config().source.vocabulary);
  const auto mask = symbols.find(s.mask);
  if (!mask) throw headred::file_error(s.model, "the vocabulary has no symbol " + in_quotes(s.mask) + " (--mask)");
  const headred::mapped_file file(s.data);
  const auto lines = headred::detail::text_lines(headred::detail::text_of(file));
  headred::tape<Real, headred::cpu> tape(model.backend(), headred::tape_mode::inference);
  headred::nll_sum nll;
  index_t right = 0, sentences = 0;
  progress_bar bar("sentences", static_cast<long>(lines.size()));
  for (std::size_t l = 0; l < lines.size(); ++l) {
    stop_if_interrupted();
    std::vector<headred::token_id> ids;
    try {
      ids = symbols.encode(symbols_of(std::string(lines[l])));
      require_positions(ids.size(), positions_of(model.config().source));
    } catch (const headred::error& problem) {
      throw headred::file_error(s.data, "line " + std::to_string(l + 1) + ": " + problem.what());
    }
    bar.advance(static_cast<long>(l) + 1);
    if (ids.size() < 3) continue;
    ++sentences;
    // the first places of a random order
    std::vector<index_t> places(ids.size() - 2);
    std::iota(places.begin(), places.end(), index_t{1});
    const headred::random_stream draws(s.seed, l);
    const std::size_t count = std::min(places.size(), static_cast<std::size_t>(s.masked));
    for (std::size_t i = 0; i < count; ++i) std::swap(places[i], places[i + draws.below(i, places.size() - i)]);
    places.resize(count);
    for (std::size_t i = 0; i < count; i += static_cast<std::size_t>(s.batch)) {
      headred::token_batch batch;
      std::vector<index_t> rows;
      std::vector<headred::token_id> answers;
      for (std::size_t j = i; j < std::min(count, i + static_cast<std::size_t>(s.batch)); ++j) {
        rows.push_back(batch.tokens() + places[j]);
        answers.push_back(ids[static_cast<std::size_t>(places[j])]);
        batch.add(ids);
        batch.ids[static_cast<std::size_t>(rows.back())] = *mask;
      }
      const auto found = headred::predict_masked<Real>(model, tape, batch, rows, answers);
      for (std::size_t j = 0; j < found.size(); ++j) {
        nll += {found[j].nats, 1, 0};
        right += found[j].best == answers[j] ? 1 : 0;
      }
    }
  }
  if (nll.tokens == 0) throw headred::file_error(s.data, "no line has 3 tokens or more, which masking needs");
  require_finite(s.model, nll);
  evaluation_result result;
  auto& m = result.metrics;
  m["sentences"] = sentences;
  m["masked_tokens"] = nll.tokens;
  m["masked_accuracy"] = static_cast<double>(right) / static_cast<double>(nll.tokens);
  m["nll_per_token"] = nll.per_token();
  m["perplexity"] = nll.perplexity();
  return result;
}

/// Loads the model and takes the measure that fits it.
template <class Real>
evaluation_result evaluate(headred::cpu& be, const evaluation_settings& s) {
  auto loaded = headred::load_transformer<Real>(be, s.model);
  headred::transformer<Real, headred::cpu> model(be, std::move(loaded.config), std::move(loaded.weights));
  const headred::transformer_config& c = model.config();
  if (c.has_cross() && c.output != headred::output_head::none) return evaluate_pairs<Real>(model, s);
  if (c.kind == headred::architecture::encoder && c.output == headred::output_head::masked_lm)
    return evaluate_masked<Real>(model, s);
  throw headred::file_error(s.model,
                            "is neither an encoder-decoder nor a masked language model, which can be evaluated");
}

}  // namespace examples
