// What head_importance writes: files of scores and roles, a page, and lines for people.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <headred/importance/rank_comparison.hpp>
#include <headred/io/roles_json.hpp>
#include <headred/io/scores_json.hpp>
#include <headred/lrp/relevance_ledger.hpp>
#include <headred/prune/plan.hpp>

#include "curve_page.hpp"
#include "importance_roles.hpp"

namespace examples {

using headred::attention_kind;

/// Results, the same for models and maps.
struct importance_report {
  std::string name;  ///< of what was scored
  std::vector<std::string> remarks;
  std::vector<std::string> methods;
  std::vector<headred::head_scores> scores;  ///< of each method
  std::vector<headred::head_roles> roles;    ///< of each kind
  headred::prune_plan plan;
  headred::relevance_ledger ledger;  ///< of one sweep; empty without lrp
};

namespace detail {

inline std::string without_line_end(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

/// {"name": document, ...}
template <class Names, class Text>
std::string object_of(const Names& names, const Text& text) {
  std::string all = "{";
  const char* before = "\n";
  for (std::size_t i = 0; i < names.size(); ++i) {
    all += before + ("\"" + std::string(names[i]) + "\": ") + without_line_end(text(i));
    before = ",\n";
  }
  return all + (names.empty() ? "}\n" : "\n}\n");
}

inline std::string head_text(headred::head_id id) {
  return "(" + std::to_string(id.layer) + "," + std::to_string(id.head) + ")";
}

}  // namespace detail

/// scores.json: by method, each in the form of io/scores_json.
inline std::string scores_text(const importance_report& r) {
  return detail::object_of(r.methods, [&](std::size_t i) { return to_json_text(r.scores[i]); });
}
/// roles.json: by attention kind, each in the form of io/roles_json.
inline std::string roles_text(const importance_report& r) {
  std::vector<std::string_view> kinds;
  for (const auto& roles : r.roles) kinds.push_back(to_string(roles.kind));
  return detail::object_of(kinds, [&](std::size_t i) { return to_json_text(r.roles[i]); });
}

/// "taylor and lrp: encoder_self .45 (.62 of half)", for each pair of methods.
struct agreement {
  std::string pair;
  std::vector<std::pair<std::string, std::array<std::string, 2>>> of_kind;  ///< Spearman, overlap at half
};
inline std::vector<agreement> agreements(const importance_report& r, const std::vector<attention_kind>& kinds) {
  std::vector<agreement> all;
  for (std::size_t a = 0; a < r.scores.size(); ++a)
    for (std::size_t b = a + 1; b < r.scores.size(); ++b) {
      agreement& pair = all.emplace_back(agreement{r.methods[a] + ", " + r.methods[b], {}});
      const auto compare = [&](const std::string& name, const std::vector<attention_kind>& which) {
        index_t heads = 0;
        for (const attention_kind kind : which) heads += r.scores[a].layout(kind).size();
        const auto rho = headred::spearman(r.scores[a], r.scores[b], which);
        pair.of_kind.push_back({name,
                                {curve_page::brief(rho.value_or(NAN)),
                                 curve_page::brief(headred::overlap_at(heads / 2, r.scores[a], r.scores[b], which))}});
      };
      for (const attention_kind kind : kinds) compare(std::string(to_string(kind)), {kind});
      if (kinds.size() > 1) compare("all", kinds);
    }
  return all;
}

/// Lines "positional: (2,9) offset 1, ..." of one kind: for every role that was looked for, what was found, or that nothing was.
inline std::vector<std::string> role_lines(const headred::head_roles& roles) {
  constexpr std::size_t most = 8;
  std::vector<std::string> names, lines;
  for (const auto& role : roles.roles)
    if (std::find(names.begin(), names.end(), role.role) == names.end()) names.push_back(role.role);
  for (const std::string& name : names) {
    std::vector<const headred::head_role*> found;
    bool judged = false;
    for (const auto& role : roles.roles) {
      if (role.role != name) continue;
      judged = judged || role.evidence.says != headred::verdict::too_few;
      if (role.evidence.says == headred::verdict::yes) found.push_back(&role);
    }
    std::stable_sort(found.begin(), found.end(), [](const auto* a, const auto* b) {
      return a->evidence.share - a->evidence.threshold > b->evidence.share - b->evidence.threshold;
    });
    std::string line = name + ": ";
    if (found.empty()) line += judged ? "none" : "too few tokens to say";
    for (std::size_t i = 0; i < std::min(most, found.size()); ++i) {
      const auto& role = *found[i];
      line += (i > 0 ? ", " : "") + detail::head_text(role.head) + (role.detail.empty() ? "" : " " + role.detail) +
              " " + curve_page::brief(100 * role.evidence.share) + " %";
    }
    if (found.size() > most) line += ", and " + std::to_string(found.size() - most) + " more";
    lines.push_back(std::move(line));
  }
  return lines;
}

namespace detail {

/// The scores of one kind as a grid, letters of roles in the corners.
inline std::vector<std::vector<grid_cell>> grid_of(const importance_report& r, const headred::head_scores& scores,
                                                   attention_kind kind) {
  const auto values = scores.of(kind);
  double most = 0;
  for (const double v : values) most = std::max(most, std::abs(v));
  std::vector<std::vector<grid_cell>> rows;
  const headred::head_layout& layout = scores.layout(kind);
  for (index_t l = 0; l < layout.layers(); ++l) {
    auto& row = rows.emplace_back();
    for (index_t h = 0; h < layout.heads(l); ++h) {
      const double v = values[static_cast<std::size_t>(layout.flat({l, h}))];
      char text[32];
      std::snprintf(text, sizeof text, "%.2g", v);
      grid_cell cell{most > 0 ? .85 * v / most : 0, text, "", head_text({l, h})};
      for (const auto& roles : r.roles) {
        if (roles.kind != kind) continue;
        for (const auto& role : roles.roles) {
          if (role.evidence.says != headred::verdict::yes || role.head != headred::head_id{l, h}) continue;
          if (const char letter = role_letter(role.role); cell.marks.find(letter) == std::string::npos)
            cell.marks += letter;
          cell.title += "; " + role.role + (role.detail.empty() ? "" : " " + role.detail) + " " +
                        curve_page::brief(100 * role.evidence.share) + " %";
        }
      }
      if (!r.plan.is_kept(kind, {l, h})) cell.title += "; removed by the plan";
      row.push_back(std::move(cell));
    }
  }
  return rows;
}

/// Where relevance stays, op by op in the order of the sweep, and by kind of op.
inline void add_ledger(curve_page& page, const headred::relevance_ledger& ledger) {
  page.heading("Where relevance goes");
  page.paragraph(
      "One sweep, one generation step. Every op's account: what arrives at its outputs = what it hands to its inputs + "
      "bias + eps + rescaling + nonlinear part; the last column is what rounding leaves, relative to sum|R|.");
  std::vector<chart_line> lines{{"arrives, sum|R|", {}}, {"handed on, sum|R|", {}}};
  struct sums {
    index_t ops = 0;
    double out = 0, in = 0, bias = 0, eps = 0, rescale = 0, nonlinear = 0, worst = 0;
  };
  std::map<headred::relevance_op, sums> by_op;
  double number = 0;
  for (const auto& e : ledger.entries) {
    lines[0].points.push_back({number, e.absolute_out, NAN});
    lines[1].points.push_back({number++, e.absolute_in, NAN});
    sums& s = by_op[e.op];
    ++s.ops;
    s.out += e.out;
    s.in += e.in;
    s.bias += e.lost.bias;
    s.eps += e.lost.eps;
    s.rescale += e.rescale;
    s.nonlinear += e.lost.nonlinear;
    const double size = std::max(e.absolute_out, e.absolute_in);
    if (size > 0) s.worst = std::max(s.worst, std::abs(e.residual()) / size);
  }
  page.chart("op, from the logits back", "sum|R|", lines);
  std::vector<std::vector<std::string>> rows;
  for (const auto& [op, s] : by_op) {
    rows.push_back({std::string(to_string(op)), std::to_string(s.ops)});
    for (const double x : {s.out, s.in, s.bias, s.eps, s.rescale, s.nonlinear, s.worst})
      rows.back().push_back(curve_page::brief(x));
  }
  page.table({"op", "ops", "out", "in", "bias", "eps", "rescaling", "nonlinear", "residual"}, rows);
}

}  // namespace detail

/// The page, `curves(page, kind)` adding the curves of a kind.
template <class Curves>
std::string report_page(const importance_report& r, const Curves& curves) {
  curve_page page("Which heads matter: " + r.name);
  for (const auto& remark : r.remarks) page.paragraph(remark);
  page.paragraph(role_legend);
  const std::vector<attention_kind> kinds = r.scores.front().kinds();
  for (const attention_kind kind : kinds) {
    page.heading(std::string(to_string(kind)));
    for (std::size_t m = 0; m < r.methods.size(); ++m) {
      page.paragraph(r.methods[m] + " (layers down, heads across)");
      page.grid(detail::grid_of(r, r.scores[m], kind));
    }
    for (const auto& roles : r.roles)
      if (roles.kind == kind)
        for (const std::string& line : role_lines(roles)) page.paragraph(line);
    curves(page, kind);
  }
  if (r.methods.size() > 1) {
    page.heading("Agreement of the criteria");
    page.paragraph(
        "Spearman's rank correlation, and the share of one criterion's better half that is in the other's; by "
        "chance 0 and 0.5.");
    std::vector<std::string> head{"criteria"};
    std::vector<std::vector<std::string>> rows;
    for (const agreement& a : agreements(r, kinds)) {
      rows.push_back({a.pair});
      if (rows.size() == 1)
        for (const auto& [kind, numbers] : a.of_kind) head.insert(head.end(), {kind, "at half"});
      for (const auto& [kind, numbers] : a.of_kind)
        rows.back().insert(rows.back().end(), numbers.begin(), numbers.end());
    }
    page.table(head, rows);
  }
  if (!r.ledger.entries.empty()) detail::add_ledger(page, r.ledger);
  return page.finish();
}

/// The same in short, for a terminal.
inline void print_report(std::ostream& out, const importance_report& r) {
  constexpr std::size_t most = 5;
  out << r.name << '\n';
  for (const auto& remark : r.remarks) out << remark << '\n';
  const std::vector<attention_kind> kinds = r.scores.front().kinds();
  for (const attention_kind kind : kinds) {
    out << to_string(kind) << '\n';
    for (std::size_t m = 0; m < r.methods.size(); ++m) {
      out << "  " << r.methods[m] << ':';
      const auto order = headred::ranking(r.scores[m], {kind});
      for (std::size_t i = 0; i < std::min(most, order.size()); ++i)
        out << ' ' << detail::head_text(order[i].id) << ' ' << curve_page::brief(order[i].value);
      out << '\n';
    }
    for (const auto& roles : r.roles)
      if (roles.kind == kind)
        for (const std::string& line : role_lines(roles)) out << "  " << line << '\n';
  }
  if (r.methods.size() > 1) out << "agreement (Spearman, common share of the better halves)\n";
  for (const agreement& a : agreements(r, kinds)) {
    out << "  " << a.pair << ':';
    for (const auto& [kind, numbers] : a.of_kind) out << ' ' << kind << ' ' << numbers[0] << ' ' << numbers[1] << ';';
    out << '\n';
  }
}

}  // namespace examples
