// Which positions does attention need? Removed, learned, left out of pre-training; learned masks against fixed patterns.
// run: --out masks --threads 2 --seeds 2 --train 40 --updates 8 --offsets 1 --lambdas 0.01,1 --sentences 40
#include <filesystem>
#include <iostream>

#include <headred/core/atomic_file.hpp>

#include "support/mask_report.hpp"
#include "support/output_folder.hpp"
#include "support/tool_main.hpp"

namespace {

void run(const examples::mask_settings& s) {
  headred::cpu be{{.threads = s.threads}};
  examples::output_folder out(s.out);  // an output that cannot be written is found out first
  examples::mask_study study(be, s);
  const examples::mask_results results = study.run();
  headred::write_file_atomically(out.file("results.json"), mask_results_text(results, s, study.task()));
  headred::write_file_atomically(out.file("report.html"), mask_report_page(results, s, study.task()));
  examples::stop_if_interrupted();
  out.commit();
  print_mask_results(std::cout, results, study.task());
  std::cout << "report: " << examples::one_line((std::filesystem::path(s.out) / "report.html").string()) << '\n';
}

}  // namespace

int main(int count, char** words) {
  return examples::tool_main("attention_masks", examples::mask_help, count, words,
                             [](const examples::arguments& all) { run(examples::read_mask_settings(all)); });
}
