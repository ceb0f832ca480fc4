// zero_shot: from a model and sentences to the heads that stay, without training.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <headred/cluster/cluster_count.hpp>
#include <headred/cluster/silhouette.hpp>
#include <headred/cluster/spectral.hpp>
#include <headred/prune/keep_representatives.hpp>
#include <headred/prune/model_redundancy.hpp>
#include <headred/prune/plan_algebra.hpp>

namespace headred {

/// How a pruning ratio is meant for a model with several attention kinds.
enum class ratio_spread {
  each_kind,     ///< every kind loses this share of its heads
  across_kinds,  ///< all kinds together do; heads go where they are closest to the head that stands for them (ours)
};

struct zero_shot_options {
  double ratio = 0.5;                      ///< share of the heads to remove, in [0,1)
  std::vector<attention_kind> kinds = {};  ///< to be pruned, the others stay whole; empty: all
  ratio_spread spread = ratio_spread::each_kind;
  bool at_least_one = false;  ///< see keep_options
  labelling method = labelling::cluster_qr;
  std::uint64_t seed = 0;  ///< the rest is for labelling::kmeans alone
  int restarts = 10;
  int max_iterations = 300;
};

/// What was found for one attention kind.
struct zero_shot_kind {
  attention_kind kind = attention_kind::encoder_self;
  clustering clusters;  ///< its status says where distances did not decide
  silhouettes scores;
};

struct zero_shot_result {
  prune_plan plan;
  std::vector<zero_shot_kind> kinds;  ///< the pruned ones, in the order of the enumeration
};

/// Zero-shot pruning of a model whose redundancy matrices are known: spectral clusters of each attention kind, and the
/// head of highest silhouette of each. One eigendecomposition a kind serves every ratio.
///   matrices : (N,N) for each kind to be pruned, N heads of the kind. `be` must outlive the object.
/// Throws shape_error for a matrix of another size, what spectral_embedding throws. Source: Bian et al. 2021, section 7.
template <host_backend Backend>
class zero_shot {
 public:
  template <affinity_policy Affinity = one_minus>
  zero_shot(Backend& be, plan_layout layout, const std::map<attention_kind, matrix>& matrices,
            const Affinity& affinity = {})
      : backend_(&be), layout_(std::move(layout)) {
    for (const auto& [kind, distances] : matrices) {
      const index_t n = layout_.heads(kind).size();
      if (distances.rows() != n || distances.cols() != n)
        throw shape_error("zero_shot: the matrix of " + std::string(to_string(kind)) + " is " +
                          shape_text(distances.view().shape()) + ", expected " + shape_text(shape_t<2>{n, n}));
      embeddings_.emplace(kind, spectral_embedding<Backend>(be, distances, affinity));
    }
  }
  template <distance_policy Distance, affinity_policy Affinity = one_minus>
  explicit zero_shot(Backend& be, const model_redundancy<Backend, Distance>& sums, const Affinity& affinity = {})
      : zero_shot(be, sums.layout(), matrices_of(sums), affinity) {}

  const plan_layout& layout() const noexcept { return layout_; }
  /// The redundancy matrix of a kind as it is used; throws argument_error for a kind without one.
  const matrix& distances(attention_kind kind) const { return embedding(kind).distances(); }

  /// The plan for a pruning ratio, and what led to it. With across_kinds the numbers of clusters of the kinds are those,
  /// of all with the right sum, that make the sum of the heads' distances to their representatives least; each kind keeps
  /// one at least. Throws argument_error for a ratio outside [0,1), and for a kind that is unknown, repeated or has no
  /// matrix. Cost of each_kind: a labelling a kind; across_kinds: one for every number of clusters.
  zero_shot_result prune(const zero_shot_options& options) const {
    const std::vector<attention_kind> kinds = chosen_kinds(options);
    std::vector<index_t> counts;
    if (options.spread == ratio_spread::each_kind) {
      for (const attention_kind kind : kinds)
        counts.push_back(cluster_count(layout_.heads(kind).size(), options.ratio));
    } else {
      counts = spread_counts(kinds, options);
    }
    zero_shot_result result{prune_plan(layout_), {}};
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      result.kinds.push_back(cluster(kinds[i], counts[i], options));
      const zero_shot_kind& found = result.kinds.back();
      result.plan = plan_intersection(result.plan,
                                      keep_representatives(found.clusters, found.scores, layout_,
                                                           {.at_least_one = options.at_least_one, .kind = kinds[i]}));
    }
    return result;
  }

