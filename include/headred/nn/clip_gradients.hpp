// clip_gradients: the length of all gradients together, and how much of it is let through.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include <headred/backend/task_runner.hpp>
#include <headred/nn/parameter_list.hpp>
#include <headred/simd/partial_pack.hpp>

namespace headred {

namespace detail {

/// Sum of squares in double, in an order fixed by n.
template <class T>
double sum_of_squares(const T* x, index_t n) {
  constexpr int lanes = native_lanes<double>;
  using vec = pack<double, lanes>;
  vec sum[2] = {};
  index_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes)
    for (int half = 0; half < 2; ++half) {
      const vec v = load_converted<vec>(x + i + half * lanes);
      sum[half] += v * v;
    }
  double total = lane_total<double, lanes>(sum[0] + sum[1]);
  for (; i < n; ++i) total += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return total;
}

template <class T>
struct square_of_entry {
  const T* x;
  HEADRED_FUNCTION double operator()(index_t, index_t i) const {
    return static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
};
struct sum_of_doubles {
  HEADRED_FUNCTION double operator()(double a, double b) const { return a + b; }
};
struct store_double {
  double* to;
  HEADRED_FUNCTION void operator()(index_t, double sum) const { *to = sum; }
};
template <class T>
struct scale_entry {
  T* x;
  T factor;
  HEADRED_FUNCTION void operator()(index_t i) const { x[i] = factor == T(0) ? T(0) : x[i] * factor; }
};

}  // namespace detail

/// sqrt of the sum over all parameters of |gradient|^2, summed in double in an order that depends on the shapes alone.
/// Infinite or NaN exactly where an entry is, or where the sum of squares leaves the range of double. `partials` is
/// scratch memory, kept from call to call. Cost: one pass.
template <class T, backend Backend>
double gradient_norm(Backend& be, const parameter_list<T, Backend>& parameters, std::vector<double>& partials) {
  const auto blocks = parameters.blocks();
  partials.resize(blocks.size());
  if constexpr (host_backend<Backend>) {
    task_runner<Backend>(be).run(static_cast<index_t>(blocks.size()), [&](index_t task, int) {
      const parameter_block& b = blocks[static_cast<std::size_t>(task)];
      partials[static_cast<std::size_t>(task)] =
          detail::sum_of_squares(parameters[b.parameter].gradient + b.begin, b.size);
    });
  } else {
    tensor<double, 1, Backend> sums(be, {static_cast<index_t>(blocks.size())});
    for (std::size_t b = 0; b < blocks.size(); ++b)
      be.reduce(1, blocks[b].size, 0.0,
                detail::square_of_entry<T>{parameters[blocks[b].parameter].gradient + blocks[b].begin},
                detail::sum_of_doubles{}, detail::store_double{sums.data() + b});
    if (sums.bytes() > 0) be.download(partials.data(), sums.data(), sums.bytes());
    be.synchronize();
  }
  double sum = 0;
  for (const double part : partials) sum += part;
  return std::sqrt(sum);
}
/// The same with scratch memory of its own.
template <class T, backend Backend>
double gradient_norm(Backend& be, const parameter_list<T, Backend>& parameters) {
  std::vector<double> partials;
  return gradient_norm(be, parameters, partials);
}

/// min(1, longest / (norm + 1e-6)), PyTorch's clip_grad_norm_: what gradients of this norm are multiplied by. 1 without
/// a limit (longest = 0).
inline double clip_factor(double norm, double longest) {
  return longest > 0 ? std::min(1., longest / (norm + 1e-6)) : 1.;
}

/// gradient *= factor; a factor of 0 clears whatever was there, NaN included.
template <class T, backend Backend>
void scale_gradients(Backend& be, const parameter_list<T, Backend>& parameters, double factor) {
  const auto blocks = parameters.blocks();
  const T by = static_cast<T>(factor);
  if constexpr (host_backend<Backend>) {
    task_runner<Backend>(be).run(static_cast<index_t>(blocks.size()), [&](index_t task, int) {
      const parameter_block& b = blocks[static_cast<std::size_t>(task)];
      T* const x = parameters[b.parameter].gradient + b.begin;
      if (by == T(0))
        std::fill_n(x, b.size, T(0));
      else
        for (index_t i = 0; i < b.size; ++i) x[i] *= by;
    });
  } else {
    for (const auto& p : parameters) be.for_each(p.size, detail::scale_entry<T>{p.gradient, by});
  }
}

/// gradient = 0.
template <class T, backend Backend>
void zero_gradients(Backend& be, const parameter_list<T, Backend>& parameters) {
  scale_gradients(be, parameters, 0);
}

/// How long the gradients were and what was done.
struct clipping {
  double norm = 0;    ///< before
  double factor = 1;  ///< that the gradients were multiplied by
  bool finite() const noexcept { return std::isfinite(norm); }
};

/// Shortens the gradients to a norm of `longest` together, as PyTorch's clip_grad_norm_ does. Gradients whose norm is
/// not finite stay as they are: ask `finite()`. Cost: two passes.
template <class T, backend Backend>
clipping clip_gradients(Backend& be, const parameter_list<T, Backend>& parameters, double longest) {
  clipping done;
  done.norm = gradient_norm(be, parameters);
  if (!done.finite()) return done;
  done.factor = clip_factor(done.norm, longest);
  if (done.factor < 1) scale_gradients(be, parameters, done.factor);
  return done;
}

}  // namespace headred
