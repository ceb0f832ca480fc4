// The program head_redundancy, run from outside, and what it leaves in its output folder.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/random.hpp>
#include <headred/io.hpp>
#include <nlohmann/json.hpp>

#include "io/io_support.hpp"

namespace headred_test {

namespace fs = std::filesystem;
namespace hr = headred;
using json = nlohmann::json;

struct outcome {
  int code = -1;  // 128 + number for a signal
  std::string out, err;
};

inline std::string shell_word(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

inline std::string tool() {
  const char* path = std::getenv("HEADRED_TOOL");
  if (path == nullptr) throw std::runtime_error("HEADRED_TOOL does not name the program");
  return path;
}

inline std::string command(const std::vector<std::string>& words) {
  std::string line = shell_word(tool());
  for (const std::string& word : words) line += " " + shell_word(word);
  return line;
}

/// Runs a line of the shell; `redirect` comes last and may send standard error elsewhere.
inline outcome run_shell(const std::string& line, const std::string& redirect = "") {
  const temporary_folder folder;
  const std::string all = "{ " + line + " ; } >" + shell_word((folder / "out").string()) + " 2>" +
                          shell_word((folder / "err").string()) + " </dev/null " + redirect;
  const int status = std::system(all.c_str());
  outcome result{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_text(folder / "out"),
                 read_text(folder / "err")};
  return result;
}

inline outcome run_tool(const std::vector<std::string>& words) { return run_shell(command(words)); }

/// Attention maps (L,H,T,S): random rows that sum to 1, a pure function of the seed.
inline hr::tensor<float, 4, hr::cpu> random_maps(hr::cpu& be, const hr::shape_t<4>& shape, std::uint64_t seed) {
  hr::tensor<float, 4, hr::cpu> maps(be, shape);
  const hr::random_stream random(seed, 7);
  const hr::index_t keys = shape[3];
  for (hr::index_t row = 0; keys > 0 && row < maps.size() / keys; ++row) {
    double sum = 0;
    float* const values = maps.data() + row * keys;
    for (hr::index_t k = 0; k < keys; ++k)
      sum += values[k] = static_cast<float>(.05 + random.uniform(static_cast<std::uint64_t>(row * keys + k)));
    for (hr::index_t k = 0; k < keys; ++k) values[k] = static_cast<float>(values[k] / sum);
  }
  return maps;
}

/// Everything below a folder: path -> content, folders with a slash at their end.
inline std::map<std::string, std::string> content(const fs::path& folder) {
  std::map<std::string, std::string> all;
  if (!fs::exists(folder)) return all;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = fs::relative(entry.path(), folder).string();
    if (entry.is_directory()) {
      all[name + "/"];
    } else {
      all[name] = read_text(entry.path());
    }
  }
  return all;
}

inline const std::vector<std::string>& all_distances() {
  static const std::vector<std::string> names = {"cosine",
                                                 "pearson",
                                                 "jensen_shannon",
                                                 "bhattacharyya",
                                                 "distance_correlation",
                                                 "procrustes",
                                                 "canonical_correlation"};
  return names;
}

/// A result folder, read and checked: exactly the files that belong there, each well formed, all of one mind.
struct result {
  json summary;
  std::map<std::string, std::vector<double>> redundancy;  // (N,N) by distance
  std::map<std::string, std::string> files;
  hr::index_t heads = 0;
};

inline result read_result(const fs::path& folder, const std::vector<std::string>& distances = all_distances()) {
  result r;
  r.files = content(folder);
  std::vector<std::string> expected = {"plan.json", "report.html", "summary.json"};
  for (const auto& name : distances) expected.push_back("redundancy_" + name + ".npy");
  std::sort(expected.begin(), expected.end());
  std::vector<std::string> found;
  for (const auto& [name, text] : r.files) found.push_back(name);
  REQUIRE(found == expected);

  r.summary = json::parse(r.files["summary.json"]);
  for (const char* key : {"layers",
                          "heads",
                          "sentences",
                          "precision",
                          "seed",
                          "plan_from",
                          "k",
                          "chosen_by",
                          "clusters_found",
                          "status",
                          "mean_silhouette",
                          "curve",
                          "labels",
                          "silhouettes",
                          "kept",
                          "correlations",
                          "mantel_p_values",
                          "mean_differences",
                          "layer_gap",
                          "timings_seconds"}) {
    CAPTURE(key);
    CHECK(r.summary.contains(key));
  }
  for (const auto& heads : r.summary["heads"]) r.heads += heads.get<hr::index_t>();
  const auto n = static_cast<std::size_t>(r.heads);
  CHECK(r.summary["heads"].size() == r.summary["layers"].get<std::size_t>());
  CHECK(r.summary["labels"].size() == n);
  CHECK(r.summary["silhouettes"].size() == n);
  CHECK(r.summary["kept"].size() == r.summary["clusters_found"].get<std::size_t>());

  hr::cpu be{{.threads = 1}};
  for (const auto& name : distances) {
    CAPTURE(name);
    const auto matrix = hr::load_npy<double, 2>(be, folder / ("redundancy_" + name + ".npy"));
    REQUIRE(matrix.extent(0) == r.heads);
    REQUIRE(matrix.extent(1) == r.heads);
    bool good = true;
    for (hr::index_t i = 0; i < r.heads; ++i)
      for (hr::index_t j = 0; j < r.heads; ++j)
        good = good && matrix(i, j) == matrix(j, i) && matrix(i, j) >= 0 && matrix(i, j) <= 1 &&
               (i != j || matrix(i, i) == 0);
    CHECK_MESSAGE(good, "symmetric, in [0,1], diagonal 0");
    r.redundancy[name].assign(matrix.data(), matrix.data() + matrix.size());
    CHECK(r.summary["correlations"].contains(name));
    CHECK(r.summary["layer_gap"].contains(name));
    CHECK(r.summary["timings_seconds"]["distances"].contains(name));
  }
  CHECK(r.summary["correlations"].size() == distances.size());

  const hr::prune_plan plan = hr::load_plan_json(folder / "plan.json");
  CHECK(json(plan.kept(hr::attention_kind::encoder_self)) == r.summary["kept"]);
  CHECK(plan.layout().heads(hr::attention_kind::encoder_self).size() == r.heads);
  CHECK(r.files["report.html"].starts_with("<!doctype html>"));
  CHECK(r.files["report.html"].ends_with("</html>\n"));
  // on the page every cluster is one run
  std::smatch found_order;
  REQUIRE(std::regex_search(r.files["report.html"], found_order, std::regex(R"re("order":(\[[0-9,]*\]))re")));
  hr::index_t runs = 0;
  json before;
  for (const auto& head : json::parse(found_order[1].str())) {
    const json& label = r.summary["labels"][head.get<std::size_t>()];
    runs += label != before;
    before = label;
  }
  CHECK(runs == r.summary["clusters_found"].get<hr::index_t>());
  return r;
}

/// The files without what may differ between two runs that mean the same: timings, and the names of the input files.
inline std::map<std::string, std::string> without_timings(const result& r) {
  auto files = r.files;
  json summary = r.summary;
  summary.erase("timings_seconds");
  files["summary.json"] = summary.dump(1);
  std::string& page = files["report.html"];
  page = std::regex_replace(page, std::regex(R"re(\["time for [a-z_]+","[^"]*"\])re"), "");
  page = std::regex_replace(page, std::regex(R"re(<p class="subtitle">[^<]*</p>)re"), "");
  return files;
}

/// Runs with --out and reads the result, which must be there.
inline result answer(std::vector<std::string> words, const std::vector<std::string>& distances = all_distances()) {
  const temporary_folder folder;
  const std::string out = (folder / "out").string();
  words.insert(words.end(), {"--out", out});
  const outcome o = run_tool(words);
  CAPTURE(words);
  REQUIRE_MESSAGE(o.code == 0, o.err);
  CHECK(o.err == "");
  CHECK(o.out.ends_with("report: " + out + "/report.html\n"));
  return read_result(out, distances);
}

/// Runs twice, into a folder with an earlier result and into one that is not there: exit code and one line on standard
/// error that has all the fragments, nothing on standard output, and both places are afterwards what they were.
inline void refused(int code, std::vector<std::string> words, std::initializer_list<std::string> fragments) {
  const temporary_folder folder;
  fs::create_directory(folder / "earlier");
  for (const char* name : {"summary.json", "plan.json", "redundancy_cosine.npy", "something else"})
    write_text(folder / "earlier" / name, std::string("earlier ") + name);
  const auto before = content(folder.path());
  words.insert(words.end(), {"--out", ""});
  for (const char* out : {"earlier", "new/and/deep"}) {
    words.back() = (folder / out).string();
    const outcome o = run_tool(words);
    CAPTURE(words);
    CAPTURE(o.err);
    CHECK(o.code == code);
    CHECK(o.out == "");
    CHECK(o.err.starts_with("head_redundancy: "));
    CHECK(std::count(o.err.begin(), o.err.end(), '\n') == 1);
    CHECK(o.err.ends_with("\n"));
    for (const std::string& fragment : fragments) {
      CAPTURE(fragment);
      CHECK(o.err.find(fragment) != std::string::npos);
    }
    CHECK(content(folder.path()) == before);
  }
}

}  // namespace headred_test
