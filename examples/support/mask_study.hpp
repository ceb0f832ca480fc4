// The parts of attention_masks: positions removed, learned, left out of pre-training, masks against patterns.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <headred/sparsity/patterns.hpp>

#include "kept_runs.hpp"
#include "mask_lab.hpp"
#include "progress_bar.hpp"

namespace examples {

/// A condition, and what was measured beside it: pairs of one seed, or of one sentence.
struct paired_readings {
  std::string name;
  readings nll, change;  ///< nats a masked token; minus those of the same seed or sentence with nothing removed
  readings zeros = {};   ///< share of the mask's entries that are 0, for the longest sentences
};

/// P(open) of masks that were learned without a price.
struct learned_importance {
  std::vector<std::pair<std::string, readings>> by_class;  ///< a value for each seed
  std::vector<std::vector<std::vector<double>>> by_head;   ///< of the first seed: [layer][head][offset]
};

/// A matrix to be drawn, row by row.
struct drawn_mask {
  std::string name;
  std::vector<std::vector<double>> rows;
};

struct mask_results {
  readings whole;                                           ///< of the first seed's model, sentence by sentence
  double accuracy = NAN;                                    ///< of masked tokens
  std::vector<std::pair<paired_readings, double>> removal;  ///< over sentences, with the accuracy
  learned_importance importance;
  std::vector<paired_readings> pretraining, masks;  ///< over seeds
  std::vector<drawn_mask> drawn;
};

namespace detail {

inline index_t apart(index_t i, index_t j) { return i < j ? j - i : i - j; }

inline std::string name_of_offset(index_t d) { return d == 0 ? "diagonal" : "offset " + std::to_string(d); }

inline std::string short_number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", x);
  return text;
}

/// What every run depends on beside its own seed, offset or price.
inline nlohmann::ordered_json settings_json(const mask_settings& s) {
  return {{"model", model_fingerprint(s.model)},
          {"data", s.data.empty() ? "" : fingerprint({s.data})},
          {"places", s.places.empty() ? "" : fingerprint({s.places})},
          {"sentences", s.sentences},
          {"masked", s.masked},
          {"seed", s.seed},
          {"train", s.train},
          {"updates", s.updates},
          {"rate", s.rate},
          {"mask_rate", s.mask_rate},
          {"offsets", s.offsets},
          {"length", s.length},
          {"batch_tokens", s.batch_tokens},
          {"straight_through", !s.soft},
          {"masks", s.has("masks")}};
}

inline void add_pair(paired_readings& to, double nll, double beside) {
  to.nll.add(nll);
  to.change.add(nll - beside);
}

}  // namespace detail

class mask_study {
 public:
  mask_study(headred::cpu& be, const mask_settings& s)
      : be_(be), settings_(s), lab_(be, s), runs_("attention_masks", s.runs, detail::settings_json(s)) {}

  const mask_task& task() const { return lab_.task(); }

  mask_results run() {
    mask_results r;
    lab_.start(settings_.seed);
    r.whole = lab_.measure();
    r.accuracy = lab_.accuracy();
    if (settings_.has("removal")) remove(r);
    if (settings_.has("importance")) learn_importance(r);
    if (settings_.has("pretraining")) pretrain(r);
    if (settings_.has("masks")) learn_masks(r);
    return r;
  }

 private:
  std::uint64_t seed(index_t number) const { return settings_.seed + static_cast<std::uint64_t>(number); }
  /// Of further updates: other batches, and other tokens masked, than in those before.
  std::uint64_t later(index_t number) const { return seed(number) + (std::uint64_t{1} << 32); }

  /// The first seed's model without one class of positions.
  void remove(mask_results& r) {
    std::vector<std::pair<std::string, position_rule>> rules;
    for (const index_t offset : settings_.remove)
      rules.emplace_back(detail::name_of_offset(offset),
                         [offset](index_t i, index_t j, index_t) { return detail::apart(i, j) != offset; });
    const auto is = [](const special_place& s, index_t j, index_t n) {
      return j == (s.place < 0 ? n + s.place : s.place);
    };
    if (settings_.remove_special) {
      for (const special_place& s : task().special)
        rules.emplace_back(s.name + " as key", [s, is](index_t, index_t j, index_t n) { return !is(s, j, n); });
      rules.emplace_back("all of these as keys", [this, is](index_t, index_t j, index_t n) {
        for (const special_place& s : task().special)
          if (is(s, j, n)) return false;
        return true;
      });
    }
    progress_bar bar("classes of positions", static_cast<long>(rules.size()));
    for (const auto& [name, sees] : rules) {
      paired_readings found{name, lab_.measure_rule(sees), {}};
      for (std::size_t i = 0; i < found.nll.values.size(); ++i)
        found.change.add(found.nll.values[i] - r.whole.values[i]);
      r.removal.emplace_back(std::move(found), lab_.accuracy());
      bar.advance(static_cast<long>(r.removal.size()));
    }
  }

