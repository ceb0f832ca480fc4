// Which heads matter, and what do they do? Confidence, relevance, gradients and ablation side by side; roles; a plan.
// run: --out importance --threads 2 --curve --samples 2 --random-plans 3
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>

#include <headred/core/atomic_file.hpp>
#include <headred/io/plan_json.hpp>

#include "support/importance_maps.hpp"
#include "support/importance_model.hpp"
#include "support/output_folder.hpp"
#include "support/tool_main.hpp"

namespace {

void run(const examples::importance_settings& s) {
  headred::cpu be{{.threads = s.study.threads}};
  examples::output_folder out(s.out);  // an output that cannot be written is found out first
  examples::importance_report report;
  std::optional<examples::importance_curves> curves;
  if (s.of_maps()) {
    report = examples::report_of_maps(be, s);
  } else {
    examples::scored_model model(be, s);
    report = model.report();
    if (s.curve) {
      curves = model.curves(be);
      report.remarks.push_back(
          "Curves: NLL in nats a token of " + examples::plural(model.eval_sentences(), "sentence") +
          "; spread is one standard deviation, over " + examples::plural(s.samples, "sample") +
          " of sentences to score on and over " + examples::plural(s.study.random_plans, "random plan") + ".");
    }
  }
  headred::write_file_atomically(out.file("scores.json"), scores_text(report));
  headred::write_file_atomically(out.file("roles.json"), roles_text(report));
  headred::save_plan_json(out.file("plan.json"), report.plan);
  if (curves)
    headred::write_file_atomically(out.file("curves.json"), as_json(*curves, s).dump(1) + "\n");
  else
    out.remove("curves.json");
  headred::write_file_atomically(out.file("report.html"),
                                 report_page(report, [&](examples::curve_page& page, headred::attention_kind kind) {
                                   if (curves) add_curves(page, *curves, kind);
                                 }));
  examples::stop_if_interrupted();
  out.commit();
  print_report(std::cout, report);
  if (curves) print_curves(std::cout, *curves);
  std::cout << "report: " << examples::one_line((std::filesystem::path(s.out) / "report.html").string()) << '\n';
}

}  // namespace

int main(int count, char** words) {
  return examples::tool_main("head_importance", examples::importance_help, count, words,
                             [](const examples::arguments& all) { run(examples::read_importance_settings(all)); });
}
