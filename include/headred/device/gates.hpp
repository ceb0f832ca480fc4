// Stochastic gates and masks on the device: the CPU's noise, bit for bit, and the CPU's formulas.
#pragma once

#include <cstdint>
#include <type_traits>

#include <headred/device/block_context.hpp>
#include <headred/device/require_shape.hpp>

namespace headred::device {
namespace detail {

template <class T, class Rule, class Noise>
struct gate_of_one {
  Rule rule;
  Noise noise;
  tensor_view<const T, 1, device_space> log_a;
  tensor_view<T, 1, device_space> arguments, gates;
  HEADRED_FUNCTION void operator()(index_t i) const {
    const T argument = rule.argument(log_a(i), noise.template one<T>(static_cast<std::uint64_t>(i)));
    if (arguments.data() != nullptr) arguments(i) = argument;
    gates(i) = rule.gate(argument);
  }
};

template <class T, class Rule, class Noise>
struct entry_of_two {
  Rule rule;
  Noise noise;
  tensor_view<const T, 1, device_space> a;
  tensor_view<T, 1, device_space> arguments, entries;
  HEADRED_FUNCTION void operator()(index_t i) const {
    const auto u = noise.template two<T>(static_cast<std::uint64_t>(i));
    const T argument = rule.argument(a(i), u[0], u[1]);
    if (arguments.data() != nullptr) arguments(i) = argument;
    entries(i) = rule.entry(argument);
  }
};

}  // namespace detail

/// Gates with one random number each: gates_i = rule.gate(rule.argument(log_a_i, u_i)), u_i number i of the noise.
/// `rule` as hard_concrete::rule<T> gives it, `noise` a gate_noise. log_a, gates : (N); arguments : (N), what the
/// sigmoid was taken of, for the way back, or empty. Noise has the same bits on every backend, gates to the last digits
/// of log and exp. Throws shape_error.
template <class T, class Rule, class Noise, device_backend Backend>
void sample_gates(Backend& be, const Rule& rule, const Noise& noise, tensor_view<const T, 1, device_space> log_a,
                  tensor_view<T, 1, device_space> gates,
                  std::type_identity_t<tensor_view<T, 1, device_space>> arguments = {}) {
  detail::require_shape("sample_gates", "gates", gates, log_a.shape());
  if (arguments.data() != nullptr) detail::require_shape("sample_gates", "arguments", arguments, log_a.shape());
  be.for_each(log_a.size(), detail::gate_of_one<T, Rule, Noise>{rule, noise, log_a, arguments, gates});
}

/// Mask entries with two random numbers each: entries_i = rule.entry(rule.argument(a_i, u_i, v_i)); `rule` as
/// gumbel_sigmoid::rule<T> gives it. The rest as in sample_gates.
template <class T, class Rule, class Noise, device_backend Backend>
void sample_mask(Backend& be, const Rule& rule, const Noise& noise, tensor_view<const T, 1, device_space> a,
                 tensor_view<T, 1, device_space> entries,
                 std::type_identity_t<tensor_view<T, 1, device_space>> arguments = {}) {
  detail::require_shape("sample_mask", "entries", entries, a.shape());
  if (arguments.data() != nullptr) detail::require_shape("sample_mask", "arguments", arguments, a.shape());
  be.for_each(a.size(), detail::entry_of_two<T, Rule, Noise>{rule, noise, a, arguments, entries});
}

}  // namespace headred::device
