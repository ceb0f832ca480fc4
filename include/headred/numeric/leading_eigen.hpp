// leading_eigen: the largest eigenvalues of a large symmetric matrix, of which only products with vectors are needed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <headred/backend/concept.hpp>
#include <headred/core/error.hpp>
#include <headred/core/matrix.hpp>
#include <headred/core/random.hpp>
#include <headred/core/status.hpp>
#include <headred/numeric/symmetric_factors.hpp>

namespace headred {

/// How many eigenpairs are searched for, how exactly and for how long.
struct leading_eigen_options {
  index_t count = 1;        ///< eigenpairs wanted
  double tolerance = 1e-9;  ///< residual |A v - lambda v| of every pair, for |A| about 1
  int max_cycles = 200;     ///< restarts at most
  std::uint64_t seed = 1;   ///< of the first block of vectors
};

/// The greatest eigenvalues and their vectors.
struct leading_eigen_result {
  std::vector<double> values;  ///< (count), descending
  matrix vectors;              ///< (count,N), row j is the unit eigenvector of values[j]
  headred::status status = headred::status::converged;
  index_t products = 0;  ///< vectors that A was applied to
};

namespace detail {

/// The search space of leading_eigen: orthonormal rows, `fixed` of which stay outside of the projection.
template <host_backend Backend>
class krylov_space {
  using rows_view = tensor_view<double, 2>;
  using const_rows = tensor_view<const double, 2>;

 public:
  static constexpr index_t width =
      16;  ///< rows that A is applied to at a time: what a product with it takes in its stride

  krylov_space(Backend& be, const_rows fixed, index_t capacity, std::uint64_t seed)
      : be_(be),
        n_(fixed.extent(1)),
        fixed_(fixed.extent(0)),
        rows_(fixed.extent(0) + capacity + width, fixed.extent(1)),
        spare_(capacity, fixed.extent(1)),
        projected_(capacity + width, capacity + width),
        products_(fixed.extent(0) + capacity + width, width),
        draws_(seed) {
    for (index_t r = 0; r < fixed_; ++r)
      for (index_t j = 0; j < n_; ++j) rows_(r, j) = fixed(r, j);
  }

  index_t size() const { return size_; }
  /// The block that is to be multiplied next.  (width,N)
  rows_view next() { return rows(fixed_ + size_, width); }
  rows_view basis() { return rows(fixed_, size_); }
  matrix& projected() { return projected_; }
  /// What ties `next` to the last rows: residuals of Ritz pairs are read from it.  (width,width)
  const matrix& coupling() const { return coupling_; }

  /// Random directions, orthogonal to all there is.
  void draw_next() {
    rows_view block = next();
    for (index_t i = 0; i < width; ++i) draw(block[i]);
    orthonormalise(block, nullptr);
  }

  /// `image` = A times `next`: takes `next` into the basis; what is new in the image becomes `next`.
  void extend(rows_view image) {
    const index_t old = size_;
    size_ += width;
    rows_view block = next();
    for (index_t i = 0; i < width; ++i) std::copy_n(image[i].data(), n_, block[i].data());
    for (index_t i = 0; i < size_; ++i)
      for (index_t c = 0; c < width; ++c) projected_(i, old + c) = 0;
    orthonormalise(block, &projected_, old);
    for (index_t i = 0; i < old; ++i)
      for (index_t c = 0; c < width; ++c) projected_(old + c, i) = projected_(i, old + c);
    for (index_t i = 0; i < width; ++i)
      for (index_t c = 0; c < i; ++c)
        projected_(old + i, old + c) = projected_(old + c, old + i) =
            .5 * (projected_(old + i, old + c) + projected_(old + c, old + i));
  }

  /// The basis becomes the first `kept` rows of mix (kept,size) times the basis, with their values on the diagonal.
  void restart(const_rows mix, const double* values, index_t kept, bool forget_next) {
    rows_view to(spare_.data(), {kept, n_});
    multiply(1, mix.narrow(0, 0, kept), basis(), 0, to);
    rows_view block = next();
    std::vector<double> moved(block.data(), block.data() + width * n_);
    std::copy_n(spare_.data(), kept * n_, rows_.data() + fixed_ * n_);
    size_ = kept;
    std::copy(moved.begin(), moved.end(), next().data());
    for (index_t i = 0; i < kept; ++i)
      for (index_t j = 0; j < kept; ++j) projected_(i, j) = i == j ? values[i] : 0;
    if (forget_next) draw_next();
  }

