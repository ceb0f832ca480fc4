// Procrustes and canonical correlation of close maps: |X R - Y|^2 / 2 with 16 digits left after the difference.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include <headred/core/grow_buffer.hpp>
#include <headred/distance/sentence_maps.hpp>
#include <headred/numeric/graded_rotation.hpp>
#include <headred/numeric/split_product.hpp>
#include <headred/numeric/symmetric_factors.hpp>
#include <headred/numeric/whiten.hpp>

namespace headred::detail {

/// How maps are whitened before they are compared; `none` for Procrustes.
struct map_whitening {
  bool none = true;
  whitening kind = whitening::ridge;
  double amount = 0;
};

/// One pair of maps in twice the precision of double. What the maps differ by is small against them, so each rounding of
/// centring, whitening and rotating would show; the result itself needs no more than double. Products are split
/// (split_product), factors computed in double are corrected by what their products differ from the identity by.
///
///   X^ = Xc / |Xc|; X~ = X^ Z, Y~ = Y^ Z with the eigenvectors Z of X^^T X^ (Procrustes),
///   or X~ = X^ Zx with Zx^T (X^^T X^ + lambda/S I) Zx = I, which is a whitening up to a rotation, and then |X~| = 1
///   (or, truncated, an orthonormal basis of the leading components);
///   R = polar factor of X~^T Y~, whose columns come in order of size; result 1/2 |X~ R - Y~|^2.
///
/// An error e of R within the rotations changes the result by e^2 alone, since R is where it is least: so R is found in
/// double and only made orthogonal to 1e-30. The small directions of X~ and Y~, which a pair of nearly rank-deficient
/// maps turns by any angle, are found because the columns are graded. Error a few 1e-15 of the result, and 1e-31 absolute
/// (measured: docs/numerics.md). Cost about 50 T S^2 operations and one or two symmetric eigendecompositions (S,S).
class close_matrices {
 public:
  static index_t scratch_size(index_t tokens, index_t n) {
    return 6 * tokens * n + 10 * n * n + 4 * n + 4 * std::max(tokens, n) * n;  // as the constructor takes it
  }

  close_matrices(index_t tokens, index_t n, grow_buffer<double>& scratch)
      : tokens_(tokens), n_(n), scratch_(scratch.get(scratch_size(tokens, n))) {
    const index_t size = tokens * n, square = n * n;
    const auto take = [this](index_t count) {
      double* taken = scratch_;
      scratch_ += count;
      return taken;
    };
    for (wide_matrix& m : maps_) m = {take(size), take(size)};
    for (wide_matrix& m : squares_) m = {take(square), take(square)};
    axes_ = take(square);
    correction_ = take(square);
    values_ = take(n);
    line_ = take(3 * n);
  }

  /// Heads a and b, neither of which may have all rows equal. Exactly 0 for maps equal to 31 digits; negative where the
  /// whitening is too ill-conditioned to be corrected.
  double residual(const sentence_maps& maps, index_t a, index_t b, const map_whitening& how) {
    read(maps, a, maps_[0]);
    read(maps, b, maps_[1]);
    const std::size_t bytes = sizeof(double) * static_cast<std::size_t>(tokens_ * n_);
    if (std::memcmp(maps_[0].high, maps_[1].high, bytes) == 0 && std::memcmp(maps_[0].low, maps_[1].low, bytes) == 0)
      return 0;
    return how.none ? turned_residual() : whitened_residual(how);
  }

 private:
  // maps_: X, Y and room for a product. squares_: Z or R, a product, eigenvectors, and E of a product I - E.

