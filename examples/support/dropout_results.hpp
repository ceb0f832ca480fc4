// All models of dropout_study, and what they say together.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <headred/core/number_text.hpp>

#include <nlohmann/json.hpp>

#include "dropout_lab.hpp"
#include "dropout_trend.hpp"
#include "kept_runs.hpp"
#include "progress_bar.hpp"

namespace examples {

/// The first four distances compare rows of attention, the others whole sentences.
inline const char* level_of(std::size_t distance) { return distance < 4 ? "token" : "sentence"; }

/// One distance of one attention kind, over the rates of hidden and of attention dropout.
struct dropout_curve {
  attention_kind kind = attention_kind::encoder_self;
  std::size_t distance = 0;  ///< in distance_names
  dropout_trend hidden, attention;
  estimate stronger;  ///< strength of hidden minus that of attention dropout, over seeds
};

struct dropout_results {
  std::map<dropout_sort, std::vector<std::vector<dropout_outcome>>> models;  ///< [seed][rate]
  std::map<dropout_sort, dropout_trend> nll;
  std::vector<dropout_curve> curves;
};

namespace detail {

inline nlohmann::ordered_json finite_json(double x) {
  return std::isfinite(x) ? nlohmann::ordered_json(x) : nlohmann::ordered_json(nullptr);
}
inline double finite_or_nan(const nlohmann::ordered_json& j) { return j.is_null() ? NAN : j.get<double>(); }

inline nlohmann::ordered_json outcome_json(const dropout_outcome& o) {
  nlohmann::ordered_json j{{"nll", finite_json(o.eval.nll)}};
  if (std::isfinite(o.eval.exact)) j["found"] = o.eval.exact;
  for (const auto& [kind, values] : o.distances)
    for (std::size_t d = 0; d < values.size(); ++d)
      j["distance"][std::string(to_string(kind))][std::string(distance_names[d])] = finite_json(values[d]);
  return j;
}
inline dropout_outcome json_outcome(const nlohmann::ordered_json& j, const std::vector<attention_kind>& kinds) {
  dropout_outcome o;
  o.eval.nll = finite_or_nan(j.at("nll"));
  if (!std::isfinite(o.eval.nll)) throw headred::error("a model's losses are not finite, expected a lower --rate");
  if (j.contains("found")) o.eval.exact = j.at("found").get<double>();
  for (const attention_kind kind : kinds)
    for (std::size_t d = 0; d < distance_names.size(); ++d)
      o.distances[kind][d] =
          finite_or_nan(j.at("distance").at(std::string(to_string(kind))).at(std::string(distance_names[d])));
  return o;
}

/// What every model depends on beside sort, rate and seed.
inline nlohmann::ordered_json settings_json(const dropout_settings& s) {
  return {{"task", s.task()}, {"layers", s.layers},   {"width", s.width},
          {"heads", s.heads}, {"updates", s.updates}, {"batch_tokens", s.batch_tokens},
          {"rate", s.rate},   {"train", s.train},     {"sentences", s.sentences}};
}

}  // namespace detail

/// Trains or reads all models; without dropout both sorts share one.
inline dropout_results study_dropout(headred::cpu& be, const dropout_settings& s) {
  const dropout_lab lab(be, s);
  const std::vector<attention_kind> kinds = lab.kinds();
  const kept_runs runs("dropout_study", s.runs, detail::settings_json(s));
  const std::size_t rates = s.rates.size();
  dropout_results r;
  progress_bar bar("models", static_cast<long>(s.seeds) * static_cast<long>(2 * rates - 1));
  long done = 0;
  const auto model = [&](dropout_sort sort, double rate, std::uint64_t seed) {
    const std::string name = rate == 0 ? "none" : to_string(sort) + ("_" + headred::number_text(rate));
    auto found = runs.get(
        name + "_" + std::to_string(seed), [&](const auto& j) { return detail::json_outcome(j, kinds); },
        [&] { return detail::outcome_json(lab.measure(sort, rate, seed)); });
    bar.advance(++done);
    return found;
  };
  for (index_t i = 0; i < s.seeds; ++i) {  // seed by seed: a study that is cut short has whole seeds
    const std::uint64_t seed = s.seed + static_cast<std::uint64_t>(i);
    const dropout_outcome none = model(dropout_sort::hidden, 0, seed);
    for (const dropout_sort sort : {dropout_sort::hidden, dropout_sort::attention}) {
      auto& row = r.models[sort].emplace_back(std::vector<dropout_outcome>{none});
      for (std::size_t k = 1; k < rates; ++k) row.push_back(model(sort, s.rates[k], seed));
    }
  }
  const auto trend = [&](dropout_sort sort, const auto& get) {
    std::vector<std::vector<double>> values;
    for (const auto& row : r.models[sort]) {
      values.emplace_back();
      for (const dropout_outcome& o : row) values.back().push_back(get(o));
    }
    return trend_of(values);
  };
  for (const dropout_sort sort : {dropout_sort::hidden, dropout_sort::attention})
    r.nll[sort] = trend(sort, [](const dropout_outcome& o) { return o.eval.nll; });
  for (const attention_kind kind : kinds)
    for (std::size_t d = 0; d < distance_names.size(); ++d) {
      const auto get = [&](const dropout_outcome& o) { return o.distances.at(kind)[d]; };
      dropout_curve c{kind, d, trend(dropout_sort::hidden, get), trend(dropout_sort::attention, get), {}};
      std::vector<double> ahead;
      for (std::size_t i = 0; i < c.hidden.strength.size(); ++i)
        ahead.push_back(c.hidden.strength[i] - c.attention.strength[i]);
      c.stronger = estimate_of(ahead);
      r.curves.push_back(std::move(c));
    }
  return r;
}

}  // namespace examples
