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
#include <headred/cluster/packed_points.hpp>
#include <headred/cluster/point_moves.hpp>
#include <headred/core/as_view.hpp>
#include <headred/core/matrix.hpp>
#include <headred/core/random.hpp>

namespace headred {

/// How k-means runs.
struct kmeans_options {
  index_t count = 0;         ///< number of clusters, 1 to N
  std::uint64_t seed = 0;    ///< of all draws
  int restarts = 10;         ///< independent starts, of which the best is kept; at least 1
  int max_iterations = 300;  ///< of each start; at least 1
};

/// The best of all starts.
struct kmeans_result {
  clustering clusters;
  matrix centres;      ///< (found,D), row c the mean of the points labelled c
  double inertia = 0;  ///< sum over points of the squared distance to the own centre
  int iterations = 0;  ///< assignments made by the start that was kept
};

namespace detail {

/// What one start came to.
struct kmeans_start {
  std::vector<index_t> labels;
  double inertia = 0;
  int iterations = 0;
  bool settled = false;
};

/// One worker's memory for k-means starts.
class kmeans_worker {
 public:
  kmeans_worker(const packed_points& points, const kmeans_options& options)
      : points_(&points),
        options_(&options),
        labels_(static_cast<std::size_t>(points.count)),
        previous_(labels_.size()),
        squares_(static_cast<std::size_t>(together) * padded(points)),
        nearest_(padded(points)),
        candidates_(2 + static_cast<std::size_t>(std::log(static_cast<double>(options.count)))),
        centres_(options.count, points.rows.cols()),
        counts_(static_cast<std::size_t>(options.count)),
        moves_(options.count, points.rows.cols()) {}

  /// Makes start number `restart`; made.labels has room for N.
  void start(index_t restart, kmeans_start& made) {
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
    if (settled && *std::min_element(counts_.begin(), counts_.begin() + seeded) > 0 &&
        moves_.run(*points_, seeded, options_->max_iterations, labels_, counts_, centres_) > 0)
      move_centres(seeded);  // anew, without what the moves have left of rounding
    std::copy(labels_.begin(), labels_.end(), made.labels.begin());
    made.inertia = total_inertia();
    made.iterations = iterations;
    made.settled = settled;
  }

  /// The result that a start's labels stand for.
  kmeans_result result(const kmeans_start& kept) {
    kmeans_result r;
    r.clusters = make_clustering(kept.labels, options_->count);
    if (!kept.settled) r.clusters.status = status::not_converged;
    r.inertia = kept.inertia;
    r.iterations = kept.iterations;
    labels_ = r.clusters.labels;
    std::fill(counts_.begin(), counts_.end(), index_t{0});
    for (const index_t c : labels_) ++counts_[static_cast<std::size_t>(c)];
    move_centres(r.clusters.found);
    r.centres = matrix(r.clusters.found, centres_.cols());
    std::copy_n(centres_.data(), r.clusters.found * centres_.cols(), r.centres.data());
    return r;
  }

 private:
  static constexpr index_t together = packed_points::together;

  static std::size_t padded(const packed_points& points) { return static_cast<std::size_t>(points.columns.cols()); }

  /// from[c] : (N padded), squared distances of all points from some points, as they are known or in squares_.
  void measure_points(const index_t* some, index_t count, const double** from) {
    const double* places[together];
    for (index_t c = 0; c < count; ++c) {
      places[c] = points_->point(some[c]);
      from[c] = points_->between.rows() > 0 ? points_->between.data() + some[c] * points_->columns.cols()
                                            : squares_.data() + c * points_->columns.cols();
    }
    if (points_->between.rows() == 0) points_->measure(places, count, squares_.data());
  }

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
    const auto count = static_cast<index_t>(candidates_.size());
    for (index_t first = 0; first < count; first += together) {
      const index_t some = std::min(together, count - first);
      const double* from[together];
      measure_points(candidates_.data() + first, some, from);
      for (index_t c = 0; c < some; ++c) {
        double total[lanes] = {};
        for (index_t at = 0; at < points_->columns.cols(); at += lanes)  // nearest_ is 0 for the padding
          for (index_t l = 0; l < lanes; ++l)
            total[l] += std::min(from[c][at + l], nearest_[static_cast<std::size_t>(at + l)]);
        const double sum = std::accumulate(total, total + lanes, 0.0);
        if (sum < least) {
          least = sum;
          winner = candidates_[static_cast<std::size_t>(first + c)];
        }
      }
    }
    return winner;
  }

