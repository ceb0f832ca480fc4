// leading_embedding: spectral clustering of so many heads that only the spectral vectors that are needed are computed.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <headred/cluster/cluster_count.hpp>
#include <headred/cluster/spectral.hpp>
#include <headred/cluster/spectral_cut.hpp>
#include <headred/numeric/leading_eigen.hpp>

namespace headred {

/// How exactly, and for how long, spectral vectors are searched for.
struct leading_options {
  double tolerance = 1e-9;  ///< residual of every spectral pair
  std::uint64_t seed = 1;   ///< of the search for them
};

namespace detail {

/// y = M x for rows x: M = W^-1 (1 - R) W^-1 without its diagonal, R (N,N) read where it lies.
template <class Backend, class T>
class one_minus_operator {
 public:
  one_minus_operator(Backend& be, tensor_view<const T, 2> distances, std::vector<double> inverse_roots)
      : be_(be),
        distances_(distances),
        inverse_(std::move(inverse_roots)),
        scaled_(distances.extent(0), 16),
        product_(distances.extent(0), 16),
        wide_(same ? 0 : panel, same ? 0 : distances.extent(0)) {}

  void operator()(tensor_view<const double, 2> x, tensor_view<double, 2> y) {
    const index_t n = distances_.extent(0), width = x.extent(0);
    double sums[16] = {};
    for (index_t c = 0; c < width; ++c)
      for (index_t j = 0; j < n; ++j) {
        const double v = x(c, j) * inverse_[static_cast<std::size_t>(j)];
        scaled_.data()[j * width + c] = v;
        sums[c] += v;
      }
    for (index_t first = 0; first < n; first += panel) {
      const index_t rows = std::min(panel, n - first);
      const tensor_view<const double, 3> b(scaled_.data(), {1, n, width});
      const tensor_view<double, 3> c(product_.data() + first * width, {1, rows, width});
      be_.gemm(1.0, wide_rows(first, rows), b, 0.0, c);
    }
    for (index_t c = 0; c < width; ++c)
      for (index_t i = 0; i < n; ++i) {
        const double own = 1 - static_cast<double>(distances_(i, i));
        y(c, i) = inverse_[static_cast<std::size_t>(i)] *
                  (sums[c] - own * scaled_.data()[i * width + c] - product_.data()[i * width + c]);
      }
  }

 private:
  static constexpr bool same = std::is_same_v<T, double>;
  static constexpr index_t panel = 256;

  tensor_view<const double, 3> wide_rows(index_t first, index_t rows) {
    const index_t n = distances_.extent(0);
    if constexpr (same) {
      return {distances_.data() + first * distances_.stride(0),
              {1, rows, n},
              {0, distances_.stride(0), distances_.stride(1)}};
    } else {
      for (index_t i = 0; i < rows; ++i)
        for (index_t j = 0; j < n; ++j) wide_.data()[i * n + j] = static_cast<double>(distances_(first + i, j));
      return {wide_.data(), {1, rows, n}};
    }
  }

  Backend& be_;
  tensor_view<const T, 2> distances_;
  std::vector<double> inverse_;
  matrix scaled_, product_, wide_;
};

}  // namespace detail

/// The first `most` spectral vectors of N heads, for clusters into as many as `most`: what spectral_embedding gives with
/// affinity one_minus, up to the tolerance, from products with the distances alone.
/// distances : (N,N) on the host, float or double, as for spectral_embedding. Read in place, not copied, if all entries are
/// in [0,1] and symmetric to the bit, the diagonal too (it is not used). Where N is too small for the search to pay, and
/// where a head has no affinity above 1e-6, all pairs are computed as spectral_embedding does.
/// Throws as spectral_embedding, and argument_error for `most` outside [1,N]. Status not_converged if the search ends early.
/// Cost: some 2 N^2 operations for each of a few hundred vectors; memory: (4 most + 250) N doubles besides the distances.
template <host_backend Backend>
class leading_embedding {
 public:
  template <class Distances>
    requires viewable_as<const Distances&, 2>
  leading_embedding(Backend& be, const Distances& distances, index_t most, const leading_options& options = {})
      : backend_(&be), most_(most) {
    const auto view = as_view(distances);
    using value = typename decltype(view)::value_type;
    const tensor_view<const value, 2> r(view);
    heads_ = r.extent(0);
    if (most < 1 || most > heads_)
      throw argument_error("leading_embedding: most is " + std::to_string(most) + ", expected 1 to " +
                           std::to_string(heads_));
    if (heads_ < 4 * leading_eigen_space(most)) {
      dense(distances);
    } else if (usable_in_place(r)) {
      embed(r, distances, options);
    } else {
      matrix copy = checked_distances("leading_embedding", distances);
      for (index_t i = 0; i < heads_ * heads_; ++i)
        if (copy.data()[i] > 1 && copy.data()[i] <= 1 + 1e-9) copy.data()[i] = 1;
      const tensor_view<const double, 2> own = std::as_const(copy).view();
      if (!usable_in_place(own)) one_minus{}(copy);  // names the distance that is too large
      embed(own, copy, options);
    }
  }

