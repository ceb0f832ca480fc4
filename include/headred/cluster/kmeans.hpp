// kmeans: Lloyd's iteration from seeded k-means++ starts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <headred/backend/concept.hpp>
#include <headred/cluster/clustering.hpp>
#include <headred/core/as_view.hpp>
#include <headred/core/matrix.hpp>
#include <headred/core/number_text.hpp>
#include <headred/core/random.hpp>

namespace headred {

struct kmeans_options {
  index_t count = 0;         ///< number of clusters, 1 to N
  std::uint64_t seed = 0;    ///< of all draws
  int restarts = 10;         ///< independent starts, of which the best is kept; at least 1
  int max_iterations = 300;  ///< of each start; at least 1
};

struct kmeans_result {
  clustering clusters;
  matrix centres;      ///< (found,D), row c the mean of the points labelled c
  double inertia = 0;  ///< sum over points of the squared distance to the own centre
  int iterations = 0;  ///< assignments made by the start that was kept
};

namespace detail {

/// N points of D coordinates, packed twice: a point at a time and a coordinate at a time, the latter padded by zeros to
/// a multiple of `lanes` points, so that distances are computed for `lanes` points at once.
struct packed_points {
  static constexpr index_t lanes = 8;

  template <class View>
  explicit packed_points(const View& v)
      : count(v.extent(0)), rows(count, v.extent(1)), columns(v.extent(1), (count + lanes - 1) / lanes * lanes) {
    for (index_t i = 0; i < count; ++i) {
      for (index_t d = 0; d < rows.cols(); ++d) {
        const double x = static_cast<double>(v(i, d));
        if (!(std::abs(x) <= 1e100))  // the bound keeps sums of squares finite
          throw argument_error("kmeans: points (" + std::to_string(i) + "," + std::to_string(d) + ") is " +
                               number_text(x) + ", expected a finite number of magnitude at most 1e100");
        rows(i, d) = columns(d, i) = x;
      }
    }
  }

  index_t count;
  matrix rows;     // (N,D)
  matrix columns;  // (D,N padded)
};

/// One worker's memory for k-means starts, and the best start that it has made.
class kmeans_worker {
 public:
  kmeans_worker(const packed_points& points, const kmeans_options& options)
      : points_(&points),
        options_(&options),
        labels_(static_cast<std::size_t>(points.count)),
        previous_(labels_.size()),
        squares_(padded(points)),
        nearest_(padded(points)),
        candidates_(2 + static_cast<std::size_t>(std::log(static_cast<double>(options.count)))),
        centres_(options.count, points.rows.cols()),
        counts_(static_cast<std::size_t>(options.count)) {
    best_labels_ = labels_;
    best_centres_ = centres_;
  }

  /// Makes start number `restart` and keeps it if it is better than this worker's best; ties go to the lower number.
  void start(index_t restart) {
    const index_t seeded = choose_centres(random_stream(options_->seed, static_cast<std::uint64_t>(restart)));
    int iterations = 0;
    bool settled = false;
    std::fill(previous_.begin(), previous_.end(), index_t{-1});
    while (!settled && iterations < options_->max_iterations) {
      ++iterations;
      assign(seeded);
      fill_empty_clusters(seeded);
      settled = labels_ == previous_;
      if (settled) break;
      previous_ = labels_;
      move_centres(seeded);
    }
    const double inertia = total_inertia();
    const outcome made{inertia, restart, iterations, settled};
    if (made.better_than(best_)) {
      best_ = made;
      best_labels_.swap(labels_);
      std::swap(best_centres_, centres_);
    }
  }

  bool better_than(const kmeans_worker& other) const { return best_.better_than(other.best_); }

  kmeans_result result() const {
    const std::vector<index_t>& labels = best_labels_;
    kmeans_result r;
    r.clusters = make_clustering(labels, options_->count);
    if (!best_.settled) r.clusters.status = status::not_converged;
    r.inertia = best_.inertia;
    r.iterations = best_.iterations;
    r.centres = matrix(r.clusters.found, best_centres_.cols());
    for (std::size_t i = 0; i < labels.size(); ++i)  // ids are renumbered, so are the centres
      std::copy_n(best_centres_.data() + labels[i] * best_centres_.cols(), best_centres_.cols(),
                  r.centres.data() + r.clusters.labels[i] * best_centres_.cols());
    return r;
  }

 private:
  struct outcome {
    double inertia = std::numeric_limits<double>::infinity();
    index_t restart = std::numeric_limits<index_t>::max();
    int iterations = 0;
    bool settled = false;

    bool better_than(const outcome& other) const {
      return inertia != other.inertia ? inertia < other.inertia : restart < other.restart;
    }
  };

  static std::size_t padded(const packed_points& points) { return static_cast<std::size_t>(points.columns.cols()); }

