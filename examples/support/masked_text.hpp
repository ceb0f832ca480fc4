// Sentences for a masked language model: text, cut into word pieces.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <headred/io/conllu.hpp>
#include <headred/io/word_piece_tokenizer.hpp>
#include <headred/nn/uniform_config.hpp>

#include "pruning_task.hpp"

namespace examples {

/// Sentences as pieces between [CLS] and [SEP], and how their tokens are hidden.
struct masked_text {
  std::string name;  ///< the files, for people
  headred::vocabulary pieces;
  headred::corpus sentences;
  index_t left_out = 0;  ///< sentences longer than `most`, or of nothing but unknown pieces
  headred::masking_options masking;

  static constexpr index_t most = 128;  ///< pieces of a sentence
  index_t size() const { return static_cast<index_t>(sentences.size()); }
};

namespace detail {

/// The words of a treebank (*.conllu), or of lines of words between spaces.
inline std::vector<std::vector<std::string>> sentence_words(const std::filesystem::path& file) {
  std::vector<std::vector<std::string>> all;
  if (file.extension() == ".conllu") {
    for (auto& s : headred::load_conllu(file)) all.push_back(std::move(s.forms));
    return all;
  }
  const headred::mapped_file mapped(file);
  std::size_t number = 0;
  for (const std::string_view line : headred::detail::text_lines(headred::detail::text_of(mapped))) {
    headred::detail::require_utf8_line(line, file.string(), "line " + std::to_string(++number));
    if (auto words = words_of(line); !words.empty()) all.push_back(std::move(words));
  }
  return all;
}

/// Of all pieces those that the text needs `least` times, and its characters, of which the others can be spelled.
inline headred::vocabulary needed_pieces(const headred::vocabulary& all,
                                         const std::vector<std::vector<std::string>>& sentences, index_t least) {
  const auto bare = [](const std::string& piece) { return piece.starts_with("##") ? piece.substr(2) : piece; };
  std::map<std::string, index_t> counts;
  for (const auto& words : sentences)
    for (const auto& piece : headred::tokenize_words(all, words).pieces) ++counts[piece];
  std::set<std::string> characters;
  for (const auto& [piece, count] : counts)
    for (auto& c : headred::utf8_characters(bare(piece))) characters.insert(std::move(c));
  std::vector<std::string> kept{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  const std::set<std::string> special(kept.begin(), kept.end());
  for (const std::string& piece : all.symbols()) {
    if (special.contains(piece)) continue;
    const auto count = counts.find(piece);
    if (characters.contains(bare(piece)) || (count != counts.end() && count->second >= least)) kept.push_back(piece);
  }
  return headred::vocabulary(std::move(kept));
}

}  // namespace detail

/// Throws file_error for a vocabulary that holds no word pieces and for text without a sentence that fits.
inline masked_text read_masked_text(const std::vector<std::string>& files, const std::string& vocabulary_file,
                                    index_t least) {
  const headred::vocabulary all = headred::load_vocabulary(vocabulary_file);
  for (const char* name : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
    if (!all.find(name))
      throw headred::file_error(vocabulary_file, "has no " + std::string(name) + ", expected word pieces");
  std::vector<std::vector<std::string>> sentences;
  masked_text text;
  for (const std::string& file : files) {
    for (auto& words : detail::sentence_words(file)) sentences.push_back(std::move(words));
    text.name += (text.name.empty() ? "" : ", ") + std::filesystem::path(file).filename().string();
  }
  text.pieces = detail::needed_pieces(all, sentences, least);
  const std::vector<token_id> special = detail::special_tokens(text.pieces);
  for (const auto& words : sentences) {
    auto ids = text.pieces.encode(headred::tokenize_words(text.pieces, words).pieces);
    const bool empty =
        std::ranges::all_of(ids, [&](token_id id) { return std::ranges::find(special, id) != special.end(); });
    if (empty || static_cast<index_t>(ids.size()) > masked_text::most)
      ++text.left_out;
    else
      text.sentences.push_back(std::move(ids));
  }
  if (text.size() < 2)
    throw headred::file_error(files.front(), "has fewer than 2 sentences of at most " +
                                                 std::to_string(masked_text::most) + " pieces, expected more");
  text.masking = {.mask_id = text.pieces.id("[MASK]"),
                  .vocabulary = text.pieces.size(),
                  .lowest = text.pieces.id("[MASK]") + 1,
                  .never = special};
  return text;
}

/// Nats a token by how often each piece occurs in the first `trained` sentences: what a model that sees no context has.
class piece_frequencies {
 public:
  piece_frequencies(const masked_text& text, index_t trained) : counts_(text.pieces.symbols().size(), 1) {
    for (index_t i = 0; i < trained; ++i)
      for (const token_id id : text.sentences[static_cast<std::size_t>(i)]) ++counts_[static_cast<std::size_t>(id)];
    for (const token_id id : text.masking.never) counts_[static_cast<std::size_t>(id)] = 0;
    for (const double n : counts_) sum_ += n;
  }
  double nll(token_id id) const { return std::log(sum_ / counts_[static_cast<std::size_t>(id)]); }

 private:
  std::vector<double> counts_;
  double sum_ = 0;
};

/// An encoder with a masked LM's output.
inline headred::transformer_config masked_model(const masked_text& text, headred::uniform_geometry geometry) {
  geometry.kind = headred::architecture::encoder;
  geometry.source_vocabulary = text.pieces.size();
  geometry.max_positions = masked_text::most;
  headred::transformer_config c = headred::uniform_config(geometry);
  c.output = headred::output_head::masked_lm;
  c.pad_id = text.pieces.id("[PAD]");
  return c;
}

}  // namespace examples
