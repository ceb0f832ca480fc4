// Relevance through the normalisation of rows on the device.
#pragma once

#include <headred/device/relevance_terms.hpp>

namespace headred::device {
namespace detail {

/// Contributions z_oi = shift_o / n + scale_o inverse x_i ([o = i] - (1 + x'_o x'_i) / n), x' the normalised row.
template <class T>
struct layer_norm_row {
  tensor_view<const T, 2, device_space> x;
  tensor_view<const T, 1, device_space> scale, shift, mean, inverse_deviation;
  bool spread;

  HEADRED_FUNCTION T normal(index_t r, index_t i) const { return (x(r, i) - mean(r)) * inverse_deviation(r); }
  /// What all contributions to output o have in common.
  struct output {
    T share, even, slope, own;
    HEADRED_FUNCTION T contribution(T u, T v, bool same) const {
      return share + even * u + slope * v + (same ? own : T(0));
    }
  };
  HEADRED_FUNCTION output at(index_t r, index_t o) const {
    const T count = static_cast<T>(x.extent(1)), by = scale(o) * inverse_deviation(r);
    return {spread ? shift(o) / count : T(0), -by / count, -by * normal(r, o) / count, by * x(r, o)};
  }
};

/// A thread for each output of a row: its sums by sign become factors.
template <class T>
struct layer_norm_sign_factors : row_kernel<T> {
  layer_norm_row<T> from;
  tensor_view<const T, 2, device_space> relevance;
  rule_numbers<T> rule;
  T *plus, *minus, *terms;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, typename row_kernel<T>::template shared<Block>& memory) const {
    const index_t r = block.block(), cols = relevance.extent(1);
    T mine = T(0);
    const T kept = this->fold(
        block, memory, cols, T(0),
        [&](index_t o) {
          const auto output = from.at(r, o);
          const T apart = from.spread ? T(0) : from.shift(o), positive = T(0) < apart ? apart : T(0);
          T up = positive, down = apart - positive;
          for (index_t i = 0; i < cols; ++i) {
            const T u = from.x(r, i), z = output.contribution(u, u * from.normal(r, i), i == o);
            up += T(0) < z ? z : T(0);
            down += T(0) < z ? T(0) : z;
          }
          rule.turn(relevance(r, o), up, down, mine);
          plus[r * cols + o] = up;
          minus[r * cols + o] = down;
          return up * positive + down * (apart - positive);
        },
        headred::detail::add{});
    const T lost = this->total(block, memory, mine);
    if (block.thread() != 0) return;
    terms[3 * r] = kept;
    terms[3 * r + 1] = lost;
    terms[3 * r + 2] = T(0);
  }
};

/// to_i = sum_o f_o z_oi, f the factor of z's sign.
template <class T>
struct layer_norm_sign_entry {
  layer_norm_row<T> from;
  const T *plus, *minus;
  tensor_view<T, 2, device_space> to;
  HEADRED_FUNCTION void operator()(index_t at) const {
    const index_t cols = to.extent(1);
    const auto [r, i] = matrix_place::of(at, cols);
    const T u = from.x(r, i), v = u * from.normal(r, i);
    T sum = T(0);
    for (index_t o = 0; o < cols; ++o) {
      const T above = plus[r * cols + o], below = minus[r * cols + o];
      if (above == T(0) && below == T(0)) continue;  // no relevance: whatever the row is, nothing arrives
      const T z = from.at(r, o).contribution(u, v, i == o);
      sum += (T(0) < z ? above : below) * z;
    }
    to(r, i) = sum;
  }
};

/// By sums: R_i = shift . f / n + x_i (J^T f)_i with f = R / (s + eps sgn s), s = shift + J x.
template <class T>
struct layer_norm_sum_kernel : row_kernel<T> {
  layer_norm_row<T> from;
  tensor_view<const T, 2, device_space> relevance;
  rule_numbers<T> rule;
  tensor_view<T, 2, device_space> to;
  T* terms;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, typename row_kernel<T>::template shared<Block>& memory) const {
    const index_t r = block.block(), cols = relevance.extent(1);
    const T count = static_cast<T>(cols), inverse = from.inverse_deviation(r), mean = from.mean(r);
    const auto sum_of = [&](const auto& f) { return this->fold(block, memory, cols, T(0), f, headred::detail::add{}); };
    const T along = sum_of([&](index_t o) { return from.x(r, o) * from.normal(r, o); }) / count;
    T mine = T(0), product_part = T(0), share_part = T(0);
    const T sum = sum_of([&](index_t o) {
      const T centred = from.x(r, o) - mean;
      const T s = from.shift(o) + from.scale(o) * inverse * (centred - centred * inverse * along);
      const T f = rule.of_sum(relevance(r, o), s, mine), g = f * from.scale(o);
      to(r, o) = g;
      product_part += g * from.normal(r, o);
      share_part += f * from.shift(o);
      return g;
    });
    const T product = this->total(block, memory, product_part), share = this->total(block, memory, share_part),
            lost = this->total(block, memory, mine);
    // no relevance hands nothing on, whatever the row holds
    const bool any = sum_of([&](index_t o) { return relevance(r, o) == T(0) ? T(0) : T(1); }) > T(0);
    for (index_t i = block.thread(); i < cols; i += row_kernel<T>::threads)
      to(r, i) = any ? (from.spread ? share / count : T(0)) +
                           from.x(r, i) * inverse * (to(r, i) - (sum + from.normal(r, i) * product) / count)
                     : T(0);
    if (block.thread() != 0) return;
    terms[3 * r] = from.spread ? T(0) : share;
    terms[3 * r + 1] = lost;
    terms[3 * r + 2] = T(0);
  }
};

}  // namespace detail

