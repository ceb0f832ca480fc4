// The transliteration model on all 1431 words of its eval file, against the float64 reference.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/io/load_transformer.hpp>
#include <headred/io/parallel_text.hpp>
#include <headred/io/vocabulary.hpp>
#include <headred/nn/beam_search.hpp>
#include <headred/nn/greedy.hpp>
#include <headred/nn/metrics/character_error_rate.hpp>
#include <headred/nn/metrics/exact_match.hpp>
#include <headred/nn/metrics/masked_tokens.hpp>
#include <headred/nn/metrics/nll.hpp>
#include <nlohmann/json.hpp>

#include "environment.hpp"

namespace hr = headred;
using hr::index_t;

namespace {

struct task {
  explicit task(const std::filesystem::path& folder)
      : words(hr::load_parallel_text(folder / "ar2en-eval.tsv")),
        from(hr::load_vocabulary(folder / "source_vocabulary.txt")),
        to(hr::load_vocabulary(folder / "target_vocabulary.txt")) {
    for (const auto& word : words) {
      sources.push_back(from.encode_characters(word.source));
      targets.push_back(to.encode_characters(word.target));
      references.push_back(word.target);
    }
    order.resize(words.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return sources[a].size() < sources[b].size(); });
  }
  template <class Visit>
  void batches(std::size_t size, const Visit& visit) const {
    for (std::size_t i = 0; i < order.size(); i += size) {
      const std::span<const std::size_t> rows(order.data() + i, std::min(size, order.size() - i));
      hr::token_batch source, target;
      for (const std::size_t w : rows) {
        source.add(sources[w]);
        target.add(targets[w]);
      }
      visit(rows, source, target);
    }
  }

  std::vector<hr::text_pair> words;
  hr::vocabulary from, to;
  std::vector<std::vector<hr::token_id>> sources, targets;
  std::vector<std::string> references;
  std::vector<std::size_t> order;
};

template <class T>
void check_eval(hr::cpu& be, const std::filesystem::path& folder, const nlohmann::json& expected) {
  const task all(folder);
  REQUIRE(all.words.size() == 1431);
  auto loaded = hr::load_transformer<T>(be, folder);
  hr::transformer<T, hr::cpu> model(be, std::move(loaded.config), std::move(loaded.weights));
  hr::incremental_decoder<T, hr::cpu> decoder(model);
  hr::tape<T, hr::cpu> tape(be, hr::tape_mode::inference);
  std::vector<std::string> found(all.words.size());
  hr::nll_sum nll;
  all.batches(64, [&](auto rows, const auto& source, const auto& target) {
    const auto words = hr::greedy(decoder, source, {.max_length = 40});
    const auto losses = hr::target_nll(model, tape, source, target);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      found[rows[i]] = all.to.decode(words[i].ids);
      const index_t length = static_cast<index_t>(all.targets[rows[i]].size()) + 1;
      nll += {losses[i], length, length};
    }
  });
  const auto strings = expected["greedy"].get<std::vector<std::string>>();
  CHECK(found == strings);
  CHECK(hr::exact_match(found, all.references) == expected["exact_match"].get<double>());
  hr::character_errors errors;
  for (std::size_t i = 0; i < found.size(); ++i) errors.add(found[i], all.references[i]);
  CHECK(errors.edits == expected["edits"].get<index_t>());
  CHECK(errors.reference_characters == expected["reference_characters"].get<index_t>());
  CHECK(errors.rate() == expected["cer"].get<double>());
  CHECK(nll.characters == expected["characters_with_end"].get<index_t>());
  CHECK(std::abs(nll.per_character() - expected["nll_per_character"].get<double>()) <
        (std::is_same_v<T, double> ? 1e-9 : 2e-5));
}

}  // namespace

