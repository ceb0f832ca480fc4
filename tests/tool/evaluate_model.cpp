// The program evaluate_model from outside: small models with random weights, and the real one.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include <headred/io/save_transformer.hpp>

#include "environment.hpp"
#include "nn/decoding_support.hpp"
#include "tool/run_tool.hpp"

using namespace headred_test;

namespace {

// Folders: "pairs" holds an encoder-decoder, "masked" a masked language model; pairs.tsv and masked.txt are their data.
void save_models(const temporary_folder& folder) {
  hr::cpu be{{.threads = 1}};
  auto pairs = decoding_test::random_model<float>(be, decoding_test::uneven(), 1);
  hr::save_transformer(folder / "pairs", pairs.config(), pairs.weights());
  write_text(folder / "pairs" / "source_vocabulary.txt", "<unk>\n<s>\n</s>\na\nb\nc\nd\n \n\xc3\xa9\n");
  write_text(folder / "pairs" / "target_vocabulary.txt", "<unk>\n<s>\n</s>\nx\ny\n \nz\n");
  write_text(folder / "pairs.tsv", "abc\txyz\nb\xc3\xa9 d\tx y z y x\na\tx\n\xe6\x9d\xb1\t\xe6\x9d\xb1\n");
  hr::transformer_config c;
  c.width = 8;
  c.source = {6, 8, hr::positions::learned, 12, 0, 1, true};
  c.encoder.layers.assign(2, {{2, 2, 4, {}}, {}, 10});
  c.output = hr::output_head::masked_lm;
  auto masked = decoding_test::random_model<float>(be, c, 2);
  hr::save_transformer(folder / "masked", masked.config(), masked.weights());
  write_text(folder / "masked" / "vocab.txt", "[CLS]\n[SEP]\n[MASK]\nu\nv\nw\n");
  write_text(folder / "masked.txt", "[CLS] u v w [SEP]\n[CLS] [SEP]\n\n[CLS] w w  w\tw u u u u u [SEP]\n");
}

std::vector<std::string> line(const temporary_folder& folder, const std::string& model, const std::string& data,
                              const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{"--model", (folder / model).string(),         "--data", (folder / data).string(),
                                 "--out",   (folder / "metrics.json").string()};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

json metrics_of(const temporary_folder& folder) {
  json m = json::parse(read_text(folder / "metrics.json"));
  CHECK(m["seconds"].is_number());
  m.erase("seconds");
  return m;
}

}  // namespace

TEST_SUITE("tool") {
  TEST_CASE("evaluate_model: pairs, in every batch, beam and number of threads") {
    const temporary_folder folder;
    save_models(folder);
    const outcome o = run_tool(line(folder, "pairs", "pairs.tsv", {"--hypotheses", (folder / "found.txt").string()}));
    CAPTURE(o.err);
    REQUIRE(o.code == 0);
    CHECK(o.err == "");
    CHECK(o.out.find("exact_match: ") != std::string::npos);
    const json m = metrics_of(folder);
    CHECK(m["sentences"] == 4);
    CHECK(m["reference_characters"] == 14);
    for (const char* name : {"exact_match", "cer", "nll_per_character", "nll_per_token", "perplexity", "bleu"}) {
      CAPTURE(name);
      CHECK(m[name].is_number());
    }
    CHECK(std::abs(m["perplexity"].get<double>() - std::exp(m["nll_per_token"].get<double>())) < 1e-9);
    CHECK(m["settings"]["precision"] == "f32");
    const std::string found = read_text(folder / "found.txt");
    CHECK(std::count(found.begin(), found.end(), '\n') == 4);

    REQUIRE(run_tool(line(folder, "pairs", "pairs.tsv", {"--threads", "3"})).code == 0);
    CHECK(metrics_of(folder) == m);
    REQUIRE(run_tool(line(folder, "pairs", "pairs.tsv", {"--batch", "1", "--precision", "f64"})).code == 0);
    const json wide = metrics_of(folder);
    CHECK(wide["cer"] == m["cer"]);
    CHECK(std::abs(wide["nll_per_token"].get<double>() - m["nll_per_token"].get<double>()) < 1e-4);
    REQUIRE(run_tool(line(folder, "pairs", "pairs.tsv",
                          {"--beam", "3", "--length-penalty", "gnmt", "--alpha", ".6", "--max-length", "5"}))
                .code == 0);
    CHECK(metrics_of(folder)["settings"]["length_penalty"] == "gnmt");
    REQUIRE(run_tool(line(folder, "pairs", "pairs.tsv", {"--tokens", "words"})).code == 0);
    CHECK(metrics_of(folder)["nll_per_token"] != m["nll_per_token"]);
  }

  TEST_CASE("evaluate_model: masked tokens, each alone") {
    const temporary_folder folder;
    save_models(folder);
    REQUIRE(run_tool(line(folder, "masked", "masked.txt")).code == 0);
    const json m = metrics_of(folder);
    CHECK(m["sentences"] == 2);
    CHECK(m["masked_tokens"] == 12);
    CHECK(m["masked_accuracy"].get<double>() * 12 == std::round(m["masked_accuracy"].get<double>() * 12));
    CHECK(m["perplexity"].get<double>() > 1);
    REQUIRE(run_tool(line(folder, "masked", "masked.txt", {"--batch", "1", "--threads", "2"})).code == 0);
    CHECK(std::abs(metrics_of(folder)["nll_per_token"].get<double>() - m["nll_per_token"].get<double>()) < 1e-6);
    REQUIRE(run_tool(line(folder, "masked", "masked.txt", {"--masked", "2"})).code == 0);
    CHECK(metrics_of(folder)["masked_tokens"] == 4);
  }

  TEST_CASE("evaluate_model: what it refuses, leaving nothing behind") {
    const temporary_folder folder;
    save_models(folder);
    write_text(folder / "long.txt", "[CLS] u u u u u u u u u u u [SEP]\n");
    write_text(folder / "short.txt", "u\n");
    write_text(folder / "tabless.tsv", "a\n");
    const auto before = content(folder.path());
    const auto refused = [&](int code, const std::vector<std::string>& words, const std::string& text) {
      const outcome o = run_tool(words);
      CAPTURE(o.err);
      CHECK(o.code == code);
      CHECK(o.out == "");
      CHECK(o.err.find(text) != std::string::npos);
      CHECK(o.err.starts_with("evaluate_model: "));
      CHECK(std::count(o.err.begin(), o.err.end(), '\n') == 1);
      CHECK(content(folder.path()) == before);
    };
    refused(2, {}, "--model is missing (see --help)");
    refused(2, line(folder, "pairs", "pairs.tsv", {"--beam", "0"}),
            "--beam is '0', expected a whole number from 1 to 1024");
    refused(2, line(folder, "pairs", "pairs.tsv", {"--precision", "f16"}), "--precision is 'f16', expected f32 or f64");
    refused(2, line(folder, "pairs", "pairs.tsv", {"--verbose"}), "unknown option --verbose");
    refused(1, line(folder, "nowhere", "pairs.tsv"), "nowhere");
    refused(1, line(folder, "pairs", "nothing.tsv"), "nothing.tsv");
    refused(1, line(folder, "pairs", "tabless.tsv"), "line 1 has no tab between source and target");
    refused(1, line(folder, "masked", "long.txt"), "line 1: 13 tokens, expected at most the model's 12 positions");
    refused(1, line(folder, "masked", "short.txt"), "no line has 3 tokens or more");
    refused(1, line(folder, "masked", "pairs.tsv"), "line 1: vocabulary: \"abc\" is none of the 6 symbols");
    refused(1, line(folder, "masked", "masked.txt", {"--mask", "?"}), "the vocabulary has no symbol \"?\" (--mask)");
    refused(1, line(folder, "masked", "masked.txt", {"--hypotheses", "x"}), "a masked language model decodes nothing");
    auto nowhere = line(folder, "masked", "masked.txt");
    nowhere.back() = (folder / "no" / "such" / "folder.json").string();
    refused(1, nowhere, "cannot be created");
    CHECK(run_tool({"--help"}).out.starts_with("evaluate_model: how good a model is\n"));
    CHECK(run_tool({"--version"}).out.starts_with("headred "));
  }

  TEST_CASE("evaluate_model: the reference's measures of the transliteration model") {
    const auto folder = shared_dir() / "data/marian_aren_transliteration";
    const auto oracle = shared_dir() / "oracles/marian_aren_transliteration/baseline_eval.json";
    if (!fs::exists(folder) || !fs::exists(oracle)) return skip("no marian_aren_transliteration");
    const json expected = json::parse(read_text(oracle));
    const temporary_folder out;
    REQUIRE(run_tool({"--model", folder.string(), "--data", (folder / "ar2en-eval.tsv").string(), "--precision", "f64",
                      "--out", (out / "metrics.json").string(), "--hypotheses", (out / "found.txt").string()})
                .code == 0);
    const json m = metrics_of(out);
    CHECK(m["exact_match"] == expected["exact_match"]);
    CHECK(m["cer"] == expected["cer"]);
    CHECK(std::abs(m["nll_per_character"].get<double>() - expected["nll_per_character"].get<double>()) < 1e-9);
    CHECK(!m.contains("bleu"));
    std::string strings;
    for (const auto& word : expected["greedy"]) strings += word.get<std::string>() + "\n";
    CHECK(read_text(out / "found.txt") == strings);
  }
}