/// relevance_in = what the rule hands to x, not rescaled.
/// Contributions by the true Jacobian J at x: z_oi = shift_o / D + J_oi x_i; identity and attn take relevance_out as it
/// is. J x ~ 0, so that epsilon divides by what is left of the shift: it is ill-conditioned here.
/// Shapes as in layer_norm_forward, which left mean and inverse_deviation : (R); relevance_in : (R,D), overwritten;
/// terms as in linear_relevance. Scratch memory R (2 D + 3) T of the workspace. Throws shape_error.
/// Cost: R D^2 by sign, R D otherwise.
template <class T, device_backend Backend, relevance_policy Rule>
void layer_norm_relevance(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> x,
                          std::type_identity_t<tensor_view<const T, 1, device_space>> scale,
                          std::type_identity_t<tensor_view<const T, 1, device_space>> shift,
                          std::type_identity_t<tensor_view<const T, 1, device_space>> mean,
                          std::type_identity_t<tensor_view<const T, 1, device_space>> inverse_deviation,
                          const Rule& rule, std::type_identity_t<tensor_view<const T, 2, device_space>> relevance_out,
                          tensor_view<T, 2, device_space> relevance_in,
                          std::type_identity_t<tensor_view<double, 1, device_space>> terms = {}) {
  const char* const op = "layer_norm_relevance";
  const index_t rows = x.extent(0), cols = x.extent(1);
  detail::require_shape(op, "scale", scale, {cols});
  detail::require_shape(op, "shift", shift, {cols});
  detail::require_shape(op, "mean", mean, {rows});
  detail::require_shape(op, "inverse_deviation", inverse_deviation, {rows});
  detail::require_shape(op, "relevance_out", relevance_out, {rows, cols});
  detail::require_shape(op, "relevance_in", relevance_in, {rows, cols});
  detail::require_terms(op, terms);
  if constexpr (detail::is_identity<Rule> || detail::is_attn<Rule>) {
    detail::map_entries<detail::as_it_is, T>(op, be, relevance_out, relevance_in);
    detail::sum_terms<T>(be, nullptr, 0, terms);
  } else {
    const detail::layer_norm_row<T> from{x, scale, shift, mean, inverse_deviation, detail::spreads_bias(rule)};
    const auto numbers = detail::rule_numbers<T>::of(rule);
    T* const of_rows = static_cast<T*>(be.workspace(static_cast<std::size_t>(rows * (2 * cols + 3)) * sizeof(T)));
    if constexpr (detail::by_sign<Rule>) {
      T *const plus = of_rows + 3 * rows, *const minus = plus + rows * cols;
      be.launch(rows, detail::layer_norm_sign_factors<T>{{}, from, relevance_out, numbers, plus, minus, of_rows});
      be.for_each(relevance_in.size(), detail::layer_norm_sign_entry<T>{from, plus, minus, relevance_in});
    } else {
      be.launch(rows, detail::layer_norm_sum_kernel<T>{{}, from, relevance_out, numbers, relevance_in, of_rows});
    }
    detail::sum_terms(be, of_rows, rows, terms);
  }
}

}  // namespace headred::device