TEST_SUITE("real") {
  TEST_CASE("real decoding: the whole eval file, greedy, as the reference decodes it") {
    const auto folder = headred_test::shared_dir() / "data/marian_aren_transliteration";
    const auto oracle = headred_test::shared_dir() / "oracles/marian_aren_transliteration/baseline_eval.json";
    if (!std::filesystem::exists(folder) || !std::filesystem::exists(oracle))
      return headred_test::skip("no marian_aren_transliteration");
    std::ifstream in(oracle);
    const auto expected = nlohmann::json::parse(in);
    hr::cpu be{{.threads = 2}};
    check_eval<float>(be, folder, expected);
    check_eval<double>(be, folder, expected);
  }

  TEST_CASE("real decoding: beam search finds words at least as probable, as often right") {
    const auto folder = headred_test::shared_dir() / "data/marian_aren_transliteration";
    if (!std::filesystem::exists(folder)) return headred_test::skip("no marian_aren_transliteration");
    hr::cpu be{{.threads = 2}};
    const task all(folder);
    auto loaded = hr::load_transformer<float>(be, folder);
    hr::transformer<float, hr::cpu> model(be, std::move(loaded.config), std::move(loaded.weights));
    hr::incremental_decoder<float, hr::cpu> decoder(model);
    double gained = 0;
    index_t worse = 0, right = 0, right_greedy = 0, words = 0;
    all.batches(64, [&](auto rows, const auto& source, const auto&) {
      if (words >= 512) return;
      const auto greedy = hr::greedy(decoder, source, {.max_length = 40});
      const auto beam = hr::beam_search(decoder, source, {.beam = 6, .max_length = 40});
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto& best = beam[i].at(0);
        gained += best.log_probability - greedy[i].log_probability;
        worse += best.log_probability < greedy[i].log_probability - 1e-5 ? 1 : 0;
        right += best.ids == all.targets[rows[i]] ? 1 : 0;
        right_greedy += greedy[i].ids == all.targets[rows[i]] ? 1 : 0;
        ++words;
      }
    });
    CHECK(gained > 1);
    CHECK(worse <= words / 100);
    CHECK(right >= right_greedy);
  }

  TEST_CASE("real decoding: ALBERT guesses the masked tokens that the reference guesses") {
    const auto folder = headred_test::shared_dir() / "data/albert_rxnmapper";
    const auto oracle = headred_test::shared_dir() / "oracles/albert_rxnmapper/masked_tokens_diagonal.json";
    if (!std::filesystem::exists(folder) || !std::filesystem::exists(oracle))
      return headred_test::skip("no albert_rxnmapper");
    std::ifstream in(oracle), reactions(folder / "reactions.tokens.txt");
    const auto expected = nlohmann::json::parse(in)["reactions"];
    const hr::vocabulary symbols = hr::load_vocabulary(folder / "vocab.txt");
    hr::cpu be{{.threads = 2}};
    auto loaded = hr::load_transformer<float>(be, folder);
    hr::transformer<float, hr::cpu> model(be, std::move(loaded.config), std::move(loaded.weights));
    hr::tape<float, hr::cpu> tape(be, hr::tape_mode::inference);
    // the first reactions, and those with a wrong guess: all others would be hits for any good model
    int wrong = 0;
    for (const auto& reaction : expected) {
      std::string line, symbol;
      std::getline(reactions, line);
      const auto places = reaction["positions"].get<std::vector<index_t>>();
      const auto right = reaction["right"].get<std::size_t>();
      if (&reaction != &expected[0] && (right == places.size() || wrong == 4)) continue;
      wrong += right < places.size() ? 1 : 0;
      std::istringstream words(line);
      std::vector<std::string> tokens;
      while (words >> symbol) tokens.push_back(symbol);
      const auto ids = symbols.encode(tokens);
      hr::token_batch batch;
      std::vector<index_t> rows;
      std::vector<hr::token_id> answers;
      for (const index_t place : places) {
        rows.push_back(batch.tokens() + place);
        answers.push_back(ids[static_cast<std::size_t>(place)]);
        batch.add(ids);
        batch.ids[static_cast<std::size_t>(rows.back())] = symbols.id("[MASK]");
      }
      std::size_t found = 0;
      const auto guesses = hr::predict_masked(model, tape, batch, rows, answers);
      for (std::size_t i = 0; i < guesses.size(); ++i) found += guesses[i].best == answers[i] ? 1 : 0;
      CHECK(found == right);
    }
    CHECK(wrong == 4);
  }
}
