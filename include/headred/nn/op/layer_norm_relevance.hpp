// Relevance through the normalisation of rows.
#pragma once

#include <algorithm>

#include <headred/lrp/factor_row.hpp>
#include <headred/nn/op/checked_matrix.hpp>
#include <headred/nn/op/row_loops.hpp>
#include <headred/nn/relevance_sweep.hpp>

namespace headred {

namespace detail {

/// One row by the signs of its contributions
///   z_oi = shift_o / n + scale_o inverse x_i ([o = i] - (1 + x'_o x'_i) / n) = a_o + b_o x_i + c_o x_i x'_i + [o = i] d_o,
/// the vectors padded by zeros, so that what is beyond n contributes nothing.
template <class T>
class signed_norm_row {
  static constexpr int lanes = native_lanes<T>, most = 4;
  using vec = pack<T, lanes>;
  static constexpr index_t vectors = 8;

 public:
  static index_t scratch(index_t n) { return vectors * padded<T, lanes>(n) + 2 * most * lanes; }

  signed_norm_row(index_t n, T* memory) : n_(n), size_(padded<T, lanes>(n)), memory_(memory) {
    std::fill_n(memory, scratch(n), T(0));
    unit_[most * lanes] = T(1);
  }

  /// Returns what goes to an absorbed shift, to the stabiliser and to one sign.
  template <class Rule>
  relevance_terms run(const Rule& rule, const T* x, const T* scale, const T* shift, T mean, T inverse,
                      const T* relevance, T* to) {
    const bool spread = rule.bias == bias_mode::spread;
    const T count = static_cast<T>(n_);
    vec of_u{}, of_v{};
    in_packs<T>(n_, [&](const auto& get, const auto& put) {
      const vec at = get(x), by = get(scale) * inverse, normal = (at - mean) * inverse, v = at * normal;
      if (spread) put(a_, get(shift) / count);
      put(b_, by / -count);
      put(c_, by * normal / -count);
      put(d_, by * at);
      put(u_, at);
      put(v_, v);
      of_u += at;
      of_v += v;
    });
    const T sum_u = lane_total<T, lanes>(of_u), sum_v = lane_total<T, lanes>(of_v);
    in_blocks([&](index_t o, auto packs) { positive_sums<decltype(packs)::value>(o); });
    // All contributions of o together, from the sums over x: one pass gives both signs. Where the difference would cost
    // digits the negative ones are summed for themselves.
    in_packs<T>(n_, [&](const auto& get, const auto& put) {
      put(minus_, get(a_) * count + get(b_) * sum_u + get(c_) * sum_v + get(d_) - get(plus_));
    });
    for (index_t o = 0; o < n_; ++o)
      if (relevance[o] != T(0) && !(minus_[o] < T(-.0625) * plus_[o])) minus_[o] = negative_sum(o);
    const relevance_terms lost = factor_row(rule, relevance, spread ? nullptr : shift, plus_, minus_, n_);
    in_blocks([&](index_t i, auto packs) { contract<decltype(packs)::value>(i, to); });
    return lost;
  }

 private:
  /// f(first, number of packs) for blocks of packs that together are all entries.
  template <class F>
  void in_blocks(const F& f) const {
    index_t k = 0;
    for (; k + most * lanes <= size_; k += most * lanes) f(k, std::integral_constant<int, most>{});
    for (; k < size_; k += lanes) f(k, std::integral_constant<int, 1>{});
  }

  /// f(k, whether k is in [base, base + width)) for k in [0,n).
  template <class F>
  static void each(index_t base, index_t width, index_t n, const F& f) {
    const index_t end = std::min<index_t>(n, base + width);
    for (index_t k = 0; k < base; ++k) f(k, std::false_type{});
    for (index_t k = base; k < end; ++k) f(k, std::true_type{});
    for (index_t k = end; k < n; ++k) f(k, std::false_type{});
  }

