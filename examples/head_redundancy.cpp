// Which attention heads do the same? Redundancy matrices, clusters, the heads to keep, and a page to look at.
// run: --out report --threads 2
#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <headred/headred.hpp>
#include <headred/io.hpp>
#include <headred/report.hpp>

#include <nlohmann/json.hpp>

#include "support/interrupt.hpp"
#include "support/one_line.hpp"
#include "support/output_folder.hpp"
#include "support/progress_bar.hpp"
#include "support/settings.hpp"
#include "support/study.hpp"
#include "support/tool_main.hpp"

namespace {

using examples::measure;
using examples::settings;
using examples::study;
using headred::index_t;
using json = nlohmann::ordered_json;
using std::chrono::steady_clock;

double seconds_since(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

/// A short number for people.
std::string brief(double x) {
  std::ostringstream text;
  text.precision(3);
  text << x;
  return text.str();
}

/// The clusters and the heads to keep.
struct decision {
  headred::clustering clusters;
  headred::silhouettes scores;
  headred::prune_plan plan;
  std::vector<headred::silhouette_point> curve;
  index_t k = 0;
  std::string how;

  std::vector<index_t> kept() const { return plan.kept(headred::attention_kind::encoder_self); }
  bool has_silhouette() const { return scores.status == headred::status::converged; }
};

decision decide(headred::cpu& be, const settings& s, const study& all, const headred::matrix& distances) {
  const index_t n = all.layout.size();
  const headred::spectral_embedding<headred::cpu> embedding(be, distances);
  decision d;
  if (s.automatic) {
    const auto [low, high] = *s.automatic;
    auto best = headred::auto_clusters(be, embedding, {.min = low, .max = high});
    d.k = best.k;
    d.curve = std::move(best.curve);
    d.how = "best mean silhouette for " + std::to_string(low) + " to " + std::to_string(high) + " clusters";
  } else {
    d.k = s.clusters ? *s.clusters : headred::cluster_count(n, *s.prune);
    d.how = s.clusters ? "asked for" : "pruning ratio " + headred::number_text(*s.prune);
    // the curve is for people to look at: where are natural numbers of clusters?
    if (n > 2) d.curve = headred::auto_clusters(be, embedding, {.min = 2, .max = std::min<index_t>(72, n - 1)}).curve;
  }
  d.clusters = embedding.clusters(d.k);
  d.scores = headred::silhouette(be, distances, d.clusters);
  d.plan = headred::keep_representatives(d.clusters, d.scores, all.layout, {.at_least_one = s.at_least_one});
  return d;
}

/// What a reader of the plan should know about its layers, or nothing.
std::string note_on_layers(const settings& s, const study& all, const decision& d) {
  if (s.at_least_one) {
    const auto more = static_cast<index_t>(d.kept().size()) - d.clusters.found;
    if (more <= 0) return "";
    return examples::plural(more, "head") + (more == 1 ? " is" : " are") +
           " kept beyond one a cluster, so that every layer keeps one (--at-least-one)";
  }
  std::string names;
  index_t count = 0;
  for (index_t layer = 0; layer < all.layout.layers(); ++layer) {
    if (d.plan.count(headred::attention_kind::encoder_self, layer) > 0) continue;
    names += (count++ == 0 ? "" : ", ") + std::to_string(layer);
  }
  if (count == 0) return "";
  return (count == 1 ? "layer " : "layers ") + names + (count == 1 ? " keeps" : " keep") +
         " no head (--at-least-one keeps one in each)";
}

std::string capitalised(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

/// How alike the distances are: correlation, its p-value and the mean difference, NaN where there is none.
headred::redundancy_report::comparison_table compare(headred::cpu& be, const settings& s, const study& all) {
  const auto count = static_cast<index_t>(all.measures.size());
  headred::redundancy_report::comparison_table table;
  table.correlation = table.p_value = table.mean_difference = headred::matrix(count, count);
  examples::progress_bar bar("comparisons", static_cast<long>(count * (count - 1) / 2));
  long done = 0;
  for (index_t i = 0; i < count; ++i) {
    const measure& a = all.measures[static_cast<std::size_t>(i)];
    const auto itself = headred::correlation(a.redundancy, a.redundancy);
    table.names.emplace_back(a.name);
    table.correlation(i, i) = itself.status == headred::status::converged ? itself.value : NAN;
    table.p_value(i, i) = NAN;
    for (index_t j = 0; j < i; ++j) {
      examples::stop_if_interrupted();
      const measure& b = all.measures[static_cast<std::size_t>(j)];
      const auto outcome = headred::mantel(be, a.redundancy, b.redundancy, {.seed = s.seed});
      const bool defined = outcome.status == headred::status::converged;
      table.correlation(i, j) = table.correlation(j, i) = defined ? outcome.correlation : NAN;
      table.p_value(i, j) = table.p_value(j, i) = defined ? outcome.p_value : NAN;
      table.mean_difference(i, j) = table.mean_difference(j, i) =
          headred::mean_absolute_difference(a.redundancy, b.redundancy);
      bar.advance(++done);
    }
  }
  return table;
}

/// Mean distance by layer gap, for the gaps that occur, with bootstrap intervals over sentences.
headred::redundancy_report::gap_curve gap_curve(headred::cpu& be, const settings& s, const study& all,
                                                const measure& m) {
  const index_t layers = all.layout.layers();
  headred::matrix rows(all.used, layers);
  for (index_t i = 0; i < all.used; ++i)
    std::copy_n(m.gaps[static_cast<std::size_t>(i)].data(), layers, rows.data() + i * layers);
  const auto mean = headred::bootstrap_mean(be, rows, {.seed = s.seed});
  const auto pairs = headred::layer_gap(m.redundancy, all.layout).pairs;
  headred::redundancy_report::gap_curve curve{std::string(m.name), {}};
  for (std::size_t g = 0; g < pairs.size(); ++g)
    if (pairs[g] > 0) curve.points.push_back({static_cast<index_t>(g), mean.estimate[g], mean.lower[g], mean.upper[g]});
  return curve;
}

/// The page; comparison and gaps in it go into the summary too.
headred::redundancy_report make_page(headred::cpu& be, const settings& s, const study& all, const decision& d) {
  headred::redundancy_report page;
  page.subtitle =
      all.source + ": " + examples::plural(all.layout.size(), "head") + ", " + examples::plural(all.used, "sentence");
  page.layout = all.layout;
  for (const measure& m : all.measures) page.distances.push_back({std::string(m.name), m.redundancy});
  if (s.plan_from == "mean") page.distances.push_back({"mean", all.matrix("mean")});
  const headred::matrix clustered = all.matrix(s.plan_from);
  page.order = headred::cluster_order(headred::hierarchical_order(clustered), d.clusters.labels);
  page.labels = d.clusters.labels;
  page.silhouettes = d.scores.values;
  page.kept = d.kept();
  page.clustered_on = s.plan_from;
  page.chosen_k = d.k;
  if (d.has_silhouette()) page.mean_silhouette = d.scores.mean;
  page.chosen_by = d.how;
  for (const auto& point : d.curve)
    page.curve.push_back({point.k, point.status != headred::status::undefined ? point.mean_silhouette : NAN});
  page.comparison = compare(be, s, all);
  for (const measure& m : all.measures) page.gaps.push_back(gap_curve(be, s, all, m));
  for (const measure& m : all.measures)
    page.settings.push_back({"time for " + std::string(m.name), brief(m.seconds) + " s"});
  page.settings.push_back({"precision", s.wide ? "f64" : "f32"});
  page.settings.push_back({"seed", std::to_string(s.seed)});
  page.settings.push_back({"sentences used", std::to_string(all.used)});
  page.settings.push_back({"sentences skipped", std::to_string(all.skipped)});
  for (const std::string& note : all.notes) page.notes.push_back(capitalised(note) + ".");
  for (const measure& m : all.measures)
    if (m.sums->underdetermined() > 0)
      page.notes.push_back(capitalised(std::string(m.name)) + " does not say much about " +
                           examples::plural(m.sums->underdetermined(), "sentence") +
                           " with fewer tokens than keys; they are in its mean.");
  if (const std::string note = note_on_layers(s, all, d); !note.empty()) page.notes.push_back(capitalised(note) + ".");
  if (d.has_silhouette() && d.scores.mean < .25)
    page.notes.push_back(
        "The mean silhouette is small: these clusters shade into each other, as attention heads of real models do; "
        "what is kept is a choice, not a discovery.");
  if (d.clusters.found < d.k)
    page.notes.push_back(examples::plural(d.k, "cluster") + (d.k == 1 ? " was" : " were") + " asked for, " +
                         std::to_string(d.clusters.found) + " could be told apart.");
  return page;
}

/// {a: {b: table(a, b)}}, null for NaN
json named_table(const std::vector<std::string>& names, const headred::matrix& table) {
  json rows;
  for (std::size_t i = 0; i < names.size(); ++i)
    for (std::size_t j = 0; j < names.size(); ++j)
      rows[names[i]][names[j]] = table(static_cast<index_t>(i), static_cast<index_t>(j));
  return rows;
}

json make_summary(const settings& s, const study& all, const decision& d, const headred::redundancy_report& page) {
  json summary;
  summary["layers"] = all.layout.layers();
  summary["heads"] = all.layout.heads_per_layer();
  summary["sentences"] = {{"used", all.used}, {"skipped", all.skipped}};
  summary["precision"] = s.wide ? "f64" : "f32";
  summary["seed"] = s.seed;
  summary["plan_from"] = s.plan_from;
  summary["at_least_one"] = s.at_least_one;
  summary["k"] = d.k;
  summary["chosen_by"] = d.how;
  summary["clusters_found"] = d.clusters.found;
  summary["status"] = headred::to_string(d.clusters.status);
  summary["mean_silhouette"] = page.mean_silhouette;
  summary["curve"] = json::array();
  for (std::size_t i = 0; i < d.curve.size(); ++i)
    summary["curve"].push_back({{"k", d.curve[i].k},
                                {"mean_silhouette", page.curve[i].mean_silhouette},
                                {"clusters_found", d.curve[i].found}});
  summary["labels"] = d.clusters.labels;
  summary["silhouettes"] = d.scores.values;
  summary["kept"] = *page.kept;
  summary["correlations"] = named_table(page.comparison.names, page.comparison.correlation);
  summary["mantel_p_values"] = named_table(page.comparison.names, page.comparison.p_value);
  summary["mean_differences"] = named_table(page.comparison.names, page.comparison.mean_difference);
  for (const auto& curve : page.gaps) {
    json& points = summary["layer_gap"][curve.name] = json::array();
    for (const auto& p : curve.points)
      points.push_back({{"gap", p.gap}, {"mean", p.mean}, {"low", p.low}, {"high", p.high}});
  }
  for (const measure& m : all.measures)
    if (m.sums->underdetermined() > 0) summary["underdetermined_sentences"][m.name] = m.sums->underdetermined();
  for (const measure& m : all.measures) summary["timings_seconds"]["distances"][m.name] = m.seconds;
  return summary;
}

void print_answer(const settings& s, const study& all, const decision& d) {
  using examples::plural;
  for (const std::string& note : all.notes) std::cout << note << '\n';
  std::cout << plural(all.used, "sentence") << " (" << all.skipped << " skipped), "
            << plural(all.layout.layers(), "layer") << ", " << plural(all.layout.size(), "head") << '\n'
            << plural(d.clusters.found, "cluster") << " on " << s.plan_from << " (" << d.how << ")";
  if (d.has_silhouette()) std::cout << ", mean silhouette " << brief(d.scores.mean);
  std::cout << "\nheads to keep:\n" << d.plan << '\n';
  if (const std::string note = note_on_layers(s, all, d); !note.empty()) std::cout << note << '\n';
}

void run(const settings& s) {
  const auto start = steady_clock::now();
  headred::cpu be{{.threads = s.threads}};
  examples::output_folder out(s.out);  // an output that cannot be written is found out first
  const std::optional<examples::planted_attention> planted =
      s.attention.empty() ? std::optional(examples::planted_attention(s.seed)) : std::nullopt;
  const study all = planted  ? examples::read_planted(be, s, *planted)
                    : s.wide ? examples::read_files<double>(be, s)
                             : examples::read_files<float>(be, s);
  const double reading = seconds_since(start);
  const auto before_clusters = steady_clock::now();
  const decision d = decide(be, s, all, all.matrix(s.plan_from));
  const double clustering = seconds_since(before_clusters);

  for (const std::string_view name : examples::distance_names) {
    const std::string file = "redundancy_" + std::string(name) + ".npy";
    if (!s.takes(name)) out.remove(file);
  }
  for (const measure& m : all.measures)
    headred::save_npy(out.file("redundancy_" + std::string(m.name) + ".npy"), m.redundancy);
  headred::save_plan_json(out.file("plan.json"), d.plan);
  const headred::redundancy_report page = make_page(be, s, all, d);
  headred::write_redundancy_report(out.file("report.html"), page);
  json summary = make_summary(s, all, d, page);
  summary["timings_seconds"]["reading_and_distances"] = reading;
  summary["timings_seconds"]["clusters"] = clustering;
  summary["timings_seconds"]["total"] = seconds_since(start);
  headred::write_file_atomically(out.file("summary.json"), summary.dump(1) + "\n");
  examples::stop_if_interrupted();
  out.commit();

  print_answer(s, all, d);
  if (planted && d.k == examples::planted_attention::groups) {
    const bool found = d.clusters == headred::make_clustering(planted->group());
    std::cout << "planted groups found: " << (found ? "all 16, every head in its own" : "not all of them") << '\n';
  }
  std::cout << "report: " << examples::one_line((std::filesystem::path(s.out) / "report.html").string()) << '\n';
}

}  // namespace

int main(int count, char** words) {
  return examples::tool_main("head_redundancy", examples::help, count, words,
                             [](const examples::arguments& all) { run(examples::read_settings(all)); });
}