  /// Makes a point the centre c and updates the squared distances to the nearest centre.
  void add_centre(index_t c, index_t i) {
    std::copy_n(points_->point(i), points_->rows.cols(), centres_.data() + c * centres_.cols());
    const double* from = nullptr;
    measure_points(&i, 1, &from);
    for (std::size_t j = 0; j < labels_.size(); ++j) nearest_[j] = c == 0 ? from[j] : std::min(nearest_[j], from[j]);
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
    for (index_t first = 0; first < k; first += together) {
      const index_t some = std::min(together, k - first);
      const double* places[together];
      for (index_t c = 0; c < some; ++c) places[c] = centres_.data() + (first + c) * centres_.cols();
      points_->measure(places, some, squares_.data());
      for (index_t c = 0; c < some; ++c) {
        const double* const square = squares_.data() + c * points_->columns.cols();
        for (std::size_t i = 0; i < labels_.size(); ++i) {
          const bool nearer = first + c == 0 || square[i] < nearest_[i];
          labels_[i] = nearer ? first + c : labels_[i];
          nearest_[i] = nearer ? square[i] : nearest_[i];
        }
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
  std::vector<index_t> labels_, previous_;
  std::vector<double> squares_;      // (together, N padded), as last measured
  std::vector<double> nearest_;      // squared distance to the nearest centre
  std::vector<index_t> candidates_;  // for the next centre of a start
  matrix centres_;                   // (K,D)
  std::vector<index_t> counts_;
  point_moves moves_;
};

/// kmeans, but of the starts whose inertia exceeds the least by no more than `slack` of it that one is kept which
/// `judge(labels)` calls the least; of equals the one of less inertia, then the lower-numbered.
template <host_backend Backend, class Points, class Judge>
kmeans_result kmeans_judged(Backend& be, const Points& points, const kmeans_options& options, double slack,
                            const Judge& judge) {
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

  packed_points packed(v);
  // Starts choose their centres among the points: so many choices that all distances between points are cheaper.
  const double choices = 2 + std::log(static_cast<double>(options.count));
  if (packed.count <= 4096 &&
      static_cast<double>(packed.count) < choices * static_cast<double>(options.count) * options.restarts) {
    constexpr index_t some = packed_points::together;
    packed.between = matrix(packed.count, packed.columns.cols());
    be.for_each((packed.count + some - 1) / some, [&](index_t part) {
      const double* places[some];
      const index_t first = part * some, number = std::min(some, packed.count - first);
      for (index_t c = 0; c < number; ++c) places[c] = packed.point(first + c);
      packed.measure(places, number, packed.between.data() + first * packed.columns.cols());
    });
  }
  // Memory for each worker that makes a start, set up by its first.
  std::vector<std::optional<kmeans_worker>> workers(1);
  std::vector<kmeans_start> starts(static_cast<std::size_t>(options.restarts));
  for (auto& made : starts) made.labels.resize(static_cast<std::size_t>(packed.count));
  const auto start = [&](index_t restart, int worker) {
    auto& mine = workers[static_cast<std::size_t>(worker)];
    if (!mine) mine.emplace(packed, options);
    mine->start(restart, starts[static_cast<std::size_t>(restart)]);
  };
  if constexpr (task_backend<Backend>) {
    workers.resize(static_cast<std::size_t>(be.workers()));
    be.run(options.restarts, start);
  } else {
    for (index_t restart = 0; restart < options.restarts; ++restart) start(restart, 0);
  }
  const auto less = [](const kmeans_start& a, const kmeans_start& b) { return a.inertia < b.inertia; };
  const double most = (1 + slack) * std::min_element(starts.begin(), starts.end(), less)->inertia;
  const kmeans_start* kept = nullptr;
  double least = 0;
  for (const kmeans_start& made : starts) {
    if (made.inertia > most) continue;
    const double value = judge(made.labels);
    if (kept == nullptr || value < least || (value == least && made.inertia < kept->inertia)) {
      kept = &made;
      least = value;
    }
  }
  for (auto& worker : workers)
    if (worker) return worker->result(*kept);
  return {};  // there is a worker: at least one start was made
}

}  // namespace detail

/// Clusters N points by Lloyd's iteration until no label changes and then by moves of single points while one lowers the
/// inertia, from `restarts` greedy k-means++ starts; the start with the least inertia wins, the lowest-numbered of equals.
///   inertia = sum_i |x_i - centre(label_i)|^2
/// points : (N,D) on the host, N and D at least 1, magnitudes at most 1e100. Empty clusters take the point farthest from
/// its centre. Status fewer_clusters when fewer than `count` points are distinct, not_converged when the kept start
/// stopped at max_iterations. The same seed gives the same bits on any number of threads.
/// Throws shape_error for no points, argument_error for an option or an entry out of range.
/// About 3 N K D operations an iteration, restarts in parallel on a task_backend; no allocation in a start; 8 N restarts
/// bytes for the labels of all.
/// Source: Arthur and Vassilvitskii, SODA 2007, section 2.2 (k-means++; greedy variant in section 5).
template <host_backend Backend, class Points>
  requires viewable_as<const Points&, 2>
kmeans_result kmeans(Backend& be, const Points& points, const kmeans_options& options) {
  return detail::kmeans_judged(be, points, options, 0, [](const std::vector<index_t>&) { return 0.0; });
}

}  // namespace headred
