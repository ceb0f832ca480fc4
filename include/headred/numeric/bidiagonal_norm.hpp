// The sum of the singular values of a bidiagonal matrix, without an iteration.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include <headred/simd/pack.hpp>

namespace headred::detail {

/// sqrt(x) = sum_k weight_k x / (x + pole_k) on [least, 1]: relative error about exp(-2 pi^2 n / ln(16/least)), absolute
/// error below sqrt(least) for smaller x. Poles and weights of Hale, Higham and Trefethen (2008, method 3), whose
/// elliptic functions are hyperbolic to within sqrt(least) for the lower half and mirror images of it for the upper.
template <int Count>
struct sqrt_poles {
  std::array<double, Count> pole, weight;

  explicit sqrt_poles(double least) {
    constexpr double pi = 3.14159265358979323846;
    const double root = std::sqrt(least), period = std::log(4 / root), scale = 2 * period / (pi * Count);
    for (int j = 0; j < Count / 2; ++j) {
      const double y = (j + .5) * period / Count, sinh = std::sinh(y), cosh = std::cosh(y);
      const auto low = static_cast<std::size_t>(j), high = static_cast<std::size_t>(Count - 1 - j);
      pole[low] = least * sinh * sinh;
      weight[low] = scale * root * cosh;
      pole[high] = 1 / (sinh * sinh);
      weight[high] = scale * cosh / (sinh * sinh);
    }
  }

  /// For singular values computed in T: 1e-13 of the largest in double, 1e-9 in float.
  static const sqrt_poles& shared(double least) {
    static const sqrt_poles poles(least);
    return poles;
  }
};

/// Sum of the singular values of the upper bidiagonal n x n matrix with squared diagonal `diagonal2[0..n)` and squared
/// superdiagonal `above2[0..n-1)`: with T = B^T B / M, M >= |B|^2, it is sqrt(M) sum_k weight_k tr(T (T + pole_k)^-1),
/// and each trace comes from the derivative of log det(T + pole), a recurrence of positive terms.
/// Cost: n Count / lanes divisions. Zero for a zero matrix.
template <int Count, int Lanes = native_lanes<double>>
double bidiagonal_norm(const double* diagonal2, const double* above2, index_t n, double least) {
  static_assert(Count % Lanes == 0);
  using vec = pack<double, Lanes>;
  double row = 0, column = 0, before = 0;
  for (index_t i = 0; i < n; ++i) {
    const double d = std::sqrt(diagonal2[i]), e = i + 1 < n ? std::sqrt(above2[i]) : 0;
    row = std::max(row, d + e);
    column = std::max(column, d + before);
    before = e;
  }
  const double bound = std::max(row, column);
  if (!(bound > 0)) return 0;
  const double unit = 1 / (bound * bound);

  const sqrt_poles<Count>& poles = sqrt_poles<Count>::shared(least);
  constexpr int packs = Count / Lanes;
  vec s[packs], ds[packs], trace[packs];
  for (int c = 0; c < packs; ++c) {
    s[c] = load<vec>(poles.pole.data() + c * Lanes);
    ds[c] = broadcast<vec>(1.);
    trace[c] = vec{};
  }
  for (index_t i = 0; i < n; ++i) {
    const double q = diagonal2[i] * unit, e = i + 1 < n ? above2[i] * unit : 0;
    for (int c = 0; c < packs; ++c) {
      const vec pole = load<vec>(poles.pole.data() + c * Lanes);
      const vec r = 1. / (s[c] + q);
      trace[c] += 1. - pole * ds[c] * r;
      ds[c] = 1. + e * q * ds[c] * r * r;
      s[c] = pole + e * s[c] * r;
    }
  }
  double sum = 0;
  for (int c = 0; c < packs; ++c) {
    const vec term = load<vec>(poles.weight.data() + c * Lanes) * trace[c];
    for (int l = 0; l < Lanes; ++l) sum += term[l];
  }
  return bound * sum;
}

}  // namespace headred::detail