  template <int Packs>
  void positive_sums(index_t o) {
    vec sum[Packs] = {}, a[Packs], b[Packs], c[Packs];
    for (int k = 0; k < Packs; ++k) {
      a[k] = load<vec>(a_ + o + k * lanes);
      b[k] = load<vec>(b_ + o + k * lanes);
      c[k] = load<vec>(c_ + o + k * lanes);
    }
    each(o, Packs * lanes, n_, [&](index_t i, auto diagonal) {
      const vec u = broadcast<vec>(u_[i]), v = broadcast<vec>(v_[i]);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 4
#endif
      for (int k = 0; k < Packs; ++k) {
        vec z = a[k] + b[k] * u + c[k] * v;
        if constexpr (decltype(diagonal)::value)
          z += load<vec>(d_ + o + k * lanes) * load<vec>(unit_ + (most + k) * lanes - (i - o));
        sum[k] = select_less(vec{}, z, sum[k] + z, sum[k]);
      }
    });
    for (int k = 0; k < Packs; ++k) store(plus_ + o + k * lanes, sum[k]);
  }

  T negative_sum(index_t o) const {
    T sum = T(0);
    for (index_t i = 0; i < n_; ++i)
      sum += std::min(T(0), a_[o] + b_[o] * u_[i] + c_[o] * v_[i] + (i == o ? d_[o] : T(0)));
    return sum;
  }

  template <int Packs>
  void contract(index_t i, T* to) const {
    vec sum[Packs] = {}, u[Packs], v[Packs];
    for (int k = 0; k < Packs; ++k) {
      u[k] = load<vec>(u_ + i + k * lanes);
      v[k] = load<vec>(v_ + i + k * lanes);
    }
    each(i, Packs * lanes, n_, [&](index_t o, auto diagonal) {
      const vec a = broadcast<vec>(a_[o]), b = broadcast<vec>(b_[o]), c = broadcast<vec>(c_[o]),
                plus = broadcast<vec>(plus_[o]), minus = broadcast<vec>(minus_[o]);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 4
#endif
      for (int k = 0; k < Packs; ++k) {
        vec z = a + b * u[k] + c * v[k];
        if constexpr (decltype(diagonal)::value) z += d_[o] * load<vec>(unit_ + (most + k) * lanes - (o - i));
        sum[k] += select_less(vec{}, z, plus, minus) * z;
      }
    });
    for (int k = 0; k < Packs; ++k, i += lanes)
      if (i + lanes <= n_)
        store(to + i, sum[k]);
      else
        store_part(to + i, sum[k], n_ - i);
  }

