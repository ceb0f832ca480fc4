// word_piece_tokenizer: words into the pieces of BERT's uncased vocabulary.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/core/error.hpp>
#include <headred/io/utf8.hpp>
#include <headred/io/vocabulary.hpp>

namespace headred {

/// A sentence's pieces, and the word of each: -1 for [CLS] and [SEP].
struct word_pieces {
  std::vector<std::string> pieces;
  std::vector<index_t> word_of_piece;
};

namespace detail {

inline bool ascii_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

/// ASCII letters lowered, runs of what is no ASCII punctuation together, each punctuation mark alone.
inline std::vector<std::string> split_punctuation(std::string_view word) {
  std::vector<std::string> parts;
  bool join = false;
  for (const char c : word) {
    const bool alone = ascii_punctuation(c), space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (space) {
      join = false;
      continue;
    }
    if (alone || !join) parts.emplace_back();
    parts.back() += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    join = !alone;
  }
  return parts;
}

}  // namespace detail

/// The pieces of words: letters lowered, punctuation split off, then the longest piece of the vocabulary from the left on
/// (continued ones as "##..."); a part that cannot be put together, or of more than 100 characters, is one "[UNK]".
/// Words that are pieces in brackets ("[MASK]") are kept. The whole stands between "[CLS]" and "[SEP]".
/// Lowering and punctuation are those of ASCII; accents stay on. Text outside of ASCII may therefore be cut otherwise than
/// by BERT's own tokenizer. Throws argument_error for words that are not UTF-8. Schuster and Nakajima (ICASSP 2012).
inline word_pieces tokenize_words(const vocabulary& pieces, std::span<const std::string> words) {
  constexpr std::size_t most_characters = 100;
  word_pieces result;
  const auto put = [&](std::string piece, index_t word) {
    result.pieces.push_back(std::move(piece));
    result.word_of_piece.push_back(word);
  };
  put("[CLS]", -1);
  for (std::size_t w = 0; w < words.size(); ++w) {
    const auto word = static_cast<index_t>(w);
    if (words[w].size() > 2 && words[w].front() == '[' && words[w].back() == ']' && pieces.find(words[w])) {
      put(words[w], word);
      continue;
    }
    for (const std::string& part : detail::split_punctuation(words[w])) {
      const std::vector<std::string> characters = utf8_characters(part);
      std::vector<std::string> found;
      std::size_t begin = 0;
      while (begin < characters.size() && characters.size() <= most_characters) {
        std::string piece = begin > 0 ? "##" : "";
        std::size_t best = begin;
        std::string longest;
        for (std::size_t end = begin; end < characters.size();) {
          piece += characters[end++];
          if (pieces.find(piece)) {
            best = end;
            longest = piece;
          }
        }
        if (best == begin) break;
        found.push_back(std::move(longest));
        begin = best;
      }
      if (begin < characters.size()) found.assign(1, "[UNK]");
      for (std::string& piece : found) put(std::move(piece), word);
    }
  }
  put("[SEP]", -1);
  return result;
}

}  // namespace headred
