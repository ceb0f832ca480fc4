// Greedy and beam search: against whole passes, each other and all targets there are.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <headred/nn/beam_search.hpp>
#include <headred/nn/greedy.hpp>

#include "environment.hpp"
#include "nn/decoding_support.hpp"

using namespace decoding_test;

namespace {

std::vector<double> log_probabilities(const std::vector<double>& logits) {
  long double sum = 0;
  for (const double x : logits) sum += std::exp(static_cast<long double>(x));
  std::vector<double> all;
  for (const double x : logits) all.push_back(static_cast<double>(static_cast<long double>(x) - std::log(sum)));
  return all;
}

/// The next token's log-probabilities by a whole pass.
std::vector<double> next(model_type<double>& model, const std::vector<hr::token_id>& source,
                         const std::vector<hr::token_id>& begun) {
  return log_probabilities(whole_pass(model, source, begun));
}

double penalty(const hr::beam_options& o, double n) {
  if (o.penalty == hr::length_penalty::none) return 1;
  return std::pow(o.penalty == hr::length_penalty::gnmt ? (5 + n) / 6 : n, o.alpha);
}

/// All targets that end within `limit` tokens.
void enumerate(model_type<double>& model, const std::vector<hr::token_id>& source, std::vector<hr::token_id> begun,
               index_t prompt, index_t limit, double sum, const hr::beam_options& o, std::vector<hr::hypothesis>& all) {
  const auto probabilities = next(model, source, begun);
  const auto end = static_cast<std::size_t>(model.config().end_id);
  const index_t n = static_cast<index_t>(begun.size()) - prompt + 1;
  const double total = sum + probabilities[end];
  all.push_back({{begun.begin() + prompt, begun.end()}, total, total / penalty(o, static_cast<double>(n)), true});
  if (n == limit) return;
  for (std::size_t v = 0; v < probabilities.size(); ++v) {
    if (v == end) continue;
    auto longer = begun;
    longer.push_back(static_cast<hr::token_id>(v));
    enumerate(model, source, longer, prompt, limit, sum + probabilities[v], o, all);
  }
}

}  // namespace

