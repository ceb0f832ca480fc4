// learned_mask: an attention mask, the parameters that it is made of, and the way back to them.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <headred/core/random.hpp>
#include <headred/nn/mask_options.hpp>
#include <headred/nn/parameter.hpp>
#include <headred/sparsity/attention_mask.hpp>
#include <headred/sparsity/gumbel_sigmoid.hpp>

namespace headred {

/// A mask M (H,N,N) and its parameters a, (H,1,N) structured, (H,N,N) unstructured, of which the upper triangle counts.
/// The same backend goes with every call. Memory: 2 H N^2 values and five times the parameters; calls allocate nothing.
template <class T, host_backend Backend>
class learned_mask {
 public:
  /// Parameters a = initial + spread N(0,1), drawn from `first`; until `sample` or `evaluate` the mask is all zeros.
  learned_mask(Backend& be, const mask_options& o, index_t heads, index_t length, const random_stream& first)
      : structured_(o.form == mask_form::structured),
        diagonal_(o.diagonal),
        price_(o.price),
        lambda_(o.lambda),
        a_(be, {heads, structured_ ? 1 : length, length}),
        v_(be, a_.value.shape()),
        dv_(be, a_.value.shape()),
        counts_(be, a_.value.shape()),
        mask_(be, {heads, length, length}),
        gradient_(be, {heads, length, length}) {
    a_.train(be);
    for (index_t i = 0; i < a_.value.size(); ++i) {  // Box and Muller (1958)
      const auto n = static_cast<std::uint64_t>(i);
      const double normal =
          std::sqrt(-2 * std::log1p(-first.uniform(2 * n))) * std::cos(2 * std::acos(-1.) * first.uniform(2 * n + 1));
      a_.value.data()[i] = static_cast<T>(o.initial + o.spread * normal);
    }
    // how many entries each parameter stands for: the way back from ones
    std::fill_n(gradient_.data(), gradient_.size(), T(1));
    fold(be, counts_);
    clear(v_);
    clear(mask_);
  }

  parameter<T, 3, Backend>& a() noexcept { return a_; }
  const parameter<T, 3, Backend>& a() const noexcept { return a_; }
  tensor_view<const T, 3> mask() const { return mask_.view(); }
  /// dLoss/dM, which attention adds to; `pull_back` leaves zeros.
  tensor_view<T, 3> gradient() { return gradient_.view(); }

  /// Number of parameters that stand for an entry.
  index_t size() const noexcept {
    return static_cast<index_t>(
        std::count_if(counts_.data(), counts_.data() + counts_.size(), [](T n) { return n > T(0); }));
  }

  /// Draws the mask. What its gradient held is forgotten. Throws argument_error for a NaN in a.
  void sample(Backend& be, const gumbel_sigmoid& entry, const random_stream& draws) {
    gumbel_sigmoid_sample(be, entry, std::as_const(a_.value).view(), draws, v_.view());
    unfold(be);
    clear(gradient_);
  }

  /// Adds to the gradient of a, from that of the mask and of the price, for the entry and draws of the last sample:
  ///   dv = (dM + lambda) of the entries that v stands for,  da += dv dM/da;  with mask_price::expected
  ///   dv = dM of these,  da += dv dM/da + lambda entries p (1 - p), p = sigmoid(a).
  void pull_back(Backend& be, const gumbel_sigmoid& entry, const random_stream& draws, tensor_view<T, 1> dtemperature) {
    fold(be, dv_);
    const auto lambda = static_cast<T>(lambda_);
    const bool sampled = price_ == mask_price::sampled;
    for (index_t i = 0; i < dv_.size(); ++i)
      if (sampled)
        dv_.data()[i] += lambda * counts_.data()[i];
      else
        a_.gradient.data()[i] += lambda * counts_.data()[i] * detail::sigmoid_slope(a_.value.data()[i]);
    gumbel_sigmoid_gradient(be, entry, std::as_const(a_.value).view(), draws, std::as_const(dv_).view(),
                            a_.gradient.view(), dtemperature);
  }

  /// The mask of exactly 0 and 1, open where a > threshold. Throws argument_error for a NaN in a.
  void evaluate(Backend& be, double threshold) {
    for (index_t i = 0; i < v_.size(); ++i) {
      const auto a = static_cast<double>(a_.value.data()[i]);
      if (std::isnan(a)) throw argument_error("learned_mask: a is NaN, expected a number");
      v_.data()[i] = a > threshold ? T(1) : T(0);
    }
    unfold(be);
  }

  /// lambda times the sum of the mask's entries, or of P(M > 1/2), in double.
  double penalty() const {
    double sum = 0;
    for (index_t i = 0; i < v_.size(); ++i)
      sum += static_cast<double>(counts_.data()[i]) * (price_ == mask_price::sampled
                                                           ? static_cast<double>(v_.data()[i])
                                                           : detail::sigmoid(static_cast<double>(a_.value.data()[i])));
    return lambda_ * sum;
  }

 private:
  static void clear(tensor<T, 3, Backend>& x) { std::fill_n(x.data(), x.size(), T(0)); }
  static tensor_view<T, 2> offsets(tensor<T, 3, Backend>& v) { return {v.data(), {v.shape()[0], v.shape()[2]}}; }

  /// v -> mask
  void unfold(Backend& be) {
    if (structured_)
      structured_mask(be, tensor_view<const T, 2>(offsets(v_)), mask_.view());
    else
      unstructured_mask(be, std::as_const(v_).view(), mask_.view());
    if (!diagonal_) remove_diagonal(be, mask_.view());
  }
  /// gradient -> to; the gradient is 0 then
  void fold(Backend& be, tensor<T, 3, Backend>& to) {
    if (!diagonal_) remove_diagonal(be, gradient_.view());
    clear(to);
    if (structured_)
      structured_mask_gradient(be, std::as_const(gradient_).view(), offsets(to));
    else
      unstructured_mask_gradient(be, std::as_const(gradient_).view(), to.view());
    clear(gradient_);
  }

  bool structured_, diagonal_;
  mask_price price_;
  double lambda_;
  parameter<T, 3, Backend> a_;
  tensor<T, 3, Backend> v_, dv_, counts_;  // shape of a; counts: entries of the mask that each stands for
  tensor<T, 3, Backend> mask_, gradient_;  // (H,N,N)
};

}  // namespace headred
