// layer_norm: each row moved to mean 0 and deviation 1, then scaled and shifted.
#pragma once

#include <cmath>
#include <string>
#include <type_traits>

#include <headred/core/number_text.hpp>
#include <headred/nn/op/checked_matrix.hpp>
#include <headred/nn/op/layer_norm_relevance.hpp>
#include <headred/nn/op/row_loops.hpp>
#include <headred/nn/parameter.hpp>
#include <headred/nn/tape.hpp>

namespace headred {

namespace detail {

template <class T>
struct row_moments {
  T first;              ///< mean as the first pass found it
  T rest;               ///< what the second pass adds to it
  T inverse_deviation;  ///< 0 where the row is constant and epsilon is 0
};

/// Mean and variance in two passes. The first measures from the row's first entry, so that the variance of a constant
/// row is exactly 0; the second measures from the mean of the first and corrects it as well.
template <class T>
HEADRED_INLINE row_moments<T> moments_of(const T* x, index_t n, T epsilon) {
  constexpr int lanes = native_lanes<T>;
  using vec = pack<T, lanes>;
  const T count = static_cast<T>(std::max<index_t>(1, n));
  const T origin = n > 0 ? x[0] : T(0);
  vec sum{}, sum2{};
  index_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    sum += load<vec>(x + i) - origin;
    sum2 += load<vec>(x + i + lanes) - origin;
  }
  for (; i + lanes <= n; i += lanes) sum += load<vec>(x + i) - origin;
  const index_t whole = i;
  if (whole < n) sum2 += load_part<vec>(x + whole, n - whole, origin) - origin;
  const T first = origin + lane_total<T, lanes>(sum + sum2) / count;
  vec deviation{}, square{};
  for (i = 0; i < whole; i += lanes) {
    const vec d = load<vec>(x + i) - first;
    deviation += d;
    square += d * d;
  }
  if (whole < n) {
    const vec d = load_part<vec>(x + whole, n - whole, first) - first;
    deviation += d;
    square += d * d;
  }
  const T rest = lane_total<T, lanes>(deviation) / count;
  const T variance = lane_total<T, lanes>(square) / count - rest * rest;
  const T spread = (variance < T(0) ? T(0) : variance) + epsilon;
  return {first, rest, spread == T(0) ? T(0) : T(1) / std::sqrt(spread)};
}

/// dx += inverse_deviation (g - mean(g) - x' mean(g x')), g = dy scale, x' the normalised row.
template <class T>
HEADRED_INLINE void layer_norm_gradient_row(const T* x, const T* scale, T mean, T inverse, const T* dy, T* dx,
                                            index_t n) {
  constexpr int lanes = native_lanes<T>;
  using vec = pack<T, lanes>;
  vec sum{}, product{};
  const auto add = [&](const vec& g, const vec& d) {
    sum += g;
    product += g * d;
  };
  index_t i = 0;
  for (; i + lanes <= n; i += lanes) add(load<vec>(dy + i) * load<vec>(scale + i), load<vec>(x + i) - mean);
  if (i < n)
    add(load_part<vec>(dy + i, n - i, T(0)) * load_part<vec>(scale + i, n - i, T(0)),
        load_part<vec>(x + i, n - i, mean) - mean);
  const T count = static_cast<T>(std::max<index_t>(1, n));
  const T mean_g = lane_total<T, lanes>(sum) / count;
  const T slope = lane_total<T, lanes>(product) / count * inverse * inverse;
  map_row(
      n, dx,
      [=](const vec& before, const vec& a, const vec& b, const vec& c) {
        return before + inverse * (b * c - mean_g - (a - mean) * slope);
      },
      static_cast<const T*>(dx), x, dy, scale);
}

/// dscale[c] += sum_r dy (x - mean_r) inverse_r and dshift[c] += sum_r dy for Packs packs of columns, or for the n
/// columns of one ragged pack. Rows are summed in groups, so that long batches lose no digits.
template <int Packs, bool Ragged, class T>
void layer_norm_column_sums(const tensor_view<const T, 2>& x, const T* mean, const T* inverse,
                            const tensor_view<const T, 2>& dy, index_t column, index_t n, T* dscale, T* dshift) {
  constexpr int lanes = native_lanes<T>;
  constexpr index_t group = 32;
  using vec = pack<T, lanes>;
  static_assert(!Ragged || Packs == 1);
  const auto read = [&](const T* from) {
    if constexpr (Ragged)
      return load_part<vec>(from, n, T(0));
    else
      return load<vec>(from);
  };
  vec scale_total[Packs] = {}, shift_total[Packs] = {};
  const index_t rows = x.extent(0);
  for (index_t begin = 0; begin < rows; begin += group) {
    vec scale_sum[Packs] = {}, shift_sum[Packs] = {};
    for (index_t r = begin; r < std::min(rows, begin + group); ++r)
      for (int p = 0; p < Packs; ++p) {
        const vec g = read(dy.data() + r * dy.stride(0) + column + p * lanes);
        const vec a = (read(x.data() + r * x.stride(0) + column + p * lanes) - mean[r]) * inverse[r];
        scale_sum[p] += g * a;
        shift_sum[p] += g;
      }
    for (int p = 0; p < Packs; ++p) {
      scale_total[p] += scale_sum[p];
      shift_total[p] += shift_sum[p];
    }
  }
  const auto write = [&](T* to, const vec& total) {
    if constexpr (Ragged)
      store_part(to, read(to) + total, n);
    else
      store(to, read(to) + total);
  };
  for (int p = 0; p < Packs; ++p) {
    if (dscale != nullptr) write(dscale + column + p * lanes, scale_total[p]);
    if (dshift != nullptr) write(dshift + column + p * lanes, shift_total[p]);
  }
}

}  // namespace detail

