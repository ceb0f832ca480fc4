// The program head_importance from outside: the invented language, real models and maps, and what it refuses.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <headred/io/plan_json.hpp>
#include <headred/io/save_transformer.hpp>
#include <headred/io/scores_json.hpp>

#include "environment.hpp"
#include "nn/decoding_support.hpp"
#include "tool/run_tool.hpp"

using namespace headred_test;
using headred::index_t;

namespace {

const std::vector<std::string> result_files = {"plan.json", "report.html", "roles.json", "scores.json"};

json read_json(const fs::path& path) { return json::parse(std::ifstream(path)); }

/// Runs with --out and reads what must be there, and nothing else.
std::map<std::string, std::string> files_of(const temporary_folder& folder, std::vector<std::string> words,
                                            std::vector<std::string> expected = result_files) {
  words.insert(words.end(), {"--out", (folder / "out").string()});
  const outcome o = run_tool(words);
  CAPTURE(words);
  REQUIRE_MESSAGE(o.code == 0, o.err);
  CHECK(o.err == "");
  CHECK(o.out.ends_with("report: " + (folder / "out" / "report.html").string() + "\n"));
  auto files = content(folder / "out");
  std::vector<std::string> found;
  for (const auto& [name, text] : files) found.push_back(name);
  std::sort(expected.begin(), expected.end());
  REQUIRE(found == expected);
  CHECK(files["report.html"].starts_with("<!DOCTYPE html>"));
  CHECK(files["report.html"].ends_with("</html>\n"));
  return files;
}

hr::head_scores scores_of(const std::string& text, const std::string& method) {
  return hr::parse_scores_json(json::parse(text).at(method).dump(), method);
}

/// Heads of a kind that have a role.
std::vector<std::pair<int, int>> heads_with(const json& roles, const std::string& role, const std::string& detail) {
  std::vector<std::pair<int, int>> heads;
  for (const auto& r : roles["roles"])
    if (r["role"] == role && (detail.empty() || r["detail"] == detail) && r["verdict"] == "yes")
      heads.emplace_back(r["layer"], r["head"]);
  return heads;
}

std::string bert(const fs::path& shared, const char* name) { return (shared / "data/bert_base_sst2" / name).string(); }

}  // namespace