  /// Rows divided by their sums, columns centred, Frobenius norm 1.
  void read(const sentence_maps& maps, index_t head, const wide_matrix& x) {
    double* means = line_;
    std::fill(means, means + 2 * n_, 0.0);
    double* row = line_ + 2 * n_;
    for (index_t t = 0; t < tokens_; ++t) {
      double* high = x.high + t * n_;
      double* low = x.low + t * n_;
      double_double sum{};
      if (maps.read_raw_row(head, t, row) != 0)
        for (index_t k = 0; k < n_; ++k) sum = sum + double_double{row[k]};
      else
        sum.high = 1;
      for (index_t k = 0; k < n_; ++k) {
        const double_double value = double_double{row[k]} / sum;
        const double_double total = double_double{means[k], means[n_ + k]} + value;
        high[k] = value.high;
        low[k] = value.low;
        means[k] = total.high;
        means[n_ + k] = total.low;
      }
    }
    const double_double count{static_cast<double>(tokens_)};
    for (index_t k = 0; k < n_; ++k) {
      const double_double mean = double_double{means[k], means[n_ + k]} / count;
      means[k] = mean.high;
      means[n_ + k] = mean.low;
    }
    for (index_t t = 0; t < tokens_; ++t)
      for (index_t k = 0; k < n_; ++k) {
        const index_t i = t * n_ + k;
        const double_double value = double_double{x.high[i], x.low[i]} - double_double{means[k], means[n_ + k]};
        x.high[i] = value.high;
        x.low[i] = value.low;
      }
    normalise(x);
  }

  void normalise(const wide_matrix& x) const {
    double_double squares{};
    for (index_t i = 0; i < tokens_ * n_; ++i) {
      const double_double value{x.high[i], x.low[i]};
      squares = squares + value * value;
    }
    const double_double unit = double_double{1} / square_root(squares);
    for (index_t i = 0; i < tokens_ * n_; ++i) {
      const double_double value = double_double{x.high[i], x.low[i]} * unit;
      x.high[i] = value.high;
      x.low[i] = value.low;
    }
  }

  /// Eigenvalues of X^T X into values_, the largest first, its eigenvectors as the columns of `vectors` (n,n).
  void principal_axes(const wide_matrix& x, double* vectors) {
    multiply(x.high, 1, n_, x.high, n_, tokens_, n_, axes_, false);
    double* unsorted = line_ + 2 * n_;
    symmetric_factors(axes_, n_, unsorted, line_);
    for (index_t j = 0; j < n_; ++j) {
      double* const largest = std::max_element(unsorted, unsorted + n_);
      const double* axis = axes_ + (largest - unsorted) * n_;
      values_[j] = std::max(*largest, 0.0);
      *largest = -std::numeric_limits<double>::infinity();
      for (index_t i = 0; i < n_; ++i) vectors[i * n_ + j] = axis[i];
    }
  }

  /// E = I - m.
  void subtract_from_identity(const wide_matrix& m) const {
    const wide_matrix rest = squares_[3];
    for (index_t i = 0; i < n_ * n_; ++i) {
      const double_double entry = double_double{i % (n_ + 1) == 0 ? 1. : 0.} - double_double{m.high[i], m.low[i]};
      rest.high[i] = entry.high;
      rest.low[i] = entry.low;
    }
  }
  /// E -= factor m.
  void subtract(const wide_matrix& m, const double_double& factor) const {
    const wide_matrix rest = squares_[3];
    for (index_t i = 0; i < n_ * n_; ++i) {
      const double_double entry =
          double_double{rest.high[i], rest.low[i]} - double_double{m.high[i], m.low[i]} * factor;
      rest.high[i] = entry.high;
      rest.low[i] = entry.low;
    }
  }

  /// correction_ = (I - E)^(-1/2) - I to third order; returns the largest entry of E.
  double series() const {
    const double* rest = squares_[3].high;
    double largest = 0;
    multiply(rest, n_, 1, rest, n_, n_, n_, correction_, false);
    for (index_t i = 0; i < n_ * n_; ++i) {
      largest = std::max(largest, std::abs(rest[i]));
      correction_[i] = .5 * rest[i] + .375 * correction_[i];
    }
    return largest;
  }

