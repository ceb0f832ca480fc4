// Cross-entropy of logits on the device.
#pragma once

#include <cstdint>
#include <string>

#include <headred/core/number_text.hpp>
#include <headred/device/first_index.hpp>
#include <headred/device/softmax.hpp>

namespace headred::device {
namespace detail {

template <class T>
struct cross_entropy_kernel : row_kernel<T> {
  tensor_view<const T, 2, device_space> logits;
  tensor_view<const std::int32_t, 1, device_space> targets;
  T smoothing;
  tensor_view<T, 1, device_space> losses, log_sums;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, typename row_kernel<T>::template shared<Block>& memory) const {
    constexpr T lowest = -std::numeric_limits<T>::infinity();
    const index_t row = block.block(), cols = logits.extent(1), target = targets(row);
    if (target < 0) {
      if (block.thread() == 0) losses(row) = log_sums(row) = T(0);
      return;
    }
    const T most = this->fold(
        block, memory, cols, lowest, [&](index_t k) { return logits(row, k); }, headred::detail::take_greater{});
    if (most == lowest) {
      if (block.thread() == 0) {
        losses(row) = -lowest;
        log_sums(row) = lowest;
      }
      return;
    }
    const T log_sum = std::log(this->fold(
        block, memory, cols, T(0), [&](index_t k) { return std::exp(logits(row, k) - most); }, headred::detail::add{}));
    T loss = log_sum;
    if (smoothing < T(1)) loss -= (T(1) - smoothing) * (logits(row, target) - most);
    if (smoothing > T(0))
      loss -= smoothing / static_cast<T>(cols) *
              this->fold(
                  block, memory, cols, T(0), [&](index_t k) { return logits(row, k) - most; }, headred::detail::add{});
    if (block.thread() != 0) return;
    losses(row) = loss;
    log_sums(row) = log_sum;
  }
};

template <class T>
struct cross_entropy_gradient_kernel : row_kernel<T> {
  tensor_view<const T, 2, device_space> logits;
  tensor_view<const std::int32_t, 1, device_space> targets;
  T even, point, row_scale;
  tensor_view<const T, 1, device_space> log_sums;
  tensor_view<T, 2, device_space> dlogits;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, typename row_kernel<T>::template shared<Block>& memory) const {
    constexpr T lowest = -std::numeric_limits<T>::infinity();
    const index_t row = block.block(), cols = logits.extent(1), target = targets(row);
    if (target < 0) return;
    const T most = this->fold(
        block, memory, cols, lowest, [&](index_t k) { return logits(row, k); }, headred::detail::take_greater{});
    const bool none = most == lowest;  // such a row has no distribution: its softmax counts as zero
    const T shift = none ? T(0) : most, log_sum = none ? T(0) : log_sums(row);
    for (index_t k = block.thread(); k < cols; k += this->threads)
      dlogits(row, k) += row_scale * std::exp((logits(row, k) - shift) - log_sum) - even - (k == target ? point : T(0));
  }
};

inline void require_smoothing(double label_smoothing) {
  if (!(label_smoothing >= 0 && label_smoothing <= 1))
    throw argument_error("cross_entropy: the label smoothing is " + number_text(label_smoothing) + ", expected [0,1]");
}

}  // namespace detail

/// Throws argument_error unless every target is in [0, classes) or -1; once a batch, since it waits for the device.
/// targets : (R) on the device. Uses 8 bytes of the workspace.
template <device_backend Backend>
void require_targets(Backend& be, tensor_view<const std::int32_t, 1, device_space> targets, index_t classes) {
  const index_t rows = targets.extent(0);
  if (rows == 0) return;
  const index_t row = detail::first_index(be, rows, detail::outside{targets, -1, classes},
                                          static_cast<index_t*>(be.workspace(sizeof(index_t))));
  if (row == rows) return;
  std::int32_t target = 0;
  be.download(&target, targets.data() + row * targets.stride(0), sizeof target);
  throw argument_error("cross_entropy: target " + std::to_string(target) + " of row " + std::to_string(row) +
                       ", expected [0," + std::to_string(classes) + ") or -1 for none");
}

/// losses_r = log_sums_r - (1 - e) (x_rt - m_r) - e mean_v (x_rv - m_r), t = targets_r, e = label_smoothing,
/// log_sums_r = ln sum_v e^(x_rv - m_r), m_r the greatest logit of the row, as on the CPU but summed in T.
/// logits x : (R,V), targets : (R), which require_targets has seen, -1 for a row that does not count -> losses,
/// log_sums : (R), in nats. Throws shape_error; argument_error for a smoothing out of range.
/// Source: Szegedy et al. 2016, section 7.
template <class T, device_backend Backend>
void cross_entropy_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> logits,
                           tensor_view<const std::int32_t, 1, device_space> targets, double label_smoothing,
                           tensor_view<T, 1, device_space> losses,
                           std::type_identity_t<tensor_view<T, 1, device_space>> log_sums) {
  const char* const op = "cross_entropy_forward";
  detail::require_shape(op, "targets", targets, {logits.extent(0)});
  detail::require_shape(op, "losses", losses, {logits.extent(0)});
  detail::require_shape(op, "log_sums", log_sums, {logits.extent(0)});
  detail::require_smoothing(label_smoothing);
  be.launch(logits.extent(0),
            detail::cross_entropy_kernel<T>{{}, logits, targets, static_cast<T>(label_smoothing), losses, log_sums});
}

/// dlogits_rv += row_scale (softmax(x_r)_v - (1 - e) [v = t] - e / V); nothing in rows that do not count.
/// log_sums as cross_entropy_forward left them. Throws what it throws.
template <class T, device_backend Backend>
void cross_entropy_gradient(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> logits,
                            tensor_view<const std::int32_t, 1, device_space> targets, double label_smoothing,
                            std::type_identity_t<tensor_view<const T, 1, device_space>> log_sums,
                            std::type_identity_t<T> row_scale, tensor_view<T, 2, device_space> dlogits) {
  const char* const op = "cross_entropy_gradient";
  detail::require_shape(op, "targets", targets, {logits.extent(0)});
  detail::require_shape(op, "log_sums", log_sums, {logits.extent(0)});
  detail::require_shape(op, "dlogits", dlogits, logits.shape());
  detail::require_smoothing(label_smoothing);
  if (logits.empty()) return;
  const T even = row_scale * static_cast<T>(label_smoothing / static_cast<double>(logits.extent(1)));
  const T point = row_scale * static_cast<T>(1 - label_smoothing);
  be.launch(logits.extent(0),
            detail::cross_entropy_gradient_kernel<T>{{}, logits, targets, even, point, row_scale, log_sums, dlogits});
}

}  // namespace headred::device
