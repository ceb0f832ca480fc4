// Products of matrices whose entries are sums of two doubles, from plain products of doubles.
#pragma once

#include <algorithm>
#include <cmath>

#include <headred/numeric/double_double.hpp>
#include <headred/simd/pack.hpp>

namespace headred::detail {

/// A matrix high + low, row-major; low may be null for a matrix of doubles.
struct wide_matrix {
  double* high;
  double* low;
};

template <int Rows, int Packs>
HEADRED_INLINE void multiply_tile(const double* a, index_t row_step, index_t inner_step, const double* b, index_t inner,
                                  index_t columns, double* c, bool add) {
  constexpr int lanes = native_lanes<double>;
  using vec = pack<double, lanes>;
  vec sum[Rows][Packs]{};
  for (index_t k = 0; k < inner; ++k) {
    vec right[Packs];
    for (int p = 0; p < Packs; ++p) right[p] = load<vec>(b + k * columns + p * lanes);
    for (int r = 0; r < Rows; ++r) {
      const double left = a[r * row_step + k * inner_step];
      for (int p = 0; p < Packs; ++p) sum[r][p] += left * right[p];
    }
  }
  for (int r = 0; r < Rows; ++r)
    for (int p = 0; p < Packs; ++p) {
      double* to = c + r * columns + p * lanes;
      store(to, add ? load<vec>(to) + sum[r][p] : sum[r][p]);
    }
}

/// c (rows, columns) = a b, or c += a b; a's entry (i,k) is a[i * row_step + k * inner_step], b (inner, columns) row-major.
inline void multiply(const double* a, index_t row_step, index_t inner_step, const double* b, index_t rows,
                     index_t inner, index_t columns, double* c, bool add) {
  constexpr index_t lanes = native_lanes<double>;
  const auto strip = [&]<int Rows>(index_t i) {
    const double* from = a + i * row_step;
    double* to = c + i * columns;
    index_t j = 0;
    for (; j + 2 * lanes <= columns; j += 2 * lanes)
      multiply_tile<Rows, 2>(from, row_step, inner_step, b + j, inner, columns, to + j, add);
    for (; j + lanes <= columns; j += lanes)
      multiply_tile<Rows, 1>(from, row_step, inner_step, b + j, inner, columns, to + j, add);
    for (; j < columns; ++j)
      for (int r = 0; r < Rows; ++r) {
        double sum = 0;
        for (index_t k = 0; k < inner; ++k) sum += from[r * row_step + k * inner_step] * b[k * columns + j];
        to[r * columns + j] = add ? to[r * columns + j] + sum : sum;
      }
  };
  index_t i = 0;
  for (; i + 4 <= rows; i += 4) strip.template operator()<4>(i);
  for (; i < rows; ++i) strip.template operator()<1>(i);
}

/// Cuts x into a head of `bits` bits below the largest entry and the rest, low included: x + low = head + rest.
inline void split_entries(const wide_matrix& x, index_t size, int bits, double* head, double* rest) {
  double largest = 0;
  for (index_t i = 0; i < size; ++i) largest = std::max(largest, std::abs(x.high[i]));
  int exponent = 0;
  std::frexp(largest, &exponent);
  const double round =
      std::ldexp(1.5, 52 + std::max(exponent - bits, -1000));  // adding it rounds to the head's last bit
  for (index_t i = 0; i < size; ++i) {
    head[i] = (x.high[i] + round) - round;
    rest[i] = (x.high[i] - head[i]) + (x.low != nullptr ? x.low[i] : 0);
  }
}

/// c = a b, or a^T b with a stored (inner, rows): the heads' product is exact in doubles, since their bits and those of
/// the number of terms fit 53, and the rest is smaller by 2^-23. Error about 2^-75 inner max|a| max|b|. b (inner, columns);
/// c.low must not be null; scratch: 2 inner (rows + columns). Three products of doubles. Ozaki, Ogita, Oishi and Rump (2012).
inline void split_product(const wide_matrix& a, bool transposed, const wide_matrix& b, index_t rows, index_t inner,
                          index_t columns, const wide_matrix& c, double* scratch) {
  int length = 0;
  while ((index_t{1} << length) < inner) ++length;
  const int bits = (53 - length) / 2;
  double* head_a = scratch;
  double* rest_a = head_a + rows * inner;
  double* head_b = rest_a + rows * inner;
  double* rest_b = head_b + inner * columns;
  split_entries(a, rows * inner, bits, head_a, rest_a);
  split_entries(b, inner * columns, bits, head_b, rest_b);
  const index_t row_step = transposed ? 1 : inner, inner_step = transposed ? rows : 1;
  multiply(head_a, row_step, inner_step, head_b, rows, inner, columns, c.high, false);
  multiply(head_a, row_step, inner_step, rest_b, rows, inner, columns, c.low, false);
  multiply(rest_a, row_step, inner_step, b.high, rows, inner, columns, c.low, true);
  for (index_t i = 0; i < rows * columns; ++i) {
    const double_double sum = two_sum(c.high[i], c.low[i]);
    c.high[i] = sum.high;
    c.low[i] = sum.low;
  }
}

/// y (rows, n) += y h for a small h (n,n) of doubles. scratch: rows n.
inline void add_correction(const wide_matrix& y, const double* h, index_t rows, index_t n, double* scratch) {
  multiply(y.high, n, 1, h, rows, n, n, scratch, false);
  for (index_t i = 0; i < rows * n; ++i) {
    const double_double sum = two_sum(y.high[i], scratch[i] + y.low[i]);
    y.high[i] = sum.high;
    y.low[i] = sum.low;
  }
}

}  // namespace headred::detail