TEST_SUITE("tool") {
  TEST_CASE("head_importance: the invented language, with curves, on any number of threads") {
    const temporary_folder folder;
    auto expected = result_files;
    expected.push_back("curves.json");
    const std::vector<std::string> words = {"--curve", "--random-plans", "3", "--samples", "2", "--remove", "2,6"};
    const auto files = files_of(folder, words, expected);
    const json scores = json::parse(files.at("scores.json"));
    REQUIRE(scores.size() == 5);
    for (const auto& [method, own] : scores.items()) {
      CAPTURE(method);
      const hr::head_scores read = scores_of(files.at("scores.json"), method);
      CHECK(read.kinds().size() == 3);
      for (const auto kind : read.kinds()) {
        CHECK(read.of(kind).size() == 12);
        if (method != "lrp") continue;
        for (hr::index_t l = 0; l < 2; ++l) {  // shares of a layer
          double sum = 0;
          for (hr::index_t h = 0; h < 6; ++h) sum += read.value(kind, {l, h});
          CHECK(std::abs(sum - 1) < 1e-9);
        }
      }
    }
    const hr::prune_plan plan = hr::load_plan_json(folder / "out" / "plan.json");
    CHECK(plan.count() == 18);
    const json roles = json::parse(files.at("roles.json"));
    REQUIRE(roles.size() == 3);
    std::vector<std::string> looked_for;
    for (const auto& r : roles["encoder_self"]["roles"])
      if (std::find(looked_for.begin(), looked_for.end(), r["role"]) == looked_for.end())
        looked_for.push_back(r["role"]);
    CHECK(looked_for ==
          std::vector<std::string>{"positional", "syntactic", "rare_word", "duplicate_token", "induction", "diagonal"});
    const json curves = json::parse(files.at("curves.json"));
    REQUIRE(curves["points"].size() == 6);
    for (const auto& point : curves["points"]) {
      CHECK(point["as_pruned"].size() == 6);
      CHECK(point["as_pruned"]["taylor"]["nll"].size() == 2);
      CHECK(point["as_pruned"]["random"]["nll"].size() == 3);
      CHECK(point["as_pruned"]["random"]["mean"].get<double>() > 0);
    }
    // the same bits on one thread
    auto alone = words;
    alone.insert(alone.end(), {"--threads", "1"});
    const temporary_folder other;
    const auto again = files_of(other, alone, expected);
    for (const auto& name : expected) CHECK_MESSAGE(again.at(name) == files.at(name), name);
    // an earlier curve does not stay beside a result without one
    files_of(folder, {"--method", "confidence", "--kinds", "cross", "--prune", "0.25"});
    CHECK(hr::load_plan_json(folder / "out" / "plan.json").count() == 36 - 3);
  }

  TEST_CASE("head_importance: the transliteration model") {
    const fs::path shared = shared_dir();
    if (shared.empty()) return skip("no folder with real data");
    const fs::path marian = shared / "data/marian_aren_transliteration";
    const temporary_folder folder;
    const std::vector<std::string> words = {
        "--model",  marian.string(),     "--data",      (marian / "ar2en-train.tsv").string(),
        "--method", "taylor,confidence", "--sentences", "20"};
    const auto files = files_of(folder, words);
    CHECK(json::parse(files.at("scores.json")).size() == 2);
    const hr::head_scores taylor = scores_of(files.at("scores.json"), "taylor");
    std::vector<double> sums;
    for (const auto kind :
         {hr::attention_kind::encoder_self, hr::attention_kind::decoder_self, hr::attention_kind::cross}) {
      CHECK(taylor.counts(kind).examples == 20);
      sums.push_back(0);
      for (const double x : taylor.of(kind)) sums.back() += x;
    }
    // other words than the reference's 20, whose sums are .45, .66 and 1.01: the encoder is needed least, cross most
    CHECK(sums[0] < sums[1]);
    CHECK(sums[1] < sums[2]);
    CHECK(hr::load_plan_json(folder / "out" / "plan.json").count() == 72);
    CHECK(json::parse(files.at("roles.json")).size() == 3);
  }

  TEST_CASE("head_importance: BERT's maps and their trees") {
    const fs::path shared = shared_dir();
    if (shared.empty()) return skip("no folder with real data");
    const temporary_folder folder;
    const auto files = files_of(
        folder, {"--attention", bert(shared, "attention.safetensors"), "--sentences-json",
                 bert(shared, "sentences.json"), "--frequencies", (shared / "data/word_freq/en_50k.txt").string()});
    const json roles = json::parse(files.at("roles.json"))["encoder_self"];
    const std::vector<std::pair<int, int>> next = {{2, 0}, {2, 9}};
    CHECK(heads_with(roles, "positional", "offset 1") == next);
    // The previous-token heads, below 90 %: (3,5) at 85.3, (1,4) at 82.9.
    for (const auto& [layer, head, share] : {std::tuple(3, 5, .853), std::tuple(1, 4, .829)}) {
      bool found = false;
      for (const auto& r : roles["roles"])
        if (r["role"] == "positional" && r["layer"] == layer && r["head"] == head) {
          found = true;
          CHECK(r["detail"] == "offset -1");
          CHECK(std::abs(r["share"].get<double>() - share) < 5e-4);
        }
      CHECK(found);
    }
    CHECK(!heads_with(roles, "delimiter", "").empty());
    // confidences and all syntactic counts equal the reference's
    const json reference = read_json(shared / "oracles/bert_base_sst2/heads.json");
    const json& sure = reference["confidence"]["end_excluded_as_query_and_key"]["mean_over_tokens"];
    const hr::head_scores confidence = scores_of(files.at("scores.json"), "confidence");
    double worst = 0;
    for (hr::index_t l = 0; l < 12; ++l)
      for (hr::index_t h = 0; h < 12; ++h)
        worst = std::max(worst, std::abs(confidence.value(hr::attention_kind::encoder_self, {l, h}) -
                                         sure[static_cast<std::size_t>(l)][static_cast<std::size_t>(h)].get<double>()));
    MESSAGE("confidence: ", worst);
    CHECK(worst <= 1e-11);
    int compared = 0;
    for (const auto& r : roles["roles"]) {
      if (r["role"] != "syntactic") continue;
      std::string name = r["detail"];
      name[name.find(' ')] = '/';
      const json& own = reference["syntactic"]["word_mean_sum_words_only"][name];
      CAPTURE(name);
      CHECK(r["tokens"] == own["pairs"]);
      CHECK(r["count"] == own["hits"][r["layer"].get<std::size_t>()][r["head"].get<std::size_t>()]);
      ++compared;
    }
    CHECK(compared == 144 * 8);
    CHECK(hr::load_plan_json(folder / "out" / "plan.json").count() == 72);
  }

  TEST_CASE("head_importance: a masked language model reads a treebank") {
    hr::cpu be{{.threads = 1}};
    const temporary_folder folder;
    hr::transformer_config c;
    c.width = 8;
    c.source = {9, 8, hr::positions::learned, 12, 0, 1, true};
    c.encoder.layers.assign(2, {{2, 2, 4, {}}, {}, 10});
    c.output = hr::output_head::masked_lm;
    auto model = decoding_test::random_model<float>(be, c, 2);
    hr::save_transformer(folder / "model", model.config(), model.weights());
    write_text(folder / "model" / "vocab.txt", "[CLS]\n[SEP]\n[MASK]\n[UNK]\nwe\nsee\n##n\nit\nthem\n");
    std::string lines, tree, strange;
    for (int i = 0; i < 40; ++i) {
      lines += "[CLS] we see it [SEP]\n[CLS] them [SEP]\n";
      tree +=
          "1\tWe\t_\tX\t_\t_\t2\tnsubj\t_\t_\n2\tseen\t_\tX\t_\t_\t0\troot\t_\t_\n"
          "3\tit\t_\tX\t_\t_\t2\tobj\t_\t_\n\n";
      strange += "1\tOther\t_\tX\t_\t_\t0\troot\t_\t_\n\n";
    }
    write_text(folder / "data.txt", lines);
    write_text(folder / "tree.conllu", tree);
    write_text(folder / "strange.conllu", strange);
    write_text(folder / "words.txt", "we 9\nsee 5\n");
    std::vector<std::string> words = {
        "--model",       (folder / "model").string() + "/", "--data",   (folder / "data.txt").string(),
        "--frequencies", (folder / "words.txt").string(),   "--conllu", (folder / "tree.conllu").string()};
    const auto files = files_of(folder, words);
    const json roles = json::parse(files.at("roles.json"))["encoder_self"];
    index_t syntactic = 0, rare = 0;
    for (const auto& r : roles["roles"]) {
      if (r["role"] == "syntactic") {
        const std::string relation = r["detail"];
        CHECK(r["tokens"] == (relation.starts_with("nsubj") || relation.starts_with("obj") ? 40 : 0));
        ++syntactic;
      }
      // "it" is not in the list, but the list is shorter than the 500 words that are never rare
      if (r["role"] == "rare_word") rare += r["tokens"].get<index_t>();
    }
    CHECK(syntactic == 4 * 8);
    CHECK(rare == 0);
    words.back() = (folder / "strange.conllu").string();
    words.insert(words.end(), {"--out", (folder / "none").string()});
    const outcome o = run_tool(words);
    CHECK(o.code == 1);
    CHECK(o.err.find("does not match the model: 40 of 40 pieces are not in ") != std::string::npos);
    CHECK(!fs::exists(folder / "none"));
  }

  TEST_CASE("head_importance: what it refuses, leaving nothing behind") {
    hr::cpu be{{.threads = 1}};
    const temporary_folder folder;
    hr::save_npy(folder / "maps.npy", random_maps(be, {2, 3, 5, 5}, 1));
    const std::string maps = (folder / "maps.npy").string(), out = (folder / "new/out").string();
    const auto tree = [](int words) {
      std::string text;
      for (int w = 1; w <= words; ++w)
        text += std::to_string(w) + "\tw\t_\tX\t_\t_\t" + std::to_string(w - 1) + "\t" + (w == 1 ? "root" : "obj") +
                "\t_\t_\n";
      return text + "\n";
    };
    for (const int words : {3, 4, 5}) write_text(folder / (std::to_string(words) + ".conllu"), tree(words));
    write_text(folder / "two.conllu", tree(5) + tree(5));
    write_text(folder / "bad.conllu", "1\tw\n\n");
    write_text(folder / "twice.json",
               R"([{"id": 1, "tokens": ["a"], "words": ["a"], "dependencies": [[0, null, "root"]]},
 {"id": 1, "tokens": ["a"], "words": ["a"], "dependencies": []}])");
    write_text(folder / "short.json",
               R"([{"id": 1, "tokens": ["a"], "words": ["a"], "dependencies": [[0, null, "root"]]}])");
    write_text(folder / "tree.json",
               R"([{"id": 1, "tokens": ["a"], "words": ["a"], "dependencies": [[0, 7, "obj"]]}])");
    write_text(folder / "pieces.json", R"([{"id": 1, "tokens": ["abc"], "words": ["a"], "dependencies": []}])");
    const auto before = content(folder.path());
    const auto refused = [&](int code, std::vector<std::string> words, const std::string& text) {
      words.insert(words.end(), {"--out", out});
      const outcome o = run_tool(words);
      CAPTURE(words);
      CAPTURE(o.err);
      CHECK(o.code == code);
      CHECK(o.out == "");
      CHECK(o.err.find(text) != std::string::npos);
      CHECK(o.err.starts_with("head_importance: "));
      CHECK(std::count(o.err.begin(), o.err.end(), '\n') == 1);
      CHECK(content(folder.path()) == before);
    };
    const auto path = [&](const char* name) { return (folder / name).string(); };
    refused(2, {"--method", "magic"}, "--method is 'magic', expected names out of confidence, lrp");
    refused(2, {"--method", "lrp,lrp"}, "each once");
    refused(2, {"--prune", "1"}, "--prune is '1', expected a number in [0,1)");
    refused(2, {"--remove", "4,2", "--curve"}, "each above the one before");
    refused(2, {"--updates", "3"}, "--remove and --updates need --curve");
    refused(2, {"--model", path("none")}, "--model needs --data");
    refused(2, {"--attention", maps, "--method", "taylor"}, "maps alone tell confidence");
    refused(2, {"--attention", maps, "--frequencies", "x"}, "--frequencies needs words");
    refused(2, {"--conllu", path("5.conllu")}, "need --model or --attention");
    refused(2, {"--attention", maps, "--conllu", "x", "--sentences-json", "y"}, "exclude each other");
    refused(1, {"--model", path("none"), "--data", path("none.tsv")}, "none");
    refused(1, {"--attention", path("none.npy")}, "none.npy");
    refused(1, {"--attention", maps, "--conllu", path("4.conllu")},
            "does not match the maps: sentence 0 has 4 words, " + maps + " 5 tokens, expected one a word");
    refused(1, {"--attention", maps, "--conllu", path("two.conllu")}, "has 2 sentences, but the maps 1");
    refused(1, {"--attention", maps, "--conllu", path("bad.conllu")}, "line 1 has 2 columns");
    refused(1, {"--attention", maps, "--sentences-json", path("twice.json")}, "[1].id is given twice");
    refused(1, {"--attention", maps, "--sentences-json", path("short.json")}, "sentence 1 has 1 tokens, but " + maps);
    refused(1, {"--attention", maps, "--sentences-json", path("tree.json")},
            "[0].dependencies holds \"[0,7,\\x22obj\\x22]\", expected [word, head");
    refused(1, {"--attention", maps, "--sentences-json", path("pieces.json")}, "[0].tokens do not fit the words");
    // with a frame around three words, and without one around five, the maps fit
    for (const char* name : {"3.conllu", "5.conllu"}) {
      const temporary_folder other;
      files_of(other, {"--attention", maps, "--conllu", path(name)});
    }
    CHECK(run_tool({"--help"}).out.starts_with("head_importance: which heads matter, and what they do\n"));
    CHECK(run_tool({"--version"}).out.starts_with("headred "));
  }
}
