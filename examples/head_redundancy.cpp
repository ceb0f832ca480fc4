// Which attention heads do the same? Redundancy matrices, clusters, the heads to keep, and a page to look at.
// run: --out report --threads 2
#include <chrono>
#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include <headred/headred.hpp>
#include <headred/io.hpp>
#include <headred/report.hpp>

#include <nlohmann/json.hpp>

#include "support/arguments.hpp"
#include "support/attention_files.hpp"
#include "support/output_folder.hpp"
#include "support/planted_attention.hpp"
#include "support/progress_bar.hpp"

namespace {

using headred::index_t;
using json = nlohmann::ordered_json;
using std::chrono::steady_clock;

constexpr const char* help = R"(head_redundancy: which attention heads do the same, and which to keep

  head_redundancy [--attention FILE|DIR...] --out DIR

Input
  --attention FILE|DIR...  attention maps whose rows sum to 1. A .safetensors file holds one (L,H,T,S) tensor for each
                           sentence; a .npy file holds one (L,H,T,S) array, or (B,L,H,T,S) with the valid tokens of
                           each sentence in NAME.lengths.npy beside it. Without this, maps with a planted structure.
  --scale X                value of one unit where maps are stored as integers (default: metadata "scale" of the file)
Distances
  --distance NAME|all      cosine, pearson, jensen_shannon, bhattacharyya (by token); distance_correlation, procrustes,
                           canonical_correlation (by sentence). Default: all
  --precision f32|f64      arithmetic of the distances. Default: f32
Plan
  --plan-from NAME|mean    the matrix that is clustered, or the mean of all. Default: jensen_shannon, else the first
  --prune RATIO            remove this share of the heads, in [0,1). Default: 0.5
  --clusters K             keep K heads
  --auto MIN:MAX           keep as many heads as the best mean silhouette in this range says
                           (default without --attention: 2:32)
Other
  --threads N              0 takes all cores (default). No result depends on it
  --seed S                 of the resampling and of the planted maps. Default: 1
  --out DIR                receives redundancy_<distance>.npy, plan.json, summary.json and report.html
  --help

Exit code: 0 done; 1 the input cannot be used or the output not be written; 2 the command line is wrong.
)";

struct settings {
  std::vector<std::string> attention;
  std::optional<double> scale;
  std::string distance = "all", plan_from;
  bool wide = false;
  std::optional<double> prune;
  std::optional<index_t> clusters;
  std::optional<std::pair<index_t, index_t>> automatic;
  int threads = 0;
  std::uint64_t seed = 1;
  std::string out;
};

/// One distance: its accumulator behind a common face, and what came of it.
struct measure {
  std::string name;
  std::function<bool(headred::tensor_view<const float, 4>, index_t)> add_single;
  std::function<bool(headred::tensor_view<const double, 4>, index_t)> add_double;
  std::function<const headred::matrix&()> last;
  std::function<headred::matrix()> mean;
  std::function<index_t()> underdetermined;
  headred::matrix redundancy;
  std::vector<double> gaps;  // (sentences, layers), row by row
  double seconds = 0;
};

template <class Distance>
measure make_measure(headred::cpu& be, const headred::head_layout& layout) {
  auto red = std::make_shared<headred::redundancy<Distance, headred::cpu>>(be, layout);
  measure m;
  m.name = Distance::name;
  m.add_single = [red](headred::tensor_view<const float, 4> maps, index_t length) {
    return red->add(maps, {.length = length});
  };
  m.add_double = [red](headred::tensor_view<const double, 4> maps, index_t length) {
    return red->add(maps, {.length = length});
  };
  m.last = [red]() -> const headred::matrix& { return red->last(); };
  m.mean = [red] { return red->matrix(); };
  m.underdetermined = [red] { return red->underdetermined(); };
  return m;
}

const std::vector<std::pair<std::string, measure (*)(headred::cpu&, const headred::head_layout&)>> known_distances = {
    {"cosine", make_measure<headred::cosine>},
    {"pearson", make_measure<headred::pearson>},
    {"jensen_shannon", make_measure<headred::jensen_shannon>},
    {"bhattacharyya", make_measure<headred::bhattacharyya>},
    {"distance_correlation", make_measure<headred::distance_correlation>},
    {"procrustes", make_measure<headred::procrustes>},
    {"canonical_correlation", make_measure<headred::canonical_correlation>},
};

