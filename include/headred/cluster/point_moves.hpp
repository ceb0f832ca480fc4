// Single points that change their cluster where that lowers the inertia: what Lloyd's iteration stops short of.
#pragma once

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <headred/cluster/packed_points.hpp>

namespace headred::detail {

/// Moves points one by one, in order, while |x - c_b|^2 n_b / (n_b + 1) of the best other cluster b is less than
/// |x - c_a|^2 n_a / (n_a - 1) of the own one: by the difference the inertia falls, the centres moving along.
/// Source: Hartigan and Wong, Applied Statistics 28 (1979); Telgarsky and Vattani, AISTATS 2010.
class point_moves {
  static constexpr index_t lanes = packed_points::lanes;
  static constexpr int wide = native_lanes<double>;
  using vec = pack<double, wide>;

 public:
  point_moves(index_t clusters, index_t dimensions)
      : columns_(dimensions, (clusters + lanes - 1) / lanes * lanes),
        joining_(static_cast<std::size_t>(columns_.cols())),
        squares_(joining_.size()) {}

  /// labels (N) and counts (k) of clusters none of which is empty; centres (k,D), the means. All are updated; the number of
  /// moves is returned. At most `passes` times over the points, of 3 N k D operations each.
  index_t run(const packed_points& points, index_t k, int passes, std::vector<index_t>& labels,
              std::vector<index_t>& counts, matrix& centres) {
    const index_t dimensions = columns_.rows();
    for (index_t c = 0; c < columns_.cols(); ++c)
      for (index_t d = 0; d < dimensions; ++d) columns_(d, c) = c < k ? centres(c, d) : 1e150;  // far from all points
    std::fill(joining_.begin(), joining_.end(), std::numeric_limits<double>::max());  // nobody joins the padding
    for (index_t c = 0; c < k; ++c) count_anew(c, counts);
    index_t moves = 0;
    for (int pass = 0; pass < passes; ++pass) {
      const index_t before = moves;
      for (index_t i = 0; i < points.count; ++i) {
        index_t& own = labels[static_cast<std::size_t>(i)];
        const double members = static_cast<double>(counts[static_cast<std::size_t>(own)]);
        if (members < 2) continue;
        const double* const x = points.point(i);
        measure(x);
        const double gain = squares_[static_cast<std::size_t>(own)] * members / (members - 1);
        const double staying =
            std::exchange(joining_[static_cast<std::size_t>(own)], std::numeric_limits<double>::max());
        const index_t best = cheapest();
        joining_[static_cast<std::size_t>(own)] = staying;
        // more than rounding, so that it ends
        const bool better =
            squares_[static_cast<std::size_t>(best)] * joining_[static_cast<std::size_t>(best)] < gain * (1 - 1e-10);
        const index_t to = better ? best : own;
        if (to == own) continue;
        shift(centres, own, x, -1 / (members - 1));
        shift(centres, to, x, 1 / static_cast<double>(counts[static_cast<std::size_t>(to)] + 1));
        --counts[static_cast<std::size_t>(own)];
        ++counts[static_cast<std::size_t>(to)];
        count_anew(own, counts);
        count_anew(to, counts);
        own = to;
        ++moves;
      }
      if (moves == before) break;
    }
    return moves;
  }

 private:
  /// squares_[c] = |x - centre c|^2.
  void measure(const double* x) {
    for (index_t first = 0; first < columns_.cols(); first += lanes) {
      vec sum[lanes / wide] = {};
      const double* at = columns_.data() + first;
      for (index_t d = 0; d < columns_.rows(); ++d, at += columns_.cols())
        for (int p = 0; p < static_cast<int>(lanes) / wide; ++p) {
          const vec difference = broadcast<vec>(x[d]) - load<vec>(at + p * wide);
          sum[p] += difference * difference;
        }
      for (int p = 0; p < static_cast<int>(lanes) / wide; ++p) store(squares_.data() + first + p * wide, sum[p]);
    }
  }
  /// The cluster that squares_[c] joining_[c] is least for, the lowest of equals.
  index_t cheapest() const {
    vec least = broadcast<vec>(std::numeric_limits<double>::infinity());
    for (index_t c = 0; c < columns_.cols(); c += wide) {
      const vec cost = load<vec>(squares_.data() + c) * load<vec>(joining_.data() + c);
      least = select_less(cost, least, cost, least);
    }
    double lowest = least[0];
    for (int l = 1; l < wide; ++l) lowest = std::min(lowest, static_cast<double>(least[l]));
    index_t c = 0;
    while (squares_[static_cast<std::size_t>(c)] * joining_[static_cast<std::size_t>(c)] != lowest) ++c;
    return c;
  }
  void count_anew(index_t c, const std::vector<index_t>& counts) {
    const double members = static_cast<double>(counts[static_cast<std::size_t>(c)]);
    joining_[static_cast<std::size_t>(c)] = members / (members + 1);
  }
  void shift(matrix& centres, index_t c, const double* x, double share) {
    for (index_t d = 0; d < columns_.rows(); ++d) columns_(d, c) = centres(c, d) += share * (x[d] - centres(c, d));
  }

  matrix columns_;               // (D,K padded)
  std::vector<double> joining_;  // n / (n + 1) of the cluster with n points
  std::vector<double> squares_;
};

}  // namespace headred::detail
