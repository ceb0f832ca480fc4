// Points as k-means reads them, and distances from many of them at once.
#pragma once

#include <cmath>
#include <string>

#include <headred/core/error.hpp>
#include <headred/core/matrix.hpp>
#include <headred/core/number_text.hpp>
#include <headred/simd/pack.hpp>

namespace headred::detail {

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

  const double* point(index_t i) const { return rows.data() + i * rows.cols(); }

  /// to (count, N padded) = |x_i - centre|^2 of all points, for up to `together` centres that pass through the points in
  /// registers. A distance has the same bits however many centres there are.
  void measure(const double* const* centres, index_t number, double* to) const {
    if (number == together) return measure_some<together>(centres, to);
    for (index_t c = 0; c < number; ++c) measure_some<1>(centres + c, to + c * columns.cols());
  }
  static constexpr index_t together = 4;

  index_t count;
  matrix rows;     // (N,D)
  matrix columns;  // (D,N padded)
  matrix between;  // (N,N padded), squared distances of points, or empty where they do not pay

 private:
  template <int Count>
  void measure_some(const double* const* centres, double* to) const {
    constexpr int wide = native_lanes<double>, packs = lanes / wide;
    using vec = pack<double, wide>;
    const index_t n = columns.cols(), dimensions = columns.rows();
    for (index_t first = 0; first < n; first += lanes) {
      vec sum[Count][packs] = {};
      const double* x = columns.data() + first;
      for (index_t d = 0; d < dimensions; ++d, x += n) {
        vec own[packs];
        for (int p = 0; p < packs; ++p) own[p] = load<vec>(x + p * wide);
        for (int c = 0; c < Count; ++c)
          for (int p = 0; p < packs; ++p) {
            const vec difference = own[p] - broadcast<vec>(centres[c][d]);
            sum[c][p] += difference * difference;
          }
      }
      for (int c = 0; c < Count; ++c)
        for (int p = 0; p < packs; ++p) store(to + c * n + first + p * wide, sum[c][p]);
    }
  }
};

}  // namespace headred::detail