  index_t heads() const noexcept { return heads_; }
  headred::status status() const noexcept { return status_; }
  /// Number of connected components of the affinity graph, isolated heads included.
  index_t components() const noexcept { return components_; }
  /// The first `most` eigenvalues of L in the order of the vectors, components' as 0.
  const std::vector<double>& eigenvalues() const noexcept { return values_; }
  /// The first k spectral vectors, as columns.  (N,k), k in [1,most]
  tensor_view<const double, 2> vectors(index_t k) const {
    require_count("vectors", k);
    return tensor_view<const double, 2>(vectors_.data(), {k, heads_}).transposed();
  }
  /// As spectral_embedding's, for options.count in [1,most].
  clustering clusters(const spectral_options& options) const {
    const index_t k = options.count;
    require_count("clusters", k);
    if (auto known =
            detail::clusters_without_vectors({heads_, components_, nearest_, farthest_, status_}, component_, k))
      return *std::move(known);
    if (options.method == labelling::kmeans)
      return detail::kmeans_judged(*backend_, vectors(k),
                                   kmeans_options{.count = k,
                                                  .seed = options.seed,
                                                  .restarts = options.restarts,
                                                  .max_iterations = options.max_iterations},
                                   detail::cut_slack, detail::spectral_cut(vectors(k), values_, degrees_, component_))
          .clusters;
    matrix first(k, heads_);
    std::copy_n(vectors_.data(), k * heads_, first.data());
    return detail::cluster_qr_of(std::move(first));
  }
  clustering clusters(index_t k) const { return clusters(spectral_options{.count = k}); }

 private:
  void require_count(const char* member, index_t k) const {
    if (k < 1 || k > most_)
      throw argument_error(std::string("leading_embedding: ") + member + " for k = " + std::to_string(k) +
                           ", expected 1 to " + std::to_string(most_));
  }

  template <class Distances>
  void dense(const Distances& distances) {
    const spectral_embedding<Backend> all(*backend_, distances);
    status_ = all.status();
    components_ = all.components();
    component_ = all.component_numbers();
    degrees_ = all.degrees();
    nearest_ = all.nearest();
    farthest_ = all.farthest();
    if (status_ != status::converged) return;
    vectors_ = matrix(most_, heads_);
    for (index_t c = 0; c < most_; ++c) {
      values_.push_back(all.ordered_eigenvalue(c));
      for (index_t i = 0; i < heads_; ++i) vectors_(c, i) = all.vectors(most_)(i, c);
    }
  }

  /// Whether all entries, the diagonal too, are in [0,1] and symmetric to the bit; their span off the diagonal.
  template <class T>
  bool usable_in_place(tensor_view<const T, 2> r) {
    if (r.extent(1) != heads_)
      throw shape_error("leading_embedding: distances are " + shape_text(r.shape()) + ", expected (N,N)");
    if (r.stride(1) != 1) return false;
    nearest_ = farthest_ = static_cast<double>(r(0, 1));
    constexpr index_t block = 64;  // mirrored blocks of this size stay in the cache
    for (index_t top = 0; top < heads_; top += block)
      for (index_t left = 0; left <= top; left += block)
        for (index_t i = top; i < std::min(top + block, heads_); ++i)
          for (index_t j = left; j < std::min(left + block, i + 1); ++j) {
            const double lower = static_cast<double>(r(i, j)), upper = static_cast<double>(r(j, i));
            if (!(lower >= 0 && lower <= 1 && lower == upper)) return false;
            if (i == j) continue;
            nearest_ = std::min(nearest_, lower);
            farthest_ = std::max(farthest_, lower);
          }
    return true;
  }

