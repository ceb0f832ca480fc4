#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>

#include <headred/nn/translation_grammar.hpp>

namespace hr = headred;

TEST_SUITE("nn") {
  TEST_CASE("a sentence of the grammar is a pure function of seed and number") {
    const hr::translation_grammar a(3), b(3), c(4);
    int different = 0;
    for (std::uint64_t i = 0; i < 50; ++i) {
      CHECK(a.sentence(i).source == b.sentence(i).source);
      CHECK(a.sentence(i).target == b.sentence(i).target);
      different += a.sentence(i).source != c.sentence(i).source;
    }
    CHECK(different > 40);
  }

  TEST_CASE("sources are trees, targets agree with them") {
    const hr::translation_grammar grammar(7);
    std::map<std::string, int> names;
    std::size_t shortest = 99, longest = 0;
    for (std::uint64_t n = 0; n < 3000; ++n) {
      const auto s = grammar.sentence(n);
      const auto length = s.source.size();
      REQUIRE(s.heads.size() == length);
      REQUIRE(s.relations.size() == length);
      shortest = std::min(shortest, length);
      longest = std::max(longest, length);
      CHECK(s.source.back() == hr::translation_grammar::end_id);
      int roots = 0, subject = -1;
      for (std::size_t i = 0; i + 1 < length; ++i) {
        roots += s.heads[i] < 0;
        // every path of heads ends at the root
        std::int32_t at = static_cast<std::int32_t>(i);
        for (int steps = 0; at >= 0; ++steps) {
          REQUIRE(steps < 30);
          at = s.heads[static_cast<std::size_t>(at)];
        }
        if (s.relations[i] == "nsubj" && s.heads[i] >= 0 && s.relations[static_cast<std::size_t>(s.heads[i])] == "root")
          subject = static_cast<int>(i);
      }
      CHECK(roots == 1);
      REQUIRE(subject >= 0);
      // the verb stands last but for its number and the particle, and its number is the subject's
      const std::string text = grammar.source_text(s.source[static_cast<std::size_t>(subject)]);
      const bool plural = text.find(".plural") != std::string::npos;
      REQUIRE(s.target.size() >= 5);
      CHECK(grammar.target_text(s.target[s.target.size() - 2]) == (plural ? "-many" : "-one"));
      CHECK(grammar.target_text(s.target[s.target.size() - 3]).starts_with("Verb"));
      // the particle follows the rarest name
      int rarest = -1;
      for (const auto token : s.source) {
        const std::string word = grammar.source_text(token);
        if (!word.starts_with("name")) continue;
        ++names[word];
        rarest = std::max(rarest, std::stoi(word.substr(4)));
      }
      CHECK(grammar.target_text(s.target.back()) == "Particle" + std::to_string(rarest < 0 ? 0 : 1 + rarest % 2));
      // as many nouns and adjectives on either side
      std::multiset<std::string> source, target;
      for (const auto token : s.source) {
        std::string word = grammar.source_text(token);
        if (word.starts_with("noun") || word.starts_with("adj")) source.insert(word.substr(1, word.find('.') - 1));
      }
      for (const auto token : s.target) {
        const std::string word = grammar.target_text(token);
        if (word.starts_with("Noun") || word.starts_with("Adj")) target.insert(word.substr(1));
      }
      CHECK(source.size() == target.size());
    }
    CHECK(shortest == 4);
    CHECK(longest <= 23);
    CHECK(names["name0"] > 10 * names["name100"]);
    CHECK(names.size() > 100);
  }

  TEST_CASE("a token outside the vocabulary is named") {
    const hr::translation_grammar grammar;
    CHECK_THROWS_WITH_AS(grammar.source_text(249), "translation_grammar: token 249 is not in [0,249)",
                         hr::argument_error);
    CHECK(grammar.source_vocabulary() == 249);
    CHECK(grammar.target_vocabulary() == 223);
    CHECK(grammar.source_text(2) == "</s>");
  }
}
