// spectral_embedding: spectral clustering of heads for every number of clusters, from one eigendecomposition.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <headred/backend/concept.hpp>
#include <headred/cluster/affinity.hpp>
#include <headred/cluster/checked_distances.hpp>
#include <headred/cluster/cluster_qr.hpp>
#include <headred/cluster/clustering.hpp>
#include <headred/cluster/kmeans.hpp>
#include <headred/cluster/spectral_cut.hpp>
#include <headred/numeric/symmetric_eigen.hpp>

namespace headred {

/// How spectral vectors become labels.
enum class labelling { cluster_qr, kmeans };

/// How many clusters, and how labels are made of the spectral vectors.
struct spectral_options {
  index_t count = 0;  ///< number of clusters, 1 to N
  labelling method = labelling::cluster_qr;
  std::uint64_t seed = 0;  ///< the rest is for labelling::kmeans alone, see kmeans_options
  int restarts = 10;
  int max_iterations = 300;
};

namespace detail {

/// The connected components of a graph with affinities (N,N), largest first, then by lowest head; heads ascending.
inline std::vector<std::vector<index_t>> connected_components(const matrix& affinities) {
  const index_t n = affinities.rows();
  std::vector<bool> seen(static_cast<std::size_t>(n), false);
  std::vector<std::vector<index_t>> components;
  for (index_t head = 0; head < n; ++head) {
    if (seen[static_cast<std::size_t>(head)]) continue;
    std::vector<index_t> component{head};
    seen[static_cast<std::size_t>(head)] = true;
    for (std::size_t at = 0; at < component.size(); ++at) {
      for (index_t j = 0; j < n; ++j) {
        if (seen[static_cast<std::size_t>(j)] || !(affinities(component[at], j) > 0)) continue;
        seen[static_cast<std::size_t>(j)] = true;
        component.push_back(j);
      }
    }
    std::sort(component.begin(), component.end());
    components.push_back(std::move(component));
  }
  std::sort(components.begin(), components.end(), [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() > b.size() : a.front() < b.front();
  });
  return components;
}

/// Changes the sign so that the first entry of largest magnitude is positive.
inline void fix_sign(double* v, index_t n) {
  const double* const largest =
      std::max_element(v, v + n, [](double a, double b) { return std::abs(a) < std::abs(b); });
  if (*largest < 0)
    for (index_t i = 0; i < n; ++i) v[i] = -v[i];
}

/// What is known of N heads besides their spectral vectors.
struct spectral_facts {
  index_t heads, components;
  double nearest, farthest;
  headred::status status;
};

/// The clustering into k clusters where it does not take vectors, see spectral_embedding::clusters; else nothing.
/// component : (N), rank of each head's component
inline std::optional<clustering> clusters_without_vectors(const spectral_facts& facts,
                                                          const std::vector<index_t>& component, index_t k) {
  const index_t n = facts.heads;
  std::vector<index_t> labels(static_cast<std::size_t>(n), 0);
  const auto with_status = [&](headred::status s) {
    clustering result = make_clustering(labels, k);
    result.status = s;
    return result;
  };
  const bool identical = n > 1 && facts.farthest == 0;
  if (identical || (facts.nearest == facts.farthest && k > 1 && k < n)) return with_status(status::degenerate);
  if (k == 1) return make_clustering(labels, k);
  if (k == n) {
    std::iota(labels.begin(), labels.end(), index_t{0});
    return make_clustering(labels, k);
  }
  if (k <= facts.components) {
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = std::min(component[i], k - 1);
    return k < facts.components ? with_status(status::degenerate) : make_clustering(labels, k);
  }
  if (facts.status != status::converged) return with_status(facts.status);
  return std::nullopt;
}

}  // namespace detail

/// The spectral vectors of N heads, from which the clusters for any k follow without another eigendecomposition.
///   S = affinity(R), diagonal ignored;  w_i = sqrt(sum_j S_ij), 1 for an isolated head;  L = I - W^-1 S W^-1
///   L u = lambda u, ascending, the trivial vector included; spectral vectors W^-1 u, entry of largest magnitude positive
/// distances : (N,N) on the host, N >= 1, see checked_distances; affinity: see affinity_policy, `one_minus` by default.
/// Unconnected graphs: the vectors of the connected components come first, the largest component's before all, an
/// isolated head's e_i among them (though L gives it the eigenvalue 1), so k components are the k clusters exactly.
/// Throws what checked_distances and the affinity throw, argument_error for an affinity that is negative, not finite or
/// not symmetric. `be` must outlive the object. About 9 N^3 operations, 5 N^2 doubles while working, 2 N^2 kept.
/// Source: von Luxburg, Statistics and Computing 17 (2007), sections 3.2 and 5; choice of affinity ours.
template <host_backend Backend>
class spectral_embedding {
 public:
  template <class Distances, affinity_policy Affinity = one_minus>
    requires viewable_as<const Distances&, 2>
  spectral_embedding(Backend& be, const Distances& distances, const Affinity& affinity = {})
      : backend_(&be), distances_(checked_distances("spectral_embedding", distances)) {
    const index_t n = heads();
    matrix affinities = detail::checked_symmetric("spectral_embedding", "affinity", affinity(distances_));
    if (affinities.rows() != n)
      throw shape_error("spectral_embedding: affinity is " + shape_text(affinities.view().shape()) + ", expected " +
                        shape_text(distances_.view().shape()));
    // An affinity this small is none: dividing by its root would carry the vectors out of range.
    for (index_t i = 0; i < n * n; ++i)
      if (affinities.data()[i] < 1e-200) affinities.data()[i] = 0;
    find_span();
    embed(affinities);
  }

