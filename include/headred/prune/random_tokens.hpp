// random_tokens: sentences of random tokens, for which no data is needed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <headred/core/random.hpp>
#include <headred/nn/token_batch.hpp>
#include <headred/nn/transformer_config.hpp>

namespace headred {

struct random_token_options {
  index_t sentences = 256;
  index_t min_length = 8, max_length = 128;  ///< of a sentence with its frame; cut to the model's positions
  std::uint64_t seed = 1;
  /// What never stands inside a sentence; the configuration's pad_id, begin_id and end_id do not either.
  std::vector<token_id> special_source = {}, special_target = {};
  /// First and last token of a source, -1 for none. Without a value: begin_id and end_id for an encoder, begin_id and
  /// none for a decoder, none for an encoder-decoder (Marian's sources end in end_id: say so).
  std::optional<token_id> source_first = {}, source_last = {};
};

struct random_sentences {
  token_batch source;
  token_batch target;  ///< empty unless the model has cross-attention
};

namespace detail {

class token_drawer {
 public:
  token_drawer(const char* side, const embedding_config& e, std::vector<token_id> special,
               const random_token_options& options)
      : side_(side), options_(options) {
    std::sort(special.begin(), special.end());
    for (index_t id = 0; id < e.vocabulary; ++id)
      if (!std::binary_search(special.begin(), special.end(), static_cast<token_id>(id)))
        tokens_.push_back(static_cast<token_id>(id));
    if (tokens_.empty()) throw argument_error(where() + " vocabulary holds special tokens alone");
    const bool limited = e.positions != positions::none;
    longest_ = limited ? std::min(options.max_length, e.max_positions) : options.max_length;
    shortest_ = std::min(options.min_length, longest_);
  }

  /// A sentence of a length drawn at random, between `first` and `last` where they are not negative.
  void add_to(token_batch& batch, token_id first, token_id last, std::uint64_t stream) {
    const index_t frame = (first >= 0 ? 1 : 0) + (last >= 0 ? 1 : 0);
    if (longest_ < frame + 1)
      throw argument_error(where() + " sentences have at most " + std::to_string(longest_) + " tokens, expected " +
                           std::to_string(frame + 1) + " or more");
    const random_stream random(options_.seed, stream);
    const index_t shortest = std::max(shortest_, frame + 1);
    const auto span = static_cast<std::uint64_t>(longest_ - shortest + 1);
    const index_t inner = shortest + static_cast<index_t>(random.below(0, span)) - frame;
    sentence_.clear();
    if (first >= 0) sentence_.push_back(first);
    for (index_t i = 0; i < inner; ++i)
      sentence_.push_back(tokens_[random.below(static_cast<std::uint64_t>(i) + 1, tokens_.size())]);
    if (last >= 0) sentence_.push_back(last);
    batch.add(sentence_);
  }

 private:
  std::string where() const { return "random_tokens: the " + std::string(side_); }

  const char* side_;
  const random_token_options& options_;
  index_t shortest_ = 0, longest_ = 0;
  std::vector<token_id> tokens_, sentence_;
};

}  // namespace detail

/// Sentences whose lengths are uniform over [min_length, max_length] and whose tokens are uniform over the vocabulary
/// without special ones, framed as the model's own are; a decoder with cross-attention gets a random target prefix after
/// its begin_id, of a length of its own. A pure function of its arguments; sentence b is the same whatever their number.
/// Throws argument_error for lengths that are not 1 <= min <= max, sentences < 1, a model without room or without ordinary
/// tokens, a frame outside the vocabulary. Source: Bian et al. 2021, section 7; numbers and lengths ours.
inline random_sentences random_tokens(const transformer_config& config, const random_token_options& options = {}) {
  constexpr index_t most = std::numeric_limits<std::int32_t>::max();
  if (options.sentences < 1 || options.sentences > most)
    throw argument_error("random_tokens: " + std::to_string(options.sentences) + " sentences, expected at least 1");
  if (options.min_length < 1 || options.max_length < options.min_length || options.max_length > most)
    throw argument_error("random_tokens: lengths from " + std::to_string(options.min_length) + " to " +
                         std::to_string(options.max_length) + ", expected 1 <= min_length <= max_length");
  const bool two = config.has_cross();
  const auto chosen = [&](const char* name, const std::optional<token_id>& given, token_id own, index_t vocabulary) {
    const token_id id = given.value_or(own);
    if (id < -1 || id >= vocabulary)
      throw argument_error("random_tokens: " + std::string(name) + " is " + std::to_string(id) +
                           ", expected -1 (none) or a token below " + std::to_string(vocabulary));
    return id;
  };
  const token_id first =
      chosen("source_first", options.source_first, two ? -1 : config.begin_id, config.source.vocabulary);
  const token_id last = chosen("source_last", options.source_last,
                               config.kind == architecture::encoder ? config.end_id : -1, config.source.vocabulary);
  const auto specials = [&](std::vector<token_id> special, bool own) {
    if (own) special.insert(special.end(), {config.pad_id, config.begin_id, config.end_id});
    return special;
  };
  std::vector<token_id> source_special = specials(options.special_source, !two || config.shared_embeddings);
  source_special.insert(source_special.end(), {first, last});
  detail::token_drawer source("source", config.source, std::move(source_special), options);

  random_sentences all;
  for (index_t b = 0; b < options.sentences; ++b)
    source.add_to(all.source, first, last, 2 * static_cast<std::uint64_t>(b));
  if (!two) return all;
  const token_id begin = chosen("begin_id", {}, config.begin_id, config.target.vocabulary);
  detail::token_drawer target("target", config.target, specials(options.special_target, true), options);
  for (index_t b = 0; b < options.sentences; ++b)
    target.add_to(all.target, begin, -1, 2 * static_cast<std::uint64_t>(b) + 1);
  return all;
}

}  // namespace headred
