// The program attention_masks from outside: the invented language, a study that goes on, and what it refuses.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tool/run_tool.hpp"

using namespace headred_test;

namespace {

std::vector<std::string> small(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"--seeds",     "2", "--train",   "20",     "--updates", "4",
                                    "--sentences", "8", "--lambdas", "0.01,1", "--remove",  "0,special",
                                    "--offsets",   "1", "--masked",  "2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_SUITE("tool") {
  TEST_CASE("attention_masks: every part; any number of threads; a study that goes on") {
    const temporary_folder folder;
    const auto run = [&](const std::string& out, const std::vector<std::string>& more) {
      auto words = small(more);
      words.insert(words.end(), {"--out", (folder / out).string()});
      const outcome o = run_tool(words);
      REQUIRE_MESSAGE(o.code == 0, o.err);
      CHECK(o.err == "");
      return content(folder / out);
    };
    const std::vector<std::string> kept = {"--runs", (folder / "runs").string()};
    const auto files = run("out", {});
    CHECK(files.size() == 2);
    CHECK(files.at("report.html").starts_with("<!DOCTYPE html>"));
    const json results = json::parse(files.at("results.json"));
    CHECK(results["settings"]["updates"] == 4);
    CHECK(results["removal"].size() == 5);      // diagonal, each of three special tokens, all of them
    CHECK(results["pretraining"].size() == 3);  // everything, without offsets 0 and 1
    CHECK(results["pretraining"][1]["change"]["values"].size() == 2);
    // seven patterns; two forms at two prices, two stages each; at one of the prices the zeros of six patterns
    CHECK(results["masks"].size() == 7 + 2 * 2 * 2 + 2 * 6);
    CHECK(results["importance"]["by_layer_head_offset"].size() == 2);

    CHECK(run("kept", kept) == files);
    CHECK(fs::exists(folder / "runs" / "pretraining_without_1_2.json"));
    fs::remove(folder / "runs" / "pretraining_without_1_2.json");
    fs::remove(folder / "runs" / "importance_offsets_1.json");
    fs::remove(folder / "runs" / "mask_bigbird_2.json");
    fs::remove(folder / "runs" / "mask_structured_1_cut_1.json");
    CHECK(run("again", {kept[0], kept[1], "--threads", "1"}) == files);

    const outcome o = run_tool(small({kept[0], kept[1], "--rate", "0.5", "--out", (folder / "none").string()}));
    CHECK(o.code == 1);
    CHECK(o.err.find("is of a study with other settings, expected these: ") != std::string::npos);
    CHECK(!fs::exists(folder / "none"));
  }

  TEST_CASE("attention_masks: what it refuses, leaving nothing behind") {
    const temporary_folder folder;
    const auto refused = [&](int code, const std::vector<std::string>& more, const std::string& text) {
      auto words = small({});
      for (std::size_t i = 0; i + 1 < more.size(); i += 2) {  // each option once
        const auto at = std::find(words.begin(), words.end(), more[i]);
        if (at != words.end()) words.erase(at, at + 2);
      }
      words.insert(words.end(), more.begin(), more.end());
      words.insert(words.end(), {"--out", (folder / "new/out").string()});
      const outcome o = run_tool(words);
      CAPTURE(words);
      CAPTURE(o.err);
      CHECK(o.code == code);
      CHECK(o.out == "");
      CHECK(o.err.find(text) != std::string::npos);
      CHECK(std::count(o.err.begin(), o.err.end(), '\n') == 1);
      CHECK(content(folder.path()).empty());
    };
    refused(2, {"--lambdas", "0.1,0.1"}, "--lambdas is '0.1', expected a list of different numbers of at least 0");
    refused(2, {"--lambdas", "-1"}, "--lambdas is '-1'");
    refused(2, {"--lambdas", "nan"}, "--lambdas is 'nan'");
    refused(2, {"--remove", "0,0"}, "--remove is '0', expected a list of different offsets and special");
    refused(2, {"--remove", "special,special"}, "--remove is 'special'");
    refused(2, {"--parts", "removal,removal"}, "--parts is 'removal'");
    refused(2, {"--places", "p.json"}, "--places needs --model");
    refused(2, {"--length", "9"}, "--length needs --model");
    refused(2, {"--updates", "0"}, "--updates is '0', expected a whole number from 1 to 1000000");
    refused(1, {"--rate", "1e30"}, "the model's losses are not finite, expected a lower --rate or other weights");
  }
}