  template <class T, class Distances>
  void embed(tensor_view<const T, 2> r, const Distances& distances, const leading_options& options) {
    const auto size = static_cast<std::size_t>(heads_);
    find_components(r);
    std::vector<double> inverse(size);
    degrees_.resize(size);
    for (index_t i = 0; i < heads_; ++i) {
      double degree = 0;
      const T* const row = r.data() + i * r.stride(0);
      for (index_t j = 0; j < heads_; ++j) degree += j == i ? 0 : 1 - static_cast<double>(row[j]);
      const auto at = static_cast<std::size_t>(i);
      const bool alone = members_[static_cast<std::size_t>(component_[at])] == 1;
      // Affinities as small as the rounding of their sums: products with the distances would not see them.
      if (!alone && degree < 1e-6) return dense(distances);
      inverse[at] = alone ? 1 : 1 / std::sqrt(degree);
      degrees_[at] = alone ? 1 : degree;
    }
    // The trivial vectors are known: u = w / |w| on a component, so W^-1 u is constant there.
    matrix known(components_, heads_);
    std::vector<double> squares(static_cast<std::size_t>(components_), 0.0);
    for (std::size_t i = 0; i < size; ++i)
      squares[static_cast<std::size_t>(component_[i])] += 1 / (inverse[i] * inverse[i]);
    for (index_t i = 0; i < heads_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      known(component_[at], i) = 1 / (inverse[at] * std::sqrt(squares[static_cast<std::size_t>(component_[at])]));
    }
    const index_t trivial = std::min(most_, components_);
    vectors_ = matrix(most_, heads_);
    values_.assign(static_cast<std::size_t>(trivial), 0.0);
    for (index_t c = 0; c < trivial; ++c) take(known.data() + c * heads_, inverse, c);
    if (trivial == most_) return;
    detail::one_minus_operator<Backend, T> product(*backend_, r, inverse);
    const auto found = leading_eigen(*backend_, std::as_const(known).view(), product,
                                     {.count = most_ - trivial, .tolerance = options.tolerance, .seed = options.seed});
    status_ = found.status;
    if (status_ != status::converged) return;
    for (index_t c = trivial; c < most_; ++c) {
      values_.push_back(std::clamp(1 - found.values[static_cast<std::size_t>(c - trivial)], 0.0, 2.0));
      take(found.vectors.data() + (c - trivial) * heads_, inverse, c);
    }
  }

  /// Spectral vector c is W^-1 u, entry of largest magnitude positive.
  void take(const double* u, const std::vector<double>& inverse, index_t c) {
    double* const to = vectors_.data() + c * heads_;
    for (index_t i = 0; i < heads_; ++i) to[i] = u[i] * inverse[static_cast<std::size_t>(i)];
    detail::fix_sign(to, heads_);
  }

  /// Largest first, then by lowest head.
  template <class T>
  void find_components(tensor_view<const T, 2> r) {
    const auto size = static_cast<std::size_t>(heads_);
    std::vector<index_t> part(size, -1), open;
    std::vector<index_t> unseen(size);
    std::iota(unseen.begin(), unseen.end(), index_t{0});
    members_.clear();
    while (!unseen.empty()) {
      const auto number = static_cast<index_t>(members_.size());
      open.assign(1, unseen.front());
      unseen.erase(unseen.begin());
      members_.push_back(0);
      while (!open.empty()) {
        const index_t head = open.back();
        open.pop_back();
        part[static_cast<std::size_t>(head)] = number;
        ++members_.back();
        const auto joined = std::stable_partition(unseen.begin(), unseen.end(),
                                                  [&](index_t j) { return !(static_cast<double>(r(head, j)) < 1); });
        open.insert(open.end(), joined, unseen.end());
        unseen.erase(joined, unseen.end());
      }
    }
    components_ = static_cast<index_t>(members_.size());
    std::vector<index_t> order(members_.size()), rank(members_.size());
    std::iota(order.begin(), order.end(), index_t{0});
    std::sort(order.begin(), order.end(), [&](index_t a, index_t b) {
      const auto x = members_[static_cast<std::size_t>(a)], y = members_[static_cast<std::size_t>(b)];
      return x != y ? x > y : a < b;
    });
    for (std::size_t i = 0; i < order.size(); ++i) rank[static_cast<std::size_t>(order[i])] = static_cast<index_t>(i);
    component_.resize(size);
    for (std::size_t i = 0; i < size; ++i) component_[i] = rank[static_cast<std::size_t>(part[i])];
    std::sort(members_.begin(), members_.end(), std::greater<>());
  }

  Backend* backend_;
  index_t most_, heads_ = 0, components_ = 0;
  double nearest_ = 0, farthest_ = 0;
  std::vector<index_t> component_;  // (N), rank of each head's component
  std::vector<index_t> members_;    // heads of each component
  std::vector<double> degrees_;     // (N), w^2
  std::vector<double> values_;
  matrix vectors_;  // (most,N)
  headred::status status_ = headred::status::converged;
};

}  // namespace headred