  /// squares_[i] = |x_i - centre|^2 for all points, four coordinates a pass.
  void measure(const double* centre) {
    const index_t n = points_->columns.cols(), dimensions = points_->columns.rows();
    const double* x = points_->columns.data();
    double* const sum = squares_.data();
    std::fill(squares_.begin(), squares_.end(), 0.0);
    index_t d = 0;
    for (; d + 4 <= dimensions; d += 4, x += 4 * n) {
      const double c0 = centre[d], c1 = centre[d + 1], c2 = centre[d + 2], c3 = centre[d + 3];
      for (index_t i = 0; i < n; ++i) {
        const double a = x[i] - c0, b = x[i + n] - c1, e = x[i + 2 * n] - c2, f = x[i + 3 * n] - c3;
        sum[i] += (a * a + b * b) + (e * e + f * f);
      }
    }
    for (; d < dimensions; ++d, x += n)
      for (index_t i = 0; i < n; ++i) sum[i] += (x[i] - centre[d]) * (x[i] - centre[d]);
  }

  const double* point(index_t i) const { return points_->rows.data() + i * points_->rows.cols(); }

  /// Greedy k-means++: a centre is the best of a few points drawn with probability proportional to their squared distance
  /// from the centres so far. Returns how many centres were found: fewer than asked for when points coincide.
  index_t choose_centres(const random_stream& draws) {
    const index_t n = points_->count;
    std::uint64_t draw = 0;
    std::fill(nearest_.begin(), nearest_.end(), 0.0);
    add_centre(0, static_cast<index_t>(draws.below(draw++, static_cast<std::uint64_t>(n))));
    for (index_t c = 1; c < options_->count; ++c) {
      double total = 0;
      for (index_t i = 0; i < n; ++i) total += nearest_[static_cast<std::size_t>(i)];
      if (!(total > 0)) return c;
      for (index_t& candidate : candidates_) candidate = draw_point(draws.uniform(draw++) * total);
      add_centre(c, best_candidate());
    }
    return options_->count;
  }

  /// The candidate that would leave the least sum of squared distances to the nearest centre; the first of equals.
  index_t best_candidate() {
    constexpr index_t lanes = packed_points::lanes;
    index_t winner = candidates_.front();
    double least = std::numeric_limits<double>::infinity();
    for (const index_t candidate : candidates_) {
      measure(point(candidate));
      double total[lanes] = {};
      for (index_t first = 0; first < points_->columns.cols(); first += lanes)  // nearest_ is 0 for the padding
        for (index_t l = 0; l < lanes; ++l) {
          const auto at = static_cast<std::size_t>(first + l);
          total[l] += std::min(squares_[at], nearest_[at]);
        }
      const double sum = std::accumulate(total, total + lanes, 0.0);
      if (sum < least) {
        least = sum;
        winner = candidate;
      }
    }
    return winner;
  }

  /// Makes a point the centre c and updates the squared distances to the nearest centre.
  void add_centre(index_t c, index_t i) {
    std::copy_n(point(i), points_->rows.cols(), centres_.data() + c * centres_.cols());
    measure(point(i));
    for (std::size_t j = 0; j < labels_.size(); ++j)
      nearest_[j] = c == 0 ? squares_[j] : std::min(nearest_[j], squares_[j]);
  }

  /// The point where the running sum of nearest_ passes target; never one that is a centre already.
  index_t draw_point(double target) const {
    index_t last = 0;
    for (index_t i = 0; i < points_->count; ++i) {
      const double share = nearest_[static_cast<std::size_t>(i)];
      if (!(share > 0)) continue;
      last = i;
      if (target < share) return i;
      target -= share;
    }
    return last;  // rounding carried the target past the end
  }

  /// labels_ and nearest_: the nearest of the first k centres, ties to the lowest.
  void assign(index_t k) {
    for (index_t c = 0; c < k; ++c) {
      measure(centres_.data() + c * centres_.cols());
      for (std::size_t i = 0; i < labels_.size(); ++i) {
        const bool nearer = c == 0 || squares_[i] < nearest_[i];
        labels_[i] = nearer ? c : labels_[i];
        nearest_[i] = nearer ? squares_[i] : nearest_[i];
      }
    }
  }

  /// An empty cluster takes the point farthest from its own centre, unless all points lie on theirs. Counts are set here.
  void fill_empty_clusters(index_t k) {
    std::fill(counts_.begin(), counts_.end(), index_t{0});
    for (index_t i = 0; i < points_->count; ++i)
      ++counts_[static_cast<std::size_t>(labels_[static_cast<std::size_t>(i)])];
    for (index_t c = 0; c < k; ++c) {
      if (counts_[static_cast<std::size_t>(c)] > 0) continue;
      std::size_t farthest = 0;
      double distance = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(points_->count); ++i) {
        if (nearest_[i] > distance && counts_[static_cast<std::size_t>(labels_[i])] > 1) {
          distance = nearest_[i];
          farthest = i;
        }
      }
      if (!(distance > 0)) return;
      --counts_[static_cast<std::size_t>(labels_[farthest])];
      counts_[static_cast<std::size_t>(c)] = 1;
      labels_[farthest] = c;
      nearest_[farthest] = 0;
    }
  }

