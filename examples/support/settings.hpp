// The command line of head_redundancy.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/core/config.hpp>

#include "arguments.hpp"
#include "distance_names.hpp"

namespace examples {

using headred::index_t;

inline constexpr std::string_view help = R"(head_redundancy: which attention heads do the same, and which to keep

  head_redundancy [--attention FILE|DIR...] --out DIR

Input
  --attention FILE|DIR...  attention maps whose rows sum to 1. A .safetensors file holds one (L,H,T,S) tensor for each
                           sentence; a .npy file holds one (L,H,T,S) array, or (B,L,H,T,S) with the valid tokens of
                           each sentence in NAME.lengths.npy beside it (without that file, all tokens are taken).
                           Without this option, maps with a planted structure.
  --scale X                value of one unit where maps are stored as integers (default: metadata "scale" of the file);
                           not for floating point
Distances
  --distance NAME...|all   one or more, separated by commas or spaces: cosine, pearson, jensen_shannon,
                           bhattacharyya (by token); distance_correlation, procrustes, canonical_correlation (by
                           sentence). Default: all
  --precision f32|f64      arithmetic of the distances. Default: f32
Plan
  --plan-from NAME|mean    the matrix that is clustered, or the mean of all. Default: jensen_shannon, else the first
  --prune RATIO            remove this share of the heads, in [0,1). Default: 0.5
  --clusters K             keep K heads
  --auto MIN:MAX           keep as many heads as the best mean silhouette in this range says
                           (default without --attention: 2:32)
  --at-least-one           a layer that would lose all its heads keeps the one of highest silhouette
Other
  --threads N              1 to 4096; 0 takes all cores (default). No result depends on it
  --seed S                 of the resampling and of the planted maps. Default: 1
  --out DIR                receives redundancy_<distance>.npy, plan.json, summary.json and report.html, all or none;
                           an earlier result there is replaced
  --version                prints the version of headred
  --help, -h

Exit code: 0 done; 1 the input cannot be used or the output not be written; 2 the command line is wrong.
)";

struct settings {
  std::vector<std::string> attention;  // none: planted maps
  std::optional<double> scale;
  std::vector<std::string> distances;  // none: all
  std::string plan_from;
  bool wide = false;          // f64
  bool at_least_one = false;  // head a layer
  // one of these three is given
  std::optional<double> prune;
  std::optional<index_t> clusters;
  std::optional<std::pair<index_t, index_t>> automatic;
  int threads = 0;
  std::uint64_t seed = 1;
  std::string out;

  bool names(std::string_view name) const {
    return std::find(distances.begin(), distances.end(), name) != distances.end();
  }
  bool takes(std::string_view name) const { return distances.empty() || names(name); }
  /// Throws usage_error where the numbers of clusters do not fit the heads, which are known once a sentence was seen.
  void check_heads(index_t heads) const {
    const std::string range = ", expected within 1 to " + std::to_string(heads) + " heads";
    if (clusters && *clusters > heads) throw usage_error("--clusters is " + std::to_string(*clusters) + range);
    if (automatic && automatic->second > heads)
      throw usage_error("--auto is " + std::to_string(automatic->first) + ":" + std::to_string(automatic->second) +
                        range);
  }
};

/// Throws usage_error for whatever does not make sense without looking at a file.
inline settings read_settings(arguments words) {
  settings s;
  while (!words.empty()) {
    const std::string option = words.option();
    if (option == "--attention") {
      for (auto& path : words.values()) s.attention.push_back(std::move(path));
    } else if (option == "--scale") {
      s.scale = words.positive();
    } else if (option == "--distance") {
      const std::string expected = "all or some of the seven names";
      for (const auto& list : words.values())
        for (auto& name : words.parts(list, expected)) {
          if (name != "all" && !is_distance(name)) words.refuse(name, expected);
          s.distances.push_back(std::move(name));
        }
    } else if (option == "--plan-from") {
      s.plan_from = words.value();
      if (s.plan_from != "mean" && !is_distance(s.plan_from))
        words.refuse(s.plan_from, "mean or one of the seven names");
    } else if (option == "--precision") {
      const std::string precision = words.value();
      if (precision != "f32" && precision != "f64") words.refuse(precision, "f32 or f64");
      s.wide = precision == "f64";
    } else if (option == "--prune") {
      s.prune = words.number<double>("a ratio in [0,1)", [](double x) { return x >= 0 && x < 1; });
    } else if (option == "--clusters") {
      s.clusters = words.number<index_t>("a whole number from 1", [](index_t k) { return k >= 1; });
    } else if (option == "--auto") {
      s.automatic =
          words.range<index_t>("MIN:MAX with 1 <= MIN <= MAX", [](index_t a, index_t b) { return 1 <= a && a <= b; });
    } else if (option == "--at-least-one") {
      if (std::exchange(s.at_least_one, true)) throw usage_error("--at-least-one is given twice");
    } else if (option == "--threads") {
      s.threads = words.threads();
    } else if (option == "--seed") {
      s.seed = words.seed();
    } else if (option == "--out") {
      s.out = words.value();
    } else {
      throw usage_error("unknown option " + option);
    }
  }
  if (s.out.empty()) throw usage_error("--out is missing");
  if (s.names("all")) {
    if (s.distances.size() > 1) throw usage_error("--distance names all and more, expected all alone or names");
    s.distances.clear();
  }
  if (s.plan_from.empty()) s.plan_from = s.takes("jensen_shannon") ? "jensen_shannon" : s.distances.front();
  if (s.plan_from != "mean" && !s.takes(s.plan_from))
    throw usage_error("--plan-from is '" + s.plan_from + "', expected a distance that is computed (or mean)");
  if (int(s.prune.has_value()) + int(s.clusters.has_value()) + int(s.automatic.has_value()) > 1)
    throw usage_error("--prune, --clusters and --auto exclude each other");
  if (!s.prune && !s.clusters && !s.automatic) {
    if (s.attention.empty()) {
      s.automatic = {2, 32};
    } else {
      s.prune = .5;
    }
  }
  return s;
}

}  // namespace examples
