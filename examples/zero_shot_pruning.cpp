// Do heads that stand for their cluster do better than as many chosen by chance? As pruned, and after further training.
// run: --out study --threads 2 --seeds 2 --random-plans 3
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <headred/headred.hpp>
#include <headred/io.hpp>
#include <headred/io/load_transformer.hpp>
#include <headred/io/plan_json.hpp>

#include <nlohmann/json.hpp>

#include "support/curve_page.hpp"
#include "support/output_folder.hpp"
#include "support/progress_bar.hpp"
#include "support/pruning_study.hpp"
#include "support/redundancy_matrices.hpp"
#include "support/tool_main.hpp"

namespace {

using examples::curve_page;
using examples::curve_point;
using examples::outcomes;
using examples::pruning_settings;
using examples::pruning_task;
using examples::score;
using headred::attention_kind;
using headred::index_t;
using json = nlohmann::ordered_json;

using plan_maker = headred::zero_shot<headred::cpu>;

/// What is pruned together: one kind, or all.
struct subject {
  std::string name;
  std::vector<attention_kind> kinds;
};

std::vector<subject> subjects(const pruning_settings& s, const headred::plan_layout& layout) {
  std::vector<subject> all;
  const auto wanted = [&](const std::string& name) {
    return s.kinds.empty() || std::find(s.kinds.begin(), s.kinds.end(), name) != s.kinds.end();
  };
  for (const attention_kind kind : layout.kinds())
    if (wanted(std::string(to_string(kind)))) all.push_back({std::string(to_string(kind)), {kind}});
  if (layout.kinds().size() > 1 && wanted("all")) all.push_back({"all", layout.kinds()});
  if (all.empty()) throw headred::error("--kinds: the model has none of these");
  return all;
}

headred::prune_plan random_plans(const headred::plan_layout& layout, const subject& what, double ratio,
                                 std::uint64_t seed) {
  headred::prune_plan plan(layout);
  for (const attention_kind kind : what.kinds) {
    const index_t keep = headred::cluster_count(layout.heads(kind).size(), ratio);
    plan = headred::plan_intersection(plan, headred::random_plan(layout, keep, seed, kind));
  }
  return plan;
}

json numbers(const examples::spread& s) {
  json values = json::array();
  for (const double x : s.values) values.push_back(std::isfinite(x) ? json(x) : json(nullptr));
  return values;
}
json numbers(const outcomes& o) {
  json found{{"nll", numbers(o.nll)}};
  const auto known = [](const examples::spread& s) { return !s.values.empty() && std::isfinite(s.values.front()); };
  if (known(o.exact)) found["exact"] = numbers(o.exact);
  if (known(o.edits)) found["edits"] = numbers(o.edits);
  return found;
}
json numbers(const score& s) {
  outcomes one;
  one.add(s);
  return numbers(one);
}

/// How often each head of each layer is removed, over the plans.
std::map<attention_kind, std::vector<std::vector<double>>> removal(const headred::plan_layout& layout,
                                                                   const std::vector<headred::prune_plan>& plans) {
  std::map<attention_kind, std::vector<std::vector<double>>> shares;
  for (const attention_kind kind : layout.kinds())
    for (index_t l = 0; l < layout.heads(kind).layers(); ++l) {
      auto& row = shares[kind].emplace_back();
      for (index_t h = 0; h < layout.heads(kind).heads(l); ++h) {
        double removed = 0;
        for (const auto& plan : plans) removed += plan.is_kept(kind, {l, h}) ? 0 : 1;
        row.push_back(removed / static_cast<double>(plans.size()));
      }
    }
  return shares;
}

std::string plus_minus(const examples::spread& s) {
  return curve_page::brief(s.mean()) + " ± " + curve_page::brief(s.deviation());
}
std::string plus_minus(const std::pair<double, double>& x) {
  return curve_page::brief(x.first) + " ± " + curve_page::brief(x.second);
}

examples::chart_line line(const std::string& name, const std::vector<const curve_point*>& points,
                          outcomes curve_point::*which) {
  examples::chart_line found{name, {}};
  for (const curve_point* p : points)
    found.points.push_back({p->ratio, (p->*which).nll.mean(), (p->*which).nll.deviation()});
  return found;
}

class study {
 public:
  study(headred::cpu& be, const pruning_settings& s) : be_(be), settings_(s) {
    if (s.model.empty()) {
      model_name_ = "a model trained on the invented language";
      task_ = examples::grammar_task(4000);
      config_ = examples::grammar_model();
    } else {
      model_name_ = std::filesystem::path(s.model).filename().string();
      auto loaded = headred::load_transformer<float>(be, s.model);
      config_ = loaded.config;
      task_ = examples::read_task(s.model, config_, s.data, s.eval);
      model_.emplace(be, config_, std::move(loaded.weights));
    }
    if (!model_) {
      model_.emplace(be, config_);
      headred::initialize(be, model_->weights(), s.seed);
      pruning_settings first = s;
      first.rate = 5e-3;
      examples::pruning_lab(be, first, task_, *model_).train(*model_, 200);
      model_->train(false);
    }
    layout_ = headred::model_layout(config_);
  }

