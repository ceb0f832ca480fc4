// Exact match, character error rate, negative log-likelihood and BLEU.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <headred/nn/metrics/bleu.hpp>
#include <headred/nn/metrics/character_error_rate.hpp>
#include <headred/nn/metrics/exact_match.hpp>
#include <headred/nn/metrics/masked_tokens.hpp>
#include <headred/nn/metrics/nll.hpp>
#include <nlohmann/json.hpp>

#include "environment.hpp"
#include "nn/decoding_support.hpp"

using namespace decoding_test;

namespace {

nlohmann::json recorded() {
  const std::string here = __FILE__;
  std::ifstream in(here.substr(0, here.find_last_of("/\\")) + "/data/bleu.json");
  REQUIRE(in.good());
  return nlohmann::json::parse(in);
}

std::string joined(std::string_view text) {
  std::string all;
  for (const auto& token : hr::tokenize_13a(hr::code_points(text))) {
    if (!all.empty()) all += '|';
    for (const char32_t c : token) hr::append_utf8(c, all);
  }
  return all;
}

// By the definition, without a table: the last symbol of either is dropped, or the two are matched.
index_t distance_by_recursion(std::u32string_view a, std::u32string_view b) {
  if (a.empty() || b.empty()) return static_cast<index_t>(a.size() + b.size());
  const auto shorter = [](std::u32string_view s) { return s.substr(1); };
  const index_t matched = distance_by_recursion(shorter(a), shorter(b)) + (a[0] == b[0] ? 0 : 1);
  return std::min({matched, distance_by_recursion(shorter(a), b) + 1, distance_by_recursion(a, shorter(b)) + 1});
}

}  // namespace

