// A model as its heads are removed by each criterion, and by chance.
#pragma once

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <headred/prune/random_plan.hpp>

#include <nlohmann/json.hpp>

#include "curve_page.hpp"
#include "importance_criteria.hpp"

namespace examples {

/// One point of the curves: so many heads of one kind are gone.
struct importance_point {
  attention_kind kind = attention_kind::encoder_self;
  index_t removed = 0, heads = 0;
  std::vector<outcomes> plain, trained;  ///< of each criterion, in their order
  outcomes random, trained_random;
};

/// The curves of a model, and its scores as a whole.
struct importance_curves {
  std::vector<std::string> methods;
  score whole, trained_whole;
  index_t updates = 0;
  std::vector<importance_point> points;
};

/// samples[s]: the criteria on sample s, all in one order; each gives a plan.
inline importance_curves measure_curves(pruning_lab& lab, const importance_settings& s,
                                        const headred::plan_layout& layout, const std::vector<attention_kind>& kinds,
                                        const std::vector<std::vector<criterion>>& samples) {
  importance_curves curves;
  for (const criterion& c : samples.front()) curves.methods.push_back(c.method);
  curves.updates = s.study.updates;
  curves.whole = lab.measure(headred::prune_plan(layout));
  if (curves.updates > 0) curves.trained_whole = lab.trained(headred::prune_plan(layout));
  for (const attention_kind kind : kinds) {
    const index_t heads = layout.heads(kind).size();
    std::vector<index_t> sizes = s.remove;
    if (sizes.empty()) sizes = {heads / 4, heads / 2, 3 * heads / 4};
    for (const index_t removed : sizes) {
      if (removed == 0 ||
          (!curves.points.empty() && curves.points.back().kind == kind && curves.points.back().removed == removed))
        continue;
      importance_point p;
      p.kind = kind;
      p.removed = removed;
      p.heads = heads;
      p.plain.resize(curves.methods.size());
      p.trained.resize(curves.methods.size());
      curves.points.push_back(std::move(p));
    }
  }
  const auto most = static_cast<std::size_t>(s.study.trained_plans);
  progress_bar bar("points", static_cast<long>(curves.points.size()));
  long done = 0;
  for (importance_point& p : curves.points) {
    for (std::size_t i = 0; i < samples.size(); ++i)
      for (std::size_t m = 0; m < curves.methods.size(); ++m) {
        const headred::prune_plan plan = samples[i][m].plan(layout, p.kind, p.removed);
        p.plain[m].add(lab.measure(plan));
        if (curves.updates > 0 && i < most) p.trained[m].add(lab.trained(plan));
      }
    for (index_t i = 0; i < s.study.random_plans; ++i) {
      const auto plan =
          headred::random_plan(layout, p.heads - p.removed, s.study.seed + static_cast<std::uint64_t>(i), p.kind);
      p.random.add(lab.measure(plan));
      if (curves.updates > 0 && static_cast<std::size_t>(i) < most) p.trained_random.add(lab.trained(plan));
    }
    bar.advance(++done);
  }
  return curves;
}

namespace detail {

inline nlohmann::ordered_json number_or_null(double x) {
  return std::isfinite(x) ? nlohmann::ordered_json(x) : nlohmann::ordered_json(nullptr);
}
inline nlohmann::ordered_json as_json(const outcomes& o) {
  nlohmann::ordered_json values = nlohmann::ordered_json::array();
  for (const double x : o.nll.values) values.push_back(number_or_null(x));
  return {{"mean", number_or_null(o.nll.mean())}, {"deviation", number_or_null(o.nll.deviation())}, {"nll", values}};
}

}  // namespace detail

/// curves.json: NLL in nats a token, every single value, mean and standard deviation over plans.
inline nlohmann::ordered_json as_json(const importance_curves& curves, const importance_settings& s) {
  using json = nlohmann::ordered_json;
  json all{{"sentences", s.sentences},
           {"samples", s.samples},
           {"random_plans", s.study.random_plans},
           {"seed", s.study.seed},
           {"updates", curves.updates},
           {"rate", s.study.rate},
           {"batch_tokens", s.study.batch_tokens},
           {"unpruned", detail::number_or_null(curves.whole.nll)}};
  if (curves.updates > 0) all["unpruned_trained"] = detail::number_or_null(curves.trained_whole.nll);
  all["points"] = json::array();
  for (const importance_point& p : curves.points) {
    json point{{"kind", to_string(p.kind)}, {"removed", p.removed}, {"heads", p.heads}};
    const auto add = [&](const char* name, const std::vector<outcomes>& mine, const outcomes& random) {
      json& part = point[name];
      for (std::size_t m = 0; m < mine.size(); ++m) part[curves.methods[m]] = detail::as_json(mine[m]);
      part["random"] = detail::as_json(random);
    };
    add("as_pruned", p.plain, p.random);
    if (curves.updates > 0) add("trained", p.trained, p.trained_random);
    all["points"].push_back(std::move(point));
  }
  return all;
}

/// A number and its spread, as people read it; the number alone where there is none.
inline std::string with_spread(const outcomes& o) {
  std::string text = curve_page::brief(o.nll.mean());
  const auto& all = o.nll.values;
  const bool alike = std::all_of(all.begin(), all.end(), [&](double x) { return x == all.front(); });
  if (const double d = o.nll.deviation(); std::isfinite(d) && !alike) text += " ± " + curve_page::brief(d);
  return text;
}

/// Charts and tables of one kind.
inline void add_curves(curve_page& page, const importance_curves& curves, attention_kind kind) {
  std::vector<const importance_point*> own;
  for (const auto& p : curves.points)
    if (p.kind == kind) own.push_back(&p);
  const auto show = [&](const std::string& what, double whole, const auto& mine, outcomes importance_point::*random) {
    std::vector<chart_line> lines;
    std::vector<std::string> head{"removed"};
    std::vector<std::vector<std::string>> rows(own.size());
    for (std::size_t i = 0; i < own.size(); ++i)
      rows[i] = {std::to_string(own[i]->removed) + "/" + std::to_string(own[i]->heads)};
    for (std::size_t m = 0; m <= curves.methods.size(); ++m) {
      const bool chance = m == curves.methods.size();
      head.push_back(chance ? "random" : curves.methods[m]);
      chart_line& line = lines.emplace_back(chart_line{head.back(), {{0, whole, NAN}}});
      for (std::size_t i = 0; i < own.size(); ++i) {
        const outcomes& o = chance ? own[i]->*random : (own[i]->*mine)[m];
        line.points.push_back({static_cast<double>(own[i]->removed), o.nll.mean(), o.nll.deviation()});
        rows[i].push_back(with_spread(o));
      }
    }
    page.chart("heads of " + std::string(to_string(kind)) + " removed", "NLL " + what, lines);
    page.table(head, rows);
  };
  if (own.empty()) return;
  show("as pruned", curves.whole.nll, &importance_point::plain, &importance_point::random);
  if (curves.updates > 0)
    show("after " + std::to_string(curves.updates) + " updates", curves.trained_whole.nll, &importance_point::trained,
         &importance_point::trained_random);
}

/// A line for each point.
inline void print_curves(std::ostream& out, const importance_curves& curves) {
  out << "NLL of the whole model " << curve_page::brief(curves.whole.nll);
  if (curves.updates > 0) out << ", " << curve_page::brief(curves.trained_whole.nll) << " after further training";
  out << '\n';
  for (const importance_point& p : curves.points) {
    const auto line = [&](const char* what, const std::vector<outcomes>& mine, const outcomes& random) {
      out << "  " << to_string(p.kind) << ' ' << p.removed << '/' << p.heads << what << ':';
      for (std::size_t m = 0; m < mine.size(); ++m)
        out << ' ' << curves.methods[m] << ' ' << with_spread(mine[m]) << ';';
      out << " random " << with_spread(random) << '\n';
    };
    line("", p.plain, p.random);
    if (curves.updates > 0) line(" trained", p.trained, p.trained_random);
  }
}

}  // namespace examples
