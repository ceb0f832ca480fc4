#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <headred/prune/random_tokens.hpp>

#include "prune/small_models.hpp"

namespace hr = headred;
using headred_test::small_models;
using hr::index_t;
using hr::token_id;

namespace {

std::string refusal(const hr::transformer_config& c, const hr::random_token_options& o) {
  try {
    hr::random_tokens(c, o);
  } catch (const hr::argument_error& problem) {
    return problem.what();
  }
  return "no error";
}

hr::transformer_config bert() {
  hr::transformer_config c = small_models()[0].config;
  c.source.vocabulary = 40;
  c.source.max_positions = 512;
  c.pad_id = 0;
  c.begin_id = 11;
  c.end_id = 12;
  return c;
}

}  // namespace

TEST_SUITE("prune") {
  TEST_CASE("random tokens: number, lengths, frame, vocabulary") {
    const auto all = hr::random_tokens(bert(), {.special_source = {13, 14}});
    CHECK(all.source.size() == 256);
    CHECK(all.target.size() == 0);
    std::set<index_t> lengths;
    std::vector<index_t> count(40, 0);
    for (const auto& s : all.source.sentences) {
      lengths.insert(s.length);
      CHECK(all.source.ids[static_cast<std::size_t>(s.begin)] == 11);
      CHECK(all.source.ids[static_cast<std::size_t>(s.begin + s.length - 1)] == 12);
      for (index_t i = 1; i + 1 < s.length; ++i)
        ++count[static_cast<std::size_t>(all.source.ids[static_cast<std::size_t>(s.begin + i)])];
    }
    CHECK(lengths.size() > 90);  // of 121, each missed with probability e^-2.1
    for (const auto& s : hr::random_tokens(bert(), {.sentences = 3000}).source.sentences) lengths.insert(s.length);
    CHECK(lengths.size() == 121);
    CHECK(*lengths.begin() == 8);
    CHECK(*lengths.rbegin() == 128);
    const index_t total = all.source.tokens() - 2 * 256;
    double chi = 0;
    for (const token_id id : {0, 11, 12, 13, 14}) CHECK(count[static_cast<std::size_t>(id)] == 0);
    for (std::size_t id = 0; id < count.size(); ++id) {
      if (count[id] == 0) continue;
      const double expected = static_cast<double>(total) / 35;
      chi += (static_cast<double>(count[id]) - expected) * (static_cast<double>(count[id]) - expected) / expected;
    }
    CHECK(chi < 66);  // 34 degrees of freedom: above with probability 0.001
    CHECK(chi > 12);
  }

  TEST_CASE("random tokens are a function of the seed, sentence by sentence") {
    const auto a = hr::random_tokens(bert(), {.sentences = 20, .seed = 3});
    const auto b = hr::random_tokens(bert(), {.sentences = 40, .seed = 3});
    const auto c = hr::random_tokens(bert(), {.sentences = 20, .seed = 4});
    CHECK(std::equal(a.source.ids.begin(), a.source.ids.end(), b.source.ids.begin()));
    CHECK(a.source.ids != c.source.ids);
  }

  TEST_CASE("random tokens of decoders and pairs") {
    const auto pairs = small_models()[3].config;  // vocabularies 11 and 9, begin 1, end 2, pad 0
    const auto all = hr::random_tokens(pairs, {.sentences = 50, .max_length = 20, .special_source = {10}});
    REQUIRE(all.target.size() == 50);
    index_t same = 0;
    std::set<token_id> sources, targets;
    for (std::size_t b = 0; b < 50; ++b) {
      const auto& s = all.source.sentences[b];
      const auto& t = all.target.sentences[b];
      same += s.length == t.length ? 1 : 0;
      CHECK(s.length >= 8);
      CHECK(t.length <= 20);
      CHECK(all.target.ids[static_cast<std::size_t>(t.begin)] == 1);
      targets.insert(all.target.ids.begin() + t.begin + 1, all.target.ids.begin() + t.begin + t.length);
    }
    CHECK(same < 25);
    sources.insert(all.source.ids.begin(), all.source.ids.end());
    CHECK(sources == std::set<token_id>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});  // a vocabulary of its own: only 10 is special
    CHECK(targets == std::set<token_id>{3, 4, 5, 6, 7, 8});
    const auto framed = hr::random_tokens(pairs, {.sentences = 5, .source_last = 2});
    for (const auto& s : framed.source.sentences)
      CHECK(framed.source.ids[static_cast<std::size_t>(s.begin + s.length - 1)] == 2);

    const auto text = hr::random_tokens(small_models()[2].config, {.sentences = 5});  // decoder of 30 positions
    for (const auto& s : text.source.sentences) {
      CHECK(text.source.ids[static_cast<std::size_t>(s.begin)] == 1);
      CHECK(text.source.ids[static_cast<std::size_t>(s.begin + s.length - 1)] > 2);
      CHECK(s.length <= 30);
    }
  }

  TEST_CASE("random tokens: short models and refusals") {
    hr::transformer_config c = bert();
    c.source.max_positions = 5;
    for (const auto& s : hr::random_tokens(c, {.sentences = 9}).source.sentences) CHECK(s.length == 5);
    c.source.max_positions = 2;
    CHECK(refusal(c, {}) == "random_tokens: the source sentences have at most 2 tokens, expected 3 or more");
    CHECK(refusal(bert(), {.sentences = 0}) == "random_tokens: 0 sentences, expected at least 1");
    CHECK(refusal(bert(), {.min_length = 9, .max_length = 8}) ==
          "random_tokens: lengths from 9 to 8, expected 1 <= min_length <= max_length");
    CHECK(refusal(bert(), {.source_first = 40}) ==
          "random_tokens: source_first is 40, expected -1 (none) or a token below 40");
    c = bert();
    c.source.vocabulary = 13;
    CHECK(refusal(c, {.special_source = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}) ==
          "random_tokens: the source vocabulary holds special tokens alone");
  }
}