bool known(const std::string& name) {
  return std::any_of(known_distances.begin(), known_distances.end(), [&](const auto& d) { return d.first == name; });
}

settings read_settings(examples::arguments words) {
  settings s;
  while (!words.empty()) {
    const std::string option = words.option();
    if (option == "--attention") {
      for (auto& path : words.values()) s.attention.push_back(std::move(path));
    } else if (option == "--scale") {
      s.scale = words.number<double>();
    } else if (option == "--distance") {
      s.distance = words.value();
    } else if (option == "--plan-from") {
      s.plan_from = words.value();
    } else if (option == "--precision") {
      const std::string precision = words.value();
      if (precision != "f32" && precision != "f64")
        throw examples::usage_error("--precision is '" + precision + "', expected f32 or f64");
      s.wide = precision == "f64";
    } else if (option == "--prune") {
      s.prune = words.number<double>();
    } else if (option == "--clusters") {
      s.clusters = words.number<index_t>();
    } else if (option == "--auto") {
      s.automatic = words.range<index_t>();
    } else if (option == "--threads") {
      s.threads = words.number<int>();
    } else if (option == "--seed") {
      s.seed = words.number<std::uint64_t>();
    } else if (option == "--out") {
      s.out = words.value();
    } else {
      throw examples::usage_error("unknown option " + option);
    }
  }
  if (s.out.empty()) throw examples::usage_error("--out is missing");
  if (s.distance != "all" && !known(s.distance))
    throw examples::usage_error("--distance is '" + s.distance + "', expected all or one of the seven names");
  if (s.plan_from.empty()) s.plan_from = s.distance == "all" ? "jensen_shannon" : s.distance;
  if (s.plan_from != "mean" && (!known(s.plan_from) || (s.distance != "all" && s.distance != s.plan_from)))
    throw examples::usage_error("--plan-from is '" + s.plan_from + "', expected mean or a distance that is computed");
  if (int(s.prune.has_value()) + int(s.clusters.has_value()) + int(s.automatic.has_value()) > 1)
    throw examples::usage_error("--prune, --clusters and --auto exclude each other");
  if (s.prune && !(*s.prune >= 0 && *s.prune < 1))
    throw examples::usage_error("--prune is " + std::to_string(*s.prune) + ", expected a ratio in [0,1)");
  if (s.scale && !(*s.scale > 0 && std::isfinite(*s.scale)))
    throw examples::usage_error("--scale is " + std::to_string(*s.scale) + ", expected a positive number");
  if (s.threads < 0) throw examples::usage_error("--threads is " + std::to_string(s.threads) + ", expected 0 or more");
  if (!s.prune && !s.clusters && !s.automatic) {
    if (s.attention.empty()) {
      s.automatic = {2, 32};
    } else {
      s.prune = .5;
    }
  }
  return s;
}

