// How alike redundancy matrices are: of random tokens and real sentences, under different distances, of several models.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <headred/distance/compare.hpp>
#include <headred/io/load_transformer.hpp>
#include <headred/prune/model_redundancy.hpp>
#include <headred/prune/random_tokens.hpp>

#include <nlohmann/json.hpp>

#include "curve_page.hpp"
#include "one_line.hpp"
#include "pruning_study.hpp"

namespace examples {

/// The matrices of one attention kind, compared over their upper triangles.
struct matrix_comparison {
  attention_kind kind = attention_kind::encoder_self;
  std::vector<std::string> names;
  std::vector<spread> random_real;    ///< correlation of random tokens and real sentences, a value for each seed
  std::vector<spread> random_random;  ///< of the first seed's random tokens with the other seeds'
  headred::matrix between_random, between_real;  ///< correlation of the distances, first seed
};

namespace detail {

/// Up to `most` sentences of a set as a model reads them.
inline headred::training_batch real_sentences(const pruning_task& task, index_t most) {
  std::vector<index_t> numbers(static_cast<std::size_t>(std::min(most, task.eval.size())));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<index_t>(i) * task.eval.size() / static_cast<index_t>(numbers.size());
  headred::training_batch batch;
  if (task.masked) {
    for (const index_t i : numbers) batch.source.add(task.eval.sources[static_cast<std::size_t>(i)]);
  } else {
    task.fill(batch, task.eval, numbers, 0);
  }
  return batch;
}

/// One set of random tokens for each seed.
inline headred::random_sentences random_sentences(const pruning_settings& s, const pruning_task& task,
                                                  const headred::transformer_config& c, index_t seed) {
  return headred::random_tokens(c, {.sentences = s.sentences,
                                    .min_length = s.lengths.first,
                                    .max_length = s.lengths.second,
                                    .seed = s.seed + static_cast<std::uint64_t>(seed),
                                    .special_source = task.special_source,
                                    .special_target = task.special_target});
}

/// Adds sentences; stops when the user interrupts.
template <class Distance>
void add_sentences(headred::model_redundancy<headred::cpu, Distance>& sums, model_type& model,
                   const headred::token_batch& source, const headred::token_batch& target) {
  sums.add(model, source, target, {.progress = [](index_t) {
             stop_if_interrupted();
             return true;
           }});
}

inline std::vector<std::vector<double>> rows_of(const headred::matrix& m) {
  std::vector<std::vector<double>> rows;
  for (index_t i = 0; i < m.rows(); ++i) rows.emplace_back(m.data() + i * m.cols(), m.data() + (i + 1) * m.cols());
  return rows;
}

inline double correlation_or_nan(const headred::matrix& a, const headred::matrix& b) {
  const auto found = headred::correlation(a, b);
  return found.status == headred::status::converged ? found.value : NAN;
}

}  // namespace detail

/// Runs all seven distances on the same passes.
inline std::vector<matrix_comparison> compare_matrices(headred::cpu& be, const pruning_settings& s,
                                                       const pruning_task& task, model_type& model) {
  const auto layout = headred::model_layout(model.config());
  // [kind][distance][0: real, 1..: seeds]
  std::map<attention_kind, std::vector<std::vector<headred::matrix>>> found;
  for (const attention_kind kind : layout.kinds()) found[kind].resize(distance_names.size());
  progress_bar bar("matrices", static_cast<long>(distance_names.size()) * static_cast<long>(s.seeds + 1));
  long done = 0;
  for (index_t seed = -1; seed < s.seeds; ++seed) {
    headred::token_batch source, target;
    if (seed < 0) {
      auto real = detail::real_sentences(task, s.sentences);
      source = std::move(real.source);
      target = std::move(real.target);
    } else {
      auto random = detail::random_sentences(s, task, model.config(), seed);
      source = std::move(random.source);
      target = std::move(random.target);
    }
    std::size_t d = 0;
    for_each_distance([&]<class Distance>(const Distance& distance) {
      headred::model_redundancy<headred::cpu, Distance> sums(be, model.config(), distance);
      detail::add_sentences(sums, model, source, target);
      for (const attention_kind kind : sums.kinds()) found[kind][d].push_back(sums.matrix(kind));
      ++d;
      bar.advance(++done);
    });
  }
  std::vector<matrix_comparison> all;
  for (const auto& [kind, distances] : found) {
    if (layout.heads(kind).size() < 3) continue;
    const auto n = static_cast<index_t>(distances.size());
    matrix_comparison c{kind, {}, {}, {}, headred::matrix(n, n), headred::matrix(n, n)};
    for (index_t i = 0; i < n; ++i) {
      const auto& own = distances[static_cast<std::size_t>(i)];
      c.names.emplace_back(distance_names[static_cast<std::size_t>(i)]);
      auto& real = c.random_real.emplace_back();
      auto& random = c.random_random.emplace_back();
      for (std::size_t seed = 1; seed < own.size(); ++seed) {
        real.values.push_back(detail::correlation_or_nan(own[0], own[seed]));
        if (seed > 1) random.values.push_back(detail::correlation_or_nan(own[1], own[seed]));
      }
      for (index_t j = 0; j < n; ++j) {
        const auto& other = distances[static_cast<std::size_t>(j)];
        c.between_real(i, j) = detail::correlation_or_nan(own[0], other[0]);
        c.between_random(i, j) = detail::correlation_or_nan(own[1], other[1]);
      }
    }
    all.push_back(std::move(c));
  }
  return all;
}

/// The matrices of several models on the same random tokens, one attention kind.
struct model_comparison {
  attention_kind kind = attention_kind::encoder_self;
  std::vector<std::string> names;
  headred::matrix mean, deviation;  ///< correlation of two models over the seeds of random tokens
};

/// The model and others of its shape, from their folders. Throws headred::error for one of another shape, or with too
/// few positions for the random tokens.
inline std::vector<model_comparison> compare_models(headred::cpu& be, const pruning_settings& s,
                                                    const pruning_task& task, model_type& model,
                                                    const std::string& name) {
  const auto layout = headred::model_layout(model.config());
  std::vector<headred::random_sentences> random;
  index_t longest_source = 0, longest_target = 0;
  for (index_t seed = 0; seed < s.seeds; ++seed) {
    random.push_back(detail::random_sentences(s, task, model.config(), seed));
    for (const auto& sentence : random.back().source.sentences)
      longest_source = std::max(longest_source, sentence.length);
    for (const auto& sentence : random.back().target.sentences)
      longest_target = std::max(longest_target, sentence.length);
  }
  std::vector<std::string> names{name};
  std::vector<model_type> others;
  for (const std::string& folder : s.compare) {
    auto loaded = headred::load_transformer<float>(be, folder);
    if (headred::model_layout(loaded.config) != layout ||
        loaded.config.source.vocabulary != model.config().source.vocabulary ||
        loaded.config.target.vocabulary != model.config().target.vocabulary)
      throw headred::error("--compare: " + folder + " has other heads or vocabularies, expected those of " + name);
    for (const auto& [side, needed] :
         {std::pair(&loaded.config.source, longest_source), std::pair(&loaded.config.target, longest_target)})
      if (side->positions != headred::positions::none && side->max_positions < needed)
        throw headred::error("--compare: " + folder + " has " + std::to_string(side->max_positions) +
                             " positions, expected the " + std::to_string(needed) +
                             " of the random sentences (see --lengths)");
    const std::filesystem::path path(folder);
    names.push_back(one_line((path.has_filename() ? path : path.parent_path()).filename().string()));
    others.emplace_back(be, std::move(loaded.config), std::move(loaded.weights)).train(false);
  }
  const std::size_t n = names.size();
  progress_bar bar("models", static_cast<long>(n) * static_cast<long>(s.seeds));
  long done = 0;
  std::map<attention_kind, std::vector<std::vector<headred::matrix>>> found;  // [kind][seed][model]
  for (index_t seed = 0; seed < s.seeds; ++seed) {
    const headred::random_sentences& sentences = random[static_cast<std::size_t>(seed)];
    for (const attention_kind kind : layout.kinds()) found[kind].emplace_back();
    for (std::size_t i = 0; i < n; ++i) {
      for_each_distance([&]<class Distance>(const Distance& distance) {
        if (s.distance != Distance::name) return;
        headred::model_redundancy<headred::cpu, Distance> sums(be, model.config(), distance);
        detail::add_sentences(sums, i == 0 ? model : others[i - 1], sentences.source, sentences.target);
        for (const attention_kind kind : sums.kinds()) found[kind].back().push_back(sums.matrix(kind));
      });
      bar.advance(++done);
    }
  }
  std::vector<model_comparison> all;
  for (const attention_kind kind : layout.kinds()) {
    if (layout.heads(kind).size() < 3) continue;
    const auto size = static_cast<index_t>(n);
    model_comparison c{kind, names, headred::matrix(size, size), headred::matrix(size, size)};
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        spread values;
        for (const auto& seed : found[kind]) values.values.push_back(detail::correlation_or_nan(seed[i], seed[j]));
        c.mean(static_cast<index_t>(i), static_cast<index_t>(j)) = values.mean();
        c.deviation(static_cast<index_t>(i), static_cast<index_t>(j)) = values.deviation();
      }
    all.push_back(std::move(c));
  }
  return all;
}

