// What is known of sentences' tokens: from a JSON file beside the maps, from a treebank, from the translation grammar.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/io/conllu.hpp>
#include <headred/io/frequency_list.hpp>
#include <headred/io/json_fields.hpp>
#include <headred/io/text_lines.hpp>
#include <headred/io/word_piece_tokenizer.hpp>
#include <headred/io/word_pieces.hpp>
#include <headred/nn/batches.hpp>
#include <headred/prune/grammar_roles.hpp>

#include "importance_roles.hpp"

namespace examples {

/// Facts of the sentences of a file, and how they are found again.
struct described_sentences {
  std::string file;  ///< where they are from, for messages; empty: nothing is known
  std::vector<sentence_facts> facts;
  std::vector<std::string> ids;      ///< of each sentence; empty: they go by their order
  bool has_end = false;              ///< each ends in a token of no word
  bool by_words = false;             ///< one token a word; maps may have one more at both ends
  std::optional<bool> framed;        ///< whether they have, as the first sentence decides
  index_t left_out = 0;              ///< sentences that the model cannot read
  headred::corpus sources, targets;  ///< what a model reads

  bool empty() const { return facts.empty(); }
  const sentence_facts& match(const std::string& name, std::size_t number, index_t tokens);
};

namespace detail {

using json_fields_type = headred::detail::json_fields;

inline std::string lower_case(std::string word) {
  for (char& c : word)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return word;
}

/// The rank of each token's word. Words without a letter, as punctuation, have no rank.
inline std::vector<index_t> token_ranks(const headred::frequency_list& list, const std::vector<std::string>& words,
                                        const std::vector<index_t>& word_of_token) {
  std::vector<index_t> ranks;
  for (const index_t w : word_of_token) {
    index_t rank = -1;
    if (w >= 0) {
      const std::string word = lower_case(words[static_cast<std::size_t>(w)]);
      const bool letters = std::any_of(word.begin(), word.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || static_cast<unsigned char>(c) >= 0x80;
      });
      if (letters) rank = list.rank(word);
    }
    ranks.push_back(rank);
  }
  return ranks;
}

inline std::vector<std::uint8_t> separators(const std::vector<index_t>& word_of_token) {
  std::vector<std::uint8_t> found;
  for (const index_t w : word_of_token) found.push_back(w < 0 ? 1 : 0);
  return found;
}

/// A number for each text, the same for the same text.
class text_numbers {
 public:
  std::int32_t of(const std::string& text) {
    return numbers_.try_emplace(text, static_cast<std::int32_t>(numbers_.size())).first->second;
  }

 private:
  std::map<std::string, std::int32_t> numbers_;
};

inline std::vector<std::string> json_strings(json_fields_type& fields, const char* key) {
  std::vector<std::string> all;
  for (const auto& item : fields.array(key)) {
    if (!item.is_string()) fields.fail(key, "holds " + json_fields_type::shown(item) + ", expected strings");
    all.push_back(item.get<std::string>());
  }
  return all;
}

/// The tree of an array of [word, head or null, relation], each word once.
inline void read_tree(json_fields_type& fields, std::size_t words, sentence_facts& facts) {
  facts.heads.assign(words, -1);
  facts.relations.assign(words, "");
  std::vector<bool> seen(words, false);
  const auto is_word = [&](const auto& x) { return x.is_number_unsigned() && x < words; };
  for (const auto& item : fields.array("dependencies")) {
    if (!item.is_array() || item.size() != 3 || !is_word(item[0]) || !(item[1].is_null() || is_word(item[1])) ||
        !item[2].is_string() || item[0] == item[1])
      fields.fail("dependencies", "holds " + headred::detail::quoted_name(item.dump().substr(0, 80)) +
                                      ", expected [word, head or null, relation] of " + std::to_string(words) +
                                      " words");
    const auto word = item[0].template get<std::size_t>();
    if (seen[word]) fields.fail("dependencies", "name word " + std::to_string(word) + " twice");
    seen[word] = true;
    facts.heads[word] = item[1].is_null() ? -1 : item[1].template get<index_t>();
    facts.relations[word] = item[2].template get<std::string>();
  }
}

}  // namespace detail

