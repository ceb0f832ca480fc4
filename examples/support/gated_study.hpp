// All prices and seeds of a study, each run kept in a file so that a study that was interrupted can go on.
#pragma once

#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <headred/io/json_fields.hpp>
#include <headred/io/plan_json.hpp>

#include <nlohmann/json.hpp>

#include "gated_lab.hpp"
#include "gated_relevance.hpp"
#include "gated_roles.hpp"
#include "kept_runs.hpp"
#include "one_line.hpp"
#include "progress_bar.hpp"
#include "pruning_study.hpp"

namespace examples {

/// Everything at one price, by seed.
struct gated_point {
  double price = 0;
  std::vector<gated_outcome> runs;
  std::vector<trained_score> random, scratch;
};

/// Everything at all prices.
struct gated_results {
  std::string name;
  headred::plan_layout layout;
  std::vector<attention_kind> gated;  ///< kinds with gates
  index_t eval_sentences = 0;
  score converged;
  std::vector<trained_score> whole;  ///< trained on like the others, by seed
  std::vector<gated_point> points;
  std::optional<std::size_t> chosen;       ///< fewest heads within 2 % of `whole`, by the sentences to select by
  std::vector<headred::head_roles> roles;  ///< of the converged model, by kind
  headred::head_scores relevance;          ///< likewise
};

/// One number of several runs.
template <class Runs, class Get>
spread spread_of(const Runs& runs, const Get& get) {
  spread s;
  for (const auto& run : runs) s.values.push_back(static_cast<double>(get(run)));
  return s;
}

namespace detail {

using gated_json = nlohmann::ordered_json;

inline gated_json number_json(double x) { return std::isfinite(x) ? gated_json(x) : gated_json(nullptr); }
inline double json_number(const gated_json& j) { return j.is_null() ? NAN : j.get<double>(); }

inline gated_json score_json(const score& s) {
  return {{"nll", number_json(s.nll)}, {"exact", number_json(s.exact)}, {"edits", number_json(s.edits)}};
}
inline score json_score(const gated_json& j) {
  return {json_number(j.at("nll")), json_number(j.at("exact")), json_number(j.at("edits"))};
}
inline gated_json score_json(const trained_score& s) {
  gated_json j = score_json(s.eval);
  j["select_nll"] = number_json(s.select);
  j["updates"] = s.updates;
  return j;
}
inline trained_score json_trained_score(const gated_json& j) {
  return {json_score(j), json_number(j.at("select_nll")), j.at("updates").get<index_t>()};
}
inline gated_json outcome_json(const gated_outcome& o) {
  return {{"plan", gated_json::parse(headred::to_json_text(o.plan))},
          {"undecided", o.undecided},
          {"difference", number_json(o.difference)},
          {"parameters", number_json(o.parameters)},
          {"cut", score_json(o.cut)},
          {"trained", score_json(o.trained)}};
}
inline gated_outcome json_outcome(const gated_json& j) {
  return {headred::parse_plan_json(j.at("plan").dump()),
          j.at("undecided").get<index_t>(),
          json_number(j.at("difference")),
          json_number(j.at("parameters")),
          json_score(j.at("cut")),
          json_trained_score(j.at("trained"))};
}

/// What every run depends on.
inline gated_json settings_json(const gated_settings& s) {
  gated_json j{{"model", model_fingerprint(s.model)},
               {"data", s.data.empty() ? "" : fingerprint({s.data})},
               {"eval", s.eval.empty() ? "" : fingerprint({s.eval})},
               {"kinds", s.encoder_only ? "encoder" : "all"},
               {"freeze_decoder", s.freeze_decoder},
               {"method", s.method == headred::gate_penalty::sum ? "sum" : "layer_mean"},
               {"updates", s.updates},
               {"further", s.further},
               {"train", s.train},
               {"rate", s.rate},
               {"gate_rate", s.gate_rate},
               {"target_rate", s.target_rate},
               {"scratch_rate", s.scratch_rate},
               {"dropout", s.dropout},
               {"batch_tokens", s.batch_tokens},
               {"seed", s.seed}};
  if (s.of_grammar()) j.update({{"layers", s.layers}, {"width", s.width}, {"heads", s.heads}});
  return j;
}

/// The price with the fewest heads whose NLL is within 2 % of the whole model's, both by the sentences to select by.
inline std::optional<std::size_t> chosen_price(const gated_results& r) {
  const auto select = [](const trained_score& s) { return s.select; };
  const double limit = 1.02 * spread_of(r.whole, select).mean();
  std::optional<std::size_t> best;
  double fewest = INFINITY;
  for (std::size_t i = 0; i < r.points.size(); ++i) {
    const auto& runs = r.points[i].runs;
    const double heads = spread_of(runs, [](const auto& run) { return run.plan.count(); }).mean();
    if (!(spread_of(runs, [](const auto& run) { return run.trained.select; }).mean() <= limit) || !(heads < fewest))
      continue;
    fewest = heads;
    best = i;
  }
  return best;
}

}  // namespace detail

/// "lambda_0.03", "target_10"
inline std::string price_text(const gated_settings& s, double price) {
  return s.price_name() + "_" + headred::number_text(price);
}

/// Reads or trains the model and does all runs; those in `runs` are taken as they are.
inline gated_results study_gates(headred::cpu& be, const gated_settings& s, const std::filesystem::path& folder) {
  gated_results r;
  pruning_task task;
  std::optional<model_type> model;
  if (s.of_grammar()) {
    r.name = "a model trained on the invented language";
    task = grammar_task(4000);
    const headred::translation_grammar grammar;
    model.emplace(be, headred::uniform_config({.layers = s.layers,
                                               .width = s.width,
                                               .heads = s.heads,
                                               .source_vocabulary = grammar.source_vocabulary(),
                                               .target_vocabulary = grammar.target_vocabulary(),
                                               .max_positions = 64,
                                               .dropout = s.dropout}));
    headred::initialize(be, model->weights(), s.seed);
    pruning_settings first;
    first.rate = s.scratch_rate;
    first.batch_tokens = s.batch_tokens;
    first.seed = s.seed;
    if (s.train > 0) pruning_lab(be, first, task, *model).train(*model, s.train);
    model->train(false);
  } else {
    const std::filesystem::path from(s.model);
    r.name = one_line((from.has_filename() ? from : from.parent_path()).filename().string());
    auto loaded = headred::load_transformer<float>(be, s.model);
    loaded.config.dropout = s.dropout;
    task = read_task(s.model, loaded.config, s.data, s.eval);
    model.emplace(be, loaded.config, std::move(loaded.weights));
  }
  r.layout = headred::model_layout(model->config());
  r.gated = r.layout.kinds();
  if (s.encoder_only) r.gated = {attention_kind::encoder_self};
  index_t gates = 0;
  for (const attention_kind kind : r.gated) gates += r.layout.contains(kind) ? r.layout.heads(kind).size() : 0;
  if (gates == 0) throw headred::error("--kinds: the model has no such heads");
  for (const double price : s.prices)
    if (s.to_target && price > static_cast<double>(gates))
      throw headred::error("--target: " + headred::number_text(price) + " heads, expected at most the " +
                           std::to_string(gates) + " with gates");
  r.eval_sentences = task.eval.size();

  const gated_lab lab(be, s, task, *model);
  const kept_runs runs("gated_pruning", folder, detail::settings_json(s));
  const auto seeds = static_cast<std::size_t>(s.seeds), plans = static_cast<std::size_t>(s.random_plans);
  progress_bar bar("runs", static_cast<long>(seeds + s.prices.size() * (seeds + plans + (s.scratch ? seeds : 0))));
  long done = 0;
  const auto trained = [&](const std::string& name, std::size_t i, const auto& compute) {
    const std::uint64_t seed = s.seed + i;
    auto found = runs.get(name + "_" + std::to_string(seed), detail::json_trained_score,
                          [&] { return detail::score_json(compute(seed)); });
    bar.advance(++done);
    return found;
  };
  r.converged = lab.converged();
  for (std::size_t i = 0; i < seeds; ++i)
    r.whole.push_back(trained("whole", i, [&](auto seed) { return lab.plain(headred::prune_plan(r.layout), seed); }));
  for (const double price : s.prices) {
    gated_point& p = r.points.emplace_back();
    p.price = price;
    const std::string text = price_text(s, price);
    for (std::size_t i = 0; i < seeds; ++i) {
      const std::uint64_t seed = s.seed + i;
      const std::string name = text + "_" + std::to_string(seed);
      p.runs.push_back(runs.get(
          name, detail::json_outcome, [&] { return detail::outcome_json(lab.gated(price, seed, runs.place(name))); },
          [&] { return std::filesystem::exists(runs.place(name) / "model.safetensors"); }));
      if (p.runs.back().plan.layout() != r.layout)
        throw headred::file_error(folder.string(), "run " + text + " is of another model");
      bar.advance(++done);
    }
    for (std::size_t i = 0; i < plans; ++i) {
      const std::string like = std::to_string(s.seed + i % seeds);  // whose numbers of heads it has
      p.random.push_back(trained(text + "_like_" + like + "_random", i, [&](auto seed) {
        return lab.plain(random_like(p.runs[i % seeds].plan, seed), seed);
      }));
    }
    for (std::size_t i = 0; s.scratch && i < seeds; ++i)
      p.scratch.push_back(
          trained(text + "_scratch", i, [&](auto seed) { return lab.from_scratch(p.runs[i].plan, seed); }));
  }
  r.chosen = detail::chosen_price(r);
  r.roles = roles_of(*model, task, s.of_grammar());
  r.relevance = relevance_of(*model, task);
  return r;
}

}  // namespace examples
