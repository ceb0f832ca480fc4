// spectral_cut: what the first spectral vectors tell of the normalised cut of a clustering.
#pragma once

#include <algorithm>
#include <vector>

#include <headred/core/matrix.hpp>
#include <headred/core/view.hpp>

namespace headred::detail {

/// Orders clusterings by their normalised cut, as far as the first k spectral vectors y_j with eigenvalues lambda_j tell:
///   cut(C) = sum_{c,j} lambda_j (sum_{i in c} d_i y_ij)^2 / vol_c
/// where the other eigenvalues, unknown or not, are taken to be their mean (the trace of L is N, isolated heads apart), and a constant is left out.
/// vectors : (N,k), eigenvalues : k or more, 0 for an isolated head (where L has 1), degrees d : (N), component : (N).
/// Cost: N k operations a clustering.
class spectral_cut {
 public:
  spectral_cut(const tensor_view<const double, 2>& vectors, const std::vector<double>& eigenvalues,
               const std::vector<double>& degrees, const std::vector<index_t>& component)
      : vectors_(vectors), degrees_(&degrees), excess_(static_cast<std::size_t>(vectors.extent(1))) {
    const index_t n = vectors.extent(0), k = vectors.extent(1);
    double sum = 0;
    for (std::size_t j = 0; j < excess_.size(); ++j) sum += eigenvalues[j];
    std::vector<index_t> members(component.size(), 0);
    for (const index_t c : component) ++members[static_cast<std::size_t>(c)];
    const index_t trace = n - static_cast<index_t>(std::count(members.begin(), members.end(), 1));
    const double others = k < n ? (static_cast<double>(trace) - sum) / static_cast<double>(n - k) : 0;
    for (std::size_t j = 0; j < excess_.size(); ++j) excess_[j] = eigenvalues[j] - others;
  }

  double operator()(const std::vector<index_t>& labels) const {
    const index_t clusters = 1 + *std::max_element(labels.begin(), labels.end()), k = vectors_.extent(1);
    matrix sums(clusters, k);
    std::vector<double> volumes(static_cast<std::size_t>(clusters), 0.0);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const double degree = (*degrees_)[i];
      volumes[static_cast<std::size_t>(labels[i])] += degree;
      for (index_t j = 0; j < k; ++j) sums(labels[i], j) += degree * vectors_(static_cast<index_t>(i), j);
    }
    double cut = 0;
    for (index_t c = 0; c < clusters; ++c) {
      const double volume = volumes[static_cast<std::size_t>(c)];
      if (!(volume > 0)) continue;  // no member
      for (index_t j = 0; j < k; ++j) cut += excess_[static_cast<std::size_t>(j)] * sums(c, j) * sums(c, j) / volume;
    }
    return cut;
  }

 private:
  tensor_view<const double, 2> vectors_;  // (N,k)
  const std::vector<double>* degrees_;
  std::vector<double> excess_;  // of each eigenvalue over the others' mean
};

/// Starts of k-means whose inertia is within this share of the least are told apart by their cut.
inline constexpr double cut_slack = .02;

}  // namespace headred::detail
