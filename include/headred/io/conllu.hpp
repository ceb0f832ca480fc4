// conllu: sentences with their dependency trees, from CoNLL-U text.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/core/config.hpp>
#include <headred/core/error.hpp>
#include <headred/io/mapped_file.hpp>
#include <headred/io/quoted_name.hpp>
#include <headred/io/text_lines.hpp>

namespace headred {

/// A sentence of a treebank: its syntactic words, numbered from 0. Multiword tokens ("1-2") and empty nodes ("1.1") are
/// checked and left out; so are the columns not named here.
struct conllu_sentence {
  std::string id;    ///< "# sent_id = ", empty if there is none
  std::string text;  ///< "# text = ", likewise
  std::vector<std::string> forms;
  std::vector<std::string> tags;       ///< universal parts of speech
  std::vector<index_t> heads;          ///< of each word: the word it depends on, -1 for the root
  std::vector<std::string> relations;  ///< of each word: "nsubj", "obl:npmod"
  std::size_t line = 0;                ///< where its first word stands, from 1 on
  friend bool operator==(const conllu_sentence&, const conllu_sentence&) = default;
};

/// Reads a CoNLL-U text sentence by sentence. The text must outlive the reader.
/// Universal Dependencies, format version 2: ten columns parted by tabs, an empty line after each sentence (the last one
/// may lack it, lines may end in CR LF), exactly one root a sentence.
class conllu_reader {
 public:
  /// `file` is the name in messages.
  conllu_reader(std::string_view text, std::string file) : left_(text), file_(std::move(file)) {
    if (left_.starts_with("\xef\xbb\xbf")) left_.remove_prefix(3);
  }

  /// The next sentence, or nothing at the end. Throws file_error with the line for anything that is not CoNLL-U: a line
  /// without ten filled columns or not in UTF-8, numbers out of order, a head that is not there, no root or several, a
  /// cycle, comments without a sentence. Reading cannot go on after it.
  std::optional<conllu_sentence> next() {
    conllu_sentence sentence;
    begin();
    bool started = false;
    while (!left_.empty()) {
      const std::string_view line = take_line();
      if (line.empty()) {
        if (!started) continue;
        finish(sentence);
        return sentence;
      }
      detail::require_utf8_line(line, file_, where());
      started = true;
      if (line.front() == '#') {
        if (!sentence.forms.empty() || covered_ > 0 || empty_ > 0) fail("is a comment within a sentence");
        comment(line, sentence);
      } else {
        node(line, sentence);
      }
    }
    if (!started) return std::nullopt;
    finish(sentence);
    return sentence;
  }

 private:
  static constexpr std::size_t columns = 10;
  static constexpr index_t most_words = 1'000'000;

  std::string where() const { return "line " + std::to_string(line_); }
  [[noreturn]] void fail(const std::string& what) const { throw file_error(file_, where() + " " + what); }
  [[noreturn]] void fail_at(std::size_t line, const std::string& what) const {
    throw file_error(file_, "line " + std::to_string(line) + " " + what);
  }

  void begin() {
    covered_ = empty_ = 0;
    lines_.clear();
  }
  std::string_view take_line() {
    const std::size_t end = left_.find('\n');
    std::string_view line = left_.substr(0, end);
    left_.remove_prefix(end == std::string_view::npos ? left_.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++line_;
    return line;
  }

  static void comment(std::string_view line, conllu_sentence& sentence) {
    line.remove_prefix(1);
    const auto value_of = [line](std::string_view key) -> std::optional<std::string_view> {
      std::string_view rest = line;
      const auto trim = [&rest] { rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size())); };
      trim();
      if (!rest.starts_with(key)) return std::nullopt;
      rest.remove_prefix(key.size());
      trim();
      if (!rest.starts_with('=')) return std::nullopt;
      rest.remove_prefix(1);
      trim();
      return rest;
    };
    if (const auto id = value_of("sent_id")) sentence.id = *id;
    if (const auto text = value_of("text")) sentence.text = *text;
  }

  /// A whole number without sign or leading zeros, at most most_words; -1 if it is none.
  static index_t number(std::string_view text) {
    index_t value = -1;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool plain =
        problem == std::errc{} && end == text.data() + text.size() && (text[0] != '0' || text.size() == 1);
    return plain && value >= 0 && value <= most_words ? value : -1;
  }

