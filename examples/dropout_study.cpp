// Does dropout while training make attention heads more alike? Hidden and attention dropout apart, at several rates.
// run: --out study --threads 2 --seeds 2 --rates 0,0.3,0.6 --layers 1 --width 16 --heads 4 --updates 6 --sentences 8
#include <filesystem>
#include <iostream>

#include <headred/core/atomic_file.hpp>

#include "support/dropout_report.hpp"
#include "support/output_folder.hpp"
#include "support/tool_main.hpp"

namespace {

void run(const examples::dropout_settings& s) {
  headred::cpu be{{.threads = s.threads}};
  examples::output_folder out(s.out);  // an output that cannot be written is found out first
  const examples::dropout_results results = examples::study_dropout(be, s);
  headred::write_file_atomically(out.file("results.json"), dropout_results_text(results, s));
  headred::write_file_atomically(out.file("report.html"), dropout_report_page(results, s));
  examples::stop_if_interrupted();
  out.commit();
  print_dropout_results(std::cout, results);
  std::cout << "report: " << examples::one_line((std::filesystem::path(s.out) / "report.html").string()) << '\n';
}

}  // namespace

int main(int count, char** words) {
  return examples::tool_main("dropout_study", examples::dropout_help, count, words,
                             [](const examples::arguments& all) { run(examples::read_dropout_settings(all)); });
}
