// Decoding with kept keys and values: the same as whole passes, whatever the rows have been through.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "environment.hpp"
#include "nn/decoding_support.hpp"

using namespace decoding_test;

namespace {

/// A decoder driven by chance (rows of several tokens, rows dropped, copied, exchanged) beside a list of what each row
/// has read. `visit(logits, sources, read)` after each call.
template <class T, class Visit>
void drive(decoder_type<T>& decoder, index_t sentences, index_t rows_each, int steps, std::uint64_t seed,
           const Visit& visit) {
  const hr::transformer_config& c = decoder.model().config();
  const hr::random_stream draws(seed, 5);
  std::uint64_t at = 0;
  const auto below = [&](index_t n) { return static_cast<index_t>(draws.below(at++, static_cast<std::uint64_t>(n))); };
  std::vector<std::vector<hr::token_id>> sources, read(static_cast<std::size_t>(sentences));
  std::vector<index_t> of(static_cast<std::size_t>(sentences));
  for (std::size_t i = 0; i < of.size(); ++i) of[i] = static_cast<index_t>(i);
  if (c.has_cross()) {
    hr::token_batch batch;
    for (index_t b = 0; b < sentences; ++b) {
      sources.push_back(random_tokens(1 + below(9), c.source.vocabulary, seed + static_cast<std::uint64_t>(b)));
      batch.add(sources.back());
    }
    decoder.begin(batch, rows_each);
  } else {
    sources.resize(static_cast<std::size_t>(sentences));
    decoder.begin(sentences, rows_each);
  }
  for (int step = 0; step < steps; ++step) {
    hr::token_batch tokens;
    for (auto& row : read) {
      const auto more = random_tokens(step % 3 == 0 ? 1 + below(5) : 1, c.output_embedding().vocabulary, seed + at++);
      tokens.add(more);
      row.insert(row.end(), more.begin(), more.end());
    }
    const auto logits = step % 3 == 0 ? decoder.extend(tokens) : decoder.step(tokens.ids);
    std::vector<const std::vector<hr::token_id>*> own;
    for (const index_t b : of) own.push_back(&sources[static_cast<std::size_t>(b)]);
    visit(logits, own, read);
    if (step % 2 == 0) continue;
    std::vector<index_t> parents;
    const index_t rows = 1 + below(sentences * rows_each);
    for (index_t r = 0; r < rows; ++r) parents.push_back(below(decoder.rows()));
    decoder.select(parents);
    auto read_before = std::move(read);
    const auto of_before = of;
    read.clear();
    of.clear();
    for (const index_t p : parents) {
      read.push_back(read_before[static_cast<std::size_t>(p)]);
      of.push_back(of_before[static_cast<std::size_t>(p)]);
    }
    REQUIRE(decoder.rows() == rows);
    for (index_t r = 0; r < rows; ++r) {
      REQUIRE(decoder.length(r) == static_cast<index_t>(read[static_cast<std::size_t>(r)].size()));
      REQUIRE(decoder.sentence(r) == of[static_cast<std::size_t>(r)]);
    }
  }
}

const std::vector<hr::transformer_config>& all_configs() {
  static const std::vector<hr::transformer_config> all = {uneven(), shared(), causal()};
  return all;
}

}  // namespace

