// Text about language: treebanks, frequency lists, word pieces.
#include <headred/io/conllu.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <headred/io/frequency_list.hpp>
#include <headred/io/word_piece_tokenizer.hpp>
#include <headred/io/word_pieces.hpp>

#include "io_support.hpp"

namespace hr = headred;
using headred_test::file_error_text;
using strings = std::vector<std::string>;
using numbers = std::vector<hr::index_t>;

namespace {

std::string word(const std::string& number, const std::string& form, const std::string& head,
                 const std::string& relation) {
  return number + "\t" + form + "\t_\tNOUN\t_\t_\t" + head + "\t" + relation + "\t_\t_\n";
}
std::string problem(const std::string& text) {
  return file_error_text([&] { hr::parse_conllu(text, "t"); });
}

}  // namespace

TEST_SUITE("io") {
  TEST_CASE("conllu: words, comments, multiword tokens and empty nodes") {
    const std::string text =
        "\xef\xbb\xbf# newdoc\n# sent_id = a-1\r\n#text=Don't go = now\n" + word("1-2", "Don't", "_", "_") +
        word("1", "Do", "3", "aux") + word("2", "n't", "3", "advmod") + word("3", "go", "0", "root") +
        word("3.1", "it", "_", "_") + word("3.2", "it", "_", "_") + word("4", "now", "3", "obl:tmod") +
        "\n\n\n# sent_id = a-2\n" + word("0.1", "x", "_", "_") + word("1", "\xc3\xa9", "0", "root");
    const auto sentences = hr::parse_conllu(text, "t");
    REQUIRE(sentences.size() == 2);
    CHECK(sentences[0].id == "a-1");
    CHECK(sentences[0].text == "Don't go = now");
    CHECK(sentences[0].forms == strings{"Do", "n't", "go", "now"});
    CHECK(sentences[0].tags == strings{"NOUN", "NOUN", "NOUN", "NOUN"});
    CHECK(sentences[0].heads == numbers{2, 2, -1, 2});
    CHECK(sentences[0].relations == strings{"aux", "advmod", "root", "obl:tmod"});
    CHECK(sentences[0].line == 5);
    CHECK(sentences[1].forms == strings{"\xc3\xa9"});
    CHECK(sentences[1].text.empty());
    CHECK(sentences[1].line == 16);
  }

  TEST_CASE("conllu: what is malformed, with its line") {
    const std::string root = word("1", "a", "0", "root");
    CHECK(problem("") == "t: holds no sentence");
    CHECK(problem("\n\n") == "t: holds no sentence");
    CHECK(problem("# only\n\n") == "t: line 2 ends a sentence without a word");
    CHECK(problem("1\ta\n") == "t: line 1 has 2 columns, expected 10 parted by tabs");
    CHECK(problem("1 a\n") == "t: line 1 has 1 columns, expected 10 parted by tabs");
    CHECK(problem(root.substr(0, root.size() - 1) + "\t_\n") == "t: line 1 has 11 columns, expected 10 parted by tabs");
    CHECK(problem(word("1", "", "0", "root")) == "t: line 1 has an empty column 2, expected at least _");
    CHECK(problem(root + word("3", "b", "1", "x")) == "t: line 2 has number \"3\", expected 2");
    CHECK(problem(word("01", "a", "0", "root")) == "t: line 1 has number \"01\", expected 1");
    CHECK(problem(word("x", "a", "0", "root")) == "t: line 1 has number \"x\", expected 1");
    CHECK(problem(word("99999999999999999999", "a", "0", "root")).find("expected 1") != std::string::npos);
    const std::string head_expected = ", expected another word's number, or 0 for the root";
    for (const std::string head : {"_", "-1", "1", "1.1", "+2", "2000000"})
      CHECK(problem(word("1", "a", head, "x")) == "t: line 1 has head \"" + head + "\"" + head_expected);
    CHECK(problem("# c\n" + root + word("2", "b", "3", "x")) ==
          "t: line 3 has head 3, expected at most 2, the last word");
    CHECK(problem(root + word("2", "b", "0", "root")) ==
          "t: line 2 is a second root, the first is word 1, expected one");
    CHECK(problem(word("1", "a", "2", "x") + word("2", "b", "1", "x")) ==
          "t: line 1 begins a sentence without a root, expected one word with head 0");
    CHECK(problem(root + word("2", "b", "3", "x") + word("3", "c", "2", "x")) ==
          "t: line 2 depends on itself through its heads, expected a tree");
    CHECK(problem(root + "# late\n") == "t: line 2 is a comment within a sentence");
    CHECK(problem(word("2-3", "a", "_", "_")) == "t: line 1 has number \"2-3\", expected a multiword token from 1 on");
    CHECK(problem(word("1-2", "a", "_", "_") + root) ==
          "t: line 2 ends a sentence of 1 words within a multiword token up to 2");
    CHECK(problem(word("1-2", "a", "_", "_") + root + word("2-3", "b", "_", "_")) ==
          "t: line 3 has number \"2-3\", expected a multiword token from 2 on");
    CHECK(problem(word("1.1", "a", "_", "_")) == "t: line 1 has number \"1.1\", expected an empty node 0.1");
    CHECK(problem(root + word("1.2", "a", "_", "_")) == "t: line 2 has number \"1.2\", expected an empty node 1.1");
    CHECK(problem(word("1", "a\xff", "0", "root")) == "t: line 1 is not valid UTF-8 at its byte 3");
  }

  TEST_CASE("conllu: sentence by sentence, what stands before a mistake is read") {
    const std::string text = word("1", "a", "0", "root") + "\n" + word("1", "b", "1", "x");
    hr::conllu_reader reader(text, "t");
    CHECK(reader.next()->forms == strings{"a"});
    CHECK_THROWS_AS(reader.next(), hr::file_error);
    hr::conllu_reader nothing("", "t");
    CHECK_FALSE(nothing.next().has_value());
    CHECK_FALSE(nothing.next().has_value());
  }

  TEST_CASE("word pieces to words by counting characters") {
    const auto align = [](const strings& pieces, const strings& words) { return hr::align_word_pieces(pieces, words); };
    const auto good = align({"[CLS]", "un", "##aff", "##able", "[UNK]", "'", "s", "[SEP]"},
                            {"Unaffable", "\xe2\x82\xac\xe2\x82\xac", "'s"});
    CHECK(good.problem.empty());
    CHECK(good.words == 3);
    CHECK(good.word_of_piece == numbers{-1, 0, 0, 0, 1, 2, 2, -1});
    CHECK(align({"\xc3\xa9t", "##\xc3\xa9"}, {"\xc3\xa9t\xc3\xa9"}).word_of_piece == numbers{0, 0});
    CHECK(align({"[CLS]", "a", "[SEP]"}, {"a", "."}).words == 1);  // the last word has no piece
    CHECK(align({"[", "mask", "]"}, {"[mask]"}).word_of_piece == numbers{0, 0, 0});
    CHECK(align({"[MASK]", "[SEP]"}, {"[MASK]"}).word_of_piece == numbers{0, -1});
    CHECK(align({"##", "x"}, {"##x"}).word_of_piece == numbers{0, 0});
    CHECK(align({}, {}).words == 0);
    CHECK(align({"ab"}, {"a", "b"}).problem == "piece 0, \"ab\", has 2 characters, and 1 of word 0, \"a\", are left");
    CHECK(align({"a", "b"}, {"a"}).problem == "piece 1, \"b\", comes after the last of 1 words");
    CHECK(align({"a", "[SEP]"}, {"abc"}).problem == "piece 1, \"[SEP]\", stands within word 0, \"abc\"");
    CHECK(align({"a"}, {"abc"}).problem == "word 0, \"abc\", lacks its last 2 characters");
    CHECK(align({"a"}, {"abc"}).word_of_piece.empty());
    CHECK(align({""}, {"a"}).problem == "piece 0, \"\", has 0 characters, and 1 of word 0, \"a\", are left");
  }

  TEST_CASE("word pieces: the longest first, punctuation alone, what cannot be put together") {
    const hr::vocabulary v(
        strings{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##aff", "##a", "##able", "don", "'", "t", "."});
    const auto made = hr::tokenize_words(v, strings{"Unaffable", "DON'T", "[MASK]", "xyz", "un.xyz", "..", ""});
    CHECK(made.pieces == strings{"[CLS]", "un", "##aff", "##able", "don", "'", "t", "[MASK]", "[UNK]", "un", ".",
                                 "[UNK]", ".", ".", "[SEP]"});
    CHECK(made.word_of_piece == numbers{-1, 0, 0, 0, 1, 1, 1, 2, 3, 4, 4, 4, 5, 5, -1});
    CHECK(hr::tokenize_words(v, strings{std::string(101, 't')}).pieces == strings{"[CLS]", "[UNK]", "[SEP]"});
    CHECK_THROWS_AS(hr::tokenize_words(v, strings{"a\xff"}), hr::argument_error);
    CHECK(hr::tokenize_words(v, strings{}).pieces == strings{"[CLS]", "[SEP]"});
  }

  TEST_CASE("frequency list: ranks, and what is malformed") {
    const auto list = hr::parse_frequency_list("you 30\nI 20\n\xc3\xa9 20\n", "f");
    CHECK(list.size() == 3);
    CHECK(list.rank("you") == 0);
    CHECK(list.rank("\xc3\xa9") == 2);
    CHECK(list.rank("i") == 3);
    CHECK(list.entries()[1].count == 20);
    const auto wrong = [](const std::string& text) {
      return file_error_text([&] { hr::parse_frequency_list(text, "f"); });
    };
    CHECK(wrong("") == "f: is empty, expected a word and its count a line");
    for (const std::string line : {"you", "you ", " 3", "you 3x", "you -3", "you 3 4", "you 99999999999999999999", ""})
      CHECK(wrong("a 99\n" + line + "\n") == "f: line 2 is \"" + line + "\", expected a word, a space and a count");
    CHECK(wrong("a 3\nb 2\na 1\n") == "f: line 3: word \"a\" stands on line 1 too");
    CHECK(wrong("a 3\nb 4\n") ==
          "f: line 2: count 4 is above the one before, 3, expected the most frequent word first");
    CHECK_THROWS_AS(hr::frequency_list({{"a", 1}, {"a", 1}}), hr::argument_error);
    CHECK_THROWS_AS(hr::frequency_list({{"a", 1}, {"b", 2}}), hr::argument_error);
  }
}