 private:
  template <class Sums>
  static std::map<attention_kind, matrix> matrices_of(const Sums& sums) {
    std::map<attention_kind, matrix> all;
    for (const attention_kind kind : sums.kinds()) all.emplace(kind, sums.matrix(kind));
    return all;
  }

  const spectral_embedding<Backend>& embedding(attention_kind kind) const {
    const auto found = embeddings_.find(kind);
    if (found == embeddings_.end())
      throw argument_error("zero_shot: there is no matrix for " + std::string(to_string(kind)));
    return found->second;
  }

  std::vector<attention_kind> chosen_kinds(const zero_shot_options& options) const {
    std::vector<attention_kind> kinds = options.kinds;
    if (kinds.empty())
      for (const auto& [kind, e] : embeddings_) kinds.push_back(kind);
    std::sort(kinds.begin(), kinds.end());
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      embedding(kinds[i]);
      if (i > 0 && kinds[i - 1] == kinds[i])
        throw argument_error("zero_shot: " + std::string(to_string(kinds[i])) + " is named twice");
    }
    return kinds;
  }

  zero_shot_kind cluster(attention_kind kind, index_t count, const zero_shot_options& options) const {
    const auto& e = embedding(kind);
    zero_shot_kind found{kind,
                         e.clusters({.count = count,
                                     .method = options.method,
                                     .seed = options.seed,
                                     .restarts = options.restarts,
                                     .max_iterations = options.max_iterations}),
                         {}};
    found.scores = silhouette(*backend_, e.distances(), found.clusters);
    return found;
  }

  /// Sum over the heads of the distance to the head that stands for them.
  double loss(attention_kind kind, index_t count, const zero_shot_options& options) const {
    const zero_shot_kind found = cluster(kind, count, options);
    std::vector<index_t> head_of(static_cast<std::size_t>(found.clusters.found), 0);
    for (const index_t head : representatives(found.clusters, found.scores))
      head_of[static_cast<std::size_t>(found.clusters.labels[static_cast<std::size_t>(head)])] = head;
    double sum = 0;
    for (std::size_t h = 0; h < found.clusters.labels.size(); ++h)
      sum += distances(kind)(static_cast<index_t>(h), head_of[static_cast<std::size_t>(found.clusters.labels[h])]);
    return sum;
  }

  /// The best way to share the clusters, found kind by kind: best[s] is the least loss of the kinds so far with s clusters.
  std::vector<index_t> spread_counts(const std::vector<attention_kind>& kinds, const zero_shot_options& options) const {
    index_t heads = 0;
    for (const attention_kind kind : kinds) heads += layout_.heads(kind).size();
    const index_t total = std::max(cluster_count(heads, options.ratio), static_cast<index_t>(kinds.size()));
    constexpr double never = std::numeric_limits<double>::infinity();
    std::vector<double> best(static_cast<std::size_t>(total) + 1, never);
    best[0] = 0;
    std::vector<std::vector<index_t>> taken;  // [kind][clusters so far] -> clusters of this kind
    for (const attention_kind kind : kinds) {
      const index_t most = std::min(total, layout_.heads(kind).size());
      std::vector<double> next(best.size(), never);
      auto& own = taken.emplace_back(best.size(), 0);
      for (index_t k = 1; k <= most; ++k) {
        const double more = loss(kind, k, options);
        for (index_t s = k; s <= total; ++s)
          if (const double sum = best[static_cast<std::size_t>(s - k)] + more;
              sum < next[static_cast<std::size_t>(s)]) {
            next[static_cast<std::size_t>(s)] = sum;
            own[static_cast<std::size_t>(s)] = k;
          }
      }
      best = std::move(next);
    }
    std::vector<index_t> counts(kinds.size());
    index_t rest = total;
    for (std::size_t i = kinds.size(); i-- > 0;) {
      counts[i] = taken[i][static_cast<std::size_t>(rest)];
      rest -= counts[i];
    }
    return counts;
  }

  Backend* backend_;
  plan_layout layout_;
  std::map<attention_kind, spectral_embedding<Backend>> embeddings_;
};

/// All steps at once: the model's attention on these sentences (random_tokens or real text), the redundancy matrices under
/// `Distance`, the plan. Throws what the steps throw.
template <distance_policy Distance = jensen_shannon, class T, host_backend Backend>
zero_shot_result zero_shot_plan(transformer<T, Backend>& model, const token_batch& source, const token_batch& target,
                                const zero_shot_options& options = {}, const Distance& distance = {}) {
  model_redundancy<Backend, Distance> sums(model.backend(), model.config(), distance);
  sums.add(model, source, target);
  return zero_shot<Backend>(model.backend(), sums).prune(options);
}

}  // namespace headred