inline nlohmann::ordered_json models_as_json(const std::vector<model_comparison>& all) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const model_comparison& c : all)
    list.push_back({{"kind", to_string(c.kind)},
                    {"models", c.names},
                    {"correlation", detail::rows_of(c.mean)},
                    {"deviation", detail::rows_of(c.deviation)}});
  return list;
}

inline void add_models(curve_page& page, const std::vector<model_comparison>& all) {
  for (const model_comparison& c : all) {
    page.heading("Redundancy matrices of " + std::string(to_string(c.kind)) + ": correlation of models, random tokens");
    std::vector<std::string> head{"model"};
    head.insert(head.end(), c.names.begin(), c.names.end());
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < c.names.size(); ++i) {
      auto& row = rows.emplace_back(std::vector<std::string>{c.names[i]});
      for (index_t j = 0; j < c.mean.cols(); ++j)
        row.push_back(curve_page::brief(c.mean(static_cast<index_t>(i), j)) + " ± " +
                      curve_page::brief(c.deviation(static_cast<index_t>(i), j)));
    }
    page.table(head, rows);
  }
}

inline nlohmann::ordered_json matrices_as_json(const std::vector<matrix_comparison>& all) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const matrix_comparison& c : all) {
    nlohmann::ordered_json entry{{"kind", to_string(c.kind)}, {"distances", c.names}};
    for (std::size_t i = 0; i < c.names.size(); ++i) {
      entry["random_with_real"][c.names[i]] = c.random_real[i].values;
      entry["random_with_random"][c.names[i]] = c.random_random[i].values;
    }
    entry["between_distances_random"] = detail::rows_of(c.between_random);
    entry["between_distances_real"] = detail::rows_of(c.between_real);
    list.push_back(std::move(entry));
  }
  return list;
}

inline void add_matrices(curve_page& page, const std::vector<matrix_comparison>& all) {
  for (const matrix_comparison& c : all) {
    page.heading("Redundancy matrices of " + std::string(to_string(c.kind)) + ": correlations");
    std::vector<std::string> head{"distance", "random tokens and real", "two sets of random tokens"};
    head.insert(head.end(), c.names.begin(), c.names.end());
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < c.names.size(); ++i) {
      auto& row = rows.emplace_back(std::vector<std::string>{
          c.names[i],
          curve_page::brief(c.random_real[i].mean()) + " ± " + curve_page::brief(c.random_real[i].deviation()),
          curve_page::brief(c.random_random[i].mean()) + " ± " + curve_page::brief(c.random_random[i].deviation())});
      for (std::size_t j = 0; j < c.names.size(); ++j)
        row.push_back(curve_page::brief(c.between_random(static_cast<index_t>(i), static_cast<index_t>(j))));
    }
    page.table(head, rows);
    page.paragraph("The columns of distances are for random tokens of the first seed.");
  }
}

}  // namespace examples