  index_t heads() const noexcept { return distances_.rows(); }
  /// The distances as they are used: symmetric, zero diagonal.  (N,N)
  const matrix& distances() const noexcept { return distances_; }
  /// All eigenvalues of L, ascending, in [0,2]; those of connected components are 0 exactly.  (N)
  const std::vector<double>& eigenvalues() const noexcept { return eigenvalues_; }
  /// Number of connected components of the affinity graph, isolated heads included.
  index_t components() const noexcept { return components_; }
  /// The component of each head: 0 is the largest.  (N)
  const std::vector<index_t>& component_numbers() const noexcept { return component_; }
  /// Least and largest distance between two heads; 0 for one head.
  double nearest() const noexcept { return nearest_; }
  double farthest() const noexcept { return farthest_; }
  /// not_converged where the eigensolver gave up (of this no input is known).
  headred::status status() const noexcept { return status_; }

  /// The first k spectral vectors, as columns: head i is the point in row i.  (N,k), k in [1,N]
  tensor_view<const double, 2> vectors(index_t k) const {
    require_count("vectors", k, heads());
    return tensor_view<const double, 2>(vectors_.data(), {k, heads()}).transposed();
  }

  /// w^2 of each head: the sum of its affinities, 1 for an isolated head.  (N)
  const std::vector<double>& degrees() const noexcept { return degrees_; }

  /// The eigenvalue of spectral vector j: 0 for those of components, whatever L gives them. j in [0,N)
  double ordered_eigenvalue(index_t j) const {
    require_count("ordered_eigenvalue", j + 1, heads());
    return ordered_[static_cast<std::size_t>(j)];
  }

  /// lambda_{k+1} - lambda_k in the order of the vectors: where it is 0 up to rounding, k cuts through equal eigenvalues
  /// and which of their vectors are used, though reproducible, is arbitrary. k in [1,N).
  double eigenvalue_gap(index_t k) const {
    require_count("eigenvalue_gap", k, heads() - 1);
    return ordered_[static_cast<std::size_t>(k)] - ordered_[static_cast<std::size_t>(k - 1)];
  }

  /// The clustering into k clusters by cluster_qr; throws argument_error for k outside [1,N].
  clustering clusters(index_t k) const { return clusters(spectral_options{.count = k}); }

  /// The clustering into options.count clusters. By k-means, the start of least normalised cut (as far as k vectors tell)
  /// among those within 2 % of the least inertia. k = 1 and k = N need no vectors. Status fewer_clusters where fewer
  /// clusters than asked for are not empty; degenerate where the distances do not decide: all heads identical, or all
  /// equally far apart and 1 < k < N (one cluster then), or fewer clusters than components (the k-1 largest components
  /// then, and one cluster of all other heads).
  clustering clusters(const spectral_options& options) const {
    const index_t n = heads(), k = options.count;
    require_count("clusters", k, n);
    if (auto known = detail::clusters_without_vectors({n, components_, nearest_, farthest_, status_}, component_, k))
      return *std::move(known);
    if (options.method == labelling::kmeans)
      return detail::kmeans_judged(*backend_, vectors(k),
                                   kmeans_options{.count = k,
                                                  .seed = options.seed,
                                                  .restarts = options.restarts,
                                                  .max_iterations = options.max_iterations},
                                   detail::cut_slack, detail::spectral_cut(vectors(k), ordered_, degrees_, component_))
          .clusters;
    matrix first(k, n);
    std::copy_n(vectors_.data(), k * n, first.data());
    return detail::cluster_qr_of(std::move(first));
  }

 private:
  static void require_count(const char* member, index_t k, index_t most) {
    if (k < 1 || k > most)
      throw argument_error(std::string("spectral_embedding: ") + member + " for k = " + std::to_string(k) +
                           ", expected 1 to " + std::to_string(most));
  }

