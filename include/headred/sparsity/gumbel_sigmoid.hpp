// gumbel_sigmoid: mask entries in (0,1) that become 0 or 1 as the temperature falls, and can be learned.
#pragma once

#include <headred/sparsity/gate_loops.hpp>
#include <headred/sparsity/gumbel_sigmoid_rule.hpp>

namespace headred {

namespace detail {

template <class T>
struct sample_entry {
  static constexpr int noises = 2;
  gumbel_sigmoid_rule<T> rule;
  template <class V>
  HEADRED_FUNCTION HEADRED_INLINE V operator()(const V* a, const V* u) const {
    return rule.entry(rule.argument(a[0], u[0], u[1]));
  }
};
struct evaluate_entry {
  static constexpr int noises = 0;
  template <class V>
  HEADRED_FUNCTION HEADRED_INLINE V operator()(const V* a, const V*) const {
    return where_less(everywhere<V>(0), a[0], everywhere<V>(1), everywhere<V>(0));
  }
};
struct entry_probability {
  static constexpr int noises = 0;
  template <class V>
  HEADRED_FUNCTION HEADRED_INLINE V operator()(const V* a, const V*) const {
    return sigmoid(a[0]);
  }
};
/// From a and dmask.
template <class T>
struct entry_gradient {
  static constexpr int noises = 2;
  gumbel_sigmoid_rule<T> rule;
  template <class V>
  HEADRED_FUNCTION HEADRED_INLINE V operator()(const V* x, const V* u) const {
    return x[1] * (sigmoid_slope(rule.argument(x[0], u[0], u[1])) * rule.sharpness);
  }
};
template <class T>
struct entry_temperature_gradient {
  static constexpr int noises = 2;
  gumbel_sigmoid_rule<T> rule;
  template <class V>
  HEADRED_FUNCTION HEADRED_INLINE V operator()(const V* x, const V* u) const {
    const V at = rule.argument(x[0], u[0], u[1]), slope = sigmoid_slope(at), zero = everywhere<V>(0);
    return where_less(zero, slope, zero - x[1] * at * slope, zero);
  }
};

}  // namespace detail

/// One sample of every entry, with two noise numbers each (gate_noise::two):
///   M = sigmoid((a + G1 - G2) / temperature),  G = -ln(-ln u);  with straight_through [M > 1/2].
/// a, mask : any shape; M in [0,1], never NaN; a may be infinite.
/// Throws shape_error for another shape, argument_error for a NaN in a and a temperature that is not above 0.
/// Cost O(entries), no allocation on the host. Source: SparseBERT, equation 8.
template <backend Backend, class T, int Rank>
void gumbel_sigmoid_sample(Backend& be, const gumbel_sigmoid& policy, detail::input_view<T, Rank, Backend> a,
                           const random_stream& draws, tensor_view<T, Rank, typename Backend::space> mask) {
  constexpr const char* op = "gumbel_sigmoid_sample";
  detail::each_gate<Backend, T, Rank>(be, op, "a", a, detail::sample_entry<T>{policy.rule<T>(op)}, draws, mask);
}

/// The pull-back of gumbel_sigmoid_sample, for the same a and draws, with the soft M also where M is hard:
///   da += dM M (1 - M) / temperature.
/// dlog_temperature : (1) or empty; receives dLoss/d ln(temperature) = -sum dM M (1 - M) (a + G1 - G2) / temperature.
/// Throws shape_error; argument_error for a temperature that is not above 0. Cost O(entries).
template <backend Backend, class T, int Rank>
void gumbel_sigmoid_gradient(Backend& be, const gumbel_sigmoid& policy, detail::input_view<T, Rank, Backend> a,
                             const random_stream& draws, detail::input_view<T, Rank, Backend> dmask,
                             tensor_view<T, Rank, typename Backend::space> da,
                             detail::output_view<T, 1, Backend> dlog_temperature = {}) {
  constexpr const char* op = "gumbel_sigmoid_gradient";
  detail::require_same_shape(op, "dmask", dmask, a);
  detail::require_same_shape(op, "da", da, a);
  const auto rule = policy.rule<T>(op);
  const gate_noise noise(draws);
  const std::array<detail::input_view<T, Rank, Backend>, 2> in{a, dmask};
  if (dlog_temperature.data() != nullptr)
    detail::add_to_scalar<Backend, T>(be, op, "dlog_temperature", dlog_temperature,
                                      detail::sum_gates(be, detail::entry_temperature_gradient<T>{rule}, noise, in));
  detail::map_gates<true>(be, detail::entry_gradient<T>{rule}, noise, in, da);
}

/// Every entry without noise: 1 where a > 0, else 0. Throws shape_error, argument_error for a NaN in a.
template <backend Backend, class T, int Rank>
void gumbel_sigmoid_evaluate(Backend& be, detail::input_view<T, Rank, Backend> a,
                             tensor_view<T, Rank, typename Backend::space> mask) {
  detail::each_gate<Backend, T, Rank>(be, "gumbel_sigmoid_evaluate", "a", a, detail::evaluate_entry{}, random_stream(0),
                                      mask);
}

/// P(M > 1/2) = sigmoid(a), in [0,1]. Throws shape_error, argument_error for a NaN in a.
template <backend Backend, class T, int Rank>
void gumbel_sigmoid_open(Backend& be, detail::input_view<T, Rank, Backend> a,
                         tensor_view<T, Rank, typename Backend::space> probability) {
  detail::each_gate<Backend, T, Rank>(be, "gumbel_sigmoid_open", "a", a, detail::entry_probability{}, random_stream(0),
                                      probability);
}

}  // namespace headred