 private:
  rows_view rows(index_t first, index_t count) { return {rows_.data() + first * n_, {count, n_}}; }

  void multiply(double alpha, const_rows a, const_rows b, double beta, rows_view c) {
    be_.gemm(alpha, batch(a), batch(b), beta,
             tensor_view<double, 3>(c.data(), {1, c.extent(0), c.extent(1)}, {0, c.stride(0), c.stride(1)}));
  }
  static tensor_view<const double, 3> batch(const const_rows& m) {
    return {m.data(), {1, m.extent(0), m.extent(1)}, {0, m.stride(0), m.stride(1)}};
  }

  void draw(tensor_view<double, 1> row) {
    for (index_t j = 0; j < n_; ++j) row(j) = draws_.uniform(drawn_++) - .5;
  }

  /// block -= its parts along all rows before it, which are added to `parts` from column `at` on, twice for rounding's sake;
  /// then its rows are made orthonormal: block = coupling^T new block.
  void orthonormalise(rows_view block, matrix* parts, index_t at = 0) {
    const index_t before = fixed_ + size_;
    const const_rows all = rows(0, before);
    for (int pass = 0; pass < 2 && before > 0; ++pass) {
      rows_view along(products_.data(), {width, before});
      multiply(1, block, all.transposed(), 0, along);
      multiply(-1, along, all, 1, block);
      if (parts == nullptr) continue;
      for (index_t i = 0; i < size_; ++i)
        for (index_t c = 0; c < width; ++c) (*parts)(i, at + c) += along(c, fixed_ + i);
    }
    coupling_ = matrix(width, width);
    for (index_t c = 0; c < width; ++c) {
      const tensor_view<double, 1> row = block[c];
      const double whole = std::sqrt(dot(row.data(), row.data(), n_));
      for (int pass = 0; pass < 2; ++pass)
        for (index_t i = 0; i < c; ++i) {
          const double part = dot(block[i].data(), row.data(), n_);
          coupling_(i, c) += part;
          add_scaled(row.data(), -part, block[i].data(), n_);
        }
      double rest = std::sqrt(dot(row.data(), row.data(), n_));
      coupling_(c, c) = rest;
      if (!(rest > 1e-13 * std::max(whole, 1e-3))) rest = replace(block, c);
      for (index_t j = 0; j < n_; ++j) row(j) /= rest;
    }
  }

  /// Nothing new is left of a row: a random one takes its place, tied to nothing.
  double replace(rows_view block, index_t c) {
    coupling_(c, c) = 0;
    const tensor_view<double, 1> row = block[c];
    draw(row);
    for (int pass = 0; pass < 3; ++pass) {
      for (index_t i = 0; i < fixed_ + size_; ++i)
        add_scaled(row.data(), -dot(rows_.data() + i * n_, row.data(), n_), rows_.data() + i * n_, n_);
      for (index_t i = 0; i < c; ++i)
        add_scaled(row.data(), -dot(block[i].data(), row.data(), n_), block[i].data(), n_);
    }
    return std::sqrt(dot(row.data(), row.data(), n_));
  }

