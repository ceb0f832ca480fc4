// results.json and report.html of dropout_study.
#pragma once

#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "curve_page.hpp"
#include "dropout_results.hpp"
#include "one_line.hpp"

namespace examples {
namespace detail {

inline nlohmann::ordered_json numbers_json(const std::vector<double>& values) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const double x : values) list.push_back(finite_json(x));
  return list;
}
inline nlohmann::ordered_json trend_json(const dropout_trend& t) {
  nlohmann::ordered_json j{{"mean", numbers_json(t.mean)},
                           {"deviation", numbers_json(t.deviation)},
                           {"spearman", finite_json(t.spearman)},
                           {"p", t.p},
                           {"steps", nlohmann::ordered_json::array()},
                           {"shape", t.shape()},
                           {"turns", t.turns()},
                           {"strength", numbers_json(t.strength)}};
  for (const estimate& s : t.steps)
    j["steps"].push_back({{"change", finite_json(s.mean)}, {"error", finite_json(s.error)}});
  return j;
}

inline std::string plus_minus(double mean, double spread) {
  return curve_page::brief(mean) + " ± " + curve_page::brief(spread);
}
inline std::vector<std::string> trend_cells(const dropout_trend& t) {
  std::vector<std::string> cells;
  for (std::size_t r = 0; r < t.mean.size(); ++r) cells.push_back(plus_minus(t.mean[r], t.deviation[r]));
  cells.push_back(curve_page::brief(t.spearman));
  cells.push_back(curve_page::brief(t.p));
  cells.push_back(t.shape());
  cells.push_back(std::to_string(t.turns()));
  return cells;
}

inline chart_line trend_line(const std::string& name, const std::vector<double>& rates, const dropout_trend& t) {
  chart_line line{name, {}};
  for (std::size_t r = 0; r < rates.size(); ++r) line.points.push_back({rates[r], t.mean[r], t.deviation[r]});
  return line;
}

}  // namespace detail

/// Every number of every model, and the trends.
inline std::string dropout_results_text(const dropout_results& r, const dropout_settings& s) {
  using json = nlohmann::ordered_json;
  json all = detail::settings_json(s);
  all["rates"] = s.rates;
  all["seed"] = s.seed;
  all["seeds"] = s.seeds;
  for (const auto& [sort, t] : r.nll) all["nll"][to_string(sort)] = detail::trend_json(t);
  for (const dropout_curve& c : r.curves)
    all["curves"].push_back(
        {{"kind", to_string(c.kind)},
         {"distance", distance_names[c.distance]},
         {"level", level_of(c.distance)},
         {"hidden", detail::trend_json(c.hidden)},
         {"attention", detail::trend_json(c.attention)},
         {"hidden_stronger",
          {{"mean", detail::finite_json(c.stronger.mean)}, {"error", detail::finite_json(c.stronger.error)}}}});
  for (const auto& [sort, seeds] : r.models)
    for (std::size_t i = 0; i < seeds.size(); ++i)
      for (std::size_t k = 0; k < seeds[i].size(); ++k) {
        if (k == 0 && sort != dropout_sort::hidden) continue;  // the same model
        json one{{"dropout", k == 0 ? "none" : to_string(sort)}, {"rate", s.rates[k]}, {"seed", s.seed + i}};
        one.update(detail::outcome_json(seeds[i][k]));
        all["models"].push_back(std::move(one));
      }
  return all.dump(1) + "\n";
}

inline std::string dropout_report_page(const dropout_results& r, const dropout_settings& s) {
  curve_page page("Dropout and how alike heads become");
  page.paragraph("Models for the task " + s.task() + ": " + plural(s.layers, "layer") + " of " +
                 plural(s.heads, "head") + " in each stack, width " + std::to_string(s.width) + ", after " +
                 plural(s.updates, "update") + "; " + plural(s.seeds, "seed") +
                 ". Hidden dropout acts on embeddings and on what each block adds, attention dropout on attention "
                 "weights. What is measured is measured without dropout, on held-out sentences.");
  page.paragraph(
      "Distances are means over the pairs of heads of a kind: the smaller, the more redundant. ± is one "
      "standard deviation over seeds. Spearman: with the rate, mean over seeds; p by permutations within "
      "seeds. Steps: + up, - down, 0 within two standard errors. Turns: of the means; 0 is monotone, 2 an N.");
  std::vector<std::string> head{"dropout"};
  for (const double rate : s.rates) head.push_back(curve_page::brief(rate));
  head.insert(head.end(), {"Spearman", "p", "steps", "turns"});
  page.heading("NLL, nats a token");
  std::vector<std::vector<std::string>> rows;
  std::vector<chart_line> lines;
  const auto add = [&](const std::string& name, const dropout_trend& t) {
    auto& row = rows.emplace_back(std::vector<std::string>{name});
    for (auto& cell : detail::trend_cells(t)) row.push_back(std::move(cell));
  };
  for (const auto& [sort, t] : r.nll) {
    add(to_string(sort), t);
    lines.push_back(detail::trend_line(to_string(sort), s.rates, t));
  }
  page.chart("rate", "NLL", lines);
  page.table(head, rows);
  head.insert(head.begin(), "distance");
  for (std::size_t i = 0; i < r.curves.size(); i += distance_names.size()) {
    page.heading("Distance of heads: " + std::string(to_string(r.curves[i].kind)));
    std::vector<std::vector<std::string>> strengths;
    rows.clear();
    for (std::size_t d = 0; d < distance_names.size(); ++d) {
      const dropout_curve& c = r.curves[i + d];
      const std::string name = std::string(distance_names[d]) + " (" + level_of(d) + ")";
      page.chart(
          "rate", name,
          {detail::trend_line("hidden", s.rates, c.hidden), detail::trend_line("attention", s.rates, c.attention)});
      for (const auto& [sort, t] : {std::pair("hidden", &c.hidden), std::pair("attention", &c.attention)}) {
        add(name, *t);
        rows.back().insert(rows.back().begin() + 1, sort);
      }
      const estimate h = estimate_of(c.hidden.strength), a = estimate_of(c.attention.strength);
      strengths.push_back({name, curve_page::brief(h.mean), curve_page::brief(a.mean),
                           detail::plus_minus(c.stronger.mean, c.stronger.error)});
    }
    page.table(head, rows);
    page.paragraph(
        "Strength: root mean square of the changes from no dropout, mean over seeds; the difference with its "
        "standard error.");
    page.table({"distance", "hidden", "attention", "difference"}, strengths);
  }
  return page.finish();
}

inline void print_dropout_results(std::ostream& out, const dropout_results& r) {
  const auto line = [&](const std::string& name, const dropout_trend& t) {
    out << name << ':';
    for (const double m : t.mean) out << ' ' << curve_page::brief(m);
    out << ", Spearman " << curve_page::brief(t.spearman) << " (p " << curve_page::brief(t.p) << "), steps "
        << t.shape() << '\n';
  };
  for (const auto& [sort, t] : r.nll) line(std::string("NLL, ") + to_string(sort) + " dropout", t);
  for (const dropout_curve& c : r.curves) {
    const std::string name = std::string(to_string(c.kind)) + " " + std::string(distance_names[c.distance]);
    line(name + ", hidden", c.hidden);
    line(name + ", attention", c.attention);
    out << name << ": hidden minus attention, strength " << detail::plus_minus(c.stronger.mean, c.stronger.error)
        << '\n';
  }
}

}  // namespace examples
