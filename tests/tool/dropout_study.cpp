// The program dropout_study from outside: its models and trends, a study that goes on, and what it refuses.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tool/run_tool.hpp"

using namespace headred_test;

namespace {

using word_list = std::vector<std::string>;
using grid = std::vector<std::vector<double>>;  // [seed][rate]

const word_list small = {"--layers",  "1", "--width",        "16", "--heads", "4",  "--rates",     "0,0.3,0.6",
                         "--updates", "4", "--batch-tokens", "64", "--train", "40", "--sentences", "6"};

word_list with(word_list words, const word_list& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// results.json and report.html of a run that has to succeed.
std::map<std::string, std::string> files_of(const temporary_folder& folder, const std::string& out,
                                            const word_list& words) {
  const outcome o = run_tool(with(words, {"--out", (folder / out).string()}));
  CAPTURE(words);
  REQUIRE_MESSAGE(o.code == 0, o.err);
  CHECK(o.err == "");
  CHECK(o.out.starts_with("NLL, hidden dropout: "));
  CHECK(o.out.ends_with("report: " + (folder / out / "report.html").string() + "\n"));
  auto files = content(folder / out);
  CHECK(files.size() == 2);
  CHECK(files.at("report.html").starts_with("<!DOCTYPE html>"));
  return files;
}

/// One number of every model with a sort of dropout, those without any first.
template <class Get>
grid values_of(const json& results, const std::string& sort, const Get& get) {
  grid values(results["seeds"].get<std::size_t>());
  for (const char* wanted : {"none", sort.c_str()})
    for (const json& m : results["models"])
      if (m["dropout"] == wanted)
        values[m["seed"].get<std::size_t>() - results["seed"].get<std::size_t>()].push_back(get(m));
  return values;
}

/// Spearman with the places, for values without ties: 1 - 6 sum d^2 / (n (n^2 - 1)).
double spearman(const std::vector<double>& row) {
  double squares = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto rank = std::count_if(row.begin(), row.end(), [&](double x) { return x < row[i]; });
    squares += std::pow(static_cast<double>(rank) - static_cast<double>(i), 2);
  }
  const auto n = static_cast<double>(row.size());
  return 1 - 6 * squares / (n * (n * n - 1));
}

/// The trend of two seeds and three rates, written down from its definition.
void check_trend(const json& trend, const grid& v) {
  REQUIRE(v.size() == 2);
  for (const auto& row : v) REQUIRE(row.size() == 3);
  for (std::size_t r = 0; r < 3; ++r) {
    CHECK(trend["mean"][r].get<double>() == doctest::Approx((v[0][r] + v[1][r]) / 2).epsilon(1e-12));
    CHECK(trend["deviation"][r].get<double>() ==
          doctest::Approx(std::abs(v[0][r] - v[1][r]) / std::sqrt(2.)).epsilon(1e-9));
  }
  const double rho = (spearman(v[0]) + spearman(v[1])) / 2;
  CHECK(trend["spearman"].get<double>() == doctest::Approx(rho).epsilon(1e-12));
  // of two seeds the rest after both means is half the difference of the seeds, around its own mean
  std::vector<double> half(3);
  double middle = 0, variance = 0;
  for (std::size_t r = 0; r < 3; ++r) middle += (half[r] = (v[0][r] - v[1][r]) / 2) / 3;
  for (const double x : half) variance += 2 * (x - middle) * (x - middle) / 2;  // two seeds, two degrees of freedom
  std::string shape;
  for (std::size_t r = 0; r < 2; ++r) {
    const double change = (v[0][r + 1] + v[1][r + 1] - v[0][r] - v[1][r]) / 2, error = std::sqrt(variance);
    CHECK(trend["steps"][r]["change"].get<double>() == doctest::Approx(change).epsilon(1e-9));
    CHECK(trend["steps"][r]["error"].get<double>() == doctest::Approx(error).epsilon(1e-9));
    shape += std::abs(change) <= 2 * error ? '0' : change > 0 ? '+' : '-';
  }
  CHECK(trend["shape"] == shape);
  CHECK(trend["turns"] ==
        (trend["steps"][0]["change"].get<double>() * trend["steps"][1]["change"].get<double>() < 0 ? 1 : 0));
  // all 36 ways to permute both seeds
  int as_far = 0;
  std::vector<std::size_t> a{0, 1, 2};
  do {
    std::vector<std::size_t> b{0, 1, 2};
    do {
      const std::vector<double> one{v[0][a[0]], v[0][a[1]], v[0][a[2]]}, other{v[1][b[0]], v[1][b[1]], v[1][b[2]]};
      as_far += std::abs(spearman(one) + spearman(other)) / 2 >= std::abs(rho) - 1e-12 ? 1 : 0;
    } while (std::next_permutation(b.begin(), b.end()));
  } while (std::next_permutation(a.begin(), a.end()));
  CHECK(std::abs(trend["p"].get<double>() - as_far / 36.) < .02);  // 10000 of them drawn: four deviations
  for (std::size_t s = 0; s < 2; ++s)
    CHECK(trend["strength"][s].get<double>() ==
          doctest::Approx(std::sqrt((std::pow(v[s][1] - v[s][0], 2) + std::pow(v[s][2] - v[s][0], 2)) / 2))
              .epsilon(1e-9));
}

}  // namespace

