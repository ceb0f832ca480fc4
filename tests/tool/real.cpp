// head_redundancy on real BERT-base maps (12 layers of 12 heads, 40 sentences) against float64 references that were
// computed independently.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "environment.hpp"
#include "oracle/npy_matrix.hpp"
#include "tool/run_tool.hpp"

using namespace headred_test;

namespace {

json read_json(const fs::path& path) { return json::parse(std::ifstream(path)); }

double worst_difference(const std::vector<double>& a, const hr::matrix& b) {
  REQUIRE(a.size() == static_cast<std::size_t>(b.rows() * b.cols()));
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b.data()[i]));
  return worst;
}

/// Largest difference of two lists of numbers.
double worst_difference(const json& a, const json& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i].get<double>() - b[i].get<double>()));
  return worst;
}

/// [[layer, head], ...] as flat numbers.
json flat(const json& heads) {
  json numbers = json::array();
  for (const auto& head : heads) numbers.push_back(12 * head[0].get<int>() + head[1].get<int>());
  return numbers;
}

/// Correlations of all distances with each other against the reference table.
void check_correlations(const json& found, const json& reference) {
  const json& names = reference["distances"];
  REQUIRE(names.size() == 7);
  double worst = 0;
  for (std::size_t i = 0; i < 7; ++i)
    for (std::size_t j = 0; j < 7; ++j)
      worst = std::max(worst, std::abs(found[names[i].get<std::string>()][names[j].get<std::string>()].get<double>() -
                                       reference["correlation_of_matrices"][i][j].get<double>()));
  MESSAGE("correlations: ", worst);
  CHECK(worst <= 1e-8);
}

}  // namespace

TEST_SUITE("tool_real") {
  TEST_CASE("seven distances of BERT-base") {
    const fs::path shared = shared_dir();
    if (shared.empty()) return skip("no folder with real data");
    const std::string maps = (shared / "data/bert_base_sst2/attention.safetensors").string();
    const fs::path references = shared / "oracles/bert_base_sst2";
    const json clustering = read_json(references / "all/clustering_jensen_shannon.json");
    const json table = read_json(references / "summary.json")["all"];

    for (const std::string precision : {"f64", "f32"}) {
      CAPTURE(precision);
      const bool wide = precision == "f64";
      const auto start = std::chrono::steady_clock::now();
      const result r = answer({"--attention", maps, "--precision", precision, "--clusters", "36", "--threads", "2"});
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      MESSAGE(precision, ", 40 sentences, seven distances: ", seconds, " s");
#ifdef NDEBUG
      CHECK(seconds < 60);
#endif
      CHECK(r.summary["sentences"]["used"] == 40);
      for (const auto& name : all_distances()) {
        const double worst =
            worst_difference(r.redundancy.at(name), oracle::npy_matrix(references / "all" / (name + ".npy")));
        MESSAGE(precision, ", ", name, ": ", worst);
        CHECK(worst <= (wide ? 1e-10 : 2e-6));
        CHECK(r.summary["layer_gap"][name].size() == 12);
      }
      // heads (2,0) and (2,9) are the nearest pair
      const auto& d = r.redundancy.at("jensen_shannon");
      std::size_t nearest = 1;
      for (std::size_t i = 0; i < d.size(); ++i)
        if (i / 144 < i % 144 && d[i] < d[nearest]) nearest = i;
      CHECK(nearest == 24 * 144 + 33);
      CHECK(r.summary["labels"][24] == r.summary["labels"][33]);

      const json& plan = clustering["plans"]["36"];
      CHECK(r.summary["labels"] == plan["labels"]);
      CHECK(r.summary["kept"] == flat(plan["representatives"]));
      if (wide) {
        CHECK(worst_difference(r.summary["silhouettes"], plan["silhouette"]) <= 1e-10);
        CHECK(std::abs(r.summary["mean_silhouette"].get<double>() - plan["mean_silhouette"].get<double>()) <= 1e-10);
        check_correlations(r.summary["correlations"], table);
      }
    }
  }

  TEST_CASE("clusters of BERT-base on jensen_shannon: 72, and the whole curve") {
    const fs::path shared = shared_dir();
    if (shared.empty()) return skip("no folder with real data");
    const std::string maps = (shared / "data/bert_base_sst2/attention.safetensors").string();
    const json clustering = read_json(shared / "oracles/bert_base_sst2/all/clustering_jensen_shannon.json");
    const std::vector<std::string> js = {"jensen_shannon"};
    const std::vector<std::string> words = {"--attention", maps, "--precision", "f64", "--distance", js[0]};
    for (const auto& [option, value, k] : {std::tuple<std::string, std::string, std::string>{"--clusters", "36", "36"},
                                           {"--prune", "0.5", "72"},
                                           {"--auto", "2:72", "3"}}) {
      CAPTURE(k);
      auto all = words;
      all.insert(all.end(), {option, value});
      const json s = answer(all, js).summary;
      const json& plan = clustering["plans"][k];
      CHECK(std::to_string(s["k"].get<int>()) == k);
      CHECK(s["labels"] == plan["labels"]);
      CHECK(s["kept"] == flat(plan["representatives"]));
      CHECK(worst_difference(s["silhouettes"], plan["silhouette"]) <= 1e-10);
      json numbers, means;
      for (const auto& point : s["curve"]) {
        numbers.push_back(point["k"]);
        means.push_back(point["mean_silhouette"]);
      }
      CHECK(numbers == clustering["k"]);
      const double worst = worst_difference(means, clustering["mean_silhouette"]);
      MESSAGE("curve: ", worst);
      CHECK(worst <= 1e-10);
    }
  }
}