  double turned_residual() {
    const wide_matrix axes{squares_[0].high, nullptr};
    principal_axes(maps_[0], axes.high);
    split_product(axes, true, axes, n_, n_, n_, squares_[1], scratch_);
    subtract_from_identity(squares_[1]);
    series();
    for (const int side : {0, 1}) {
      wide_matrix& x = maps_[static_cast<std::size_t>(side)];
      split_product(x, false, axes, tokens_, n_, n_, maps_[2], scratch_);
      add_correction(maps_[2], correction_, tokens_, n_, scratch_);
      std::swap(x, maps_[2]);
    }
    return rotated_residual();
  }

  double whitened_residual(const map_whitening& how) {
    double* first = squares_[2].high;  // eigenvectors of the first map, by column
    for (const int side : {0, 1}) {
      wide_matrix& x = maps_[static_cast<std::size_t>(side)];
      double* own = side == 0 ? first : squares_[2].low;
      principal_axes(x, own);
      if (how.kind == whitening::truncated) {
        if (!take_leading(x, own, how.amount)) return -1;
        continue;
      }
      double_double ridge = double_double{how.amount} / double_double{static_cast<double>(n_)};
      if (how.kind == whitening::half_dof)
        ridge = {half_dof_ridge({values_, static_cast<std::size_t>(n_)}, values_[0])};
      double* z = squares_[0].high;
      std::fill(squares_[0].low, squares_[0].low + n_ * n_, 0.0);
      if (side == 0) {
        for (index_t i = 0; i < n_ * n_; ++i) z[i] = own[i] / std::sqrt(values_[i % n_] + ridge.high);
      } else {
        // by the second map's own axes, then turned so that equal maps would have equal columns
        multiply(own, 1, n_, first, n_, n_, n_, axes_, false);
        for (index_t i = 0; i < n_ * n_; ++i) axes_[i] /= std::sqrt(values_[i / n_] + ridge.high);
        multiply(own, n_, 1, axes_, n_, n_, n_, z, false);
      }
      if (!whiten(x, ridge, how.kind)) return -1;
    }
    return rotated_residual();
  }

  /// x becomes x Z with Z^T (x^T x + ridge I) Z = I, for Z in squares_[0] that is so nearly; of norm 1 then.
  bool whiten(wide_matrix& x, double_double ridge, whitening kind) {
    const wide_matrix z = squares_[0], product = squares_[1];
    split_product(x, false, z, tokens_, n_, n_, maps_[2], scratch_);
    std::swap(x, maps_[2]);
    for (int round = 0; round < 5; ++round) {
      split_product(x, true, x, n_, tokens_, n_, product, scratch_);
      subtract_from_identity(product);
      split_product(z, true, z, n_, n_, n_, product, scratch_);
      subtract(product, ridge);
      if (kind == whitening::half_dof) {
        const double step = ridge_step(product, ridge);
        subtract(product, {step});
        ridge = ridge + double_double{step};
      }
      const double largest = series();
      if (!(largest < .1)) return false;
      add_correction(x, correction_, tokens_, n_, scratch_);
      if (largest < 1e-8) {
        normalise(x);
        return true;
      }
      add_correction(z, correction_, n_, n_, scratch_);
    }
    return false;
  }

  /// A Newton step for tr C (C + ridge I)^-1 = rank / 2, from g = Z^T Z and tr (C + ridge I)^-1 = tr g (I - E)^-1.
  double ridge_step(const wide_matrix& g, const double_double& ridge) const {
    double_double trace{}, kept{};  // kept: n - rank / 2
    double more = 0, squares = 0;
    for (index_t i = 0; i < n_ * n_; ++i) {
      more += g.high[i] * squares_[3].high[i];
      squares += g.high[i] * g.high[i];
    }
    for (index_t i = 0; i < n_; ++i) {
      trace = trace + double_double{g.high[i * (n_ + 1)], g.low[i * (n_ + 1)]};
      kept.high += values_[i] > values_[0] * 1e-12 ? .5 : 1;
    }
    const double_double excess = kept - ridge * (trace + double_double{more});
    return excess.high / (trace.high - ridge.high * squares);
  }