TEST_SUITE("tool") {
  TEST_CASE("dropout_study: every trend from its models, on any number of threads; a study that goes on") {
    const temporary_folder folder;
    for (const std::string task : {"translation", "masked"}) {
      CAPTURE(task);
      const auto runs = folder / ("runs of " + task);
      const auto words = with(small, {"--task", task, "--seeds", "2"});
      const auto files = files_of(folder, task, with(words, {"--threads", "1", "--runs", runs.string()}));
      const json results = json::parse(files.at("results.json"));
      CHECK(results["rates"] == json::parse("[0.0, 0.3, 0.6]"));
      REQUIRE(results["models"].size() == 2 * 5);
      const word_list kinds =
          task == "masked" ? word_list{"encoder_self"} : word_list{"encoder_self", "decoder_self", "cross"};
      REQUIRE(results["curves"].size() == kinds.size() * 7);
      for (const json& m : results["models"]) {
        CHECK(m["nll"].get<double>() > 0);
        CHECK(m["distance"].size() == kinds.size());
        CHECK(m.contains("found") == (task == "masked"));
      }
      for (const std::string sort : {"hidden", "attention"}) {
        check_trend(results["nll"][sort],
                    values_of(results, sort, [](const json& m) { return m["nll"].get<double>(); }));
        for (const json& c : results["curves"]) {
          CAPTURE(c["kind"].dump());
          CAPTURE(c["distance"].dump());
          const auto distance = c["distance"].get<std::string>(), kind = c["kind"].get<std::string>();
          CHECK(c["level"] ==
                (distance == "distance_correlation" || distance == "procrustes" || distance == "canonical_correlation"
                     ? "sentence"
                     : "token"));
          const grid values =
              values_of(results, sort, [&](const json& m) { return m["distance"][kind][distance].get<double>(); });
          for (const auto& row : values)
            for (const double x : row) CHECK((x > 0 && x <= 1));
          check_trend(c[sort], values);
          CHECK(c["hidden_stronger"]["mean"].get<double>() ==
                doctest::Approx((c["hidden"]["strength"][0].get<double>() + c["hidden"]["strength"][1].get<double>() -
                                 c["attention"]["strength"][0].get<double>() -
                                 c["attention"]["strength"][1].get<double>()) /
                                2)
                    .epsilon(1e-9));
        }
      }
      // the sorts act on different things
      CHECK(results["models"][1]["distance"] != results["models"][6]["distance"]);

      CHECK(content(runs).size() == 10);
      fs::remove(runs / "hidden_0.3_2.json");
      fs::remove(runs / "none_1.json");
      const auto again = files_of(folder, "again", with(words, {"--threads", "2", "--runs", runs.string()}));
      CHECK(again == files);
      if (task == "masked") continue;
      // a third seed needs its own models alone, and no folder of runs is needed
      const auto more = with(small, {"--seeds", "3", "--seed", "0"});
      CHECK(files_of(folder, "more", with(more, {"--runs", runs.string()})) == files_of(folder, "none", more));
      CHECK(content(runs).size() == 15);

      outcome o = run_tool(with(words, {"--rate", "0.1", "--runs", runs.string(), "--out", (folder / "new").string()}));
      CHECK(o.code == 1);
      CHECK(o.err.find("none_1.json: is of a study with other settings, expected these: ") != std::string::npos);
      for (const char* text : {"{\"settings\"", "[]", "{\"settings\": {}}"}) {
        write_text(runs / "none_1.json", text);
        o = run_tool(with(words, {"--runs", runs.string(), "--out", (folder / "new").string()}));
        CHECK(o.code == 1);
        CHECK(o.err.find("none_1.json: is ") != std::string::npos);
        CHECK(std::count(o.err.begin(), o.err.end(), '\n') == 1);
      }
      CHECK(!fs::exists(folder / "new"));
    }
  }

  TEST_CASE("dropout_study: interrupted, it leaves no result, and says what is kept") {
    const temporary_folder folder;
    auto words = with(small, {"--seeds", "2", "--out", (folder / "out").string()});
    words[9] = "100000";  // updates
    // without --foreground timeout sends the signal twice, and the second one kills
    outcome o = run_shell("timeout --foreground -s INT 2 " + command(words));
    CHECK(o.code != 0);
    CHECK(o.err == "dropout_study: interrupted, nothing was written\n");
    CHECK(!fs::exists(folder / "out"));
    o = run_shell("timeout --foreground -s INT 2 " + command(with(words, {"--runs", (folder / "runs").string()})));
    CHECK(o.err == "dropout_study: interrupted, no result was written; what --runs keeps is there\n");
    CHECK(!fs::exists(folder / "out"));
    CHECK(fs::is_empty(folder / "runs"));
  }

  TEST_CASE("dropout_study: what it refuses, leaving nothing behind") {
    const temporary_folder folder;
    write_text(folder / "file", "not a folder");
    const auto before = content(folder.path());
    const auto refused = [&](int code, const word_list& words, const std::string& text) {
      const outcome o = run_tool(words);
      CAPTURE(words);
      CAPTURE(o.err);
      CHECK(o.code == code);
      CHECK(o.out == "");
      CHECK(o.err.find(text) != std::string::npos);
      CHECK(o.err.starts_with("dropout_study: "));
      CHECK(std::count(o.err.begin(), o.err.end(), '\n') == 1);
      CHECK(content(folder.path()) == before);
    };
    refused(2, {}, "--out is missing");
    const auto no = [&](const word_list& words, const std::string& text) {
      refused(2, with(words, {"--out", (folder / "new/out").string()}), text);
    };
    for (const char* rates : {"0.1,0.2,0.3", "0,0.2", "0,0.2,1", "0,0.2,0.2", "0,0.3,0.2", "0,0.2,nan", "0,0.2,", "a"})
      no({"--rates", rates}, std::string("--rates is '") + rates + "', expected at least three ascending numbers");
    no({"--task", "speech"}, "--task is 'speech', expected translation or masked");
    no({"--seeds", "1"}, "--seeds is '1', expected a whole number from 2 to 1000");
    no({"--heads", "1"}, "--heads is '1', expected a whole number from 2 to 4096");
    no({"--width", "9", "--heads", "2"}, "--width is no multiple of --heads");
    no({"--updates", "0"}, "--updates is '0'");
    no({"--sentences", "0"}, "--sentences is '0'");
    no({"--rate", "0"}, "--rate is '0', expected a positive number");
    no({"--dropout", ".1"}, "unknown option --dropout");
    refused(1, {"--out", (folder / "file").string()}, "file: cannot be written: it is not a folder");
    refused(1, {"--out", (folder / "new").string(), "--runs", (folder / "file").string()}, "file: cannot be made");
    CHECK(run_tool({"--help"}).out.starts_with("dropout_study: "));
    CHECK(run_tool({"--version"}).out.starts_with("headred "));
  }
}
