// For the tests of the row-wise ops: matrices with a gap between rows, 4-point differences, cpus of 1, 2, 3 threads.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/random.hpp>

#include "oracle/nn_ops.hpp"

namespace op_test {

namespace hr = headred;

/// A matrix (rows, cols) whose rows lie cols + gap apart; what lies between must stay as it was.
template <class T>
class gapped {
 public:
  gapped(hr::index_t rows, hr::index_t cols, hr::index_t gap = 0)
      : rows_(rows), cols_(cols), stride_(cols + gap), values_(static_cast<std::size_t>(rows * stride_), T(1234)) {}

  static gapped random(hr::index_t rows, hr::index_t cols, hr::index_t gap, std::uint64_t seed, double width = 4) {
    gapped m(rows, cols, gap);
    const hr::random_stream draws(seed);
    for (hr::index_t r = 0; r < rows; ++r)
      for (hr::index_t c = 0; c < cols; ++c)
        m(r, c) = static_cast<T>(width * (draws.uniform(static_cast<std::uint64_t>(r * cols + c)) - .5));
    return m;
  }

  T& operator()(hr::index_t r, hr::index_t c) { return values_[static_cast<std::size_t>(r * stride_ + c)]; }
  const T& operator()(hr::index_t r, hr::index_t c) const { return values_[static_cast<std::size_t>(r * stride_ + c)]; }
  hr::index_t rows() const { return rows_; }
  hr::index_t cols() const { return cols_; }
  hr::tensor_view<T, 2> view() { return {values_.data(), {rows_, cols_}, {stride_, 1}}; }
  hr::tensor_view<const T, 2> view() const { return {values_.data(), {rows_, cols_}, {stride_, 1}}; }
  hr::tensor_view<T, 1> row(hr::index_t r = 0) { return {values_.data() + r * stride_, {cols_}}; }
  hr::tensor_view<const T, 1> row(hr::index_t r = 0) const { return {values_.data() + r * stride_, {cols_}}; }
  void fill(T value) {
    for (hr::index_t r = 0; r < rows_; ++r) std::fill_n(&(*this)(r, 0), cols_, value);
  }
  bool gaps_kept() const {
    for (hr::index_t r = 0; r < rows_; ++r)
      for (hr::index_t c = cols_; c < stride_; ++c)
        if ((*this)(r, c) != T(1234)) return false;
    return true;
  }
  bool same_bits(const gapped& other) const {
    return values_.size() == other.values_.size() &&
           (values_.empty() || std::memcmp(values_.data(), other.values_.data(), values_.size() * sizeof(T)) == 0);
  }

 private:
  hr::index_t rows_, cols_, stride_;
  std::vector<T> values_;
};

template <class T>
oracle::real_matrix real(const gapped<T>& m) {
  oracle::real_matrix x(static_cast<std::size_t>(m.rows()), static_cast<std::size_t>(m.cols()));
  for (hr::index_t r = 0; r < m.rows(); ++r)
    for (hr::index_t c = 0; c < m.cols(); ++c)
      x(static_cast<std::size_t>(r), static_cast<std::size_t>(c)) = static_cast<long double>(m(r, c));
  return x;
}

/// Greatest |found - expected| / max(1, |expected|); infinity where exactly one of them is NaN.
template <class T>
double deviation(const gapped<T>& found, const oracle::real_matrix& expected) {
  long double worst = 0;
  for (hr::index_t r = 0; r < found.rows(); ++r)
    for (hr::index_t c = 0; c < found.cols(); ++c) {
      const long double e = expected(static_cast<std::size_t>(r), static_cast<std::size_t>(c));
      const long double d = std::abs(static_cast<long double>(found(r, c)) - e) / std::max(1.L, std::abs(e));
      if (!(d <= worst)) worst = std::isnan(d) ? std::numeric_limits<long double>::infinity() : d;
    }
  return static_cast<double>(worst);
}

/// The gradient of a scalar function at x in one entry, from four points: error of order h^4.
template <class F>
double slope(double& x, const F& f, double h = 1e-3) {
  const double at = x;
  const auto value = [&](double to) {
    x = to;
    return f();
  };
  const double d = (value(at - 2 * h) - 8 * value(at - h) + 8 * value(at + h) - value(at + 2 * h)) / (12 * h);
  x = at;
  return d;
}

/// Greatest difference between `gradient` and the slopes of f in the entries of x.
template <class F>
double gradient_error(gapped<double>& x, const gapped<double>& gradient, const F& f) {
  double worst = 0;
  for (hr::index_t r = 0; r < x.rows(); ++r)
    for (hr::index_t c = 0; c < x.cols(); ++c) {
      const double d = std::abs(slope(x(r, c), f) - gradient(r, c)) / std::max(1., std::abs(gradient(r, c)));
      if (!(d <= worst)) worst = std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
    }
  return worst;
}

/// sum of a b: turns a matrix of outputs into a loss whose gradient is b.
inline double inner(const gapped<double>& a, const gapped<double>& b) {
  long double sum = 0;
  for (hr::index_t r = 0; r < a.rows(); ++r)
    for (hr::index_t c = 0; c < a.cols(); ++c) sum += static_cast<long double>(a(r, c)) * b(r, c);
  return static_cast<double>(sum);
}

/// f(backend) gives a matrix: the same bits with 1, 2 and 3 threads.
template <class F>
void check_threads(const F& f) {
  hr::cpu one{{.threads = 1}}, two{{.threads = 2}}, three{{.threads = 3}};
  const auto expected = f(one);
  CHECK(expected.same_bits(f(two)));
  CHECK(expected.same_bits(f(three)));
}

inline constexpr hr::index_t widths[] = {1, 3, 17, 64};

}  // namespace op_test