  /// x becomes an orthonormal basis of what its leading principal components span, 0 in the columns of the others, and of
  /// norm 1 then. The components are corrected to first order by what they are coupled with those left out.
  bool take_leading(wide_matrix& x, double* axes, double variance) {
    const wide_matrix product = squares_[1], turn = squares_[0];
    split_product(x, false, {axes, nullptr}, tokens_, n_, n_, maps_[2], scratch_);
    std::swap(x, maps_[2]);
    split_product(x, true, x, n_, tokens_, n_, product, scratch_);
    split_product({axes, nullptr}, true, {axes, nullptr}, n_, n_, n_, turn, scratch_);
    std::copy(values_, values_ + n_, line_);
    whitening_factors({line_, static_cast<std::size_t>(n_)}, whitening::truncated, variance);
    const index_t kept = std::count_if(line_, line_ + n_, [](double factor) { return factor > 0; });
    double largest = 0;
    std::fill(correction_, correction_ + n_ * n_, 0.0);
    for (index_t i = kept; i < n_; ++i)
      for (index_t j = 0; j < kept; ++j) {
        const double coupled = product.high[i * n_ + j] - values_[j] * turn.high[i * n_ + j];
        correction_[i * n_ + j] = coupled / (values_[j] - values_[i]);
        largest = std::max(largest, std::abs(correction_[i * n_ + j]));
      }
    if (!(largest < 1e-9)) return false;
    add_correction(x, correction_, tokens_, n_, scratch_);
    for (index_t i = 0; i < tokens_ * n_; ++i) {
      const double_double value = double_double{x.high[i], x.low[i]} * double_double{line_[i % n_]};
      x.high[i] = value.high;
      x.low[i] = value.low;
    }
    for (int round = 0; round < 5; ++round) {
      split_product(x, true, x, n_, tokens_, n_, product, scratch_);
      subtract_from_identity(product);
      for (index_t i = kept; i < n_; ++i) squares_[3].high[i * (n_ + 1)] = 0;
      largest = series();
      if (!(largest < .1)) return false;
      add_correction(x, correction_, tokens_, n_, scratch_);
      if (largest < 1e-8) {
        normalise(x);
        return true;
      }
    }
    return false;
  }

  /// 1/2 |X~ R - Y~|^2.
  double rotated_residual() {
    const wide_matrix x = maps_[0], y = maps_[1], rotation = squares_[0], product = squares_[1];
    double* cross = squares_[2].high;
    const auto multiply_maps = [&] { multiply(y.high, 1, n_, x.high, n_, tokens_, n_, cross, false); };
    multiply_maps();
    if (!small_rotation(cross, n_, product.high, product.low, correction_, rotation.high)) {
      multiply_maps();
      graded_rotation(cross, n_, axes_, values_, rotation.high);
    }
    std::fill(rotation.low, rotation.low + n_ * n_, 0.0);
    split_product({rotation.high, nullptr}, true, {rotation.high, nullptr}, n_, n_, n_, product, scratch_);
    subtract_from_identity(product);
    series();
    add_correction(rotation, correction_, n_, n_, scratch_);
    split_product(x, false, rotation, tokens_, n_, n_, maps_[2], scratch_);
    double sum = 0;
    for (index_t i = 0; i < tokens_ * n_; ++i) {
      const double difference = (maps_[2].high[i] - y.high[i]) + (maps_[2].low[i] - y.low[i]);
      sum += difference * difference;
    }
    return .5 * sum;
  }

  index_t tokens_, n_;
  double* scratch_;
  std::array<wide_matrix, 3> maps_{};
  std::array<wide_matrix, 4> squares_{};
  double *axes_ = nullptr, *correction_ = nullptr, *values_ = nullptr, *line_ = nullptr;
};

}  // namespace headred::detail
