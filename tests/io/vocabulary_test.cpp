#include <headred/io/vocabulary.hpp>

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include <headred/io/parallel_text.hpp>

#include "io_support.hpp"

namespace hr = headred;
using headred_test::file_error_text;
using ids = std::vector<std::int32_t>;

TEST_SUITE("io") {
  TEST_CASE("utf8: characters of one to four bytes") {
    CHECK(hr::utf8_characters("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80") ==
          std::vector<std::string>{"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"});
    CHECK(hr::utf8_characters("").empty());
    CHECK(hr::utf8_characters(std::string("\0", 1)).size() == 1);
    for (const char* last : {"\x7f", "\xdf\xbf", "\xef\xbf\xbf", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf", "\xee\x80\x80"})
      CHECK(hr::utf8_characters(last).size() == 1);
    for (const char* first : {"\xc2\x80", "\xe0\xa0\x80", "\xf0\x90\x80\x80"})
      CHECK(hr::utf8_characters(first).size() == 1);
  }

  TEST_CASE("utf8: truncated, overlong and stray bytes, surrogates and numbers too high") {
    for (const char* wrong : {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3(", "\xe2\x82", "\xe2(\xac",
                              "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf", "\xf0\x9f\x98",
                              "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xfe"}) {
      CAPTURE(wrong);
      CHECK(hr::utf8_character_size(wrong) == 0);
      CHECK_THROWS_WITH_AS(hr::utf8_characters("ab\xc3\xa9" + std::string(wrong)),
                           "utf8_characters: the text is not valid UTF-8 at byte 4", hr::argument_error);
    }
  }

  TEST_CASE("vocabulary: numbers and symbols, there and back") {
    const auto v = hr::parse_vocabulary("<s>\n</s>\r\na\n\xc3\xa9\n b", "v.txt");
    CHECK(v.size() == 5);
    CHECK(v.id("</s>") == 1);
    CHECK(v.symbol(4) == " b");
    CHECK_FALSE(v.unknown());
    CHECK(v.encode_characters("a\xc3\xa9"
                              "a") == ids{2, 3, 2});
    CHECK(v.decode(ids{2, 3, 2}) ==
          "a\xc3\xa9"
          "a");
    CHECK(v.decode(ids{0, 2}, " ") == "<s> a");
    CHECK(v.decode(ids{}).empty());
    CHECK_THROWS_WITH_AS(v.encode_characters("ax"),
                         "vocabulary: \"x\" is none of the 5 symbols, and there is no unknown symbol",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(v.symbol(5), "vocabulary: id 5 is not in [0,5)", hr::argument_error);
    CHECK_THROWS_AS(v.symbol(-1), hr::argument_error);
    CHECK_THROWS_AS(v.encode_characters("a\xff"), hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::vocabulary({"a", "b", "a"}), "vocabulary: symbol 2, \"a\", is symbol 0 too",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::vocabulary({"a", ""}), "vocabulary: symbol 1 is empty", hr::argument_error);
  }

  TEST_CASE("vocabulary: unknown symbols become the unknown symbol") {
    for (const char* unknown : {"<unk>", "[UNK]"}) {
      const hr::vocabulary v({"a", unknown});
      CHECK(v.unknown() == 1);
      CHECK(v.encode_characters("xa") == ids{1, 0});
      CHECK_FALSE(v.find("x"));
    }
  }

  TEST_CASE("vocabulary: malformed files, by line") {
    const auto text = [](const std::string& content) {
      return file_error_text([&] { hr::parse_vocabulary(content, "v.txt"); });
    };
    CHECK(text("") == "v.txt: is empty, expected a symbol a line");
    CHECK(text("a\n\nb\n") == "v.txt: line 2 is empty, expected a symbol");
    CHECK(text("a\nb\n\n") == "v.txt: line 3 is empty, expected a symbol");
    CHECK(text("a\nb\nc\nb\n") == "v.txt: line 4: symbol \"b\" stands on line 2 too");
    CHECK(text("a\nbc\xff\n") == "v.txt: line 2 is not valid UTF-8 at its byte 2");
    CHECK(hr::parse_vocabulary("\xef\xbb\xbf"
                               "a\nb",
                               "v.txt")
              .symbol(0) == "a");
    const headred_test::temporary_folder folder;
    CHECK(file_error_text([&] { hr::load_vocabulary(folder / "v.txt"); }) ==
          (folder / "v.txt").string() + ": does not exist");
    headred_test::write_text(folder / "v.txt", "a\na\n");
    CHECK(file_error_text([&] { hr::load_vocabulary(folder / "v.txt"); }) ==
          (folder / "v.txt").string() + ": line 2: symbol \"a\" stands on line 1 too");
  }

  TEST_CASE("parallel text: pairs, and malformed lines by number") {
    const std::vector<hr::text_pair> pairs{{"a b", "c"}, {"d", "e "}};
    CHECK(hr::parse_parallel_text("a b\tc\nd\te \r\n", "p.tsv") == pairs);
    CHECK(hr::parse_parallel_text("a b\tc\nd\te ", "p.tsv") == pairs);
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"", "is empty, expected a pair a line"},
        {"a\tb\nc", "line 2 has no tab between source and target"},
        {"a\tb\n\n", "line 2 has no tab between source and target"},
        {"a\tb\tc\n", "line 1 has more than one tab, expected one source and one target"},
        {"a\tb\n\tc\n", "line 2: the source is empty"},
        {"a\tb\nc\t\n", "line 2: the target is empty"},
        {"a\tb\nc\t\r\n", "line 2: the target is empty"},
        {"a\tb\nc\td\xe2\x82\n", "line 2 is not valid UTF-8 at its byte 3"},
    };
    for (const auto& wrong : cases) {
      CAPTURE(wrong.first);
      CHECK(file_error_text([&] { hr::parse_parallel_text(wrong.first, "p.tsv"); }) == "p.tsv: " + wrong.second);
    }
    const headred_test::temporary_folder folder;
    headred_test::write_text(folder / "p.tsv", "a b\tc\nd\te ");
    CHECK(hr::load_parallel_text(folder / "p.tsv") == pairs);
  }
}
