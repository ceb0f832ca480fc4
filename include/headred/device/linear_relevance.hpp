// Relevance through y = x W^T + b on the device.
#pragma once

#include <headred/device/linear.hpp>
#include <headred/device/relevance_terms.hpp>
#include <headred/device/signed_tiles.hpp>

namespace headred::device {
namespace detail {

/// Factors of a row's outputs by their sums.
template <class T>
struct linear_sum_factors : row_kernel<T> {
  tensor_view<const T, 2, device_space> y, relevance;
  tensor_view<const T, 1, device_space> bias;
  rule_numbers<T> rule;
  T part;  // of what the biases get that each input gets; 0: they keep it
  T *factors, *shares, *terms;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, typename row_kernel<T>::template shared<Block>& memory) const {
    const index_t r = block.block(), out = y.extent(1);
    T mine = T(0);
    const T to_bias = this->fold(
        block, memory, out, T(0),
        [&](index_t o) {
          const T f = factors[r * out + o] = rule.of_sum(relevance(r, o), y(r, o), mine);
          return bias.data() == nullptr ? T(0) : f * bias(o);
        },
        headred::detail::add{});
    const T lost = this->total(block, memory, mine);
    if (block.thread() != 0) return;
    shares[r] = to_bias * part;
    terms[3 * r] = part > T(0) ? T(0) : to_bias;
    terms[3 * r + 1] = lost;
    terms[3 * r + 2] = T(0);
  }
};

/// to = to x + share of the row.
template <class T>
struct linear_sum_entry {
  tensor_view<const T, 2, device_space> x;
  const T* shares;
  tensor_view<T, 2, device_space> to;
  HEADRED_FUNCTION void operator()(index_t at) const {
    const auto [r, i] = matrix_place::of(at, to.extent(1));
    to(r, i) = to(r, i) * x(r, i) + shares[r];
  }
};

/// Sums by sign of a row's outputs become factors, in place. own: biases that keep their share, or empty.
template <class T>
struct linear_sign_factors : row_kernel<T> {
  tensor_view<const T, 2, device_space> relevance;
  tensor_view<const T, 1, device_space> own;
  rule_numbers<T> rule;
  T *plus, *minus, *active, *terms;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, typename row_kernel<T>::template shared<Block>& memory) const {
    const index_t r = block.block(), out = relevance.extent(1);
    T mine = T(0), some = T(0);
    const T kept = this->fold(
        block, memory, out, T(0),
        [&](index_t o) {
          const T apart = own.data() == nullptr ? T(0) : own(o), positive = T(0) < apart ? apart : T(0);
          T &up = plus[r * out + o], &down = minus[r * out + o];
          up += positive;
          down += apart - positive;
          rule.turn(relevance(r, o), up, down, mine);
          some = relevance(r, o) == T(0) ? some : T(1);
          return up * positive + down * (apart - positive);
        },
        headred::detail::add{});
    const T lost = this->total(block, memory, mine), any = this->total(block, memory, some);
    if (block.thread() != 0) return;
    active[r] = any;
    terms[3 * r] = kept;
    terms[3 * r + 1] = lost;
    terms[3 * r + 2] = T(0);
  }
};

}  // namespace detail

/// relevance_in = what the rule hands to x, not rescaled: contributions z_oi = w_oi x_i + b_o / I, or z_oi = w_oi x_i
/// where the rule absorbs biases.
/// x : (R,I), weight : (O,I), bias : (O) or empty, y : (R,O) as linear_forward left it, relevance_out : (R,O),
/// relevance_in : (R,I), overwritten; terms : (3) on the device or empty, what is not handed on: to biases, to the
/// stabiliser or one sign, and 0. A row of relevance 0 gives 0 by sign, whatever x is.
/// Scratch memory R (O + 4) T of the workspace, by sign R (2 O + 4) T. Throws shape_error; argument_error for identity.
/// Cost: one product by sums; by sign 8 R I O operations in two passes over all contributions, none of which is stored.
/// Source: Bach et al. 2015; Voita et al. 2019, section 4.
template <class T, device_backend Backend, relevance_policy Rule>
void linear_relevance(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> x,
                      std::type_identity_t<tensor_view<const T, 2, device_space>> weight,
                      std::type_identity_t<tensor_view<const T, 1, device_space>> bias,
                      std::type_identity_t<tensor_view<const T, 2, device_space>> y, const Rule& rule,
                      std::type_identity_t<tensor_view<const T, 2, device_space>> relevance_out,
                      tensor_view<T, 2, device_space> relevance_in,
                      std::type_identity_t<tensor_view<double, 1, device_space>> terms = {}) {
  const char* const op = "linear_relevance";
  const index_t rows = x.extent(0), in = x.extent(1), out = weight.extent(0);
  detail::require_shape(op, "weight", weight, {out, in});
  detail::require_shape(op, "y", y, {rows, out});
  detail::require_shape(op, "relevance_out", relevance_out, {rows, out});
  detail::require_shape(op, "relevance_in", relevance_in, {rows, in});
  if (bias.data() != nullptr) detail::require_shape(op, "bias", bias, {out});
  detail::require_terms(op, terms);
  detail::refuse_identity<Rule>("linear");
  if constexpr (!detail::is_identity<Rule>) {
    const bool spread = detail::spreads_bias(rule) && in > 0;
    const auto numbers = detail::rule_numbers<T>::of(rule);
    const T part = spread ? T(1) / static_cast<T>(in) : T(0);
    const index_t scratch = rows * ((detail::by_sign<Rule> ? 2 : 1) * out + 4);
    T* const first = static_cast<T*>(be.workspace(static_cast<std::size_t>(scratch) * sizeof(T)));
    T *const of_rows = first + rows, *const factors = of_rows + 3 * rows;
    if constexpr (detail::by_sign<Rule>) {
      using sums = detail::signed_sums_kernel<T>;
      using contraction = detail::signed_contraction_kernel<T>;
      const tensor_view<const T, 1, device_space> none, spread_bias = spread ? bias : none, own = spread ? none : bias;
      T* const minus = factors + rows * out;
      be.launch(sums::tiles(rows, sums::rows) * sums::tiles(out, sums::across),
                sums{{}, x, weight, spread_bias, part, factors, minus});
      be.launch(rows, detail::linear_sign_factors<T>{{}, relevance_out, own, numbers, factors, minus, first, of_rows});
      be.launch(
          sums::tiles(rows, sums::rows) * sums::tiles(in, sums::across),
          contraction{
              {}, x, weight, spread_bias, part, {factors, {rows, out}}, {minus, {rows, out}}, first, relevance_in});
    } else {
      be.launch(rows,
                detail::linear_sum_factors<T>{{}, y, relevance_out, bias, numbers, part, factors, first, of_rows});
      detail::multiply<T>(be, {factors, {rows, out}}, weight, T(0), relevance_in);
      be.for_each(relevance_in.size(), detail::linear_sum_entry<T>{x, first, relevance_in});
    }
    detail::sum_terms(be, of_rows, rows, terms);
  }
}

}  // namespace headred::device