double seconds_since(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

/// Everything that is known after the sentences were read.
struct study {
  headred::head_layout layout;
  std::vector<measure> measures;
  index_t used = 0, skipped = 0;
  std::string source;
};

class collector {
 public:
  collector(headred::cpu& be, const settings& s, long total) : be_(be), settings_(s), bar_("sentences", total) {}

  template <class Real>
  void add(headred::tensor_view<const Real, 4> maps, index_t length, const examples::sentence_name& name) {
    const headred::head_layout layout(maps.extent(0), maps.extent(1));
    if (study_.measures.empty()) {
      if (layout.size() == 0) throw headred::shape_error(name.text() + ": no heads in " + headred::shape_text(maps.shape()));
      study_.layout = layout;
      for (const auto& [known_name, make] : known_distances)
        if (settings_.distance == "all" || settings_.distance == known_name)
          study_.measures.push_back(make(be_, study_.layout));
    } else if (layout != study_.layout) {
      throw headred::shape_error(name.text() + ": " + headred::shape_text(maps.shape()) + ", the sentences before have " +
                                 std::to_string(study_.layout.layers()) + " layers of " +
                                 std::to_string(study_.layout.heads(0)) + " heads");
    }
    bool used = true;
    for (measure& m : study_.measures) {
      const auto start = steady_clock::now();
      try {
        if constexpr (std::is_same_v<Real, float>) {
          used = m.add_single(maps, length);
        } else {
          used = m.add_double(maps, length);
        }
      } catch (const headred::error& problem) {
        throw headred::error(name.text() + ": " + problem.what());
      }
      m.seconds += seconds_since(start);
      if (!used) continue;
      const auto gaps = headred::layer_gap(m.last(), study_.layout).mean;
      m.gaps.insert(m.gaps.end(), gaps.begin(), gaps.end());
    }
    (used ? study_.used : study_.skipped) += 1;
    bar_.advance(study_.used + study_.skipped);
  }

  study finish() {
    if (study_.used == 0)
      throw headred::error("the input holds no sentence with a valid token (" + std::to_string(study_.skipped) +
                           " skipped)");
    for (measure& m : study_.measures) m.redundancy = m.mean();
    return std::move(study_);
  }

 private:
  headred::cpu& be_;
  const settings& settings_;
  examples::progress_bar bar_;
  study study_;
};

template <class Real>
study read_files(headred::cpu& be, const settings& s) {
  const auto files = examples::attention_files(s.attention);
  long total = 0;
  for (const auto& file : files) total += examples::count_sentences(file);
  if (total == 0) throw headred::error(files.front().string() + ": the file holds no sentence");
  collector all(be, s, total);
  for (const auto& file : files)
    examples::for_each_sentence<Real>(
        be, file, s.scale, [&](headred::tensor_view<const Real, 4> maps, index_t length, const examples::sentence_name& name) {
          all.add<Real>(maps, length, name);
        });
  study result = all.finish();
  result.source = files.size() == 1 ? files.front().filename().string() : std::to_string(files.size()) + " files";
  return result;
}

study read_planted(headred::cpu& be, const settings& s, const examples::planted_attention& planted) {
  constexpr long sentences = 24;
  collector all(be, s, sentences);
  for (index_t i = 0; i < sentences; ++i) {
    const auto maps = planted.sentence(be, i);
    const examples::sentence_name name{"planted maps", "sentence " + std::to_string(i)};
    if (s.wide) {
      headred::tensor<double, 4, headred::cpu> wide(be, maps.shape());
      std::copy(maps.data(), maps.data() + maps.size(), wide.data());
      all.add<double>(wide.view(), -1, name);
    } else {
      all.add<float>(maps.view(), -1, name);
    }
  }
  study result = all.finish();
  result.source = "planted maps, 16 groups";
  return result;
}

headred::matrix matrix_to_cluster(const study& all, const std::string& plan_from) {
  headred::matrix mean(all.layout.size(), all.layout.size());
  for (const measure& m : all.measures) {
    if (m.name == plan_from) return m.redundancy;
    for (index_t i = 0; i < mean.rows() * mean.cols(); ++i)
      mean.data()[i] += m.redundancy.data()[i] / static_cast<double>(all.measures.size());
  }
  return mean;
}

/// The clusters and the heads to keep.
struct decision {
  headred::clustering clusters;
  headred::silhouettes scores;
  headred::prune_plan plan;
  std::vector<headred::silhouette_point> curve;
  index_t k = 0;
  std::string how;
};

decision decide(headred::cpu& be, const settings& s, const study& all, const headred::matrix& distances) {
  const index_t n = all.layout.size();
  const headred::spectral_embedding<headred::cpu> embedding(be, distances);
  decision d;
  const auto [low, high] = s.automatic.value_or(std::pair<index_t, index_t>{2, 72});
  if (s.automatic && (low < 1 || high < low || high > n))
    throw examples::usage_error("--auto is " + std::to_string(low) + ":" + std::to_string(high) + ", expected within 1 to " +
                                std::to_string(n) + " heads");
  if (n > 2) {
    const headred::auto_options range{.min = std::min(low, n - 1), .max = std::min(high, s.automatic ? n : n - 1)};
    auto best = headred::auto_clusters(be, embedding, range);
    d.curve = std::move(best.curve);
    if (s.automatic) d.k = best.k;
  } else if (s.automatic) {
    d.k = low;
  }
  if (s.automatic) {
    d.how = "best mean silhouette for " + std::to_string(low) + " to " + std::to_string(high) + " clusters";
  } else if (s.clusters) {
    if (*s.clusters < 1 || *s.clusters > n)
      throw examples::usage_error("--clusters is " + std::to_string(*s.clusters) + ", expected 1 to " + std::to_string(n));
    d.k = *s.clusters;
    d.how = "asked for";
  } else {
    d.k = headred::cluster_count(n, *s.prune);
    std::ostringstream text;
    text << "pruning ratio " << *s.prune;
    d.how = text.str();
  }
  d.clusters = embedding.clusters(d.k);
  d.scores = headred::silhouette(be, distances, d.clusters);
  d.plan = headred::keep_representatives(d.clusters, d.scores, all.layout);
  return d;
}


struct gap_interval {
  std::vector<double> mean, low, high;
};

gap_interval gap_of(headred::cpu& be, const settings& s, const study& all, const measure& m) {
  const index_t layers = all.layout.layers();
  const headred::tensor_view<const double, 2> rows(m.gaps.data(), {all.used, layers});
  const auto result = headred::bootstrap_mean(be, rows, {.seed = s.seed});
  return {result.estimate, result.lower, result.upper};
}

void write_results(headred::cpu& be, const settings& s, const study& all, const decision& d,
                   examples::output_folder& out, json& timings, steady_clock::time_point start) {
  std::vector<headred::matrix> matrices;
  headred::redundancy_report page;
  for (const measure& m : all.measures) {
    headred::save_npy(out.file("redundancy_" + m.name + ".npy"), m.redundancy);
    matrices.push_back(m.redundancy);
    page.distances.push_back({m.name, m.redundancy});
    page.comparison.names.push_back(m.name);
  }
  if (s.plan_from == "mean") page.distances.push_back({"mean", matrix_to_cluster(all, "mean")});
  headred::save_plan_json(out.file("plan.json"), d.plan);

  const auto count = static_cast<index_t>(matrices.size());
  page.comparison.correlation = headred::correlation_table(matrices);
  page.comparison.p_value = page.comparison.mean_difference = headred::matrix(count, count);
  for (index_t i = 0; i < count; ++i)
    for (index_t j = 0; j < i; ++j) {
      const auto& a = matrices[static_cast<std::size_t>(i)];
      const auto& b = matrices[static_cast<std::size_t>(j)];
      const double p = headred::mantel(be, a, b, {.seed = s.seed}).p_value;
      const double difference = headred::mean_absolute_difference(a, b);
      page.comparison.p_value(i, j) = page.comparison.p_value(j, i) = p;
      page.comparison.mean_difference(i, j) = page.comparison.mean_difference(j, i) = difference;
    }

  json correlations, gaps;
  for (index_t i = 0; i < count; ++i) {
    const measure& m = all.measures[static_cast<std::size_t>(i)];
    for (index_t j = 0; j < count; ++j)
      correlations[m.name][all.measures[static_cast<std::size_t>(j)].name] = page.comparison.correlation(i, j);
    const gap_interval gap = gap_of(be, s, all, m);
    headred::redundancy_report::gap_curve curve{m.name, {}};
    for (std::size_t g = 0; g < gap.mean.size(); ++g) {
      curve.points.push_back({static_cast<index_t>(g), gap.mean[g], gap.low[g], gap.high[g]});
      gaps[m.name].push_back({{"gap", g}, {"mean", gap.mean[g]}, {"low", gap.low[g]}, {"high", gap.high[g]}});
    }
    page.gaps.push_back(std::move(curve));
  }
  const std::vector<index_t> kept = d.plan.kept(headred::attention_kind::encoder_self);

  json summary;
  summary["layers"] = all.layout.layers();
  summary["heads"] = all.layout.heads_per_layer();
  summary["sentences"] = {{"used", all.used}, {"skipped", all.skipped}};
  summary["precision"] = s.wide ? "f64" : "f32";
  summary["plan_from"] = s.plan_from;
  summary["k"] = d.k;
  summary["chosen_by"] = d.how;
  summary["clusters_found"] = d.clusters.found;
  summary["status"] = headred::to_string(d.clusters.status);
  const bool defined = d.scores.status == headred::status::converged;
  summary["mean_silhouette"] = defined ? json(d.scores.mean) : json(nullptr);
  summary["curve"] = json::array();
  for (const auto& point : d.curve) {
    const bool known_point = point.status != headred::status::undefined;
    summary["curve"].push_back({{"k", point.k},
                                {"mean_silhouette", known_point ? json(point.mean_silhouette) : json(nullptr)},
                                {"clusters_found", point.found}});
    page.curve.push_back({point.k, known_point ? point.mean_silhouette : headred::redundancy_report::unknown});
  }
  summary["labels"] = d.clusters.labels;
  summary["silhouettes"] = d.scores.values;
  summary["kept"] = kept;
  summary["correlations"] = correlations;
  summary["layer_gap"] = gaps;
  json underdetermined;
  for (const measure& m : all.measures)
    if (m.underdetermined() > 0) underdetermined[m.name] = m.underdetermined();
  if (!underdetermined.is_null()) summary["underdetermined_sentences"] = underdetermined;

  page.subtitle = all.source + ": " + std::to_string(all.layout.size()) + " heads, " + std::to_string(all.used) + " sentences";
  page.layout = all.layout;
  page.order = headred::hierarchical_order(matrix_to_cluster(all, s.plan_from));
  page.labels = d.clusters.labels;
  page.silhouettes = d.scores.values;
  page.kept = kept;
  page.clustered_on = s.plan_from;
  page.chosen_k = d.k;
  if (defined) page.mean_silhouette = d.scores.mean;
  page.chosen_by = d.how;
  for (const measure& m : all.measures) {
    timings["distances"][m.name] = m.seconds;
    std::ostringstream text;
    text.precision(3);
    text << m.seconds << " s";
    page.settings.push_back({"time for " + m.name, text.str()});
  }
  page.settings.push_back({"precision", s.wide ? "f64" : "f32"});
  page.settings.push_back({"seed", std::to_string(s.seed)});
  page.settings.push_back({"sentences used", std::to_string(all.used)});
  page.settings.push_back({"sentences skipped", std::to_string(all.skipped)});
  if (defined && d.scores.mean < .25)
    page.notes.push_back("The mean silhouette is small: these clusters shade into each other, as attention heads of real "
                         "models do; what is kept is a choice, not a discovery.");
  if (d.clusters.status == headred::status::fewer_clusters)
    page.notes.push_back(std::to_string(d.k) + " clusters were asked for, " + std::to_string(d.clusters.found) +
                         " could be told apart.");
  headred::write_redundancy_report(out.file("report.html"), page);
  timings["total"] = seconds_since(start);
  summary["timings_seconds"] = timings;
  headred::write_file_atomically(out.file("summary.json"), summary.dump(1) + "\n");
}

void print_answer(const settings& s, const study& all, const decision& d) {
  std::cout << all.used << " sentences (" << all.skipped << " skipped), " << all.layout.layers() << " layers, "
            << all.layout.size() << " heads\n"
            << d.clusters.found << " clusters on " << s.plan_from << " (" << d.how << ")";
  if (d.scores.status == headred::status::converged) std::cout << ", mean silhouette " << d.scores.mean;
  std::cout << "\nheads to keep:\n" << d.plan;
}

void run(const settings& s) {
  const auto start = steady_clock::now();
  headred::cpu be{{.threads = s.threads}};
  examples::output_folder out(s.out);  // an output that cannot be written is found out first
  const std::optional<examples::planted_attention> planted =
      s.attention.empty() ? std::optional(examples::planted_attention(s.seed)) : std::nullopt;
  const study all = planted ? read_planted(be, s, *planted)
                    : s.wide ? read_files<double>(be, s)
                             : read_files<float>(be, s);
  json timings;
  timings["reading_and_distances"] = seconds_since(start);
  const auto before_clusters = steady_clock::now();
  const decision d = decide(be, s, all, matrix_to_cluster(all, s.plan_from));
  timings["clusters"] = seconds_since(before_clusters);
  write_results(be, s, all, d, out, timings, start);
  out.commit();
  print_answer(s, all, d);
  if (planted && d.k == examples::planted_attention::groups) {
    const bool found = d.clusters == headred::make_clustering(planted->group());
    std::cout << "planted groups found: " << (found ? "all 16, every head in its own" : "not all of them") << '\n';
  }
  std::cout << "report: " << (std::filesystem::path(s.out) / "report.html").string() << '\n';
}

}  // namespace

int main(int count, char** words) {
  try {
    examples::arguments all(count, words);
    for (int i = 1; i < count; ++i)
      if (std::string_view(words[i]) == "--help") {
        std::cout << help;
        return 0;
      }
    run(read_settings(all));
    return 0;
  } catch (const examples::usage_error& problem) {
    std::cerr << "head_redundancy: " << problem.what() << " (see --help)\n";
    return 2;
  } catch (const std::exception& problem) {
    std::cerr << "head_redundancy: " << problem.what() << '\n';
    return 1;
  }
}
