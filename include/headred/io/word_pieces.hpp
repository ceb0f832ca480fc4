// word_pieces: which word each piece of a tokenized sentence belongs to.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <headred/core/config.hpp>
#include <headred/io/quoted_name.hpp>

namespace headred {

/// The words of a sentence's pieces.
struct piece_alignment {
  std::vector<index_t> word_of_piece;  ///< of each piece: its word from 0 on; -1: none ("[CLS]", "[SEP]")
  index_t words = 0;    ///< words that have pieces: the first ones; fewer than given if pieces are missing
  std::string problem;  ///< empty, or why the sentence cannot be used; word_of_piece is empty then
};

namespace detail {

inline std::size_t character_count(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xc0u) != 0x80 ? 1 : 0;
  return count;
}

}  // namespace detail

/// Lays BERT's word pieces along the words by counting characters; the characters themselves are not compared, since
/// lower-casing and other cleaning change them. "##ing" counts 3; "[UNK]" the rest of the word it stands in; other pieces
/// in square brackets of three letters and more ("[CLS]") are of no word, unless they are the word itself.
/// Words at the end for which there are no pieces are left out: `words` says so (a cut sentence). A sentence whose pieces
/// cross the border of words, or go on after the last word, or that ends within a word, has a `problem`.
inline piece_alignment align_word_pieces(std::span<const std::string> pieces, std::span<const std::string> words) {
  piece_alignment result;
  const auto fail = [&](const std::string& what) {
    result.word_of_piece.clear();
    result.words = 0;
    result.problem = what;
    return result;
  };
  std::size_t word = 0, left = 0;  // `left` characters of words[word - 1] have no piece yet
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    const std::string& piece = pieces[p];
    const bool bracketed = piece.size() >= 5 && piece.front() == '[' && piece.back() == ']' && piece != "[UNK]" &&
                           (left > 0 || word == words.size() || words[word] != piece);
    if (bracketed) {
      if (left > 0)
        return fail("piece " + std::to_string(p) + ", " + detail::quoted_name(piece) + ", stands within word " +
                    std::to_string(word - 1) + ", " + detail::quoted_name(words[word - 1]));
      result.word_of_piece.push_back(-1);
      continue;
    }
    if (left == 0) {
      while (word < words.size() && words[word].empty()) ++word;  // nothing can stand for an empty word
      if (word == words.size())
        return fail("piece " + std::to_string(p) + ", " + detail::quoted_name(piece) + ", comes after the last of " +
                    std::to_string(words.size()) + " words");
      left = detail::character_count(words[word++]);
    }
    const bool continues = piece.size() > 2 && piece.starts_with("##");
    const std::size_t size =
        piece == "[UNK]" ? left : detail::character_count(continues ? std::string_view(piece).substr(2) : piece);
    if (size == 0 || size > left)
      return fail("piece " + std::to_string(p) + ", " + detail::quoted_name(piece) + ", has " + std::to_string(size) +
                  " characters, and " + std::to_string(left) + " of word " + std::to_string(word - 1) + ", " +
                  detail::quoted_name(words[word - 1]) + ", are left");
    left -= size;
    result.word_of_piece.push_back(static_cast<index_t>(word) - 1);
  }
  if (left > 0)
    return fail("word " + std::to_string(word - 1) + ", " + detail::quoted_name(words[word - 1]) + ", lacks its last " +
                std::to_string(left) + " characters");
  result.words = static_cast<index_t>(word);
  return result;
}

}  // namespace headred