  headred::mask_options options(headred::mask_form form, std::uint64_t seed) const {
    headred::mask_options o;
    o.entry.straight_through = !settings_.soft;
    o.form = form;
    o.length = task().longest;
    o.seed = seed;
    return o;
  }

  /// A number for each offset of each head and layer, without a price; and, where sentences are short, for each pair, so
  /// that special tokens are seen apart.
  void learn_importance(mask_results& r) {
    const bool pairs = task().longest <= 64;
    const index_t shown = settings_.offsets + 1;
    auto& classes = r.importance.by_class;
    for (index_t d = 0; d <= shown; ++d)
      classes.emplace_back((d < shown ? detail::name_of_offset(d) : std::string("farther")) + ", by offset",
                           readings{});
    if (pairs) {
      for (index_t d = 0; d <= shown; ++d)
        classes.emplace_back((d < shown ? detail::name_of_offset(d) : std::string("farther")) + ", by pair",
                             readings{});
      for (const special_place& s : task().special) classes.emplace_back("with " + s.name + ", by pair", readings{});
    }
    progress_bar bar("importance", static_cast<long>(settings_.seeds * (pairs ? 2 : 1)));
    long done = 0;
    for (index_t n = 0; n < settings_.seeds; ++n)
      for (const auto form : {headred::mask_form::structured, headred::mask_form::unstructured}) {
        const bool by_pair = form == headred::mask_form::unstructured;
        if (by_pair && !pairs) continue;
        const auto found = runs_.get(
            std::string("importance_") + (by_pair ? "pairs_" : "offsets_") + std::to_string(seed(n)),
            [](const kept_runs::json& j) { return j; },
            [&] { return open_of(form, seed(n), later(n), classes.size()); });
        for (std::size_t c = 0; c < classes.size(); ++c)
          if (!found.at("classes").at(c).is_null()) classes[c].second.add(found.at("classes").at(c).get<double>());
        if (n == 0 && !by_pair) found.at("heads").get_to(r.importance.by_head);
        bar.advance(++done);
      }
  }

  /// Mean P(open) of each class after one training, null where the form does not tell it; and by layer, head, offset.
  kept_runs::json open_of(headred::mask_form form, std::uint64_t first, std::uint64_t further, std::size_t classes) {
    const bool by_pair = form == headred::mask_form::unstructured;
    const index_t shown = settings_.offsets + 1, longest = task().longest;
    const auto offsets = static_cast<std::size_t>(shown) + 1;
    lab_.start(first);
    headred::mask_options o = options(form, first);
    o.by_layer = true;
    masks_type masks(be_, lab_.config(), o);
    lab_.train({settings_.updates, further, nullptr, &masks});
    std::vector<double> sums(classes, 0), counts(classes, 0);
    const auto count = [&](std::size_t at, double p) {
      sums[at] += p;
      counts[at] += 1;
    };
    const auto offset_class = [&](index_t d) { return static_cast<std::size_t>(std::min(d, shown)); };
    std::vector<std::vector<std::vector<double>>> heads;
    for (std::size_t l = 0; l < lab_.config().encoder.layers.size(); ++l) {
      const auto layer = static_cast<index_t>(l);
      const auto& a = masks.a(attention_kind::encoder_self, layer).value;
      headred::tensor<float, 3, headred::cpu> open(be_, a.shape());
      masks.open(attention_kind::encoder_self, layer, open.view());
      heads.emplace_back();
      for (index_t h = 0; h < a.shape()[0]; ++h) {
        heads.back().emplace_back();
        for (index_t i = 0; i < a.shape()[1]; ++i)
          for (index_t j = by_pair ? i : 0; j < longest; ++j) {
            const double p = static_cast<double>(open(h, i, j));
            if (!by_pair) {
              count(offset_class(j), p);
              if (j < 12) heads.back().back().push_back(p);
              continue;
            }
            std::size_t at = offsets + offset_class(j - i);
            for (std::size_t k = 0; k < task().special.size(); ++k) {
              const index_t place = task().special[k].place, key = place < 0 ? longest + place : place;
              if (i == key || j == key) at = 2 * offsets + k;
            }
            count(at, p);
          }
      }
    }
    kept_runs::json found{{"classes", kept_runs::json::array()}};
    for (std::size_t c = 0; c < classes; ++c)
      found["classes"].push_back(counts[c] > 0 ? kept_runs::json(sums[c] / counts[c]) : kept_runs::json(nullptr));
    if (!by_pair) found["heads"] = heads;
    return found;
  }

