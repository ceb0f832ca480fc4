#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <headred/core/number_text.hpp>
#include <headred/report/base64.hpp>
#include <headred/report/safe_text.hpp>

namespace {

using headred::detail::html_text;
using headred::detail::json_number;
using headred::detail::json_text;

std::string in_base64(std::string_view text) {
  return headred::detail::base64(std::vector<std::uint8_t>(text.begin(), text.end()));
}

const std::string replacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

TEST_SUITE("report") {
  TEST_CASE("base64: the vectors of RFC 4648") {
    CHECK(in_base64("") == "");
    CHECK(in_base64("f") == "Zg==");
    CHECK(in_base64("fo") == "Zm8=");
    CHECK(in_base64("foo") == "Zm9v");
    CHECK(in_base64("foob") == "Zm9vYg==");
    CHECK(in_base64("fooba") == "Zm9vYmE=");
    CHECK(in_base64("foobar") == "Zm9vYmFy");
    CHECK(in_base64("\xFB\xFF\xFE") == "+//+");
  }

  TEST_CASE("html_text: markup becomes entities, everything else stays") {
    CHECK(html_text("") == "");
    CHECK(html_text("a\tb\nc") == "a\tb\nc");
    CHECK(html_text("<img src=\"x\" onerror='y'>&amp;") ==
          "&lt;img src=&quot;x&quot; onerror=&#39;y&#39;&gt;&amp;amp;");
    CHECK(html_text("K\xC3\xB6pfe \xE2\x82\xAC \xF0\x9F\x98\x80") == "K\xC3\xB6pfe \xE2\x82\xAC \xF0\x9F\x98\x80");
    CHECK(html_text(std::string("\0\x1B\x7F\xC2\x85", 5)) == replacement + replacement + replacement + replacement);
  }

  TEST_CASE("json_text: nothing can end the script or a line of it") {
    CHECK(json_text("") == "\"\"");
    CHECK(json_text("a\"b\\c/d") == "\"a\\\"b\\\\c/d\"");
    CHECK(json_text("</script><!--&'") == "\"\\u003c/script\\u003e\\u003c!--\\u0026\\u0027\"");
    CHECK(json_text("\xE2\x80\xA8\xE2\x80\xA9\xE2\x80\xAA") == "\"\\u2028\\u2029\xE2\x80\xAA\"");
    CHECK(json_text(std::string("\0\n\x1F\x7F\xC2\x9F", 6)) == "\"\\u0000\\u000a\\u001f\\u007f\\u009f\"");
  }

  TEST_CASE("ill-formed UTF-8 becomes U+FFFD, once for each longest valid prefix") {
    const struct {
      std::string_view bytes;
      int replacements;
    } cases[] = {{"\xFF", 1},         {"\x80\x80", 2},     {"\xC0\xAF", 2},         {"\xC1\xBF", 2},
                 {"\xE0\x80\x80", 3}, {"\xED\xA0\x80", 3}, {"\xF0\x80\x80\x80", 4}, {"\xF4\x90\x80\x80", 4},
                 {"\xF5\x80", 2},     {"\xE2\x82", 1},     {"\xF0\x9F\x98", 1},     {"\xC3", 1}};
    for (const auto& c : cases) {
      std::string expected;
      for (int i = 0; i < c.replacements; ++i) expected += replacement;
      CHECK(html_text(c.bytes) == expected);
      CHECK(json_text("a" + std::string(c.bytes) + "b") == "\"a" + expected + "b\"");
    }
    CHECK(html_text("\xE2\x82<") == replacement + "&lt;");
    // every sequence of two bytes gives valid text without markup
    for (int a = 0; a < 256; ++a)
      for (int b = 0; b < 256; ++b) {
        const std::string text{static_cast<char>(a), static_cast<char>(b)};
        const std::string html = html_text(text), json = json_text(text);
        REQUIRE(html.find_first_of("<>\"'") == std::string::npos);
        REQUIRE(json.find_first_of("<>&'") == std::string::npos);
        REQUIRE(html_text(html_text(text)).find(replacement) == html_text(html).find(replacement));
        for (std::string_view rest = html; !rest.empty();) {
          const auto c = headred::detail::first_character(rest);
          REQUIRE((c.code != 0xFFFD || rest.substr(0, 3) == replacement));
          rest.remove_prefix(c.bytes);
        }
      }
  }

  TEST_CASE("json_number: shortest form, null for what JSON cannot say") {
    CHECK(json_number(0.1) == "0.1");
    CHECK(json_number(-1) == "-1");
    CHECK(json_number(1e300) == "1e+300");
    CHECK(json_number(std::nan("")) == "null");
    CHECK(json_number(std::numeric_limits<double>::infinity()) == "null");
    CHECK(headred::number_text(-std::numeric_limits<double>::infinity()) == "-inf");
    CHECK(headred::number_text(std::nan("")) == "nan");
  }
}