  Backend& be_;
  index_t n_, fixed_, size_ = 0;
  matrix rows_, spare_, projected_, products_, coupling_;
  random_stream draws_;
  std::uint64_t drawn_ = 0;
};

}  // namespace detail

/// Search spaces smaller than this many dimensions for `count` pairs do not pay; take all eigenvalues then.
constexpr index_t leading_eigen_space(index_t count) { return (2 * count + 96 + 15) / 16 * 16; }

/// The largest eigenvalues of symmetric A and their vectors, orthogonal to `known` eigenvectors, multiplicities kept.
///   apply(x, y): y = A x for the rows of x, y (16,N)
///   known : (C,N), orthonormal eigenvectors that are not wanted
/// Block Lanczos with full orthogonalisation and thick restarts; what has converged is confirmed by a search that starts
/// anew beside it, so that an eigenvalue is found as often as it occurs. Results do not depend on the number of threads.
/// Status not_converged after max_cycles. Throws argument_error where N - C leaves no room for the search space.
/// Memory: (2 leading_eigen_space(count) + C) N numbers. Source: Wu and Simon, SIAM J. Matrix Anal. 22 (2000).
template <host_backend Backend, class Apply>
leading_eigen_result leading_eigen(Backend& be, tensor_view<const double, 2> known, Apply&& apply,
                                   const leading_eigen_options& options) {
  constexpr index_t width = detail::krylov_space<Backend>::width;
  const index_t n = known.extent(1), space = leading_eigen_space(options.count);
  if (options.count < 1 || n - known.extent(0) < space + 2 * width)
    throw argument_error("leading_eigen: " + std::to_string(options.count) + " pairs of a matrix of " +
                         std::to_string(n) + " rows, " + std::to_string(known.extent(0)) +
                         " known, expected 1 or more, and " + std::to_string(space + 2 * width) + " rows besides");
  detail::krylov_space<Backend> search(be, known, space, options.seed);
  search.draw_next();
  leading_eigen_result result;
  matrix image(width, n), mix(space, space);
  std::vector<double> values(static_cast<std::size_t>(space)), scratch(static_cast<std::size_t>(2 * space));
  std::vector<index_t> order(static_cast<std::size_t>(space));
  matrix sorted(space, space);
  std::vector<double> before;  // what had converged when the confirming search began
  for (int cycle = 0; cycle < options.max_cycles; ++cycle) {
    while (search.size() + width <= space) {
      apply(tensor_view<const double, 2>(search.next()), image.view());
      result.products += width;
      search.extend(image.view());
    }
    const index_t m = search.size();
    for (index_t i = 0; i < m; ++i)
      for (index_t j = 0; j < m; ++j) mix.data()[i * m + j] = search.projected()(i, j);
    if (!detail::symmetric_factors(mix.data(), m, values.data(), scratch.data())) break;
    std::iota(order.begin(), order.begin() + m, index_t{0});
    std::stable_sort(order.begin(), order.begin() + m, [&](index_t a, index_t b) {
      return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
    });
    result.values.clear();
    for (index_t r = 0; r < m; ++r) {
      const index_t from = order[static_cast<std::size_t>(r)];
      result.values.push_back(values[static_cast<std::size_t>(from)]);
      std::copy_n(mix.data() + from * m, m, sorted.data() + r * m);
    }
    const tensor_view<const double, 2> vectors(sorted.data(), {m, m});
    double worst = 0;
    for (index_t r = 0; r < options.count; ++r) {
      double squares = 0;
      for (index_t i = 0; i < width; ++i) {
        double sum = 0;
        for (index_t k = 0; k < width; ++k) sum += search.coupling()(i, k) * vectors(r, m - width + k);
        squares += sum * sum;
      }
      worst = std::max(worst, std::sqrt(squares));
    }
    const bool done = worst <= options.tolerance;
    if (done) {
      result.values.resize(static_cast<std::size_t>(options.count));
      bool same = before.size() == result.values.size();
      for (std::size_t r = 0; same && r < before.size(); ++r)
        same = std::abs(before[r] - result.values[r]) <= 10 * options.tolerance;
      if (same) {
        search.restart(vectors, result.values.data(), options.count, false);
        result.vectors = matrix(options.count, n);
        std::copy_n(search.basis().data(), options.count * n, result.vectors.data());
        return result;
      }
      before = result.values;
      search.restart(vectors, result.values.data(), options.count, true);
    } else {
      const index_t kept = (options.count + (m - options.count) / 2) / width * width;
      search.restart(vectors, result.values.data(), std::clamp<index_t>(kept, 1, m - width), false);
    }
  }
  result.values.clear();
  result.status = status::not_converged;
  return result;
}

}  // namespace headred
