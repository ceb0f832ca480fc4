// Sentence pairs for the tools: from a file, character by character, or from the translation grammar, word by word.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/core/atomic_file.hpp>
#include <headred/io/parallel_text.hpp>
#include <headred/io/vocabulary.hpp>
#include <headred/nn/batches.hpp>
#include <headred/nn/transformer_config.hpp>
#include <headred/nn/translation_grammar.hpp>

namespace examples {

using headred::index_t;

/// Pairs as token numbers, and the symbols that the numbers mean. Numbers 0, 1, 2 are <pad>, <s>, </s>.
struct pair_data {
  std::string name;
  headred::corpus sources, targets;
  headred::vocabulary source_symbols, target_symbols;
  std::string between;  ///< symbols in text: "" for characters, " " for words

  index_t size() const { return static_cast<index_t>(sources.size()); }
  std::size_t longest() const {
    std::size_t n = 0;
    for (const auto* side : {&sources, &targets})
      for (const auto& s : *side) n = std::max(n, s.size());
    return n;
  }
};

/// Pairs `first` to `first + count` of the grammar, without the end token that its sources carry.
inline pair_data grammar_pairs(std::uint64_t seed, std::uint64_t first, index_t count) {
  const headred::translation_grammar grammar(seed);
  pair_data data;
  data.name = "translation grammar, seed " + std::to_string(seed);
  data.between = " ";
  std::vector<std::string> source, target;
  for (std::int32_t i = 0; i < grammar.source_vocabulary(); ++i) source.push_back(grammar.source_text(i));
  for (std::int32_t i = 0; i < grammar.target_vocabulary(); ++i) target.push_back(grammar.target_text(i));
  data.source_symbols = headred::vocabulary(std::move(source));
  data.target_symbols = headred::vocabulary(std::move(target));
  for (index_t i = 0; i < count; ++i) {
    auto pair = grammar.sentence(first + static_cast<std::uint64_t>(i));
    pair.source.pop_back();
    data.sources.push_back(std::move(pair.source));
    data.targets.push_back(std::move(pair.target));
  }
  return data;
}

/// The characters of one side of some texts, in their order as code points, behind the special symbols.
inline headred::vocabulary character_vocabulary(const std::vector<headred::text_pair>& pairs,
                                                std::string headred::text_pair::*side) {
  std::set<std::string> characters;
  for (const auto& pair : pairs)
    for (auto& c : headred::utf8_characters(pair.*side)) characters.insert(std::move(c));
  std::vector<std::string> symbols{"<pad>", "<s>", "</s>", "<unk>"};
  symbols.insert(symbols.end(), characters.begin(), characters.end());
  return headred::vocabulary(std::move(symbols));
}

/// SOURCE<tab>TARGET lines as characters of the given vocabularies.
inline pair_data character_pairs(const std::filesystem::path& path, headred::vocabulary source,
                                 headred::vocabulary target) {
  pair_data data;
  data.name = path.string();
  for (const auto& pair : headred::load_parallel_text(path)) {
    data.sources.push_back(source.encode_characters(pair.source));
    data.targets.push_back(target.encode_characters(pair.target));
  }
  data.source_symbols = std::move(source);
  data.target_symbols = std::move(target);
  return data;
}
/// The same with vocabularies of the characters that occur.
inline pair_data character_pairs(const std::filesystem::path& path) {
  const auto pairs = headred::load_parallel_text(path);
  return character_pairs(path, character_vocabulary(pairs, &headred::text_pair::source),
                         character_vocabulary(pairs, &headred::text_pair::target));
}

/// Tokens that a sentence may have.
inline index_t positions_of(const headred::embedding_config& e) {
  return e.positions == headred::positions::none ? std::numeric_limits<index_t>::max() : e.max_positions;
}
/// Throws file_error, with the line, for a pair that the model has not positions for.
inline void require_positions(const pair_data& data, const headred::transformer_config& c) {
  const auto require = [&](std::size_t i, const char* side, std::size_t tokens, index_t positions) {
    if (static_cast<index_t>(tokens) <= positions) return;
    throw headred::file_error(data.name, "line " + std::to_string(i + 1) + ": the " + side + " has " +
                                             std::to_string(tokens) + " tokens, expected at most the model's " +
                                             std::to_string(positions) + " positions");
  };
  for (std::size_t i = 0; i < data.sources.size(); ++i) {
    require(i, "source", data.sources[i].size(), positions_of(c.source));
    require(i, "target, with its first token,", data.targets[i].size() + 1, positions_of(c.target));
  }
}

/// One symbol a line.
inline void save_vocabulary(const std::filesystem::path& path, const headred::vocabulary& v) {
  std::string text;
  for (const auto& symbol : v.symbols()) text.append(symbol).append("\n");
  headred::write_file_atomically(path, text);
}

}  // namespace examples
