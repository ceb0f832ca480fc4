// Confidence of the real BERT maps and Taylor importance of the real transliteration model against float64 references.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/importance/confidence.hpp>
#include <headred/io/load_transformer.hpp>
#include <headred/io/parallel_text.hpp>
#include <headred/io/safetensors.hpp>
#include <headred/io/vocabulary.hpp>
#include <headred/prune/model_importance.hpp>
#include <nlohmann/json.hpp>

#include "environment.hpp"

namespace hr = headred;
using hr::index_t;
using namespace headred_test;

namespace {

nlohmann::json read(const std::filesystem::path& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in);
}

// Largest difference from [layer][head], relative to 1.
double worst(std::span<const double> found, const nlohmann::json& expected) {
  double most = 0;
  std::size_t i = 0;
  for (const auto& layer : expected)
    for (const auto& value : layer) most = std::max(most, std::abs(found[i++] - value.get<double>()));
  CHECK(i == found.size());
  return most;
}

template <class T>
hr::head_scores taylor_of(const std::filesystem::path& folder, const std::vector<std::size_t>& rows, bool apart) {
  hr::cpu be{{.threads = 2}};
  auto loaded = hr::load_transformer<T>(be, folder, {});
  hr::transformer<T, hr::cpu> model(be, std::move(loaded.config), std::move(loaded.weights));
  const auto words = hr::load_parallel_text(folder / "ar2en-eval.tsv");
  const auto from = hr::load_vocabulary(folder / "source_vocabulary.txt");
  const auto to = hr::load_vocabulary(folder / "target_vocabulary.txt");
  hr::corpus sources, targets;
  for (const std::size_t row : rows) {
    sources.push_back(from.encode_characters(words.at(row).source));
    targets.push_back(to.encode_characters(words.at(row).target));
  }
  std::vector<hr::training_batch> batches;
  for (index_t i = 0; i < static_cast<index_t>(rows.size()); ++i) {
    std::vector<index_t> numbers{i};
    if (!apart)
      while (i + 1 < static_cast<index_t>(rows.size())) numbers.push_back(++i);
    hr::fill_pairs(batches.emplace_back(), sources, targets, numbers, model.config().begin_id, model.config().end_id);
  }
  return hr::model_taylor(model, std::span(batches));
}

}  // namespace

TEST_SUITE("importance") {
  TEST_CASE("real importance: confidence of BERT-base, four policies of the end token, two means") {
    const auto shared = shared_dir();
    if (shared.empty()) return skip("no folder with real data");
    const hr::safetensors_file file(shared / "data/bert_base_sst2/attention.safetensors");
    const auto expected = read(shared / "oracles/bert_base_sst2/heads.json").at("confidence");
    hr::cpu be;
    const std::pair<const char*, hr::end_token> policies[] = {
        {"end_excluded_as_query_and_key", hr::end_token::excluded},
        {"end_excluded_as_key", hr::end_token::excluded_as_key},
        {"end_excluded_as_query", hr::end_token::excluded_as_query},
        {"nothing_excluded", hr::end_token::included}};
    for (const auto& [name, end] : policies)
      for (const auto average : {hr::token_average::pooled, hr::token_average::per_sentence}) {
        hr::confidence<hr::cpu> c(be, hr::head_layout(12, 12), {end, average});
        for (const auto& sentence : file.names()) c.add(file.view<std::uint16_t, 4>(sentence), {.scale = 1e-4});
        const double off = worst(
            c.scores().of(hr::attention_kind::encoder_self),
            expected.at(name).at(average == hr::token_average::pooled ? "mean_over_tokens" : "mean_over_sentences"));
        const std::string mean = average == hr::token_average::pooled ? "pooled" : "per sentence";
        MESSAGE(std::string(name), ", ", mean, ": ", off);
        CHECK(off < 1e-12);
      }
  }

  TEST_CASE("real importance: Taylor of the transliteration model, f64 to 1e-10 and f32 to 1e-4") {
    const auto shared = shared_dir();
    if (shared.empty()) return skip("no folder with real data");
    const auto folder = shared / "data/marian_aren_transliteration";
    const auto expected = read(shared / "oracles/marian_aren_transliteration/gate_gradients.json");
    const auto rows = expected.at("rows").get<std::vector<std::size_t>>();
    const auto check = [&](const hr::head_scores& scores, double limit) {
      double sums[3] = {};
      for (std::size_t k = 0; k < 3; ++k) {
        const auto kind = static_cast<hr::attention_kind>(k);
        CHECK(scores.counts(kind).examples == 20);
        for (const double x : scores.of(kind)) sums[k] += x;
        const double off = worst(scores.of(kind), expected.at("taylor_mean_abs").at(k));
        const auto unit = hr::layer_normalised(scores);
        const double off_unit = worst(unit.of(kind), expected.at("taylor_layer_normalised").at(k));
        MESSAGE(std::string(to_string(kind)), ": ", off, ", normalised ", off_unit, ", sum ", sums[k]);
        CHECK(off < limit);
        CHECK(off_unit < 10 * limit);
      }
      CHECK(std::abs(sums[0] - .45) < .005);
      CHECK(std::abs(sums[1] - .66) < .005);
      CHECK(std::abs(sums[2] - 1.01) < .005);
    };
    check(taylor_of<double>(folder, rows, false), 1e-10);
    check(taylor_of<double>(folder, rows, true), 1e-10);
    check(taylor_of<float>(folder, rows, false), 1e-4);
  }
}