  void run() {
    if (!settings_.compare.empty()) models_ = examples::compare_models(be_, settings_, task_, *model_, model_name_);
    examples::pruning_lab lab(be_, settings_, task_, *model_);
    const headred::prune_plan whole(layout_);
    unpruned_ = lab.measure(whole);
    if (settings_.updates > 0) trained_ = lab.trained(whole);
    if (settings_.scratch > 0) scratch_ = lab.from_scratch(whole);
    find_makers();
    const auto all = subjects(settings_, layout_);
    examples::progress_bar bar("points", static_cast<long>(all.size() * settings_.ratios.size()));
    long done = 0;
    for (const subject& what : all)
      for (const double ratio : settings_.ratios) {
        points_.push_back(measure(lab, what, ratio));
        bar.advance(++done);
      }
    if (settings_.matrices) matrices_ = examples::compare_matrices(be_, settings_, task_, *model_);
  }

  void write(examples::output_folder& out) const {
    headred::write_file_atomically(out.file("curves.json"), as_json().dump(1) + "\n");
    headred::write_file_atomically(out.file("report.html"), page());
    for (const auto& [name, plan] : plans_) headred::save_plan_json(out.file(name), plan);
  }
  void print() const {
    std::cout << model_name_ << ": " << to_string(layout_) << "\nwhole model: NLL " << curve_page::brief(unpruned_.nll);
    if (trained_) std::cout << ", " << curve_page::brief(trained_->nll) << " after " << settings_.updates << " updates";
    std::cout << "\nkinds          removed  redundancy          random              ahead (in deviations of random)\n";
    for (const curve_point& p : points_) {
      std::string text = p.kinds + std::string(p.kinds.size() < 15 ? 15 - p.kinds.size() : 1, ' ');
      text += std::to_string(p.removed) + "/" + std::to_string(p.heads) + "  " + plus_minus(p.redundancy.nll) + "  " +
              plus_minus(p.random.nll) + "  " + plus_minus(p.lead(p.redundancy, p.random));
      if (!p.trained_redundancy.nll.values.empty())
        text += "; trained " + plus_minus(p.trained_redundancy.nll) + "  " + plus_minus(p.trained_random.nll) + "  " +
                plus_minus(p.lead(p.trained_redundancy, p.trained_random));
      if (!p.scratch.nll.values.empty()) text += "; from scratch " + plus_minus(p.scratch.nll);
      std::cout << text << '\n';
    }
  }

 private:
  /// One set of redundancy matrices for each seed of random tokens.
  void find_makers() {
    examples::progress_bar bar("redundancy", static_cast<long>(settings_.seeds));
    for (index_t i = 0; i < settings_.seeds; ++i) {
      const auto sentences = examples::detail::random_sentences(settings_, task_, config_, i);
      examples::for_each_distance([&]<class Distance>(const Distance& d) {
        if (settings_.distance != Distance::name) return;
        headred::model_redundancy<headred::cpu, Distance> sums(be_, config_, d);
        examples::detail::add_sentences(sums, *model_, sentences.source, sentences.target);
        makers_.emplace_back(be_, sums);
      });
      bar.advance(static_cast<long>(i + 1));
    }
  }