/// y = (x - mean) / sqrt(variance + epsilon) * scale + shift on each row, variance = mean of (x - mean)^2.
/// x, y : (R,D), y may be x; scale, shift : (D); mean, inverse_deviation : (R) for layer_norm_gradient, or empty.
/// A constant row gives shift, with epsilon 0 too. Throws shape_error, argument_error for epsilon < 0 or NaN.
/// Source: Ba et al. 2016, equation 4.
template <class T, host_backend Backend>
void layer_norm_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2>> x,
                        std::type_identity_t<tensor_view<const T, 1>> scale,
                        std::type_identity_t<tensor_view<const T, 1>> shift, std::type_identity_t<T> epsilon,
                        tensor_view<T, 2> y, std::type_identity_t<tensor_view<T, 1>> mean,
                        std::type_identity_t<tensor_view<T, 1>> inverse_deviation) {
  const index_t rows = x.extent(0), cols = x.extent(1);
  detail::require_matrix("layer_norm_forward", "x", x, rows, cols);
  detail::require_vector("layer_norm_forward", "scale", scale, cols);
  detail::require_vector("layer_norm_forward", "shift", shift, cols);
  detail::require_matrix("layer_norm_forward", "y", y, rows, cols);
  if (mean.data() != nullptr) detail::require_vector("layer_norm_forward", "mean", mean, rows);
  if (inverse_deviation.data() != nullptr)
    detail::require_vector("layer_norm_forward", "inverse_deviation", inverse_deviation, rows);
  if (!(epsilon >= T(0)))
    throw argument_error("layer_norm: epsilon is " + number_text(static_cast<double>(epsilon)) +
                         ", expected a number >= 0");
  detail::for_row_blocks(be, rows, cols, [&](index_t begin, index_t end) {
    using vec = detail::pack<T, native_lanes<T>>;
    for (index_t r = begin; r < end; ++r) {
      const T* const from = x.data() + r * x.stride(0);
      const auto m = detail::moments_of(from, cols, epsilon);
      if (mean.data() != nullptr) mean.data()[r] = m.first + m.rest;
      if (inverse_deviation.data() != nullptr) inverse_deviation.data()[r] = m.inverse_deviation;
      detail::map_row(
          cols, y.data() + r * y.stride(0),
          [&m](const vec& a, const vec& b, const vec& c) {
            return ((a - m.first) - m.rest) * m.inverse_deviation * b + c;
          },
          from, scale.data(), shift.data());
    }
  });
}

