// What gated_pruning writes: results.json, a page, and a table for people.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "curve_page.hpp"
#include "gated_study.hpp"

namespace examples {
namespace detail {

/// Mean and standard deviation as people read them; the number alone where there is no spread.
inline std::string with_deviation(const spread& s) {
  std::string text = curve_page::brief(s.mean());
  char deviation[32];
  std::snprintf(deviation, sizeof deviation, " ± %.2g", s.deviation());
  return s.deviation() > 0 ? text + deviation : text;
}

/// "14.5/48/48": heads that stay, by kind, means over runs.
inline std::string heads_kept(const gated_results& r, const gated_point& p) {
  std::string text;
  for (const attention_kind kind : r.layout.kinds())
    text += (text.empty() ? "" : "/") +
            curve_page::brief(spread_of(p.runs, [&](const auto& run) { return run.plan.count(kind); }).mean());
  return text;
}
inline std::string all_heads(const gated_results& r) {
  std::string text;
  for (const attention_kind kind : r.layout.kinds())
    text += (text.empty() ? "" : "/") + std::to_string(r.layout.heads(kind).size());
  return text;
}

/// One line of the table: a model, the heads it has, and its scores by seed.
struct table_line {
  std::string model, heads;
  spread nll, edits, exact;

  template <class Runs, class Get>
  static table_line of(std::string model, std::string heads, const Runs& runs, const Get& get) {
    return {std::move(model), std::move(heads), spread_of(runs, [&](const auto& x) { return get(x).nll; }),
            spread_of(runs, [&](const auto& x) { return get(x).edits; }),
            spread_of(runs, [&](const auto& x) { return get(x).exact; })};
  }
  /// `whole`: the NLL that is 100 %.
  std::vector<std::string> cells(double whole) const {
    char more[32];
    std::snprintf(more, sizeof more, "%+.1f %%", 100 * (nll.mean() / whole - 1));
    return {model, heads, with_deviation(nll), more, with_deviation(edits), with_deviation(exact)};
  }
};

/// Rows of text: model, heads kept, NLL, how far it is from that of the whole model trained on, edits, exact.
inline std::vector<std::vector<std::string>> table_of(const gated_results& r, const gated_settings& s) {
  const auto eval = [](const trained_score& x) { return x.eval; };
  std::vector<table_line> lines;
  const std::string all = all_heads(r);
  lines.push_back(table_line::of("converged", all, std::vector{r.converged}, [](const score& x) { return x; }));
  lines.push_back(table_line::of("whole, trained on", all, r.whole, eval));
  for (const gated_point& p : r.points) {
    const std::string kept = heads_kept(r, p), name = s.price_name() + " " + headred::number_text(p.price);
    lines.push_back(table_line::of(name + ": cut", kept, p.runs, [](const auto& x) { return x.cut; }));
    lines.push_back(table_line::of(name + ": trained on", kept, p.runs, [](const auto& x) { return x.trained.eval; }));
    if (!p.random.empty()) lines.push_back(table_line::of("  as many by chance", kept, p.random, eval));
    if (!p.scratch.empty()) lines.push_back(table_line::of("  from scratch", kept, p.scratch, eval));
  }
  std::vector<std::vector<std::string>> rows;
  for (const table_line& line : lines) rows.push_back(line.cells(lines[1].nll.mean()));
  return rows;
}

/// How many runs keep each head, [layer][head].
inline std::vector<std::vector<index_t>> survivors(const gated_results& r, const gated_point& p, attention_kind kind) {
  std::vector<std::vector<index_t>> counts;
  for (index_t l = 0; l < r.layout.heads(kind).layers(); ++l) {
    auto& row = counts.emplace_back();
    for (index_t h = 0; h < r.layout.heads(kind).heads(l); ++h) {
      index_t n = 0;
      for (const auto& run : p.runs) n += run.plan.is_kept(kind, {l, h}) ? 1 : 0;
      row.push_back(n);
    }
  }
  return counts;
}

/// Share of a kind's relevance, and of its heads, that stays.
inline spread relevance_that_stays(const gated_results& r, const gated_point& p, attention_kind kind) {
  return spread_of(p.runs, [&](const auto& run) { return relevance_kept(r.relevance, run.plan, kind); });
}
inline double heads_that_stay(const gated_results& r, const gated_point& p, attention_kind kind) {
  return spread_of(p.runs, [&](const auto& run) { return run.plan.count(kind); }).mean() /
         static_cast<double>(std::max<index_t>(1, r.layout.heads(kind).size()));
}

/// The heads of one kind that have a role, and how many stay.
struct role_survival {
  attention_kind kind;
  std::string role;  ///< "any", "none" for heads with and without one
  std::vector<headred::head_id> heads;
  std::vector<spread> kept;      ///< by price
  std::vector<double> expected;  ///< by price: if heads stayed without regard to roles
};

inline std::vector<role_survival> survival_of(const gated_results& r) {
  std::vector<role_survival> all;
  for (const headred::head_roles& roles : r.roles) {
    if (std::find(r.gated.begin(), r.gated.end(), roles.kind) == r.gated.end()) continue;
    const headred::head_layout& heads = r.layout.heads(roles.kind);
    std::vector<std::pair<std::string, std::set<index_t>>> by_role{{"any", {}}, {"none", {}}};
    for (const auto& role : roles.roles)
      if (std::none_of(by_role.begin(), by_role.end(), [&](const auto& b) { return b.first == role.role; }))
        by_role.push_back({role.role, {}});
    for (const auto& role : roles.found())
      for (auto& [name, set] : by_role)
        if (name == role.role || name == "any") set.insert(heads.flat(role.head));
    for (index_t h = 0; h < heads.size(); ++h)
      if (!by_role[0].second.contains(h)) by_role[1].second.insert(h);
    for (const auto& [name, set] : by_role) {
      if (set.empty()) continue;
      role_survival& line = all.emplace_back(role_survival{roles.kind, name, {}, {}, {}});
      for (const index_t h : set) line.heads.push_back(heads.id(h));
      for (const gated_point& p : r.points) {
        line.kept.push_back(spread_of(p.runs, [&](const auto& run) {
          return std::count_if(line.heads.begin(), line.heads.end(),
                               [&](headred::head_id id) { return run.plan.is_kept(roles.kind, id); });
        }));
        const double left = spread_of(p.runs, [&](const auto& run) { return run.plan.count(roles.kind); }).mean();
        line.expected.push_back(left / static_cast<double>(heads.size()) * static_cast<double>(set.size()));
      }
    }
  }
  return all;
}

}  // namespace detail

/// Every single value.
inline nlohmann::ordered_json results_json(const gated_results& r, const gated_settings& s) {
  using json = nlohmann::ordered_json;
  const auto list = [](const auto& runs) {
    json all = json::array();
    for (const auto& run : runs) all.push_back(detail::score_json(run));
    return all;
  };
  json all{{"settings", detail::settings_json(s)},
           {"layout", to_string(r.layout)},
           {"seeds", s.seeds},
           {"eval_sentences", r.eval_sentences},
           {"converged", detail::score_json(r.converged)},
           {"whole", list(r.whole)},
           {"points", json::array()}};
  for (const gated_point& p : r.points) {
    json point{{s.price_name(), p.price}, {"runs", json::array()}};
    for (const auto& run : p.runs) {
      json one = detail::outcome_json(run);
      one.erase("plan");
      json kept;
      for (const attention_kind kind : r.layout.kinds()) kept[std::string(to_string(kind))] = run.plan.count(kind);
      one["kept"] = std::move(kept);
      point["runs"].push_back(std::move(one));
    }
    point["random"] = list(p.random);
    if (s.scratch) point["scratch"] = list(p.scratch);
    for (const attention_kind kind : r.gated)
      point["survivors"][std::string(to_string(kind))] = detail::survivors(r, p, kind);
    all["points"].push_back(std::move(point));
  }
  all["chosen"] = r.chosen ? json(r.points[*r.chosen].price) : json(nullptr);
  all["roles"] = json::array();
  for (const auto& line : detail::survival_of(r)) {
    json heads = json::array(), kept = json::array();
    for (const auto& id : line.heads) heads.push_back({id.layer, id.head});
    for (const auto& k : line.kept) kept.push_back(k.values);
    all["roles"].push_back({{"kind", to_string(line.kind)},
                            {"role", line.role},
                            {"heads", heads},
                            {"kept", kept},
                            {"expected", line.expected}});
  }
  for (const attention_kind kind : r.gated) {
    json& one = all["relevance"][std::string(to_string(kind))];
    one["heads"] = r.relevance.of(kind);
    for (const gated_point& p : r.points) one["kept"].push_back(detail::relevance_that_stays(r, p, kind).values);
  }
  return all;
}

inline std::string results_page(const gated_results& r, const gated_settings& s) {
  curve_page page("Heads of " + r.name + " at a price");
  page.paragraph(
      to_string(r.layout) + "; gates on " + (s.encoder_only ? "the encoder" : "all heads") +
      (s.freeze_decoder ? ", the decoder frozen" : "") + ". " + plural(s.updates, "update") + " with gates, " +
      std::to_string(s.further) + " after the closed heads were cut out; " + plural(s.seeds, "seed") + ". Of " +
      plural(r.eval_sentences, "sentence") +
      ": NLL in nats a token, edits per reference symbol, share decoded exactly; mean ± standard deviation.");
  page.paragraph(
      "The whole model and the random plans had as many updates without gates. Each model is taken at the "
      "checkpoint that does best on sentences of the training file that were set aside.");
  page.table({"model", "heads kept", "NLL", "against whole", "edits", "exact"}, detail::table_of(r, s));
  if (r.chosen)
    page.paragraph("Chosen by the sentences set aside, the fewest heads within 2 % of the whole model: " +
                   s.price_name() + " " + headred::number_text(r.points[*r.chosen].price) + ".");

  const auto heads = [](const gated_point& p) {
    return spread_of(p.runs, [](const auto& run) { return run.plan.count(); }).mean();
  };
  const double all_heads = static_cast<double>(r.layout.size());
  const spread whole = spread_of(r.whole, [](const auto& x) { return x.eval.nll; });
  std::vector<examples::chart_line> lines{
      {"pruned by gates", {{all_heads, whole.mean(), whole.deviation()}}}, {"random", {}}, {"from scratch", {}}};
  for (const gated_point& p : r.points) {
    const auto add = [&](chart_line& line, const spread& nll) {
      line.points.push_back({heads(p), nll.mean(), nll.deviation()});
    };
    const auto eval = [](const trained_score& x) { return x.eval.nll; };
    add(lines[0], spread_of(p.runs, [](const auto& x) { return x.trained.eval.nll; }));
    if (!p.random.empty()) add(lines[1], spread_of(p.random, eval));
    if (!p.scratch.empty()) add(lines[2], spread_of(p.scratch, eval));
  }
  std::erase_if(lines, [](const chart_line& line) { return line.points.empty(); });
  for (chart_line& line : lines)
    std::sort(line.points.begin(), line.points.end(), [](const auto& a, const auto& b) { return a.x < b.x; });
  page.chart("heads kept", "NLL", lines);

  for (const gated_point& p : r.points) {
    page.heading("Who stays at " + s.price_name() + " " + headred::number_text(p.price) + ": runs of " +
                 std::to_string(s.seeds) + " (layers down, heads across)");
    for (const attention_kind kind : r.gated) {
      page.paragraph(std::string(to_string(kind)));
      std::vector<std::vector<grid_cell>> grid;
      const auto counts = detail::survivors(r, p, kind);
      for (index_t l = 0; l < static_cast<index_t>(counts.size()); ++l) {
        auto& row = grid.emplace_back();
        for (index_t h = 0; h < static_cast<index_t>(counts[static_cast<std::size_t>(l)].size()); ++h) {
          const index_t n = counts[static_cast<std::size_t>(l)][static_cast<std::size_t>(h)];
          grid_cell cell{static_cast<double>(n) / static_cast<double>(s.seeds), std::to_string(n), "", ""};
          for (const auto& roles : r.roles)
            for (const auto& role : roles.found()) {
              if (roles.kind != kind || role.head.layer != l || role.head.head != h) continue;
              const char letter = role_letter(role.role);
              if (cell.marks.find(letter) == std::string::npos) cell.marks += letter;
              cell.title += (cell.title.empty() ? "" : "; ") + role.role + " " + role.detail;
            }
          row.push_back(std::move(cell));
        }
      }
      page.grid(grid);
    }
  }
  page.paragraph(role_legend);
  page.heading("Roles of the converged model's heads, and how many of these heads stay");
  std::vector<std::string> head{"kind", "role", "heads"};
  for (const gated_point& p : r.points) head.push_back(s.price_name() + " " + headred::number_text(p.price));
  std::vector<std::vector<std::string>> rows;
  for (const auto& line : detail::survival_of(r)) {
    auto& row = rows.emplace_back(
        std::vector<std::string>{std::string(to_string(line.kind)), line.role, std::to_string(line.heads.size())});
    for (std::size_t i = 0; i < line.kept.size(); ++i)
      row.push_back(detail::with_deviation(line.kept[i]) + " (by chance " + curve_page::brief(line.expected[i]) + ")");
  }
  page.table(head, rows);
  page.heading("Relevance of the converged model's heads: the share of their kind that stays");
  head = {"kind", "of heads"};
  rows.clear();
  for (const gated_point& p : r.points) head.push_back(s.price_name() + " " + headred::number_text(p.price));
  for (const attention_kind kind : r.gated) {
    auto& row = rows.emplace_back(
        std::vector<std::string>{std::string(to_string(kind)), std::to_string(r.layout.heads(kind).size())});
    for (const gated_point& p : r.points)
      row.push_back(detail::with_deviation(detail::relevance_that_stays(r, p, kind)) + " (by chance " +
                    curve_page::brief(detail::heads_that_stay(r, p, kind)) + ")");
  }
  page.table(head, rows);
  return page.finish();
}

/// The table, who stays at the chosen price, and what their roles are.
inline void print_results(std::ostream& out, const gated_results& r, const gated_settings& s) {
  out << r.name << ": " << to_string(r.layout) << '\n';
  const auto padded = [](const std::string& text, std::size_t width) {
    std::size_t shown = 0;  // characters, not bytes
    for (const char c : text) shown += (static_cast<unsigned char>(c) & 0xc0u) != 0x80 ? 1 : 0;
    return text + std::string(shown < width ? width - shown : 1, ' ');
  };
  const std::size_t widths[] = {28, 16, 20, 15, 20, 0};
  auto rows = detail::table_of(r, s);
  rows.insert(rows.begin(), {"", "heads kept", "NLL", "against whole", "edits", "exact"});
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += padded(row[i], widths[i]);
    while (line.ends_with(' ')) line.pop_back();
    out << line << '\n';
  }
  double difference = 0;
  index_t undecided = 0, runs = 0;
  for (const gated_point& p : r.points)
    for (const auto& run : p.runs) {
      difference = std::max(difference, run.difference);
      undecided += run.undecided;
      ++runs;
    }
  out << "gated and cut model: logits differ by at most " << curve_page::brief(difference) << "; "
      << curve_page::brief(static_cast<double>(undecided) / static_cast<double>(runs)) << " gates a run undecided\n";
  if (r.chosen) {
    const gated_point& p = r.points[*r.chosen];
    out << "chosen: " << s.price_name() << ' ' << headred::number_text(p.price) << "; runs of " << s.seeds
        << " that keep each head\n";
    for (const attention_kind kind : r.gated) {
      const auto counts = detail::survivors(r, p, kind);
      for (std::size_t l = 0; l < counts.size(); ++l) {
        out << "  " << padded(l == 0 ? std::string(to_string(kind)) : "", 14) << l << ": ";
        for (const index_t n : counts[l]) out << ' ' << n;
        out << '\n';
      }
    }
  }
  for (const auto& line : detail::survival_of(r)) {
    out << padded(std::string(to_string(line.kind)) + " " + line.role, 32) << line.heads.size() << " heads; stay";
    for (std::size_t i = 0; i < line.kept.size(); ++i)
      out << (i > 0 ? "," : "") << ' ' << detail::with_deviation(line.kept[i]) << " (by chance "
          << curve_page::brief(line.expected[i]) << ')';
    out << '\n';
  }
  for (const attention_kind kind : r.gated) {
    out << padded(std::string(to_string(kind)) + " relevance", 32) << "stays";
    for (std::size_t i = 0; i < r.points.size(); ++i)
      out << (i > 0 ? "," : "") << ' ' << detail::with_deviation(detail::relevance_that_stays(r, r.points[i], kind))
          << " (by chance " << curve_page::brief(detail::heads_that_stay(r, r.points[i], kind)) << ')';
    out << '\n';
  }
  if (s.to_target)
    for (const gated_point& p : r.points) {
      const double left = spread_of(p.runs, [](const auto& run) { return run.plan.count(); }).mean();
      if (std::abs(left - p.price) > 1)
        out << "target " << headred::number_text(p.price) << ": " << curve_page::brief(left)
            << " heads are left; more --updates or another --target-rate come nearer\n";
    }
}

}  // namespace examples