  curve_point measure(examples::pruning_lab& lab, const subject& what, double ratio) {
    curve_point p;
    p.kinds = what.name;
    p.ratio = ratio;
    std::vector<headred::prune_plan> chosen, chance;
    for (const plan_maker& maker : makers_) chosen.push_back(maker.prune({.ratio = ratio, .kinds = what.kinds}).plan);
    for (index_t i = 0; i < settings_.random_plans; ++i)
      chance.push_back(random_plans(layout_, what, ratio, settings_.seed + static_cast<std::uint64_t>(i)));
    for (const attention_kind kind : what.kinds) p.heads += layout_.heads(kind).size();
    p.removed = layout_.size() - chosen.front().count();
    std::string kinds = what.name;
    std::replace(kinds.begin(), kinds.end(), ' ', '_');
    plans_.emplace_back("plan_" + kinds + "_" + std::to_string(p.removed) + ".json", chosen.front());
    for (const auto& plan : chosen) p.redundancy.add(lab.measure(plan));
    for (const auto& plan : chance) p.random.add(lab.measure(plan));
    const double before = headred::parameter_count(config_).total();
    p.parameters = headred::parameter_count(lab.pruned(chosen.front()).config()).total() / before;
    const auto some = static_cast<std::size_t>(settings_.trained_plans);
    if (settings_.updates > 0) {
      for (std::size_t i = 0; i < std::min(some, chosen.size()); ++i) p.trained_redundancy.add(lab.trained(chosen[i]));
      for (std::size_t i = 0; i < std::min(some, chance.size()); ++i) p.trained_random.add(lab.trained(chance[i]));
    }
    if (settings_.scratch > 0) p.scratch.add(lab.from_scratch(chosen.front()));
    if (what.kinds.size() == layout_.kinds().size()) {
      removal_.emplace_back(ratio, removal(layout_, chosen));
      if (chosen.size() > 1) overlaps_.emplace_back(ratio, headred::mean_overlap(chosen));
    }
    return p;
  }

  json as_json() const {
    json all{{"model", model_name_},
             {"layout", to_string(layout_)},
             {"distance", settings_.distance},
             {"seeds", settings_.seeds},
             {"random_plans", settings_.random_plans},
             {"sentences", settings_.sentences},
             {"lengths", {settings_.lengths.first, settings_.lengths.second}},
             {"updates", settings_.updates},
             {"scratch_updates", settings_.scratch},
             {"rate", settings_.rate},
             {"batch_tokens", settings_.batch_tokens},
             {"seed", settings_.seed},
             {"eval_sentences", task_.eval.size()},
             {"unpruned", numbers(unpruned_)}};
    if (trained_) all["unpruned_trained"] = numbers(*trained_);
    if (scratch_) all["unpruned_scratch"] = numbers(*scratch_);
    for (const curve_point& p : points_) {
      json point{{"kinds", p.kinds},           {"ratio", p.ratio},           {"removed", p.removed},
                 {"heads", p.heads},           {"parameters", p.parameters}, {"redundancy", numbers(p.redundancy)},
                 {"random", numbers(p.random)}};
      const auto [ahead, error] = p.lead(p.redundancy, p.random);
      point["ahead"] = {{"deviations", ahead}, {"error", error}};
      if (!p.trained_redundancy.nll.values.empty()) {
        const auto [later, later_error] = p.lead(p.trained_redundancy, p.trained_random);
        point["trained_redundancy"] = numbers(p.trained_redundancy);
        point["trained_random"] = numbers(p.trained_random);
        point["trained_ahead"] = {{"deviations", later}, {"error", later_error}};
      }
      if (!p.scratch.nll.values.empty()) point["scratch"] = numbers(p.scratch);
      all["points"].push_back(std::move(point));
    }
    for (const auto& [ratio, kinds] : removal_) {
      json map{{"ratio", ratio}};
      for (const auto& [kind, rows] : kinds) map[std::string(to_string(kind))] = rows;
      all["removed_share"].push_back(std::move(map));
    }
    for (const auto& [ratio, o] : overlaps_)
      all["overlap_of_seeds"].push_back(
          {{"ratio", ratio}, {"jaccard", o.jaccard}, {"common", o.common}, {"expected_common", o.expected_common}});
    if (settings_.matrices) all["matrices"] = examples::matrices_as_json(matrices_);
    if (!settings_.compare.empty()) all["models"] = examples::models_as_json(models_);
    return all;
  }