/// dx, dscale and dshift += what dy, the gradient of layer_norm_forward's y, gives them; an empty view is not wanted.
/// mean and inverse_deviation as layer_norm_forward left them. Throws shape_error.
template <class T, host_backend Backend>
void layer_norm_gradient(Backend& be, std::type_identity_t<tensor_view<const T, 2>> x,
                         std::type_identity_t<tensor_view<const T, 1>> scale,
                         std::type_identity_t<tensor_view<const T, 1>> mean,
                         std::type_identity_t<tensor_view<const T, 1>> inverse_deviation,
                         std::type_identity_t<tensor_view<const T, 2>> dy, tensor_view<T, 2> dx,
                         std::type_identity_t<tensor_view<T, 1>> dscale,
                         std::type_identity_t<tensor_view<T, 1>> dshift) {
  const index_t rows = x.extent(0), cols = x.extent(1);
  detail::require_matrix("layer_norm_gradient", "x", x, rows, cols);
  detail::require_vector("layer_norm_gradient", "scale", scale, cols);
  detail::require_vector("layer_norm_gradient", "mean", mean, rows);
  detail::require_vector("layer_norm_gradient", "inverse_deviation", inverse_deviation, rows);
  detail::require_matrix("layer_norm_gradient", "dy", dy, rows, cols);
  if (dx.data() != nullptr) {
    detail::require_matrix("layer_norm_gradient", "dx", dx, rows, cols);
    detail::for_row_blocks(be, rows, cols, [&](index_t begin, index_t end) {
      for (index_t r = begin; r < end; ++r)
        detail::layer_norm_gradient_row(x.data() + r * x.stride(0), scale.data(), mean.data()[r],
                                        inverse_deviation.data()[r], dy.data() + r * dy.stride(0),
                                        dx.data() + r * dx.stride(0), cols);
    });
  }
  if (dscale.data() == nullptr && dshift.data() == nullptr) return;
  if (dscale.data() != nullptr) detail::require_vector("layer_norm_gradient", "dscale", dscale, cols);
  if (dshift.data() != nullptr) detail::require_vector("layer_norm_gradient", "dshift", dshift, cols);
  detail::for_column_strips(be, cols, [&](index_t begin, index_t end) {
    constexpr index_t lanes = native_lanes<T>;
    const T* const m = mean.data();
    const T* const inverse = inverse_deviation.data();
    index_t c = begin;
    for (; c + 4 * lanes <= end; c += 4 * lanes)
      detail::layer_norm_column_sums<4, false>(x, m, inverse, dy, c, lanes, dscale.data(), dshift.data());
    for (; c + lanes <= end; c += lanes)
      detail::layer_norm_column_sums<1, false>(x, m, inverse, dy, c, lanes, dscale.data(), dshift.data());
    if (c < end) detail::layer_norm_column_sums<1, true>(x, m, inverse, dy, c, end - c, dscale.data(), dshift.data());
  });
}

namespace detail {

template <class T, backend Backend>
struct layer_norm_node {
  static constexpr const char* name = "layer_norm";
  static constexpr bool relevance_by_sweep = true;
  slot x, y;
  parameter<T, 1, Backend>*scale, *shift;
  T *mean, *inverse_deviation;
  void gradient(tape<T, Backend>& t) const {
    if (!t.has_gradient(y)) return;
    const index_t rows = t.rows(x);
    layer_norm_gradient<T>(t.backend(), t.input(x), scale->value.view(), {mean, {rows}}, {inverse_deviation, {rows}},
                           t.gradient(y), t.gradient(x), scale->gradient.view(), shift->gradient.view());
  }
  void relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s) const {
    layer_norm_node_relevance(t, s, x, y, *scale, *shift, mean, inverse_deviation);
  }
};

}  // namespace detail

/// layer_norm of an activation; scale and shift : (D), which must outlive the recording.
template <class T, host_backend Backend>
slot layer_norm(tape<T, Backend>& t, slot x, parameter<T, 1, Backend>& scale, parameter<T, 1, Backend>& shift,
                std::type_identity_t<T> epsilon) {
  const index_t rows = t.rows(x);
  const slot y = t.add_like(x, t.cols(x));
  T* const mean = t.recording() ? t.keep(rows) : nullptr;
  T* const inverse_deviation = t.recording() ? t.keep(rows) : nullptr;
  layer_norm_forward<T>(t.backend(), t.input(x), std::as_const(scale.value).view(), std::as_const(shift.value).view(),
                        epsilon, t.value(y), {mean, {rows}}, {inverse_deviation, {rows}});
  t.record(detail::layer_norm_node<T, Backend>{x, y, &scale, &shift, mean, inverse_deviation});
  return y;
}

}  // namespace headred
