// The length of all gradients together, and how much of it is let through, on the device.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include <headred/device/require_shape.hpp>
#include <headred/device/sums.hpp>

namespace headred::device {
namespace detail {

template <class T>
struct scaled_entry {
  tensor_view<T, 1, device_space> x;
  T factor;
  HEADRED_FUNCTION void operator()(index_t i) const { x(i) = factor == T(0) ? T(0) : x(i) * factor; }
};

}  // namespace detail

/// x *= factor; a factor of 0 clears whatever was there, NaN included. x : (N) on the device.
template <class T, device_backend Backend>
void scale_entries(Backend& be, tensor_view<T, 1, device_space> x, double factor) {
  be.for_each(x.size(), detail::scaled_entry<T>{x, static_cast<T>(factor)});
}

/// sqrt of the sum over all gradients g : (N) of |g|^2, on the host; in double, in an order that their lengths decide.
/// Waits for the device once. Scratch memory 8 N / 4096 bytes of the workspace. Cost: one read.
template <class T, device_backend Backend>
double gradient_norm(Backend& be, std::span<const tensor_view<T, 1, device_space>> gradients) {
  constexpr index_t cols = 4096;
  const auto parts = [](const auto& g) { return (g.size() + cols - 1) / cols; };
  index_t count = 0;
  for (const auto& g : gradients) count += parts(g);
  if (count == 0) return 0;
  double* const sums = static_cast<double*>(be.workspace(static_cast<std::size_t>(count + 1) * sizeof(double)));
  double* at = sums;
  for (const auto& g : gradients) {
    if (g.empty()) continue;
    be.reduce(parts(g), cols, 0., detail::entry_as_double<T, true>{g, cols}, headred::detail::add{},
              detail::store_sum{at});
    at += parts(g);
  }
  be.reduce(1, count, 0., detail::partial_sum{sums}, headred::detail::add{}, detail::store_sum{at});
  double total = 0;
  be.download(&total, at, sizeof total);
  return std::sqrt(total);
}

/// How long the gradients were and what was done.
struct clipping {
  double norm = 0;    ///< before
  double factor = 1;  ///< that the gradients were multiplied by
  bool finite() const noexcept { return std::isfinite(norm); }
};

/// Multiplies the gradients by min(1, longest / (norm + 1e-6)), PyTorch's clip_grad_norm_; no limit for longest = 0.
/// Gradients whose norm is not finite stay as they are: ask `finite()`. Waits for the device once. Cost: two passes.
template <class T, device_backend Backend>
clipping clip_gradients(Backend& be, std::span<const tensor_view<T, 1, device_space>> gradients, double longest) {
  clipping done;
  done.norm = gradient_norm<T>(be, gradients);
  if (!done.finite() || !(longest > 0)) return done;
  done.factor = std::min(1., longest / (done.norm + 1e-6));
  if (done.factor < 1)
    for (const auto& g : gradients) scale_entries(be, g, done.factor);
  return done;
}

}  // namespace headred::device