TEST_SUITE("nn") {
  TEST_CASE("code_points: UTF-8 there and back, and what is none") {
    std::string all;
    for (const char32_t c : {0x0u, 0x7fu, 0x80u, 0x7ffu, 0x800u, 0xd7ffu, 0xe000u, 0xffffu, 0x10000u, 0x10ffffu})
      hr::append_utf8(c, all);
    CHECK(all.size() == 1 + 1 + 2 + 2 + 3 * 4 + 4 + 4);
    CHECK(hr::code_points(all) ==
          std::u32string({0x0, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff}));
    for (const char* bad : {"\x80", "\xc1\xbf", "\xc3", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                            "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xe2\x82", "\xc3("}) {
      CAPTURE(bad);
      CHECK_THROWS_WITH_AS(hr::code_points("a" + std::string(bad)),
                           "code_points: the text is not valid UTF-8 at byte 1", hr::argument_error);
    }
  }

  TEST_CASE("character_error_rate and exact_match: worked values") {
    CHECK(hr::edit_distance(std::string("kitten"), std::string("sitting")) == 3);
    CHECK(hr::edit_distance(std::string(), std::string("abc")) == 3);
    CHECK(hr::edit_distance(std::vector<int>{1, 2, 3}, std::vector<int>{}) == 3);
    using list = std::vector<std::string>;
    // one of two characters of three and of four bytes is wrong
    CHECK(hr::character_error_rate(list{"\u6771\u4eac", "a"}, list{"\u6771\U0001f600", "a"}) == 1. / 3);
    CHECK(hr::character_error_rate(list{"abcd"}, list{"x"}) == 4);
    CHECK(std::isnan(hr::character_error_rate(list{"abcd"}, list{""})));
    CHECK(hr::exact_match(list{"a", "b", "", "d"}, list{"a", "c", "", "D"}) == .5);
    CHECK(std::isnan(hr::exact_match(list{}, list{})));
    CHECK_THROWS_WITH_AS(hr::exact_match(list{"a"}, list{}), "exact_match: 1 hypotheses for 0 references",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::character_error_rate(list{"a"}, list{}),
                         "character_error_rate: 1 hypotheses for 0 references", hr::argument_error);
  }

  TEST_CASE("edit_distance: the definition, and its properties") {
    const hr::random_stream draws(headred_test::seed());
    std::uint64_t at = 0;
    for (int round = 0; round < 150; ++round) {
      std::u32string words[3];
      for (auto& w : words)
        for (std::uint64_t n = draws.below(at++, 7); n > 0; --n)
          w += static_cast<char32_t>(U'a' + draws.below(at++, 3));
      const auto& [a, b, c] = words;
      const index_t ab = hr::edit_distance(a, b);
      CHECK(ab == distance_by_recursion(a, b));
      CHECK(ab == hr::edit_distance(b, a));
      CHECK(ab <= hr::edit_distance(a, c) + hr::edit_distance(c, b));
      CHECK((ab == 0) == (a == b));
    }
  }

  TEST_CASE("tokenize_13a: punctuation, numbers, escapes, blanks") {
    CHECK(joined("Hello, world!") == "Hello|,|world|!");
    CHECK(joined("3.14 1,000 5. .5 a.b 1-2 a-b") == "3.14|1,000|5|.|.|5|a|.|b|1|-|2|a-b");
    CHECK(joined("it's (so) &quot;x&quot; &lt;y&gt; &amp;lt; <skipped>z") == "it's|(|so|)|\"|x|\"|<|y|>|<|z");
    CHECK(joined("... a..b ,,") == ".|.|.|a|.|.|b|,|,");
    CHECK(joined("\u6771\u3000\u4eac\u2003x\u00a0y \t") == "\u6771|\u4eac|x|y");
    CHECK(joined("") == "");
    CHECK(joined("line-\nbreak and\nmore") == "linebreak|and|more");
  }

  TEST_CASE("lower_case: single letters of several scripts") {
    for (const auto& [upper, lower] : std::vector<std::pair<char32_t, char32_t>>{{U'A', U'a'},
                                                                                 {U'Z', U'z'},
                                                                                 {U'[', U'['},
                                                                                 {0xc9, 0xe9},
                                                                                 {0xd7, 0xd7},
                                                                                 {0x100, 0x101},
                                                                                 {0x101, 0x101},
                                                                                 {0x178, 0xff},
                                                                                 {0x1c5, 0x1c6},
                                                                                 {0x391, 0x3b1},
                                                                                 {0x3a2, 0x3a2},
                                                                                 {0x410, 0x430},
                                                                                 {0x1e9e, 0xdf},
                                                                                 {0x2126, 0x3c9},
                                                                                 {0x10400, 0x10428},
                                                                                 {0x6771, 0x6771},
                                                                                 {0x10ffff, 0x10ffff},
                                                                                 {0x130, 0x130}})
      CHECK(hr::lower_case(upper) == lower);
  }

  TEST_CASE("bleu: sacreBLEU's scores of 230 pairs") {
    const auto document = recorded();
    std::vector<std::string> hypotheses, references;
    for (const auto& row : document["sentences"]) {
      hypotheses.push_back(row[0]);
      references.push_back(row[1]);
      CAPTURE(hypotheses.back());
      CAPTURE(references.back());
      CHECK(std::abs(hr::sentence_bleu(hypotheses.back(), references.back()).score - row[2].get<double>()) < 1e-9);
      CHECK(std::abs(hr::sentence_bleu(hypotheses.back(), references.back(), true).score - row[3].get<double>()) <
            1e-9);
    }
    REQUIRE(hypotheses.size() >= 200);
    for (const auto& corpus : document["corpora"]) {
      const auto begin = corpus["begin"].get<std::size_t>(), end = corpus["end"].get<std::size_t>();
      CAPTURE(begin);
      CAPTURE(end);
      const auto b =
          hr::bleu(std::span(hypotheses).subspan(begin, end - begin), std::span(references).subspan(begin, end - begin),
                   {.lowercase = corpus["lowercase"].get<bool>()});
      CHECK(std::abs(b.score - corpus["score"].get<double>()) < 1e-9);
      CHECK(std::abs(b.brevity_penalty - corpus["brevity_penalty"].get<double>()) < 1e-12);
      CHECK(b.counts.hypothesis_length == corpus["hypothesis_length"].get<index_t>());
      CHECK(b.counts.reference_length == corpus["reference_length"].get<index_t>());
      for (std::size_t n = 0; n < 4; ++n) {
        CHECK(b.counts.correct[n] == corpus["correct"][n].get<index_t>());
        CHECK(b.counts.total[n] == corpus["total"][n].get<index_t>());
        CHECK(std::abs(b.precisions[n] - corpus["precisions"][n].get<double>()) < 1e-9);
      }
    }
    CHECK(hr::bleu({}, {}).score == 0);
    CHECK_THROWS_WITH_AS(hr::bleu(hypotheses, {}), "bleu: 230 hypotheses for 0 references", hr::argument_error);
  }

  TEST_CASE("nll: what whole passes give, in every batch; sums") {
    hr::cpu be{{.threads = 2}};
    auto model = random_model<double>(be, uneven(), 21);
    hr::tape<double, hr::cpu> tape(be, hr::tape_mode::inference);
    const auto source = random_batch({3, 1, 6}, 9, 4), target = random_batch({2, 0, 5}, 7, 5);
    const auto found = hr::target_nll(model, tape, source, target);
    REQUIRE(found.size() == 3);
    for (std::size_t b = 0; b < 3; ++b) {
      const auto part = [&](const hr::token_batch& all) {
        const auto begin = all.ids.begin() + all.sentences[b].begin;
        return std::vector<hr::token_id>(begin, begin + all.sentences[b].length);
      };
      auto answers = part(target), begun = std::vector<hr::token_id>{model.config().begin_id};
      answers.push_back(model.config().end_id);
      double expected = 0;
      for (const hr::token_id answer : answers) {
        const auto x = whole_pass(model, part(source), begun);
        long double sum = 0;
        for (const double v : x) sum += std::exp(static_cast<long double>(v));
        expected += static_cast<double>(std::log(sum) - static_cast<long double>(x[static_cast<std::size_t>(answer)]));
        begun.push_back(answer);
      }
      CHECK(std::abs(found[b] - expected) < 1e-12);
    }
    auto text_model = random_model<double>(be, causal(), 22);
    const auto text = random_batch({4, 1}, 6, 9);
    const auto nats = hr::text_nll(text_model, tape, text);
    CHECK(nats[1] == 0);
    double expected = 0;
    for (std::size_t i = 1; i < 4; ++i) {
      const auto x = whole_pass(text_model, {}, {text.ids.begin(), text.ids.begin() + static_cast<std::ptrdiff_t>(i)});
      double sum = 0;
      for (const double v : x) sum += std::exp(v);
      expected += std::log(sum) - x[static_cast<std::size_t>(text.ids[i])];
    }
    CHECK(std::abs(nats[0] - expected) < 1e-12);
    CHECK_THROWS_AS(hr::target_nll(text_model, tape, source, target), hr::argument_error);

    hr::nll_sum sum;
    CHECK(std::isnan(sum.per_token()));
    sum += {6 * std::log(2.), 3, 4};
    CHECK(sum.per_token() == 2 * std::log(2.));
    CHECK(sum.per_character() == 1.5 * std::log(2.));
    CHECK(std::abs(sum.perplexity() - 4) < 1e-14);
  }

  TEST_CASE("predict_masked: the logits of the rows that are asked for") {
    hr::cpu be{{.threads = 2}};
    hr::transformer_config c;
    c.width = 8;
    c.source = {9, 6, hr::positions::learned, 12, 2, 1, true};
    c.encoder.layers.assign(2, {{2, 2, 4, {}}, {}, 10});
    c.output = hr::output_head::masked_lm;
    auto model = random_model<double>(be, c, 31);
    hr::tape<double, hr::cpu> tape(be, hr::tape_mode::inference), whole(be, hr::tape_mode::inference);
    const auto batch = random_batch({4, 7}, 9, 6);
    const std::vector<index_t> rows{9, 2, 2};
    const std::vector<hr::token_id> answers{8, 0, 5};
    const auto found = hr::predict_masked(model, tape, batch, rows, answers);
    const auto logits = whole.input(model.logits(whole, model.encode(whole, batch)));
    REQUIRE(found.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      const double* const x = logits.data() + rows[i] * 9;
      double sum = 0;
      for (int v = 0; v < 9; ++v) sum += std::exp(x[v]);
      CHECK(std::abs(found[i].nats - (std::log(sum) - x[answers[i]])) < 1e-13);
      CHECK(found[i].best == std::max_element(x, x + 9) - x);
    }
    CHECK_THROWS_WITH_AS(hr::predict_masked(model, tape, batch, std::vector<index_t>{11}, std::vector<hr::token_id>{1}),
                         "predict_masked: row 11, expected [0,11)", hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::predict_masked(model, tape, batch, rows, std::vector<hr::token_id>{1}),
                         "predict_masked: 1 answers for 3 rows", hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::predict_masked(model, tape, batch, std::vector<index_t>{1}, std::vector<hr::token_id>{9}),
                         "predict_masked: id 9 at position 0, expected [0,9)", hr::argument_error);
    auto text = random_model<double>(be, causal(), 22);
    CHECK_THROWS_WITH_AS(hr::predict_masked(text, tape, batch, rows, answers),
                         "predict_masked: the model is not encoder-only", hr::argument_error);
  }
}
