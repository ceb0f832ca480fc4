// hard_concrete: gates in [0,1] that are exactly 0 or 1 with positive probability, and can be learned.
#pragma once

#include <headred/sparsity/gate_loops.hpp>
#include <headred/sparsity/hard_concrete_rule.hpp>

namespace headred {

namespace detail {

template <class T>
struct sample_gate {
  static constexpr int noises = 1;
  hard_concrete_rule<T> rule;
  template <class V>
  HEADRED_FUNCTION HEADRED_INLINE V operator()(const V* log_a, const V* u) const {
    return rule.gate(rule.argument(log_a[0], u[0]));
  }
};
template <class T>
struct evaluate_gate {
  static constexpr int noises = 0;
  hard_concrete_rule<T> rule;
  template <class V>
  HEADRED_FUNCTION HEADRED_INLINE V operator()(const V* log_a, const V*) const {
    return rule.evaluate(log_a[0]);
  }
};
template <class T>
struct gate_probability {
  static constexpr int noises = 0;
  T shift;
  template <class V>
  HEADRED_FUNCTION HEADRED_INLINE V operator()(const V* log_a, const V*) const {
    return sigmoid(log_a[0] - shift);
  }
};
template <class T>
struct probability_slope {
  static constexpr int noises = 0;
  T shift, weight;
  template <class V>
  HEADRED_FUNCTION HEADRED_INLINE V operator()(const V* log_a, const V*) const {
    return sigmoid_slope(log_a[0] - shift) * weight;
  }
};
/// From log_a and dgates.
template <class T>
struct gate_gradient {
  static constexpr int noises = 1;
  hard_concrete_rule<T> rule;
  template <class V>
  HEADRED_FUNCTION HEADRED_INLINE V operator()(const V* x, const V* u) const {
    return x[1] * (rule.slope(rule.argument(x[0], u[0])) * rule.sharpness);
  }
};
/// The same with respect to the logarithm of the temperature. The argument is kept finite where the slope is 0.
template <class T>
struct gate_temperature_gradient {
  static constexpr int noises = 1;
  hard_concrete_rule<T> rule;
  template <class V>
  HEADRED_FUNCTION HEADRED_INLINE V operator()(const V* x, const V* u) const {
    const V at = rule.argument(x[0], u[0]), slope = rule.slope(at), zero = everywhere<V>(0);
    return where_less(zero, slope, zero - x[1] * at * slope, zero);
  }
};

}  // namespace detail

/// One sample of every gate, with u_i in (epsilon, 1 - epsilon) of the stream's noise number i:
///   s = sigmoid((ln u - ln(1-u) + log_a) / temperature),  g = clip(s (upper - lower) + lower, 0, 1).
/// log_a, gates : any shape; gates in [0,1], never NaN; log_a may be infinite.
/// Throws shape_error for another shape, argument_error for a NaN in log_a and what hard_concrete::rule throws. Cost
/// O(gates), no allocation on the host. Source: Louizos, Welling & Kingma (2018), equations 10 and 11; Voita section 6.
template <backend Backend, class T, int Rank>
void hard_concrete_sample(Backend& be, const hard_concrete& policy, detail::input_view<T, Rank, Backend> log_a,
                          const random_stream& draws, tensor_view<T, Rank, typename Backend::space> gates) {
  constexpr const char* op = "hard_concrete_sample";
  detail::each_gate<Backend, T, Rank>(be, op, "log_a", log_a, detail::sample_gate<T>{policy.rule<T>(op)}, draws, gates);
}

/// The pull-back of hard_concrete_sample: adds to dlog_a what dgates = dLoss/dg comes to for the same log_a and draws:
///   dlog_a += dg (upper - lower) s (1 - s) / temperature,  0 where g is clipped.
/// dlog_temperature : (1) or empty; receives dLoss/d ln(temperature), for a learned temperature. log_a is what was
/// sampled from, so it is not looked through for NaN again.
/// Throws shape_error; what hard_concrete::rule throws. Cost O(gates).
template <backend Backend, class T, int Rank>
void hard_concrete_gradient(Backend& be, const hard_concrete& policy, detail::input_view<T, Rank, Backend> log_a,
                            const random_stream& draws, detail::input_view<T, Rank, Backend> dgates,
                            tensor_view<T, Rank, typename Backend::space> dlog_a,
                            detail::output_view<T, 1, Backend> dlog_temperature = {}) {
  constexpr const char* op = "hard_concrete_gradient";
  detail::require_same_shape(op, "dgates", dgates, log_a);
  detail::require_same_shape(op, "dlog_a", dlog_a, log_a);
  const auto rule = policy.rule<T>(op);
  const gate_noise noise(draws);
  const std::array<detail::input_view<T, Rank, Backend>, 2> in{log_a, dgates};
  if (dlog_temperature.data() != nullptr)
    detail::add_to_scalar<Backend, T>(be, op, "dlog_temperature", dlog_temperature,
                                      detail::sum_gates(be, detail::gate_temperature_gradient<T>{rule}, noise, in));
  detail::map_gates<true>(be, detail::gate_gradient<T>{rule}, noise, in, dlog_a);
}

/// Every gate without noise, by the policy's rule: clip(sigmoid(log_a) (upper - lower) + lower, 0, 1) [code], or 1 where
/// log_a > 0 and 0 elsewhere [paper]. Throws as hard_concrete_sample.
template <backend Backend, class T, int Rank>
void hard_concrete_evaluate(Backend& be, const hard_concrete& policy, detail::input_view<T, Rank, Backend> log_a,
                            tensor_view<T, Rank, typename Backend::space> gates) {
  constexpr const char* op = "hard_concrete_evaluate";
  detail::each_gate<Backend, T, Rank>(be, op, "log_a", log_a, detail::evaluate_gate<T>{policy.rule<T>(op)},
                                      random_stream(0), gates);
}

/// P(g != 0) = sigmoid(log_a - temperature ln(-lower / upper)), in [0,1]. Throws as hard_concrete_sample.
template <backend Backend, class T, int Rank>
void hard_concrete_open(Backend& be, const hard_concrete& policy, detail::input_view<T, Rank, Backend> log_a,
                        tensor_view<T, Rank, typename Backend::space> probability) {
  constexpr const char* op = "hard_concrete_open";
  detail::each_gate<Backend, T, Rank>(be, op, "log_a", log_a,
                                      detail::gate_probability<T>{policy.rule<T>(op).open_shift}, random_stream(0),
                                      probability);
}

/// P(g = 1) = sigmoid(log_a - temperature ln((1 - lower) / (upper - 1))), in [0,1]. Throws as hard_concrete_sample.
template <backend Backend, class T, int Rank>
void hard_concrete_full(Backend& be, const hard_concrete& policy, detail::input_view<T, Rank, Backend> log_a,
                        tensor_view<T, Rank, typename Backend::space> probability) {
  constexpr const char* op = "hard_concrete_full";
  detail::each_gate<Backend, T, Rank>(be, op, "log_a", log_a,
                                      detail::gate_probability<T>{policy.rule<T>(op).full_shift}, random_stream(0),
                                      probability);
}

/// The penalty: sum over the gates of P(g != 0), how many are expected to be open. In [0, gates], summed in double in a
/// fixed order. Throws argument_error for a NaN in log_a and what hard_concrete::rule throws.
template <backend Backend, class T, int Rank>
double hard_concrete_penalty(Backend& be, const hard_concrete& policy,
                             tensor_view<T, Rank, typename Backend::space> log_a) {
  using value = std::remove_const_t<T>;
  detail::require_no_nan(be, "hard_concrete_penalty", "log_a", log_a);
  const detail::gate_probability<value> f{policy.rule<value>("hard_concrete_penalty").open_shift};
  return detail::sum_gates(be, f, gate_noise(random_stream(0)),
                           std::array<detail::input_view<value, Rank, Backend>, 1>{log_a});
}

/// The pull-back of `weight` times the penalty, p = P(g != 0):
///   dlog_a += weight p (1 - p),  alive (above 0) for |log_a| <= 50 in float and double;
///   dlog_temperature += -weight temperature ln(-lower / upper) sum p (1 - p).
/// Throws shape_error, argument_error for a weight that is not finite.
template <backend Backend, class T, int Rank>
void hard_concrete_penalty_gradient(Backend& be, const hard_concrete& policy,
                                    detail::input_view<T, Rank, Backend> log_a, double weight,
                                    tensor_view<T, Rank, typename Backend::space> dlog_a,
                                    detail::output_view<T, 1, Backend> dlog_temperature = {}) {
  constexpr const char* op = "hard_concrete_penalty_gradient";
  detail::require_same_shape(op, "dlog_a", dlog_a, log_a);
  if (!std::isfinite(weight))
    throw argument_error(std::string(op) + ": the weight is " + number_text(weight) + ", expected a finite number");
  const T shift = policy.rule<T>(op).open_shift;
  const gate_noise none(random_stream(0));
  const std::array<detail::input_view<T, Rank, Backend>, 1> in{log_a};
  if (dlog_temperature.data() != nullptr)
    detail::add_to_scalar<Backend, T>(be, op, "dlog_temperature", dlog_temperature,
                                      -weight * static_cast<double>(shift) *
                                          detail::sum_gates(be, detail::probability_slope<T>{shift, T(1)}, none, in));
  detail::map_gates<true>(be, detail::probability_slope<T>{shift, static_cast<T>(weight)}, none, in, dlog_a);
}

}  // namespace headred
