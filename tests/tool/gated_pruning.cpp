// The program gated_pruning from outside: the invented language, a study that goes on, and what it refuses.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <headred/io/plan_json.hpp>

#include "tool/run_tool.hpp"

using namespace headred_test;

namespace {

const std::vector<std::string> small = {"--layers",  "1",  "--width",   "16", "--heads", "4", "--train",     "30",
                                        "--updates", "20", "--further", "4",  "--seeds", "2", "--gate-rate", ".2"};

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Runs with --out and reads what is there.
std::map<std::string, std::string> files_of(const temporary_folder& folder, const std::string& out,
                                            const std::vector<std::string>& words) {
  const outcome o = run_tool(with(words, {"--out", (folder / out).string()}));
  CAPTURE(words);
  REQUIRE_MESSAGE(o.code == 0, o.err);
  CHECK(o.err == "");
  CHECK(o.out.ends_with("report: " + (folder / out / "report.html").string() + "\n"));
  return content(folder / out);
}

}  // namespace

TEST_SUITE("tool") {
  TEST_CASE("gated_pruning: all kinds, beside its controls; any number of threads; a study that goes on") {
    const temporary_folder folder;
    const auto words = with(small, {"--lambda", "0,100", "--scratch", "--runs", (folder / "runs").string()});
    const auto files = files_of(folder, "out", words);
    std::vector<std::string> names;
    for (const auto& [name, text] : files) names.push_back(name);
    CHECK(names == std::vector<std::string>{"plan_lambda_0_1.json", "plan_lambda_0_2.json", "plan_lambda_100_1.json",
                                            "plan_lambda_100_2.json", "report.html", "results.json"});
    CHECK(files.at("report.html").starts_with("<!DOCTYPE html>"));
    const json results = json::parse(files.at("results.json"));
    CHECK(results["whole"].size() == 2);
    REQUIRE(results["points"].size() == 2);
    for (const json& point : results["points"]) {
      CHECK(point["runs"].size() == 2);
      CHECK(point["random"].size() == 2);
      CHECK(point["scratch"].size() == 2);
      for (const json& run : point["runs"]) CHECK(run["difference"].get<double>() < 1e-4);
    }
    // nothing costs nothing, and at 100 nats a head no head is worth its price
    for (const char* kind : {"encoder_self", "decoder_self", "cross"}) {
      CHECK(results["points"][0]["runs"][0]["kept"][kind] == 4);
      CHECK(results["points"][1]["runs"][0]["kept"][kind] == 0);
      CHECK(results["points"][1]["survivors"][kind] == json::parse("[[0,0,0,0]]"));
    }
    CHECK(results["points"][0]["runs"][0]["cut"]["nll"] < results["points"][1]["runs"][0]["cut"]["nll"]);
    CHECK(results["points"][1]["runs"][0]["parameters"] < 1);
    CHECK(hr::load_plan_json(folder / "out" / "plan_lambda_100_2.json").count() == 0);
    CHECK(hr::load_plan_json(folder / "out" / "plan_lambda_0_1.json").removes_nothing());

    // what is lost is done again, on another number of threads, and comes to the same
    CHECK(fs::exists(folder / "runs" / "lambda_100_1" / "model.safetensors"));
    fs::remove(folder / "runs" / "lambda_100_1.json");
    fs::remove(folder / "runs" / "whole_2.json");
    const auto again = files_of(folder, "again", with(words, {"--threads", "1"}));
    for (const auto& [name, text] : files) CHECK_MESSAGE(again.at(name) == text, name);

    // as many seeds more as asked for, on top of what is there, are what they are in one go; plans of before are gone
    auto fewer = words;
    fewer[13] = "1";  // seeds
    fewer.insert(fewer.end(), {"--random-plans", "2"});
    fewer[20] = (folder / "grown").string();  // runs
    files_of(folder, "grown_out", fewer);
    fewer[13] = "2";
    const auto grown = files_of(folder, "grown_out", fewer);
    for (const auto& [name, text] : files) CHECK_MESSAGE(grown.at(name) == text, name);
    auto single = words;
    single[17] = "100";  // lambda
    CHECK(!files_of(folder, "again", single).contains("plan_lambda_0_1.json"));

    // a pruned model that is lost is made again
    fs::remove_all(folder / "runs" / "lambda_100_1");
    files_of(folder, "again", words);
    CHECK(fs::exists(folder / "runs" / "lambda_100_1" / "model.safetensors"));

    // a run of another study, and what is none
    auto other = words;
    other[5] = "2";  // heads
    outcome o = run_tool(with(other, {"--out", (folder / "none").string()}));
    CHECK(o.code == 1);
    CHECK(o.err.find("whole_1.json: is of a study with other settings, expected these: ") != std::string::npos);
    write_text(folder / "runs" / "whole_1.json", "{\"settings\"");
    o = run_tool(with(words, {"--out", (folder / "none").string()}));
    CHECK(o.code == 1);
    CHECK(o.err.find("whole_1.json: is no run of gated_pruning, expected one or no such file") != std::string::npos);
    CHECK(!fs::exists(folder / "none"));
  }

  TEST_CASE("gated_pruning: the encoder alone, to a number of heads, with the decoder frozen") {
    const temporary_folder folder;
    auto words =
        with(small, {"--kinds", "encoder", "--freeze-decoder", "--target", "1", "--seeds", "1", "--random-plans", "0"});
    words[9] = "60";                                      // updates
    words.erase(words.begin() + 12, words.begin() + 14);  // --seeds 2
    const auto files = files_of(folder, "out", words);
    const json results = json::parse(files.at("results.json"));
    const json& run = results["points"][0]["runs"][0];
    CHECK(run["kept"]["encoder_self"] <= 2);
    CHECK(run["kept"]["decoder_self"] == 4);
    CHECK(run["kept"]["cross"] == 4);
    CHECK(results["points"][0]["survivors"].size() == 1);
    CHECK(results["points"][0]["random"].empty());
    CHECK(files.size() == 3);
  }

  TEST_CASE("gated_pruning: what it refuses, leaving nothing behind") {
    const temporary_folder folder;
    const auto before = content(folder.path());
    const auto refused = [&](int code, std::vector<std::string> words, const std::string& text) {
      words.insert(words.end(), {"--out", (folder / "new/out").string()});
      const outcome o = run_tool(words);
      CAPTURE(words);
      CAPTURE(o.err);
      CHECK(o.code == code);
      CHECK(o.out == "");
      CHECK(o.err.find(text) != std::string::npos);
      CHECK(o.err.starts_with("gated_pruning: "));
      CHECK(std::count(o.err.begin(), o.err.end(), '\n') == 1);
      CHECK(content(folder.path()) == before);
    };
    refused(2, {"--lambda", "-1"}, "--lambda is '-1', expected numbers of at least 0, each once, parted by commas");
    refused(2, {"--lambda", "nan"}, "--lambda is 'nan'");
    refused(2, {"--lambda", ".1,.1"}, "--lambda is '.1,.1'");
    refused(2, {"--lambda", ".1,"}, "--lambda is '.1,'");
    refused(2, {"--target", "1.5"}, "--target is '1.5', expected whole numbers from 0 on, each once, parted by commas");
    refused(2, {"--target", "3", "--lambda", ".1"}, "--lambda and --target exclude each other");
    refused(2, {"--target-rate", ".5"}, "--target-rate needs --target");
    refused(2, {"--target", "3", "--target-rate", "2"}, "--target-rate is '2', expected a number in (0,1]");
    refused(2, {"--kinds", "cross"}, "--kinds is 'cross', expected encoder or all");
    refused(2, {"--method", "mean"}, "--method is 'mean', expected sum or layer_mean");
    refused(2, {"--freeze-decoder"}, "--freeze-decoder needs --kinds encoder");
    refused(2, {"--model", "m"}, "--model needs --data");
    refused(2, {"--data", "d"}, "--data needs --model");
    refused(2, {"--model", "m", "--data", "d", "--heads", "2"},
            "--layers, --width and --heads are for the small model");
    refused(2, {"--width", "9", "--heads", "2"}, "--width is no multiple of --heads");
    refused(2, {"--updates", "0"}, "--updates is '0', expected a whole number from 1 to 1000000");
    refused(2, {"--dropout", "1"}, "--dropout is '1', expected a number in [0,1)");
    refused(2, {"--rate", "0"}, "--rate is '0', expected a positive number");
    refused(2, {"--nothing"}, "unknown option --nothing");
    refused(1, {"--train", "0", "--target", "1000"}, "--target: 1000 heads, expected at most the 36 with gates");
    refused(1, {"--model", (folder / "none").string(), "--data", "d"}, "none");
  }

  TEST_CASE("gated_pruning: interrupted, it leaves no result, and what was finished stays for the next time") {
    const temporary_folder folder;
    const auto words =
        with(small, {"--lambda", "0.1", "--runs", (folder / "runs").string(), "--out", (folder / "out").string()});
    auto longer = words;
    longer[9] = "100000";  // updates
    // without --foreground timeout sends the signal twice, and the second one kills
    const outcome o = run_shell("timeout --foreground -s INT 2 " + command(longer));
    CHECK(o.code != 0);
    CHECK(o.err == "gated_pruning: interrupted, no result was written; what --runs keeps is there\n");
    CHECK(!fs::exists(folder / "out"));
    CHECK(fs::is_empty(folder / "runs"));
  }
}