TEST_SUITE("nn") {
  TEST_CASE_TEMPLATE("incremental_decoder: logits of whole passes, through drops, copies and long prompts", T, float,
                     double) {
    const double tolerance = std::is_same_v<T, float> ? 2e-5 : 1e-13;
    for (const int threads : {1, 3}) {
      hr::cpu be{{.threads = threads}};
      for (const auto& config : all_configs()) {
        auto model = random_model<T>(be, config, 3);
        decoder_type<T> decoder(model);
        double worst = 0, largest = 0;
        // the second round finds the memory of the first; the third needs more, and is cut into blocks
        for (const auto& [sentences, rows_each] : {std::pair<index_t, index_t>{3, 2}, {2, 1}, {9, 5}})
          drive(decoder, sentences, rows_each, 14, headred_test::seed() + static_cast<std::uint64_t>(sentences),
                [&](auto logits, const auto& sources, const auto& read) {
                  for (std::size_t r = 0; r < read.size(); ++r) {
                    const auto expected = whole_pass(model, *sources[r], read[r]);
                    for (std::size_t v = 0; v < expected.size(); ++v) {
                      const T value = logits(static_cast<index_t>(r), static_cast<index_t>(v));
                      const double size = std::abs(static_cast<double>(expected[v]));
                      worst = std::max(worst, std::abs(static_cast<double>(value - expected[v])) / (1 + size));
                      largest = std::max(largest, size);
                    }
                  }
                });
        CHECK(worst < tolerance);
        CHECK(largest > .5);
      }
    }
  }

  TEST_CASE("incremental_decoder: gates and masks act as in whole passes") {
    hr::cpu be{{.threads = 2}};
    for (const auto& config : all_configs()) {
      auto model = random_model<double>(be, config, 4);
      hr::gated_stacks also{.neurons = {hr::model_stack::decoder}, .layers = {hr::model_stack::decoder}};
      hr::model_gates<double, hr::cpu> gates(be, config, also);
      for (std::size_t l = 0; l < config.decoder.layers.size(); ++l) {
        auto& neurons = gates.neurons(hr::model_stack::decoder, static_cast<index_t>(l)).value;
        for (index_t i = 0; i < neurons.size(); ++i) neurons(i) = i % 3 == 0 ? 0 : .5 + .1 * static_cast<double>(i % 4);
        gates.layers(hr::model_stack::decoder).value(static_cast<index_t>(l)) = l == 1 ? 0 : .7;
      }
      hr::model_masks<double, hr::cpu> masks;
      std::vector<hr::tensor<double, 3, hr::cpu>> kept;
      kept.reserve(16);
      for (const auto kind : hr::attention_kinds(config))
        for (std::size_t l = 0; l < hr::attention_blocks(config, kind).size(); ++l) {
          auto& g = gates.of(kind, static_cast<index_t>(l)).value;
          for (index_t h = 0; h < g.size(); ++h) g(h) = .2 + .3 * static_cast<double>(h);
          // one mask for all heads; no diagonal, some keys half seen, the first one always
          auto& mask = kept.emplace_back(be, hr::shape_t<3>{1, 60, 60});
          for (index_t i = 0; i < 60; ++i)
            for (index_t j = 0; j < 60; ++j) mask(0, i, j) = j == 0 ? 1 : i == j ? 0 : (i + j) % 5 == 0 ? .9999 : 1;
          masks[{kind, static_cast<index_t>(l)}] = std::as_const(mask).view();
        }
      model_type<double>::options options;
      options.gates = &gates;
      options.masks = &masks;
      options.mask_penalty = 2000;
      decoder_type<double> decoder(model, options);
      double worst = 0, effect = 0;
      drive(decoder, 3, 2, 9, 17, [&](auto logits, const auto& sources, const auto& read) {
        for (std::size_t r = 0; r < read.size(); ++r) {
          const auto expected = whole_pass(model, *sources[r], read[r], options);
          const auto plain = whole_pass(model, *sources[r], read[r]);
          for (std::size_t v = 0; v < expected.size(); ++v) {
            worst = std::max(worst, std::abs(logits(static_cast<index_t>(r), static_cast<index_t>(v)) - expected[v]));
            effect = std::max(effect, std::abs(plain[v] - expected[v]));
          }
        }
      });
      CHECK(worst < 1e-12);
      CHECK(effect > .01);
    }
  }

  TEST_CASE("incremental_decoder: the same bits for any number of threads") {
    std::vector<std::vector<float>> all;
    for (const int threads : {1, 2, 5}) {
      hr::cpu be{{.threads = threads}};
      auto model = random_model<float>(be, uneven(), 5);
      decoder_type<float> decoder(model);
      auto& values = all.emplace_back();
      drive(decoder, 20, 4, 8, 23, [&](auto logits, const auto&, const auto&) {
        values.insert(values.end(), logits.data(), logits.data() + logits.size());
      });
    }
    REQUIRE(!all[0].empty());
    CHECK(std::memcmp(all[0].data(), all[1].data(), all[0].size() * sizeof(float)) == 0);
    CHECK(std::memcmp(all[0].data(), all[2].data(), all[0].size() * sizeof(float)) == 0);
  }

  TEST_CASE("incremental_decoder: several of one model at once, on backends of their own and on the model's") {
    hr::cpu shared{{.threads = 2}};
    auto model = random_model<float>(shared, uneven(), 5);
    const auto logits_of = [&](hr::cpu& be, std::uint64_t seed) {
      decoder_type<float> decoder(model, {}, be);
      std::vector<float> values;
      drive(decoder, 3 + static_cast<index_t>(seed), 2, 6, seed, [&](auto logits, const auto&, const auto&) {
        values.insert(values.end(), logits.data(), logits.data() + logits.size());
      });
      return values;
    };
    std::vector<std::vector<float>> expected, found(6);
    for (std::uint64_t r = 0; r < found.size(); ++r) expected.push_back(logits_of(shared, r));
    std::vector<std::thread> threads;
    for (std::uint64_t r = 0; r < found.size(); ++r)
      threads.emplace_back([&, r] {
        hr::cpu own{{.threads = 1}};
        found[r] = logits_of(r % 3 == 0 ? shared : own, r);
      });
    for (std::thread& t : threads) t.join();
    for (std::size_t r = 0; r < found.size(); ++r) {
      REQUIRE(found[r].size() == expected[r].size());
      CHECK(std::memcmp(found[r].data(), expected[r].data(), found[r].size() * sizeof(float)) == 0);
    }
  }

  TEST_CASE("incremental_decoder: what it refuses, and goes on from") {
    hr::cpu be{{.threads = 1}};
    auto config = uneven();
    config.target.max_positions = 4;
    auto model = random_model<double>(be, config, 6);
    decoder_type<double> decoder(model);
    hr::token_batch source = random_batch({2, 3}, 9, 1);
    CHECK_THROWS_WITH_AS(decoder.begin(3), "incremental_decoder: the model needs a source for each sentence",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(
        decoder.begin(source, 0),
        "incremental_decoder: 2 sentences with 0 rows each, expected at least 1 of both, below 2^31 in all",
        hr::argument_error);
    CHECK_THROWS_WITH_AS(decoder.step(std::vector<hr::token_id>{}),
                         "incremental_decoder: tokens for 0 rows, expected 0", hr::argument_error);
    decoder.begin(source);
    CHECK_THROWS_WITH_AS(decoder.step(std::vector<hr::token_id>{1}),
                         "incremental_decoder: tokens for 1 rows, expected 2", hr::argument_error);
    CHECK_THROWS_WITH_AS(decoder.step(std::vector<hr::token_id>{1, 7}),
                         "incremental_decoder: id 7 at position 1, expected [0,7)", hr::argument_error);
    CHECK_THROWS_WITH_AS(decoder.extend(random_batch({1, 0}, 7, 1)),
                         "incremental_decoder: sentence 1 has no token, expected at least 1", hr::argument_error);
    CHECK_THROWS_WITH_AS(decoder.extend(random_batch({1, 5}, 7, 1)),
                         "incremental_decoder: row 1 would have 5 tokens, expected at most the model's 4 positions",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(decoder.select(std::vector<index_t>{0, 2}), "decoding_cache: there is no row 2 of 2",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(decoder.select(std::vector<index_t>{0, 1, 1}), "decoding_cache: 3 rows, expected at most 2",
                         hr::argument_error);
    const auto logits = decoder.extend(random_batch({4, 4}, 7, 2));
    const auto expected = whole_pass(model, {source.ids[0], source.ids[1]}, random_tokens(4, 7, 2000));
    CHECK(std::abs(logits(0, 3) - expected[3]) < 1e-13);
    CHECK(decoder.length(0) == 4);
    CHECK_THROWS_AS(decoder.step(std::vector<hr::token_id>{1, 1}), hr::argument_error);

    auto text = random_model<double>(be, causal(), 6);
    decoder_type<double> writer(text);
    CHECK_THROWS_WITH_AS(writer.begin(source), "incremental_decoder: a decoder-only model has no source",
                         hr::argument_error);
    auto states = causal();
    states.output = hr::output_head::none;
    auto headless = random_model<double>(be, states, 6);
    CHECK_THROWS_WITH_AS(decoder_type<double>{headless}, "incremental_decoder: the model has no output head",
                         hr::argument_error);
    states.kind = hr::architecture::encoder;
    states.encoder.layers = {{{2, 2, 5, {}}, {}, 4}};
    auto reader = random_model<double>(be, states, 6);
    CHECK_THROWS_WITH_AS(decoder_type<double>{reader}, "incremental_decoder: the model has no decoder",
                         hr::argument_error);
  }
}