TEST_SUITE("nn") {
  TEST_CASE("greedy: the most probable token of whole passes, in every batch") {
    hr::cpu be{{.threads = 2}};
    int ended = 0;
    for (const auto& [config, seed] : {std::pair(uneven(), 1), {uneven(), 2}, {shared(), 3}, {shared(), 4}}) {
      auto model = random_model<double>(be, config, headred_test::seed() + static_cast<std::uint64_t>(seed));
      decoder_type<double> decoder(model);
      const auto source = random_batch({1, 5, 3, 9, 2, 7}, config.source.vocabulary, 3);
      const auto found = hr::greedy(decoder, source, {.max_length = 9});
      REQUIRE(found.size() == 6);
      for (std::size_t b = 0; b < found.size(); ++b) {
        const std::vector<hr::token_id> words(
            source.ids.begin() + source.sentences[b].begin,
            source.ids.begin() + source.sentences[b].begin + source.sentences[b].length);
        std::vector<hr::token_id> begun{config.begin_id};
        double sum = 0;
        bool end = false;
        while (!end && begun.size() < 10) {
          const auto p = next(model, words, begun);
          const auto best = std::max_element(p.begin(), p.end()) - p.begin();
          sum += p[static_cast<std::size_t>(best)];
          end = best == config.end_id;
          if (!end) begun.push_back(static_cast<hr::token_id>(best));
        }
        ended += end;
        CHECK(found[b].ids == std::vector<hr::token_id>(begun.begin() + 1, begun.end()));
        CHECK(found[b].ended == end);
        CHECK(std::abs(found[b].log_probability - sum) < 1e-12);
        CHECK(found[b].score == found[b].log_probability);
        hr::token_batch alone;
        alone.add(words);
        CHECK(hr::greedy(decoder, alone, {.max_length = 9})[0].ids == found[b].ids);
      }
      CHECK(hr::greedy(decoder, source, {.max_length = 9}) == found);
    }
    CHECK(ended > 0);
    CHECK(ended < 4 * 6);
  }

  TEST_CASE("greedy: prompts of a decoder-only model; the positions are the last limit") {
    hr::cpu be{{.threads = 2}};
    auto config = causal();
    config.source.max_positions = 8;
    config.end_id = -1;  // never comes
    auto model = random_model<double>(be, config, 11);
    decoder_type<double> decoder(model);
    const auto prompts = random_batch({3, 8, 1}, 6, 5);
    const auto found = hr::greedy_continuation(decoder, prompts);
    CHECK(found[0].ids.size() == 6);  // 5 that are read, and one that need not be
    CHECK(found[1].ids.size() == 1);
    CHECK(found[2].ids.size() == 8);
    for (const auto& h : found) CHECK(!h.ended);
    const auto p = next(model, {}, random_tokens(8, 6, 5001));
    CHECK(found[1].ids[0] == std::max_element(p.begin(), p.end()) - p.begin());
    CHECK(std::abs(found[1].log_probability - *std::max_element(p.begin(), p.end())) < 1e-13);
    CHECK_THROWS_WITH_AS(hr::greedy_continuation(decoder, random_batch({9}, 6, 5)),
                         "incremental_decoder: row 0 would have 9 tokens, expected at most the model's 8 positions",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::greedy_continuation(decoder, prompts, {.max_length = -1}),
                         "greedy: max_length is -1, expected at least 0", hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::greedy_continuation(decoder, hr::token_batch{}),
                         "greedy_continuation: the batch has no sentence, expected at least 1", hr::argument_error);
  }

  TEST_CASE("beam search: a beam of one is greedy, ties and all") {
    hr::cpu be{{.threads = 2}};
    for (std::uint64_t seed = 1; seed <= 6; ++seed)
      for (const bool ties : {false, true}) {
        auto config = uneven();
        auto model = random_model<float>(be, config, seed);
        if (ties) {  // tokens 3 and 5, 2 (the end) and 6 always tie
          auto& table = model.weights().output.table.value;
          auto& bias = model.weights().output.bias.value;
          for (const auto& [a, b] : {std::pair<index_t, index_t>{3, 5}, {2, 6}}) {
            for (index_t c = 0; c < 12; ++c) table(b, c) = table(a, c);
            bias(b) = bias(a);
          }
        }
        decoder_type<float> decoder(model);
        const auto source = random_batch({4, 2, 6, 1, 3}, 9, seed);
        const auto expected = hr::greedy(decoder, source, {.max_length = 12});
        for (const auto kind : {hr::length_penalty::none, hr::length_penalty::gnmt, hr::length_penalty::division}) {
          const auto found = hr::beam_search(decoder, source, {.beam = 1, .max_length = 12, .penalty = kind});
          for (std::size_t b = 0; b < found.size(); ++b) {
            REQUIRE(found[b].size() == 1);
            CHECK(found[b][0].ids == expected[b].ids);
            CHECK(found[b][0].log_probability == expected[b].log_probability);
            CHECK(found[b][0].ended == expected[b].ended);
            if (ties)
              for (const hr::token_id id : found[b][0].ids) CHECK((id != 5 && id != 6));
          }
        }
      }
  }

  TEST_CASE("beam search: a beam over all targets finds the best ones") {
    hr::cpu be{{.threads = 2}};
    for (std::uint64_t seed = 1; seed <= 4; ++seed)
      for (const bool text : {false, true}) {
        auto config = text ? causal() : uneven();
        (text ? config.source : config.target).vocabulary = 4;
        auto model = random_model<double>(be, config, seed, 1.5);
        const auto source = random_batch({2, 1, 4}, text ? 4 : 9, seed);
        for (const auto kind : {hr::length_penalty::none, hr::length_penalty::gnmt, hr::length_penalty::division}) {
          hr::beam_options o{.beam = 120, .max_length = 4, .penalty = kind, .alpha = .8, .best = 7};
          decoder_type<double> decoder(model);
          const auto found = text ? hr::beam_continuation(decoder, source, o) : hr::beam_search(decoder, source, o);
          for (std::size_t b = 0; b < found.size(); ++b) {
            const std::vector<hr::token_id> words(
                source.ids.begin() + source.sentences[b].begin,
                source.ids.begin() + source.sentences[b].begin + source.sentences[b].length);
            std::vector<hr::hypothesis> all;
            const std::vector<hr::token_id> begun = text ? words : std::vector<hr::token_id>{config.begin_id};
            enumerate(model, words, begun, static_cast<index_t>(begun.size()), o.max_length, 0, o, all);
            REQUIRE(all.size() == 40);
            std::sort(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.score > y.score; });
            REQUIRE(found[b].size() == 7);
            for (std::size_t i = 0; i < 7; ++i) {
              CHECK(found[b][i].ids == all[i].ids);
              CHECK(found[b][i].ended);
              CHECK(std::abs(found[b][i].score - all[i].score) < 1e-12);
              CHECK(std::abs(found[b][i].log_probability - all[i].log_probability) < 1e-12);
            }
          }
        }
      }
  }

  TEST_CASE("beam search: a batch finds what each sentence finds alone; more rows are not worse") {
    hr::cpu be{{.threads = 2}};
    auto model = random_model<double>(be, shared(), 8);
    decoder_type<double> decoder(model);
    const auto source = random_batch({4, 9, 1, 6, 3, 3, 7}, 11, 2);
    const hr::beam_options o{.beam = 5, .max_length = 10, .penalty = hr::length_penalty::gnmt, .alpha = .6, .best = 3};
    const auto together = hr::beam_search(decoder, source, o);
    for (std::size_t b = 0; b < together.size(); ++b) {
      hr::token_batch alone;
      alone.add(std::span(source.ids)
                    .subspan(static_cast<std::size_t>(source.sentences[b].begin),
                             static_cast<std::size_t>(source.sentences[b].length)));
      const auto found = hr::beam_search(decoder, alone, o)[0];
      REQUIRE(found.size() == together[b].size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(found[i].ids == together[b][i].ids);
        CHECK(std::abs(found[i].score - together[b][i].score) < 1e-12);
        if (i > 0) CHECK((found[i].ended < found[i - 1].ended || found[i].score <= found[i - 1].score));
      }
    }
  }

  TEST_CASE("beam search: options out of range, logits without a softmax") {
    hr::cpu be{{.threads = 1}};
    auto model = random_model<double>(be, uneven(), 9);
    decoder_type<double> decoder(model);
    const auto source = random_batch({2}, 9, 2);
    const auto refused = [&](const hr::beam_options& o, const char* text) {
      CHECK_THROWS_WITH_AS(hr::beam_search(decoder, source, o), text, hr::argument_error);
    };
    refused({.beam = 0}, "beam_search: beam is 0, expected 1 to 2^16");
    refused({.beam = 3, .best = 4}, "beam_search: best is 4, expected 1 to the beam's 3");
    refused({.beam = 3, .alpha = -1}, "beam_search: alpha is -1, expected [0,100]");
    refused({.beam = 3, .max_length = -2}, "beam_search: max_length is -2, expected at least 0");
    for (index_t v = 0; v < 7; ++v) model.weights().output.bias.value(v) = std::numeric_limits<double>::quiet_NaN();
    const char* const text =
        "decoding: the model's logits for sentence 0 have no softmax: its weights are not finite or too large";
    refused({}, text);
    CHECK_THROWS_WITH_AS(hr::greedy(decoder, source), text, hr::argument_error);
  }
}