  /// Models from scratch, each seed with everything and without each near offset: the same first weights, the same
  /// batches, as many updates.
  void pretrain(mask_results& r) {
    for (index_t d = -1; d <= settings_.offsets; ++d)
      r.pretraining.push_back({d < 0 ? "everything" : "without " + detail::name_of_offset(d), {}, {}});
    progress_bar bar("models from scratch",
                     static_cast<long>(settings_.seeds) * static_cast<long>(r.pretraining.size()));
    long done = 0;
    for (index_t n = 0; n < settings_.seeds; ++n) {
      double everything = NAN;
      for (index_t d = -1; d <= settings_.offsets; ++d) {
        const std::string what = d < 0 ? "everything" : "without_" + std::to_string(d);
        const double nll = runs_.get(
            "pretraining_" + what + "_" + std::to_string(seed(n)),
            [](const kept_runs::json& j) { return j.get<double>(); },
            [&]() -> kept_runs::json {
              if (d >= 0) {
                const position_rule sees = [d](index_t i, index_t j, index_t) { return detail::apart(i, j) != d; };
                const one_mask mask(be_, lab_.config(), task().longest, sees);
                lab_.from_scratch(seed(n), &mask.masks());
                return lab_.measure_rule(sees).mean();
              }
              lab_.start(seed(n));
              if (!settings_.model.empty()) lab_.from_scratch(seed(n), nullptr);
              return lab_.measure().mean();
            });
        if (d < 0) everything = nll;
        detail::add_pair(r.pretraining[static_cast<std::size_t>(d + 1)], nll, everything);
        bar.advance(++done);
      }
    }
  }

