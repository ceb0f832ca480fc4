// softmax: each row becomes a distribution.
#pragma once

#include <limits>
#include <type_traits>

#include <headred/nn/op/checked_matrix.hpp>
#include <headred/nn/op/row_loops.hpp>
#include <headred/nn/relevance_sweep.hpp>
#include <headred/numeric/exponential.hpp>

namespace headred {

namespace detail {

/// The greatest of x[0..n), -infinity for n = 0.
template <class T>
HEADRED_INLINE T greatest(const T* x, index_t n) {
  constexpr int lanes = native_lanes<T>;
  using vec = pack<T, lanes>;
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  vec most = broadcast<vec>(lowest);
  index_t i = 0;
  for (; i + lanes <= n; i += lanes) most = fold_greater{}(most, load<vec>(x + i));
  if (i < n) most = fold_greater{}(most, load_part<vec>(x + i, n - i, lowest));
  return greatest_lane<T, lanes>(most);
}

/// x *= factor.
template <class T>
HEADRED_INLINE void scale_row(T* x, index_t n, T factor) {
  map_row(
      n, x, [factor](const auto& p) { return p * factor; }, static_cast<const T*>(x));
}

/// to = e^(x - shift), which are also summed; `to` may be x. -infinity gives 0.
template <class T>
HEADRED_INLINE T exponentials(const T* x, T* to, index_t n, T shift) {
  constexpr int lanes = native_lanes<T>;
  using vec = pack<T, lanes>;
  vec sum{};
  index_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const vec e = exp_of<lanes>(load<vec>(x + i) - shift);
    store(to + i, e);
    sum += e;
  }
  if (i < n) {
    const vec e = exp_of<lanes>(load_part<vec>(x + i, n - i, -std::numeric_limits<T>::infinity()) - shift);
    store_part(to + i, e, n - i);
    sum += e;
  }
  return lane_total<T, lanes>(sum);
}

/// y = softmax(x) on one contiguous row; y may be x. All entries -infinity give a row of zeros.
template <class T>
HEADRED_INLINE void softmax_row(const T* x, T* y, index_t n) {
  const T most = greatest(x, n);
  if (most == -std::numeric_limits<T>::infinity()) {
    for (index_t i = 0; i < n; ++i) y[i] = T(0);
    return;
  }
  scale_row(y, n, T(1) / exponentials(x, y, n, most));
}

/// dx = y (dy - sum(y dy)), or added to dx; dx may be dy when it is not added to.
template <bool Add, class T>
HEADRED_INLINE void softmax_gradient_row(const T* y, const T* dy, T* dx, index_t n) {
  constexpr int lanes = native_lanes<T>;
  using vec = pack<T, lanes>;
  vec sum{};
  index_t i = 0;
  for (; i + lanes <= n; i += lanes) sum += load<vec>(y + i) * load<vec>(dy + i);
  if (i < n) sum += load_part<vec>(y + i, n - i, T(0)) * load_part<vec>(dy + i, n - i, T(0));
  const T dot = lane_total<T, lanes>(sum);
  if constexpr (Add)
    map_row(
        n, dx, [dot](const auto& d, const auto& p, const auto& g) { return d + p * (g - dot); },
        static_cast<const T*>(dx), y, dy);
  else
    map_row(
        n, dx, [dot](const auto& p, const auto& g) { return p * (g - dot); }, y, dy);
}

}  // namespace detail

/// y_rj = e^x_rj / sum_k e^x_rk, without overflow.
/// x, y : (R,D), y may be x. A row of -infinity gives zeros; NaN or +infinity in a row give NaN there.
/// Throws shape_error.
template <class T, host_backend Backend>
void softmax_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2>> x, tensor_view<T, 2> y) {
  const index_t rows = x.extent(0), cols = x.extent(1);
  detail::require_matrix("softmax_forward", "x", x, rows, cols);
  detail::require_matrix("softmax_forward", "y", y, rows, cols);
  detail::for_row_blocks(be, rows, cols, [&](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r)
      detail::softmax_row(x.data() + r * x.stride(0), y.data() + r * y.stride(0), cols);
  });
}