  /// Least and largest distance between two heads.
  void find_span() {
    if (heads() < 2) return;
    nearest_ = farthest_ = distances_(0, 1);
    for (index_t i = 0; i < heads(); ++i) {
      for (index_t j = i + 1; j < heads(); ++j) {
        nearest_ = std::min(nearest_, distances_(i, j));
        farthest_ = std::max(farthest_, distances_(i, j));
      }
    }
  }

  void embed(const matrix& affinities) {
    const index_t n = heads();
    const auto parts = detail::connected_components(affinities);
    components_ = static_cast<index_t>(parts.size());
    component_.resize(static_cast<std::size_t>(n));
    degrees_.resize(component_.size());
    vectors_ = matrix(n, n);

    struct pair {
      double value;
      std::vector<double> vector;  // over the heads of its component
      std::size_t part, column;
    };
    std::vector<pair> others;
    for (std::size_t c = 0; c < parts.size(); ++c) {
      const std::vector<index_t>& part = parts[c];
      for (const index_t head : part) component_[static_cast<std::size_t>(head)] = static_cast<index_t>(c);

      const auto m = static_cast<index_t>(part.size());
      std::vector<double> w(part.size(), 0.0);
      for (std::size_t a = 0; a < part.size(); ++a) {
        for (const index_t head : part) w[a] += affinities(part[a], head);
        w[a] = m == 1 ? 1 : std::sqrt(w[a]);
        degrees_[static_cast<std::size_t>(part[a])] = w[a] * w[a];
      }
      // The trivial vector is known: u = w / |w|, so W^-1 u is constant on the component.
      double squares = 0;
      for (const double x : w) squares += x * x;
      for (const index_t head : part) vectors_(static_cast<index_t>(c), head) = 1 / std::sqrt(squares);
      ordered_.push_back(0);
      eigenvalues_.push_back(m == 1 ? 1 : 0);
      if (m == 1) continue;

      matrix laplacian(m, m);
      for (index_t a = 0; a < m; ++a)
        for (index_t b = 0; b < m; ++b)
          laplacian(a, b) = a == b ? 1.0
                                   : -affinities(part[static_cast<std::size_t>(a)], part[static_cast<std::size_t>(b)]) /
                                         (w[static_cast<std::size_t>(a)] * w[static_cast<std::size_t>(b)]);
      const auto eigen = symmetric_eigen<double>(std::as_const(laplacian).view());
      if (eigen.status != status::converged) {
        status_ = eigen.status;
        return;
      }
      for (std::size_t j = 1; j < part.size(); ++j) {
        pair p{std::clamp(eigen.values[j], 0.0, 2.0), std::vector<double>(part.size()), c, j};
        for (std::size_t a = 0; a < part.size(); ++a) p.vector[a] = eigen.vectors[j * part.size() + a] / w[a];
        detail::fix_sign(p.vector.data(), m);
        others.push_back(std::move(p));
      }
    }
    std::sort(others.begin(), others.end(), [](const pair& a, const pair& b) {
      return std::tie(a.value, a.part, a.column) < std::tie(b.value, b.part, b.column);
    });
    index_t row = components_;
    for (const pair& p : others) {
      const std::vector<index_t>& part = parts[p.part];
      for (std::size_t a = 0; a < part.size(); ++a) vectors_(row, part[a]) = p.vector[a];
      ++row;
      ordered_.push_back(p.value);
      eigenvalues_.push_back(p.value);
    }
    std::sort(eigenvalues_.begin(), eigenvalues_.end());
  }

  Backend* backend_;
  matrix distances_;
  double nearest_ = 0, farthest_ = 0;
  index_t components_ = 0;
  std::vector<index_t> component_;   // (N), rank of each head's component
  std::vector<double> degrees_;      // (N), w^2
  std::vector<double> eigenvalues_;  // (N), ascending
  std::vector<double> ordered_;      // (N), in the order of the vectors, components' as 0
  matrix vectors_;                   // (N,N), row j is spectral vector j
  headred::status status_ = headred::status::converged;
};

/// Spectral clustering into options.count clusters; for several k, a spectral_embedding does the costly part once.
/// distances : (N,N); the rest as spectral_embedding and its `clusters`.
template <host_backend Backend, class Distances, affinity_policy Affinity = one_minus>
  requires viewable_as<const Distances&, 2>
clustering spectral_clusters(Backend& be, const Distances& distances, const spectral_options& options,
                             const Affinity& affinity = {}) {
  const index_t n = as_view(distances).extent(0);
  if (options.count < 1 || options.count > n)
    throw argument_error("spectral_clusters: count is " + std::to_string(options.count) + ", expected 1 to " +
                         std::to_string(n));
  return spectral_embedding<Backend>(be, distances, affinity).clusters(options);
}

}  // namespace headred
