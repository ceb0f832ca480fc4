// Which heads does a model keep when each has its price? Gates are trained, closed heads cut out, the rest trained on.
// run: --out gated --threads 2 --train 60 --updates 40 --further 10 --lambda 0.1 --seeds 2 --scratch
#include <filesystem>
#include <iostream>
#include <regex>
#include <string>

#include <headred/core/atomic_file.hpp>
#include <headred/io/plan_json.hpp>

#include "support/gated_report.hpp"
#include "support/output_folder.hpp"
#include "support/tool_main.hpp"

namespace {

namespace fs = std::filesystem;

/// A pruned model can be used only with its vocabularies.
void copy_vocabularies(const examples::gated_settings& s) {
  if (s.runs.empty() || s.of_grammar()) return;
  for (const auto& entry : fs::directory_iterator(s.runs)) {
    if (!entry.is_directory() || !fs::exists(entry.path() / "config.json")) continue;
    for (const char* name : {"source_vocabulary.txt", "target_vocabulary.txt", "vocab.txt"})
      if (fs::exists(fs::path(s.model) / name))
        fs::copy_file(fs::path(s.model) / name, entry.path() / name, fs::copy_options::overwrite_existing);
  }
}

void run(const examples::gated_settings& s) {
  headred::cpu be{{.threads = s.threads}};
  examples::output_folder out(s.out);  // an output that cannot be written is found out first
  const fs::path results = out.file("results.json");
  // what is left beside the results goes with the folder that they are moved out of
  const fs::path runs = s.runs.empty() ? results.parent_path() / "runs" : fs::path(s.runs);
  const examples::gated_results found = examples::study_gates(be, s, runs);
  headred::write_file_atomically(results, examples::results_json(found, s).dump(1) + "\n");
  headred::write_file_atomically(out.file("report.html"), examples::results_page(found, s));
  for (const auto& p : found.points)
    for (std::size_t i = 0; i < p.runs.size(); ++i)
      headred::save_plan_json(
          out.file("plan_" + examples::price_text(s, p.price) + "_" + std::to_string(s.seed + i) + ".json"),
          p.runs[i].plan);
  for (const auto& entry : fs::directory_iterator(s.out)) {  // plans of an earlier result
    const std::string name = entry.path().filename().string();
    static const std::regex ours("plan_(lambda|target)_[-+.0-9e]+_[0-9]+[.]json");
    if (std::regex_match(name, ours) && !fs::exists(results.parent_path() / name)) out.remove(name);
  }
  copy_vocabularies(s);
  examples::stop_if_interrupted();
  out.commit();
  examples::print_results(std::cout, found, s);
  std::cout << "report: " << examples::one_line((fs::path(s.out) / "report.html").string()) << '\n';
}

}  // namespace

int main(int count, char** words) {
  return examples::tool_main("gated_pruning", examples::gated_help, count, words,
                             [](const examples::arguments& all) { run(examples::read_gated_settings(all)); });
}