  std::string page() const {
    curve_page page("Zero-shot pruning of " + model_name_);
    page.paragraph(to_string(layout_) + ". " + std::to_string(settings_.seeds) + " plans by redundancy (" +
                   settings_.distance + ", " + std::to_string(settings_.sentences) + " random sentences each), " +
                   std::to_string(settings_.random_plans) + " plans by chance. NLL is in nats a token of " +
                   std::to_string(task_.eval.size()) + " sentences; spread is one standard deviation over plans.");
    page.paragraph("The whole model: " + curve_page::brief(unpruned_.nll) +
                   (trained_ ? ", after " + std::to_string(settings_.updates) + " further updates " +
                                   curve_page::brief(trained_->nll)
                             : "") +
                   (scratch_ ? ", trained anew with " + std::to_string(settings_.scratch) + " updates " +
                                   curve_page::brief(scratch_->nll)
                             : "") +
                   ".");
    std::vector<std::string> names;
    for (const curve_point& p : points_)
      if (names.empty() || names.back() != p.kinds) names.push_back(p.kinds);
    for (const std::string& name : names) {
      std::vector<const curve_point*> own;
      for (const curve_point& p : points_)
        if (p.kinds == name) own.push_back(&p);
      page.heading(name);
      page.chart("share of heads removed", "NLL as pruned",
                 {line("redundancy", own, &curve_point::redundancy), line("random", own, &curve_point::random)});
      std::vector<std::string> head{"removed", "redundancy", "random", "ahead, in deviations of random"};
      if (settings_.updates > 0) {
        page.chart(
            "share of heads removed", "NLL after " + std::to_string(settings_.updates) + " updates",
            {line("redundancy", own, &curve_point::trained_redundancy),
             line("random", own, &curve_point::trained_random), line("from scratch", own, &curve_point::scratch)});
        head.insert(head.end(), {"redundancy, trained", "random, trained", "ahead"});
      }
      if (settings_.scratch > 0) head.push_back("from scratch");
      std::vector<std::vector<std::string>> rows;
      for (const curve_point* p : own) {
        auto& row = rows.emplace_back(std::vector<std::string>{
            std::to_string(p->removed) + "/" + std::to_string(p->heads), plus_minus(p->redundancy.nll),
            plus_minus(p->random.nll), plus_minus(p->lead(p->redundancy, p->random))});
        if (settings_.updates > 0)
          for (const auto& cell : {plus_minus(p->trained_redundancy.nll), plus_minus(p->trained_random.nll),
                                   plus_minus(p->lead(p->trained_redundancy, p->trained_random))})
            row.push_back(cell);
        if (settings_.scratch > 0) row.push_back(plus_minus(p->scratch.nll));
      }
      page.table(head, rows);
    }
    for (const auto& [ratio, kinds] : removal_) {
      page.heading("How often each head is removed at " + curve_page::brief(ratio) + " (layers down, heads across)");
      for (const auto& [kind, rows] : kinds) {
        page.paragraph(std::string(to_string(kind)));
        page.map(rows);
      }
    }
    if (settings_.matrices) examples::add_matrices(page, matrices_);
    examples::add_models(page, models_);
    return page.finish();
  }

  headred::cpu& be_;
  const pruning_settings& settings_;
  std::string model_name_;
  headred::transformer_config config_;
  headred::plan_layout layout_;
  pruning_task task_;
  std::optional<examples::model_type> model_;
  std::vector<plan_maker> makers_;
  score unpruned_;
  std::optional<score> trained_, scratch_;
  std::vector<std::pair<std::string, headred::prune_plan>> plans_;  // of the first seed, with their files' names
  std::vector<curve_point> points_;
  std::vector<std::pair<double, std::map<attention_kind, std::vector<std::vector<double>>>>> removal_;
  std::vector<std::pair<double, headred::plan_overlap>> overlaps_;
  std::vector<examples::matrix_comparison> matrices_;
  std::vector<examples::model_comparison> models_;
};

void run(const pruning_settings& s) {
  headred::cpu be{{.threads = s.threads}};
  examples::output_folder out(s.out);  // an output that cannot be written is found out first
  study all(be, s);
  all.run();
  all.write(out);
  examples::stop_if_interrupted();
  out.commit();
  all.print();
  std::cout << "report: " << examples::one_line((std::filesystem::path(s.out) / "report.html").string()) << '\n';
}

}  // namespace

int main(int count, char** words) {
  return examples::tool_main("zero_shot_pruning", examples::pruning_help, count, words,
                             [](const examples::arguments& all) { run(examples::read_pruning_settings(all)); });
}