/// The list of --frequencies, if there is one.
inline std::optional<headred::frequency_list> read_frequencies(const std::string& file) {
  if (file.empty()) return std::nullopt;
  return headred::load_frequency_list(file);
}

/// Sentences of --sentences-json. Throws file_error for anything but what --help says, and for a sentence whose tokens are
/// not pieces of its words.
inline described_sentences read_sentences_json(const std::string& file,
                                               const std::optional<headred::frequency_list>& list) {
  described_sentences all;
  all.file = file;
  all.has_end = true;
  const headred::mapped_file mapped(file);
  const auto document = headred::detail::read_json_document(headred::detail::text_of(mapped), file, 6);
  if (!document.is_array() || document.empty()) throw headred::file_error(file, "is not an array of sentences");
  detail::text_numbers numbers;
  for (const auto& item : document) {
    const std::string where = "[" + std::to_string(all.facts.size()) + "]";
    detail::json_fields_type fields(item, file, where);
    const auto& id = fields.at("id");
    all.ids.push_back(id.is_string() ? id.get<std::string>() : id.dump());
    if (std::find(all.ids.begin(), all.ids.end() - 1, all.ids.back()) != all.ids.end() - 1)
      fields.fail("id", "is given twice");
    const auto tokens = detail::json_strings(fields, "tokens"), words = detail::json_strings(fields, "words");
    const headred::piece_alignment found = headred::align_word_pieces(tokens, words);
    if (!found.problem.empty()) fields.fail("tokens", "do not fit the words: " + found.problem);
    sentence_facts& facts = all.facts.emplace_back();
    for (const std::string& token : tokens) facts.ids.push_back(numbers.of(token));
    facts.word_of_token = found.word_of_piece;
    facts.separator = detail::separators(facts.word_of_token);
    detail::read_tree(fields, words.size(), facts);
    if (list) facts.ranks = detail::token_ranks(*list, words, facts.word_of_token);
    all.has_end = all.has_end && !facts.word_of_token.empty() && facts.word_of_token.back() < 0;
  }
  return all;
}

/// Sentences of --conllu, one token a word.
inline described_sentences read_treebank(const std::string& file, const std::optional<headred::frequency_list>& list) {
  described_sentences all;
  all.file = file;
  all.by_words = true;
  detail::text_numbers numbers;
  for (const headred::conllu_sentence& s : headred::load_conllu(file)) {
    sentence_facts& facts = all.facts.emplace_back();
    for (const std::string& form : s.forms) {
      facts.word_of_token.push_back(static_cast<index_t>(facts.ids.size()));
      facts.ids.push_back(numbers.of(form));
    }
    facts.heads = s.heads;
    facts.relations = s.relations;
    facts.separator = detail::separators(facts.word_of_token);
    if (list) facts.ranks = detail::token_ranks(*list, s.forms, facts.word_of_token);
  }
  return all;
}

/// Sentences of --conllu in the pieces of a masked LM. Throws file_error for a vocabulary that holds no word pieces, and if
/// no sentence fits the model.
inline described_sentences read_treebank(const std::string& file, const std::optional<headred::frequency_list>& list,
                                         const std::filesystem::path& vocabulary_file, index_t max_positions) {
  described_sentences all;
  all.file = file;
  all.has_end = true;
  const headred::vocabulary pieces = headred::load_vocabulary(vocabulary_file);
  for (const char* name : {"[CLS]", "[SEP]", "[UNK]"})
    if (!pieces.find(name))
      throw headred::file_error(vocabulary_file.string(),
                                "has no " + std::string(name) + ", expected word pieces for " + file);
  std::size_t known = 0, words = 0;
  for (const headred::conllu_sentence& s : headred::load_conllu(file)) {
    headred::word_pieces cut = headred::tokenize_words(pieces, s.forms);
    if (static_cast<index_t>(cut.pieces.size()) > max_positions) {
      ++all.left_out;
      continue;
    }
    auto& tokens = all.sources.emplace_back();
    for (const std::string& piece : cut.pieces) {
      tokens.push_back(pieces.id(piece));
      known += piece != "[UNK]" ? 1 : 0;
    }
    known -= 2;
    words += cut.pieces.size() - 2;
    sentence_facts& facts = all.facts.emplace_back();
    facts.ids = tokens;
    facts.word_of_token = std::move(cut.word_of_piece);
    facts.separator = detail::separators(facts.word_of_token);
    facts.heads = s.heads;
    facts.relations = s.relations;
    if (list) facts.ranks = detail::token_ranks(*list, s.forms, facts.word_of_token);
  }
  if (all.facts.empty())
    throw headred::file_error(file, "has no sentence of at most " + std::to_string(max_positions) + " pieces");
  if (2 * known < words)
    throw headred::file_error(file, "does not match the model: " + std::to_string(words - known) + " of " +
                                        std::to_string(words) + " pieces are not in " + vocabulary_file.string());
  return all;
}