  void node(std::string_view line, conllu_sentence& sentence) {
    std::string_view column[columns];
    std::size_t count = 0;
    for (std::string_view rest = line;;) {
      const std::size_t tab = rest.find('\t');
      if (count < columns) column[count] = rest.substr(0, tab);
      ++count;
      if (tab == std::string_view::npos) break;
      rest.remove_prefix(tab + 1);
    }
    if (count != columns) fail("has " + std::to_string(count) + " columns, expected 10 parted by tabs");
    for (std::size_t c = 0; c < columns; ++c)
      if (column[c].empty()) fail("has an empty column " + std::to_string(c + 1) + ", expected at least _");
    const std::string_view id = column[0];
    const index_t words = static_cast<index_t>(sentence.forms.size());
    if (const std::size_t dash = id.find('-'); dash != std::string_view::npos) {
      const index_t first = number(id.substr(0, dash)), last = number(id.substr(dash + 1));
      if (first != words + 1 || last < first || first <= covered_)
        fail("has number " + detail::quoted_name(id) + ", expected a multiword token from " +
             std::to_string(words + 1) + " on");
      covered_ = last;
      return;
    }
    if (const std::size_t dot = id.find('.'); dot != std::string_view::npos) {
      if (number(id.substr(0, dot)) != words || number(id.substr(dot + 1)) != empty_ + 1)
        fail("has number " + detail::quoted_name(id) + ", expected an empty node " + std::to_string(words) + "." +
             std::to_string(empty_ + 1));
      ++empty_;
      return;
    }
    if (number(id) != words + 1)
      fail("has number " + detail::quoted_name(id) + ", expected " + std::to_string(words + 1));
    const index_t head = number(column[6]);
    if (head < 0 || head == words + 1)
      fail("has head " + detail::quoted_name(column[6]) + ", expected another word's number, or 0 for the root");
    empty_ = 0;
    if (words == 0) sentence.line = line_;
    lines_.push_back(line_);
    sentence.forms.emplace_back(column[1]);
    sentence.tags.emplace_back(column[3]);
    sentence.heads.push_back(head - 1);
    sentence.relations.emplace_back(column[7]);
  }

  void finish(const conllu_sentence& sentence) const {
    const index_t words = static_cast<index_t>(sentence.forms.size());
    if (words == 0) fail("ends a sentence without a word");
    if (covered_ > words)
      fail("ends a sentence of " + std::to_string(words) + " words within a multiword token up to " +
           std::to_string(covered_));
    index_t root = -1;
    for (index_t w = 0; w < words; ++w) {
      const auto i = static_cast<std::size_t>(w);
      if (sentence.heads[i] >= words)
        fail_at(lines_[i], "has head " + std::to_string(sentence.heads[i] + 1) + ", expected at most " +
                               std::to_string(words) + ", the last word");
      if (sentence.heads[i] >= 0) continue;
      if (root >= 0)
        fail_at(lines_[i], "is a second root, the first is word " + std::to_string(root + 1) + ", expected one");
      root = w;
    }
    if (root < 0) fail_at(sentence.line, "begins a sentence without a root, expected one word with head 0");
    // A walk up from each word ends at the root or at a word walked before; one that meets itself goes round.
    std::vector<index_t> walk(static_cast<std::size_t>(words), -1);
    for (index_t w = 0; w < words; ++w) {
      index_t at = w;
      while (at >= 0 && walk[static_cast<std::size_t>(at)] < 0) {
        walk[static_cast<std::size_t>(at)] = w;
        at = sentence.heads[static_cast<std::size_t>(at)];
      }
      if (at >= 0 && walk[static_cast<std::size_t>(at)] == w)
        fail_at(lines_[static_cast<std::size_t>(at)], "depends on itself through its heads, expected a tree");
    }
  }

  std::string_view left_;
  std::string file_;
  std::size_t line_ = 0;
  index_t covered_ = 0;  // last word of the multiword token seen last
  index_t empty_ = 0;    // empty nodes since the last word
  std::vector<std::size_t> lines_;
};

/// All sentences of a text or a file. Throws what conllu_reader does, and file_error for a text without a sentence.
inline std::vector<conllu_sentence> parse_conllu(std::string_view text, const std::string& file) {
  std::vector<conllu_sentence> sentences;
  conllu_reader reader(text, file);
  while (auto sentence = reader.next()) sentences.push_back(std::move(*sentence));
  if (sentences.empty()) throw file_error(file, "holds no sentence");
  return sentences;
}
/// The same from a file.
inline std::vector<conllu_sentence> load_conllu(const std::filesystem::path& path) {
  const mapped_file file(path);
  return parse_conllu(detail::text_of(file), path.string());
}

}  // namespace headred
