// What attention_masks trains on and measures by: sentences, and which of their tokens are to be found.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/atomic_file.hpp>
#include <headred/nn/batches.hpp>
#include <headred/nn/uniform_config.hpp>

#include <nlohmann/json.hpp>

#include "mask_language.hpp"
#include "mask_settings.hpp"
#include "one_line.hpp"
#include "pruning_task.hpp"

namespace examples {

/// A token that every sentence has at the same place.
struct special_place {
  std::string name;
  index_t place;  ///< below 0: from the end
};

/// Sentences to measure on have their own places that are masked, one at a time.
struct mask_task {
  std::string name;
  headred::masking_options masking;
  headred::corpus train, eval;
  std::vector<std::vector<index_t>> places;
  std::vector<special_place> special;
  index_t longest = 0;   ///< of the sentences to train on
  index_t left_out = 0;  ///< sentences to measure on that are longer, where masks are learned
};

namespace detail {

/// `count` places of each sentence that are not special, drawn without repetition, in ascending order.
inline void draw_places(mask_task& task, index_t count, std::uint64_t seed) {
  for (std::size_t s = 0; s < task.eval.size(); ++s) {
    std::vector<index_t> all;
    for (std::size_t i = 0; i < task.eval[s].size(); ++i)
      if (std::ranges::find(task.masking.never, task.eval[s][i]) == task.masking.never.end())
        all.push_back(static_cast<index_t>(i));
    const headred::random_stream draws(seed, s);
    const std::size_t some = std::min(all.size(), static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < some; ++i) std::swap(all[i], all[i + draws.below(i, all.size() - i)]);
    all.resize(some);
    std::ranges::sort(all);
    task.places.push_back(std::move(all));
  }
}

/// The places of a file such as {"reactions": [{"positions": [2, 3]}, ...]}.
inline std::vector<std::vector<index_t>> read_places(const std::string& file) {
  const headred::mapped_file mapped(file);
  std::vector<std::vector<index_t>> all;
  try {
    const auto text = headred::detail::text_of(mapped);
    const auto content = nlohmann::json::parse(text.begin(), text.end());
    for (const auto& one : content.at("reactions")) {
      std::vector<index_t>& places = all.emplace_back();
      for (const auto& place : one.at("positions")) {
        if (!place.is_number_integer() || std::ranges::find(places, place.get<index_t>()) != places.end())
          throw headred::file_error(file, "entry " + std::to_string(all.size() - 1) + " has the position " +
                                              one_line(place.dump()) + ", expected whole numbers, each once");
        places.push_back(place.get<index_t>());
      }
    }
  } catch (const nlohmann::json::exception&) {
    throw headred::file_error(file, "is no JSON object whose \"reactions\" hold \"positions\"");
  }
  return all;
}

}  // namespace detail

/// The invented language, and the model for it.
inline mask_task language_task(const mask_settings& s) {
  using language = mask_language;
  mask_task task;
  task.name = "a model trained on the invented language";
  task.masking = {.mask_id = language::mask,
                  .vocabulary = language::vocabulary,
                  .lowest = language::word,
                  .never = {language::pad, language::first, language::last, language::mask, language::dialect,
                            language::dialect + 1},
                  .seed = s.seed};
  const language words;
  for (std::uint64_t i = 0; i < 4000; ++i) task.train.push_back(words.sentence(1000000 + i));
  for (index_t i = 0; i < s.sentences; ++i) task.eval.push_back(words.sentence(static_cast<std::uint64_t>(i)));
  task.special = {{"[CLS]", 0}, {"dialect", 1}, {"[SEP]", -1}};
  task.longest = language::length;
  detail::draw_places(task, s.masked, s.seed);
  return task;
}
inline headred::transformer_config language_model() {
  return headred::uniform_config({.kind = headred::architecture::encoder,
                                  .layers = 2,
                                  .width = 48,
                                  .heads = 4,
                                  .feed_forward = 96,
                                  .source_vocabulary = mask_language::vocabulary,
                                  .max_positions = mask_language::length});
}

/// The sentences of a file for a model in a folder.
inline mask_task file_task(const mask_settings& s, const headred::transformer_config& c) {
  if (c.kind != headred::architecture::encoder || c.output != headred::output_head::masked_lm)
    throw headred::file_error(s.model, "is no masked language model");
  const std::filesystem::path folder(s.model);
  const pruning_task known = read_task(folder, c, "", "");  // without data: the tokens alone
  mask_task task;
  task.name = one_line((folder.has_filename() ? folder : folder.parent_path()).filename().string());
  task.masking = known.masking;
  task.masking.seed = s.seed;
  task.special = {{"first token", 0}, {"last token", -1}};
  const auto symbols = headred::load_vocabulary(folder / "vocab.txt");
  text_set all = detail::read_texts(s.data, c, symbols, headred::vocabulary()), eval;
  if (s.places.empty()) {
    detail::split(all, eval, 10);
    task.eval = std::move(eval.sources);
  } else {
    task.places = detail::read_places(s.places);
    if (task.places.size() > all.sources.size())
      throw headred::file_error(s.places, "is for " + plural(task.places.size(), "sentence") + ", " + s.data + " has " +
                                              std::to_string(all.sources.size()));
    for (std::size_t i = 0; i < task.places.size(); ++i) {
      for (const index_t place : task.places[i])
        if (place < 0 || place >= static_cast<index_t>(all.sources[i].size()))
          throw headred::file_error(s.places,
                                    "sentence " + std::to_string(i) + " has no token " + std::to_string(place));
      task.eval.push_back(std::move(all.sources[i]));
    }
    all.sources.erase(all.sources.begin(), all.sources.begin() + static_cast<std::ptrdiff_t>(task.eval.size()));
  }
  for (auto& text : all.sources) {
    if (static_cast<index_t>(text.size()) > s.length) continue;
    task.longest = std::max(task.longest, static_cast<index_t>(text.size()));
    task.train.push_back(std::move(text));
  }
  // Learned masks serve sentences up to the longest that they were trained on.
  for (std::size_t i = task.eval.size(); s.has("masks") && i-- > 0;)
    if (static_cast<index_t>(task.eval[i].size()) > task.longest) {
      task.eval.erase(task.eval.begin() + static_cast<std::ptrdiff_t>(i));
      if (!s.places.empty()) task.places.erase(task.places.begin() + static_cast<std::ptrdiff_t>(i));
      ++task.left_out;
    }
  if (task.eval.empty())
    throw headred::file_error(s.data, "has no sentence of at most " + std::to_string(task.longest) +
                                          " tokens to measure on, the longest that masks are learned for (--length)");
  task.eval.resize(std::min(task.eval.size(), static_cast<std::size_t>(s.sentences)));
  if (s.places.empty()) detail::draw_places(task, s.masked, s.seed);
  task.places.resize(task.eval.size());
  if (std::ranges::all_of(task.places, [](const auto& some) { return some.empty(); }))
    throw headred::file_error(s.places.empty() ? s.data : s.places, "leaves no token to measure on");
  return task;
}

}  // namespace examples