/// dx_rj += y_rj (dy_rj - sum_k y_rk dy_rk), y what softmax_forward gave; an empty dx is not wanted.
/// Throws shape_error.
template <class T, host_backend Backend>
void softmax_gradient(Backend& be, std::type_identity_t<tensor_view<const T, 2>> y,
                      std::type_identity_t<tensor_view<const T, 2>> dy, tensor_view<T, 2> dx) {
  if (dx.data() == nullptr) return;
  const index_t rows = y.extent(0), cols = y.extent(1);
  detail::require_matrix("softmax_gradient", "y", y, rows, cols);
  detail::require_matrix("softmax_gradient", "dy", dy, rows, cols);
  detail::require_matrix("softmax_gradient", "dx", dx, rows, cols);
  detail::for_row_blocks(be, rows, cols, [&](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r)
      detail::softmax_gradient_row<true>(y.data() + r * y.stride(0), dy.data() + r * dy.stride(0),
                                         dx.data() + r * dx.stride(0), cols);
  });
}

/// relevance_in_rj = x_rj (R_rj - y_rj sum_k R_rk), the rule `attn`; returns what it does not hand on, as nonlinear.
/// All (R,D), relevance_in overwritten. Where y = 0 nothing arrives. Throws shape_error.
/// Source: Achtibat et al. 2024, proposition 3.1.
template <class T, host_backend Backend>
relevance_terms softmax_relevance(Backend& be, std::type_identity_t<tensor_view<const T, 2>> x,
                                  std::type_identity_t<tensor_view<const T, 2>> y,
                                  std::type_identity_t<tensor_view<const T, 2>> relevance_out,
                                  tensor_view<T, 2> relevance_in, relevance_workspace<T>& workspace) {
  const index_t rows = y.extent(0), cols = y.extent(1);
  detail::require_matrix("softmax_relevance", "x", x, rows, cols);
  detail::require_matrix("softmax_relevance", "y", y, rows, cols);
  detail::require_matrix("softmax_relevance", "relevance_out", relevance_out, rows, cols);
  detail::require_matrix("softmax_relevance", "relevance_in", relevance_in, rows, cols);
  double* const terms = workspace.terms(3 * rows);
  detail::for_row_blocks(be, rows, cols, [&](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r) {
      T total = T(0), mean = T(0);
      for (index_t c = 0; c < cols; ++c) {
        total += relevance_out(r, c);
        if (y(r, c) != T(0)) mean += y(r, c) * x(r, c);
      }
      double lost = 0;
      for (index_t c = 0; c < cols; ++c) {
        const T relevance = relevance_out(r, c);
        const bool reached = y(r, c) != T(0);
        relevance_in(r, c) = reached ? x(r, c) * (relevance - y(r, c) * total) : T(0);
        lost += static_cast<double>(reached ? relevance * (T(1) - x(r, c) + mean) : relevance * (T(1) + mean));
      }
      terms[3 * r] = terms[3 * r + 1] = 0;
      terms[3 * r + 2] = lost;
    }
  });
  return detail::total_of(terms, rows);
}

namespace detail {

template <class T, backend Backend>
struct softmax_node {
  static constexpr const char* name = "softmax";
  static constexpr bool relevance_by_sweep = true;
  slot x, y;
  void gradient(tape<T, Backend>& t) const {
    if (!t.has_gradient(y)) return;
    softmax_gradient<T>(t.backend(), t.input(y), t.gradient(y), t.gradient(x));
  }
  void relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s) const {
    if (!t.has_relevance(y)) return;
    const tensor_view<const T, 2> relevance_out = t.relevance(y);
    s.pass(relevance_op::softmax, s.rules().of(relevance_op::softmax), y,
           std::array<typename relevance_sweep<T, Backend>::input, 1>{{{x}}},
           [&](const relevance_rule& rule, const auto& raw) {
             if (const auto* own = s.rules().own(relevance_op::softmax))
               return (*own)({relevance_op::softmax, t.input(x), t.input(y), {}, {}, {}, relevance_out, raw[0]});
             if (rule.kind != rule_kind::attn) refuse_rule(relevance_op::softmax, rule.kind);
             return softmax_relevance<T>(t.backend(), t.input(x), t.input(y), relevance_out, raw[0], s.workspace());
           });
  }
};

}  // namespace detail

/// softmax of every row of an activation.
template <class T, host_backend Backend>
slot softmax(tape<T, Backend>& t, slot x) {
  const slot y = t.add(t.rows(x), t.cols(x));
  softmax_forward<T>(t.backend(), t.input(x), t.value(y));
  t.record(detail::softmax_node<T, Backend>{x, y});
  return y;
}

}  // namespace headred