  void move_centres(index_t k) {
    const index_t dimensions = centres_.cols();
    for (index_t c = 0; c < k; ++c)
      if (counts_[static_cast<std::size_t>(c)] > 0) std::fill_n(centres_.data() + c * dimensions, dimensions, 0.0);
    for (index_t i = 0; i < points_->count; ++i) {
      double* const centre = centres_.data() + labels_[static_cast<std::size_t>(i)] * dimensions;
      const double* const x = points_->rows.data() + i * dimensions;
      for (index_t d = 0; d < dimensions; ++d) centre[d] += x[d];
    }
    for (index_t c = 0; c < k; ++c) {
      const auto members = static_cast<double>(std::max<index_t>(counts_[static_cast<std::size_t>(c)], 1));
      for (index_t d = 0; d < dimensions; ++d) centres_(c, d) /= members;
    }
  }

  double total_inertia() const {
    double sum = 0;
    for (index_t i = 0; i < points_->count; ++i) {
      const index_t c = labels_[static_cast<std::size_t>(i)];
      for (index_t d = 0; d < centres_.cols(); ++d) {
        const double difference = points_->rows(i, d) - centres_(c, d);
        sum += difference * difference;
      }
    }
    return sum;
  }

  const packed_points* points_;
  const kmeans_options* options_;
  std::vector<index_t> labels_, previous_, best_labels_;
  std::vector<double> squares_;      // as last measured
  std::vector<double> nearest_;      // squared distance to the nearest centre
  std::vector<index_t> candidates_;  // for the next centre of a start
  matrix centres_, best_centres_;    // (K,D)
  std::vector<index_t> counts_;
  outcome best_;
};

}  // namespace detail

/// Clusters N points by Lloyd's iteration until no label changes, from `restarts` greedy k-means++ starts; the start with
/// the least inertia wins, the lowest-numbered of equals.
///   inertia = sum_i |x_i - centre(label_i)|^2
/// points : (N,D) on the host, N and D at least 1, magnitudes at most 1e100. Empty clusters take the point farthest from
/// its centre. Status fewer_clusters when fewer than `count` points are distinct, not_converged when the kept start
/// stopped at max_iterations. The same seed gives the same bits on any number of threads.
/// Throws shape_error for no points, argument_error for an option or an entry out of range.
/// About 3 N K D operations an iteration, restarts in parallel on a task_backend; no allocation in a start.
/// Source: Arthur and Vassilvitskii, SODA 2007, section 2.2 (k-means++; greedy variant in section 5).
template <host_backend Backend, class Points>
  requires viewable_as<const Points&, 2>
kmeans_result kmeans(Backend& be, const Points& points, const kmeans_options& options) {
  const auto v = as_view(points);
  static_assert(std::is_same_v<typename decltype(v)::space, host_space>, "expected points in host memory");
  if (v.extent(0) < 1 || v.extent(1) < 1)
    throw shape_error("kmeans: points are " + shape_text(v.shape()) + ", expected (N,D) with N and D at least 1");
  if (options.count < 1 || options.count > v.extent(0))
    throw argument_error("kmeans: count is " + std::to_string(options.count) + ", expected 1 to " +
                         std::to_string(v.extent(0)));
  if (options.restarts < 1)
    throw argument_error("kmeans: restarts is " + std::to_string(options.restarts) + ", expected at least 1");
  if (options.max_iterations < 1)
    throw argument_error("kmeans: max_iterations is " + std::to_string(options.max_iterations) +
                         ", expected at least 1");

  const detail::packed_points packed(v);
  // Memory for each worker that makes a start, set up by its first.
  std::vector<std::optional<detail::kmeans_worker>> workers(1);
  const auto start = [&](index_t restart, int worker) {
    auto& mine = workers[static_cast<std::size_t>(worker)];
    if (!mine) mine.emplace(packed, options);
    mine->start(restart);
  };
  if constexpr (task_backend<Backend>) {
    workers.resize(static_cast<std::size_t>(be.workers()));
    be.run(options.restarts, start);
  } else {
    for (index_t restart = 0; restart < options.restarts; ++restart) start(restart, 0);
  }
  const detail::kmeans_worker* best = nullptr;
  for (const auto& worker : workers)
    if (worker && (best == nullptr || worker->better_than(*best))) best = &*worker;
  return best->result();
}

}  // namespace headred