  /// Fixed patterns and learned masks: the same further updates of the same model under each.
  void learn_masks(mask_results& r) {
    struct pattern {
      std::string name;
      position_rule sees;
    };
    const bool wide = task().longest >= 64;  // else patterns as published leave hardly a zero
    const headred::bigbird_pattern bigbird{.window = 1, .global = 1, .random = wide ? 4 : 2, .seed = 1};
    const headred::longformer_pattern longformer =
        wide ? headred::longformer_pattern{} : headred::longformer_pattern{2, 1};
    headred::tensor<float, 2, headred::cpu> random(be_, {task().longest, task().longest});
    headred::pattern_mask(be_, bigbird, random.view());
    const std::vector<pattern> patterns = {
        {"nothing masked", [](index_t, index_t, index_t) { return true; }},
        {"strided", [p = headred::strided_pattern{}](index_t i, index_t j, index_t) { return p(i, j); }},
        {"fixed", [p = headred::fixed_pattern{}](index_t i, index_t j, index_t) { return p(i, j); }},
        {"longformer", [p = longformer](index_t i, index_t j, index_t) { return p(i, j); }},
        {"logsparse", [p = headred::logsparse_pattern{}](index_t i, index_t j, index_t) { return p(i, j); }},
        {"bigbird", [&random](index_t i, index_t j, index_t) { return random(i, j) != 0; }},
        {"star", [p = headred::star_pattern{}](index_t i, index_t j, index_t) { return p(i, j); }}};
    struct learned {
      headred::mask_form form;
      double lambda;
      std::string name;
      bool cut;  // its parameters rank the entries for masks as sparse as the patterns
    };
    std::vector<learned> searches;
    for (const auto form : {headred::mask_form::structured, headred::mask_form::unstructured})
      for (const double lambda : settings_.lambdas)
        searches.push_back({form, lambda,
                            std::string(form == headred::mask_form::structured ? "structured" : "unstructured") +
                                ", lambda " + detail::short_number(lambda),
                            lambda == settings_.lambdas[settings_.lambdas.size() / 2]});
    for (const pattern& p : patterns) r.masks.push_back({p.name, {}, {}});
    for (std::size_t l = 0; l < searches.size(); ++l) {
      r.masks.push_back({searches[l].name + ", one stage", {}, {}});
      r.masks.push_back({searches[l].name + ", two stages", {}, {}});
      if (searches[l].cut)
        for (std::size_t p = 1; p < patterns.size(); ++p)
          r.masks.push_back({searches[l].name + ", cut to the zeros of " + patterns[p].name, {}, {}});
    }
    progress_bar bar("masks", static_cast<long>(settings_.seeds) * static_cast<long>(r.masks.size()));
    long done = 0;
    for (index_t n = 0; n < settings_.seeds; ++n) {
      auto to = r.masks.begin();
      double unmasked = NAN;
      const auto put = [&](const kept_runs::json& found) {
        const double nll = found.at(0).get<double>();
        if (std::isnan(unmasked)) unmasked = nll;
        detail::add_pair(*to, nll, unmasked);
        to->zeros.add(found.at(1).get<double>());
        ++to;
        bar.advance(++done);
      };
      const auto as_it_is = [](const kept_runs::json& j) { return j; };
      for (const pattern& p : patterns)
        put(runs_.get("mask_" + file_name(p.name, n), as_it_is, [&]() -> kept_runs::json {
          one_mask mask(be_, lab_.config(), task().longest, p.sees);
          return {after_updates(n, mask.masks()), mask.sparsity(be_)};
        }));
      for (const learned& l : searches) {
        const std::string form = l.form == headred::mask_form::structured ? "structured" : "unstructured";
        const auto found =
            runs_.get("mask_" + file_name(form + " " + headred::number_text(l.lambda) + (l.cut ? " cut" : ""), n),
                      as_it_is, [&]() -> kept_runs::json {
                        headred::mask_options o = options(l.form, seed(n));
                        o.lambda = l.lambda;
                        o.initial = 1;
                        masks_type masks(be_, lab_.config(), o);
                        lab_.start(seed(n));
                        lab_.train({settings_.updates, later(n), nullptr, &masks});
                        masks.evaluate();
                        kept_runs::json all{{"scores", {{lab_.measure(&masks.masks()).mean(), masks.sparsity()}}},
                                            {"drawn", n == 0 ? drawn(masks) : kept_runs::json::array()}};
                        all["scores"].push_back({after_updates(n, masks.masks()), masks.sparsity()});
                        for (std::size_t p = 1; l.cut && p < patterns.size(); ++p) {
                          cut(masks, r.masks[p].zeros.values.back());
                          all["scores"].push_back({after_updates(n, masks.masks()), masks.sparsity()});
                        }
                        return all;
                      });
        for (const auto& score : found.at("scores")) put(score);
        for (std::size_t h = 0; h < found.at("drawn").size(); ++h)
          r.drawn.push_back({l.name + ", head " + std::to_string(h),
                             found.at("drawn").at(h).get<std::vector<std::vector<double>>>()});
      }
    }
  }
  std::string file_name(std::string name, index_t number) const {
    for (char& c : name)
      if (c == ' ' || c == ',') c = '_';
    return name + "_" + std::to_string(seed(number));
  }
  /// Closes the entries of the lowest parameters: the fewest that make the mask as sparse as asked.
  static void cut(masks_type& masks, double sparsity) {
    const auto& a = masks.a(attention_kind::encoder_self, 0).value;
    std::vector<float> sorted(a.data(), a.data() + a.size());
    std::ranges::sort(sorted);
    const auto at = std::ranges::partition_point(sorted, [&](float threshold) {
      masks.evaluate(static_cast<double>(threshold));
      return masks.sparsity() < sparsity - 1e-12;
    });
    masks.evaluate(at == sorted.end() ? INFINITY : static_cast<double>(*at));
  }
  double after_updates(index_t number, const mask_map& masks) {
    lab_.start(seed(number));
    lab_.train({settings_.updates, later(number), &masks, nullptr});
    return lab_.measure(&masks).mean();
  }
  /// The first heads' first rows.
  static kept_runs::json drawn(const masks_type& masks) {
    constexpr index_t most = 128;
    const auto mask = masks.mask(attention_kind::encoder_self, 0);
    auto all = kept_runs::json::array();
    for (index_t h = 0; h < std::min<index_t>(4, mask.extent(0)); ++h) {
      auto rows = kept_runs::json::array();
      for (index_t i = 0; i < std::min(most, mask.extent(1)); ++i) {
        auto& row = rows.emplace_back(kept_runs::json::array());
        for (index_t j = 0; j < std::min(most, mask.extent(2)); ++j) row.push_back(static_cast<double>(mask(h, i, j)));
      }
      all.push_back(std::move(rows));
    }
    return all;
  }

  headred::cpu& be_;
  const mask_settings& settings_;
  mask_lab lab_;
  kept_runs runs_;
};

}  // namespace examples
