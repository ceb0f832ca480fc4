// results.json and report.html of attention_masks.
#pragma once

#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "curve_page.hpp"
#include "mask_study.hpp"

namespace examples {
namespace detail {

inline nlohmann::ordered_json json_of(double x) {
  return std::isfinite(x) ? nlohmann::ordered_json(x) : nlohmann::ordered_json(nullptr);
}
inline nlohmann::ordered_json json_of(const readings& r, bool values) {
  nlohmann::ordered_json found{{"mean", json_of(r.mean())}, {"deviation", json_of(r.deviation())}};
  if (values) found["values"] = r.values;
  return found;
}
inline nlohmann::ordered_json json_of(const paired_readings& p, bool values) {
  nlohmann::ordered_json found{{"name", p.name}};
  if (!p.zeros.values.empty()) found["zeros"] = json_of(p.zeros, values);
  found["nll"] = json_of(p.nll, values);
  found["change"] = json_of(p.change, values);
  return found;
}

inline std::string plus_minus(double mean, double spread) {
  return curve_page::brief(mean) + (std::isfinite(spread) ? " ± " + curve_page::brief(spread) : "");
}
inline std::string plus_minus(const readings& r) { return plus_minus(r.mean(), r.deviation()); }

inline std::vector<std::vector<std::string>> rows_of(const std::vector<paired_readings>& all) {
  std::vector<std::vector<std::string>> rows;
  for (const paired_readings& p : all) {
    rows.push_back({p.name});
    if (!p.zeros.values.empty()) rows.back().push_back(curve_page::brief(100 * p.zeros.mean()));
    rows.back().push_back(plus_minus(p.nll));
    rows.back().push_back(plus_minus(p.change));
  }
  return rows;
}

/// Small pictures side by side, each an SVG with a square for each open entry.
inline std::string drawings(const std::vector<drawn_mask>& all) {
  std::string text;
  for (const drawn_mask& d : all) {
    const std::string size = std::to_string(d.rows.size());
    text += "<figure style=\"display:inline-block;margin:.4em\"><svg viewBox=\"0 0 " + size + " " + size +
            "\" style=\"width:12em;background:#eee\" role=\"img\"><path fill=\"#1e50a0\" d=\"";
    for (std::size_t i = 0; i < d.rows.size(); ++i)
      for (std::size_t j = 0; j < d.rows[i].size(); ++j)
        if (d.rows[i][j] != 0) text += "M" + std::to_string(j) + " " + std::to_string(i) + "h1v1h-1z";
    text += "\"/></svg><figcaption>" + headred::detail::html_text(d.name) + "</figcaption></figure>\n";
  }
  return text;
}

}  // namespace detail

/// Every single number of every seed; of sentences mean and deviation.
inline std::string mask_results_text(const mask_results& r, const mask_settings& s, const mask_task& task) {
  using json = nlohmann::ordered_json;
  json all{{"model", task.name},
           {"settings", detail::settings_json(s)},
           {"seeds", s.seeds},
           {"lambdas", s.lambdas},
           {"left_out", task.left_out},
           {"eval_sentences", r.whole.values.size()},
           {"whole", {{"nll", detail::json_of(r.whole, false)}, {"accuracy", r.accuracy}}}};
  for (const auto& [p, accuracy] : r.removal) {
    json one = detail::json_of(p, false);
    one["error_of_change"] = detail::json_of(p.change.error());
    one["accuracy"] = accuracy;
    all["removal"].push_back(std::move(one));
  }
  for (const auto& [name, p] : r.importance.by_class)
    all["importance"]["open"].push_back({{"class", name}, {"probability", detail::json_of(p, true)}});
  if (!r.importance.by_head.empty()) all["importance"]["by_layer_head_offset"] = r.importance.by_head;
  for (const paired_readings& p : r.pretraining) all["pretraining"].push_back(detail::json_of(p, true));
  for (const paired_readings& p : r.masks) all["masks"].push_back(detail::json_of(p, true));
  return all.dump(1) + "\n";
}

inline std::string mask_report_page(const mask_results& r, const mask_settings& s, const mask_task& task) {
  curve_page page("Attention masks of " + task.name);
  page.paragraph("NLL in nats a masked token, tokens masked one at a time, of " +
                 plural(r.whole.values.size(), "sentence") + ". The whole model: " + curve_page::brief(r.whole.mean()) +
                 ", " + curve_page::brief(100 * r.accuracy) + " % found.");
  if (!r.removal.empty()) {
    page.heading("Without a class of positions");
    page.paragraph(
        "The first seed's model as it is, probability exactly 0 there. Mean change over sentences and its "
        "standard error.");
    std::vector<std::vector<std::string>> rows;
    for (const auto& [p, accuracy] : r.removal)
      rows.push_back({p.name, curve_page::brief(p.nll.mean()), detail::plus_minus(p.change.mean(), p.change.error()),
                      curve_page::brief(100 * accuracy)});
    page.table({"removed", "NLL", "change", "found, %"}, rows);
  }
  if (!r.importance.by_class.empty()) {
    page.heading("Learned importance of positions");
    page.paragraph("P(open) of masks by layer and head after " + plural(s.updates, "update") +
                   " without a price, the model trained along; .5 at first. Mean and deviation over " +
                   plural(s.seeds, "seed") + ".");
    std::vector<std::vector<std::string>> rows;
    for (const auto& [name, p] : r.importance.by_class) rows.push_back({name, detail::plus_minus(p)});
    page.table({"positions", "P(open)"}, rows);
    for (std::size_t l = 0; l < r.importance.by_head.size(); ++l) {
      page.paragraph("Layer " + std::to_string(l) + ": heads by offset 0, 1, ...; first seed.");
      page.map(r.importance.by_head[l]);
    }
  }
  if (!r.pretraining.empty()) {
    page.heading("Pre-training without an offset");
    page.paragraph(plural(s.train, "update") +
                   " from scratch; each seed has the same first weights and batches in every "
                   "row. Mean and deviation over " +
                   plural(s.seeds, "seed") + ".");
    page.table({"model", "NLL", "change, by pairs"}, detail::rows_of(r.pretraining));
  }
  if (!r.masks.empty()) {
    page.heading("Learned masks and fixed patterns");
    page.paragraph(
        "The same model after " + plural(s.updates, "further update") +
        " under each mask. One stage: weights and mask learn together. Two stages: the mask so found is kept, "
        "and the model begins again under it. Cut: likewise, more or fewer entries open. Mean and deviation over " +
        plural(s.seeds, "seed") + ".");
    std::vector<chart_line> lines{{"fixed patterns", {}}};
    const std::vector<std::string> kinds{"one stage", "two stages", "cut"};
    for (const char* form : {"structured", "unstructured"})
      for (const auto& kind : kinds) lines.push_back({form + (", " + kind), {}});
    for (const paired_readings& p : r.masks) {
      std::size_t at = 0;
      for (std::size_t i = 1; i < lines.size(); ++i) {
        const std::string form = lines[i].name.substr(0, lines[i].name.find(','));
        if (p.name.starts_with(form + ",") && p.name.find(", " + kinds[(i - 1) % kinds.size()]) != std::string::npos)
          at = i;
      }
      lines[at].points.push_back({100 * p.zeros.mean(), p.nll.mean(), p.nll.deviation()});
    }
    for (auto& line : lines) std::ranges::sort(line.points, {}, &line_point::x);
    page.chart("zeros, %", "NLL", lines);
    page.table({"mask", "zeros, %", "NLL", "change"}, detail::rows_of(r.masks));
    page.paragraph("Masks of the first seed; row: query, column: key, blue: open.");
  }
  std::string text = page.finish();
  return text.insert(text.rfind("</body>"), detail::drawings(r.drawn));
}

inline void print_mask_results(std::ostream& out, const mask_results& r, const mask_task& task) {
  if (task.left_out > 0)
    out << plural(task.left_out, "sentence") << " to measure on left out: longer than " << task.longest
        << " tokens (--length)\n";
  out << task.name << ": NLL " << curve_page::brief(r.whole.mean()) << ", " << curve_page::brief(100 * r.accuracy)
      << " % found\n";
  for (const auto& [p, accuracy] : r.removal)
    out << "removed: " << p.name << ": " << curve_page::brief(p.nll.mean()) << ", change "
        << detail::plus_minus(p.change.mean(), p.change.error()) << ", " << curve_page::brief(100 * accuracy)
        << " % found\n";
  for (const auto& [name, p] : r.importance.by_class)
    out << "P(open): " << name << ": " << detail::plus_minus(p) << '\n';
  for (const auto& p : r.pretraining)
    out << "from scratch: " << p.name << ": " << detail::plus_minus(p.nll) << ", change "
        << detail::plus_minus(p.change) << '\n';
  for (const auto& p : r.masks)
    out << "mask: " << p.name << ": " << curve_page::brief(100 * p.zeros.mean()) << " % zeros, "
        << detail::plus_minus(p.nll) << ", change " << detail::plus_minus(p.change) << '\n';
}

}  // namespace examples
