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
///   z_oi = shift_o / n + scale_o inverse x_i ([o = i] - (1 + x'_o x'_i) / n) = a_o + b_o t_oi + [o = i] d_o,
///   t_oi = u_i + x'_o v_i, u = x, v = x x',
/// a + b t is positive on one side of the root r = -a / b, so that max(t, r) tells the signs apart:
///   sum_i max(t - r, 0) = sum_i max(t, r) - n r,  sum_i min(t - r, 0) = sum_i t - sum_i max(t, r).
/// A contribution costs three operations on the way to the sums (fma, max, add), three on the way back (fma, max, fma).
template <class T>
class signed_norm_row {
  static constexpr int lanes = native_lanes<T>, most = 4;
  using vec = pack<T, lanes>;
  static constexpr index_t vectors = 12, at_once = 32;

 public:
  static index_t scratch(index_t n) { return vectors * padded<T, lanes>(n); }

  /// The memory's ends behind n are zero and stay so.
  signed_norm_row(index_t n, T* memory) : n_(n), size_(padded<T, lanes>(n)), memory_(memory) {
    std::fill_n(memory, scratch(n), T(0));
  }

  /// Returns what goes to an absorbed shift, to the stabiliser and to one sign.
  template <class Rule>
  relevance_terms run(const Rule& rule, const T* x, const T* scale, const T* shift, T mean, T inverse,
                      const T* relevance, T* to) {
    const bool spread = rule.bias == bias_mode::spread;
    const T count = static_cast<T>(n_);
    vec of_u{}, of_v{};
    in_packs<T>(n_, [&](const auto& get, const auto& put) {
      const vec at = get(x), by = get(scale) * inverse, normal = (at - mean) * inverse, v = at * normal,
                a = spread ? get(shift) / count : vec{}, b = by / -count;
      put(a_, a);
      put(b_, b);
      put(d_, by * at);
      put(normal_, normal);
      put(root_, -a / b);
      put(u_, at);
      put(v_, v);
      of_u += at;
      of_v += v;
    });
    in_blocks([&](index_t o, auto packs) { sums_over_root<decltype(packs)::value>(o); });
    const bool some = sums_by_sign(relevance, lane_total<T, lanes>(of_u), lane_total<T, lanes>(of_v));
    for (index_t o = 0; some && o < n_; ++o)
      if (uneven_[o] > T(0)) sums_of(o);
    const relevance_terms lost = factor_row(rule, relevance, spread ? nullptr : shift, plus_, minus_, n_);
    hand_on(to);
    for (index_t o = 0; some && o < n_; ++o)
      if (uneven_[o] > T(0)) {
        const vec plus = broadcast<vec>(plus_[o]), minus = broadcast<vec>(minus_[o]);
        each(o, [&](const auto& get, const auto& put, const vec& z) {
          put(to, get(to) + select_less(vec{}, z, plus, minus) * z);
        });
      }
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

  /// plus = sum_i max(t_oi - r_o, 0), inputs by 32: the roots' share is taken out before it outgrows what is left.
  template <int Packs>
  void sums_over_root(index_t o) const {
    vec sum[Packs] = {}, normal[Packs], root[Packs];
    for (int k = 0; k < Packs; ++k) {
      normal[k] = load<vec>(normal_ + o + k * lanes);
      root[k] = load<vec>(root_ + o + k * lanes);
    }
    for (index_t first = 0; first < n_; first += at_once) {
      const index_t end = std::min<index_t>(n_, first + at_once);
      vec part[Packs] = {};
      for (index_t i = first; i < end; ++i) {
        const vec u = broadcast<vec>(u_[i]), v = broadcast<vec>(v_[i]);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 4
#endif
        for (int k = 0; k < Packs; ++k) {
          const vec t = normal[k] * v + u;
          part[k] += select_less(t, root[k], root[k], t);
        }
      }
      for (int k = 0; k < Packs; ++k) sum[k] += part[k] - root[k] * static_cast<T>(end - first);
    }
    for (int k = 0; k < Packs; ++k) store(plus_ + o + k * lanes, sum[k]);
  }

  /// Sums by sign from those over the root. Where one sign outweighs the other, or both are small beside what they were
  /// made of, differences would cost digits: such an output is uneven, and its root 0. False if none is.
  bool sums_by_sign(const T* relevance, T sum_u, T sum_v) const {
    const T count = static_cast<T>(n_);
    vec found{};
    in_packs<T>(n_, [&](const auto& get, const auto& put) {
      const vec zero{}, one = broadcast<vec>(T(1)), a = get(a_), b = get(b_), root = get(root_), over = get(plus_),
                        above = b * over, below = b * (get(normal_) * sum_v + sum_u - root * count - over);
      const vec without = a + b * (get(normal_) * get(v_) + get(u_)), with = without + get(d_);
      const vec plus = select_less(zero, b, above, below) + positive(with) - positive(without),
                minus = select_less(zero, b, below, above) + (with - positive(with)) - (without - positive(without));
      const vec all = (plus - minus) / T(16), share = select_less(a, zero, -a, a) * (count / T(16)),
                least = select_less(all, share, share, all), r = get(relevance);
      // what is not a number is uneven
      const vec even = select_less(least, plus, select_less(least, -minus, one, zero), zero),
                wanted = select_less(zero, r, one - even, select_less(r, zero, one - even, zero));
      put(plus_, select_less(zero, even, plus, zero));
      put(minus_, select_less(zero, even, minus, zero));
      put(root_, select_less(zero, even, root, zero));
      put(uneven_, wanted);
      found += wanted;
    });
    return lane_total<T, lanes>(found) > T(0);
  }

  /// f(get, put, z) for the contributions to one output, in packs.
  template <class F>
  void each(index_t o, const F& f) const {
    std::fill_n(step_, n_, a_[o]);
    step_[o] += d_[o];
    const vec b = broadcast<vec>(b_[o]), normal = broadcast<vec>(normal_[o]);
    in_packs<T>(n_,
                [&](const auto& get, const auto& put) { f(get, put, b * (normal * get(v_) + get(u_)) + get(step_)); });
  }
  /// The sums of an uneven output.
  void sums_of(index_t o) const {
    vec plus{}, minus{};
    each(o, [&](const auto&, const auto&, const vec& z) {
      plus += positive(z);
      minus += z - positive(z);
    });
    plus_[o] = lane_total<T, lanes>(plus);
    minus_[o] = lane_total<T, lanes>(minus);
  }

  static vec positive(const vec& z) { return select_less(vec{}, z, z, vec{}); }

  /// What the outputs hand to all x, but for the uneven ones: f z = (f_above - f_below) b max(t, r) + f_below b t + f_above a
  /// by the factors of z above and below the root, and the diagonal's for itself.
  void hand_on(T* to) const {
    vec of_u{}, of_v{}, of_all{};
    in_packs<T>(n_, [&](const auto& get, const auto& put) {
      const vec zero{}, b = get(b_), here = get(uneven_), plus = select_less(zero, here, zero, get(plus_)),
                        minus = select_less(zero, here, zero, get(minus_)), above = select_less(zero, b, plus, minus),
                        below = select_less(zero, b, minus, plus);
      put(step_, (above - below) * b);
      of_u += below * b;
      of_v += below * b * get(normal_);
      of_all += above * get(a_);
      const vec without = get(a_) + b * (get(normal_) * get(v_) + get(u_)), with = without + get(d_);
      put(diagonal_, select_less(zero, with, plus, minus) * with - select_less(zero, without, plus, minus) * without);
    });
    const vec by_u = broadcast<vec>(lane_total<T, lanes>(of_u)), by_v = broadcast<vec>(lane_total<T, lanes>(of_v)),
              rest = broadcast<vec>(lane_total<T, lanes>(of_all));
    in_blocks([&](index_t i, auto packs) { contract<decltype(packs)::value>(i, by_u, by_v, rest, to); });
  }

  template <int Packs>
  void contract(index_t i, const vec& by_u, const vec& by_v, const vec& rest, T* to) const {
    vec sum[Packs] = {}, u[Packs], v[Packs];
    for (int k = 0; k < Packs; ++k) {
      u[k] = load<vec>(u_ + i + k * lanes);
      v[k] = load<vec>(v_ + i + k * lanes);
    }
    for (index_t o = 0; o < n_; ++o) {
      const vec normal = broadcast<vec>(normal_[o]), root = broadcast<vec>(root_[o]), step = broadcast<vec>(step_[o]);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 4
#endif
      for (int k = 0; k < Packs; ++k) {
        const vec t = normal * v[k] + u[k];
        sum[k] += select_less(t, root, root, t) * step;
      }
    }
    for (int k = 0; k < Packs; ++k, i += lanes) {
      const vec all = sum[k] + (u[k] * by_u + v[k] * by_v) + (load<vec>(diagonal_ + i) + rest);
      if (i + lanes <= n_)
        store(to + i, all);
      else
        store_part(to + i, all, n_ - i);
    }
  }

  index_t n_, size_;
  T* memory_;
  T *a_ = memory_, *b_ = a_ + size_, *d_ = b_ + size_, *normal_ = d_ + size_, *root_ = normal_ + size_,
    *u_ = root_ + size_, *v_ = u_ + size_, *plus_ = v_ + size_, *minus_ = plus_ + size_, *uneven_ = minus_ + size_,
    *step_ = uneven_ + size_, *diagonal_ = step_ + size_;
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