/// Sentences of the translation grammar as its model reads them, without end tokens.
inline described_sentences grammar_facts(std::uint64_t first, index_t count) {
  const headred::translation_grammar grammar(0);
  const auto ranks = headred::grammar_ranks(grammar, 2000);
  described_sentences all;
  all.file = "the translation grammar";
  for (index_t i = 0; i < count; ++i) {
    headred::grammar_sentence s = grammar.sentence(first + static_cast<std::uint64_t>(i));
    headred::grammar_words words = headred::words_of(s);
    s.source.pop_back();
    words.word_of_token.pop_back();
    sentence_facts& facts = all.facts.emplace_back();
    facts.ids = s.source;
    facts.heads = std::move(words.heads);
    facts.relations = std::move(words.relations);
    facts.word_of_token = std::move(words.word_of_token);
    facts.separator = detail::separators(facts.word_of_token);
    for (const std::int32_t id : s.source) facts.ranks.push_back(ranks[static_cast<std::size_t>(id)]);
    all.sources.push_back(std::move(s.source));
    all.targets.push_back(std::move(s.target));
  }
  return all;
}

/// What is known of a sentence of maps: by the end of its name, 'tensor "attn.21"' being sentence 21, or by its number.
/// Throws file_error for a sentence that is not there or whose tokens are others in number.
inline const sentence_facts& described_sentences::match(const std::string& name, std::size_t number, index_t tokens) {
  std::size_t found = number;
  if (const std::size_t quote = name.find('"'); !ids.empty() && quote != std::string::npos) {
    const std::string_view inner = std::string_view(name).substr(quote + 1, name.size() - quote - 2);
    const std::size_t dot = inner.find_last_of("._/-");
    const std::string id(dot == std::string_view::npos ? inner : inner.substr(dot + 1));
    found = static_cast<std::size_t>(std::find(ids.begin(), ids.end(), id) - ids.begin());
  }
  if (found >= facts.size())
    throw headred::file_error(file, "has no sentence for " + name + ", expected one for each of the maps");
  sentence_facts& own = facts[found];
  const auto words = static_cast<index_t>(own.word_of_token.size());
  if (!by_words) {
    if (words == tokens) return own;
    throw headred::file_error(file, "sentence " + ids[found] + " has " + std::to_string(words) + " tokens, but " +
                                        name + " has " + std::to_string(tokens));
  }
  if (!framed) has_end = framed.emplace(tokens == words + 2);
  if (tokens != words + (*framed ? 2 : 0))
    throw headred::file_error(file, "does not match the maps: sentence " + std::to_string(found) + " has " +
                                        std::to_string(words) + " words, " + name + " " + std::to_string(tokens) +
                                        " tokens, expected one a word" +
                                        (*framed ? ", and a first and a last one" : ""));
  if (*framed) {
    const auto frame = [](auto& list, auto value) {
      if (list.empty()) return;
      list.insert(list.begin(), value);
      list.push_back(value);
    };
    frame(own.ids, -1);
    frame(own.separator, std::uint8_t{1});
    frame(own.word_of_token, index_t{-1});
    frame(own.ranks, index_t{-1});
  }
  return own;
}

}  // namespace examples