  index_t n_, size_;
  T* memory_;
  T *a_ = memory_, *b_ = a_ + size_, *c_ = b_ + size_, *d_ = c_ + size_, *u_ = d_ + size_, *v_ = u_ + size_,
    *plus_ = v_ + size_, *minus_ = plus_ + size_, *unit_ = minus_ + size_;  // unit: a 1 among zeros
};

/// One row by sums: R_i = shift . f / n + x_i (J^T f)_i with f = R / (s + eps sgn s), s = shift + J x.
template <class T>
double plain_norm_row(T epsilon, bool spread, const T* x, const T* scale, const T* shift, T mean, T inverse,
                      const T* relevance, T* to, index_t n, double& to_shift) {
  double lost = 0;
  T sum = T(0), product = T(0), share = T(0);
  const T count = static_cast<T>(n);
  T along = T(0);  // of x on its normalised row
  for (index_t o = 0; o < n; ++o) along += x[o] * (x[o] - mean) * inverse / count;
  for (index_t o = 0; o < n; ++o) {
    const T centred = x[o] - mean, contributed = shift[o] + scale[o] * inverse * (centred - centred * inverse * along);
    const T f = factor_of_sum(epsilon, relevance[o], contributed, lost);
    to[o] = f * scale[o];
    sum += to[o];
    product += to[o] * (x[o] - mean) * inverse;
    share += f * shift[o];
  }
  if (!spread) {
    to_shift = static_cast<double>(share);
    share = T(0);
  }
  for (index_t i = 0; i < n; ++i)
    to[i] = share / count + x[i] * inverse * (to[i] - (sum + (x[i] - mean) * inverse * product) / count);
  return lost;
}

}  // namespace detail

/// relevance_in = what the rule hands to x, not rescaled; returns what it does not hand on.
/// Contributions by the true Jacobian J at x: z_oi = shift_o / D + J_oi x_i; identity takes relevance_out as it is, attn
/// likewise. J x ~ 0, so that epsilon divides by what is left of the shift: it is ill-conditioned here.
/// Shapes as in layer_norm_forward, which left mean and inverse_deviation; relevance_in : (R,D), overwritten.
/// Throws shape_error. Cost: R D^2 by sign, R D otherwise.
template <class T, host_backend Backend, rule_policy Rule>
relevance_terms layer_norm_relevance(Backend& be, std::type_identity_t<tensor_view<const T, 2>> x,
                                     std::type_identity_t<tensor_view<const T, 1>> scale,
                                     std::type_identity_t<tensor_view<const T, 1>> shift,
                                     std::type_identity_t<tensor_view<const T, 1>> mean,
                                     std::type_identity_t<tensor_view<const T, 1>> inverse_deviation, const Rule& rule,
                                     std::type_identity_t<tensor_view<const T, 2>> relevance_out,
                                     tensor_view<T, 2> relevance_in, relevance_workspace<T>& workspace) {
  constexpr const char* name = "layer_norm_relevance";
  const index_t rows = x.extent(0), cols = x.extent(1);
  detail::require_matrix(name, "x", x, rows, cols);
  detail::require_vector(name, "scale", scale, cols);
  detail::require_vector(name, "shift", shift, cols);
  detail::require_vector(name, "mean", mean, rows);
  detail::require_vector(name, "inverse_deviation", inverse_deviation, rows);
  detail::require_matrix(name, "relevance_out", relevance_out, rows, cols);
  detail::require_matrix(name, "relevance_in", relevance_in, rows, cols);
  if constexpr (Rule::kind == rule_kind::identity || Rule::kind == rule_kind::attn) {
    detail::map_rows<T>(
        be, relevance_in, [](const auto& r) { return r; }, relevance_out);
    return {};
  } else {
    double* const terms = workspace.terms(3 * rows);
    std::fill_n(terms, 3 * rows, 0.0);
    task_runner<Backend> runner(be);
    workspace.reserve(runner.workers(), detail::signed_norm_row<T>::scratch(cols));
    runner.run_rows(rows, [&](index_t r, int worker) {
      const T* const from = relevance_out.data() + r * relevance_out.stride(0);
      T* const to = relevance_in.data() + r * relevance_in.stride(0);
      const T* const at = x.data() + r * x.stride(0);
      if (std::none_of(from, from + cols, [](T v) { return v != T(0); })) {
        std::fill_n(to, cols, T(0));
        return;
      }
      relevance_terms lost;
      if constexpr (detail::by_sign<Rule>) {
        detail::signed_norm_row<T> row(cols, workspace.scratch(worker));
        lost = row.run(rule, at, scale.data(), shift.data(), mean(r), inverse_deviation(r), from, to);
      } else {
        lost.eps =
            detail::plain_norm_row(static_cast<T>(rule.epsilon), rule.bias == bias_mode::spread, at, scale.data(),
                                   shift.data(), mean(r), inverse_deviation(r), from, to, cols, lost.bias);
      }
      terms[3 * r] = lost.bias;
      terms[3 * r + 1] = lost.eps;
    });
    return detail::total_of(terms, rows);
  }
}

namespace detail {

template <class T, host_backend Backend, class Parameter>
void layer_norm_node_relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s, slot x, slot y,
                               const Parameter& scale, const Parameter& shift, const T* mean, const T* inverse) {
  if (!t.has_relevance(y)) return;
  const index_t rows = t.rows(x);
  const tensor_view<const T, 2> out = t.relevance(y);
  s.pass(relevance_op::layer_norm, s.rules().of(relevance_op::layer_norm, &scale), y,
         std::array<typename relevance_sweep<T, Backend>::input, 1>{{{x}}},
         [&](const relevance_rule& rule, const auto& raw) {
           if (const auto* own = s.rules().own(relevance_op::layer_norm))
             return (*own)({relevance_op::layer_norm,
                            t.input(x),
                            t.input(y),
                            {},
                            scale.value.view(),
                            shift.value.view(),
                            out,
                            raw[0]});
           return with_policy(rule, [&](const auto& policy) {
             return layer_norm_relevance<T>(t.backend(), t.input(x), scale.value.view(), shift.value.view(),
                                            {mean, {rows}}, {inverse, {rows}}, policy, out, raw[0], s.workspace());
           });
         });
}

}  // namespace detail
}  // namespace headred
