// taylor: what the loss would change by, to first order, if a head were switched off.
#pragma once

#include <cmath>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <headred/importance/exact_sum.hpp>
#include <headred/importance/head_dots.hpp>
#include <headred/importance/head_scores.hpp>
#include <headred/importance/layer_counts.hpp>

namespace headred {

/// Where the absolute value is taken.
enum class taylor_absolute {
  per_example,  ///< | sum over the example's tokens |, as the paper has it
  per_token,    ///< sum over tokens of | |, as its code has it
};

/// First-order importance of the heads of one attention kind:
///   I_h = mean over examples x of | sum_t,k out_h . dL/dout_h | = mean |dL/dgate_h|
///   add(layer, outputs, gradients, examples)   head outputs before the gate and dL/dgated output, (R, H K) each
///   add_gates(layer, gradients)                (examples, H), dL/dgate of each example
///   merge(other)                               exact: any order, batch or split gives the same bits
///   scores()                                   values >= 0, in the loss's unit; see layer_normalised
/// L is one example's loss: its mean over target tokens. An example without tokens is skipped and counted. A call that
/// throws changes nothing. Memory: 552 bytes a head. Cost: one pass over both matrices. Michel et al. 2019, section
/// 2.3.
class taylor {
 public:
  explicit taylor(head_layout layout, taylor_absolute absolute = taylor_absolute::per_example)
      : layout_(std::move(layout)), absolute_(absolute) {
    sums_.resize(static_cast<std::size_t>(layout_.size()));
    counts_ = detail::layer_counts(layout_.layers());
  }

  const head_layout& layout() const noexcept { return layout_; }
  taylor_absolute absolute() const noexcept { return absolute_; }

  /// Some examples in one layer. scale, if given: one factor an example, which its gradients are still to be multiplied
  /// by (1 / target tokens, where the loss that was gone back from is a sum over tokens).
  /// Throws shape_error, and data_error naming layer, head and example for a product that is not finite.
  template <class T>
  void add(index_t layer, tensor_view<const T, 2> outputs, std::type_identity_t<tensor_view<const T, 2>> gradients,
           std::span<const row_span> examples, std::span<const double> scale = {}) {
    const index_t heads = layout_.heads(layer), width = detail::head_width("taylor", layout_, layer, outputs);
    if (gradients.shape() != outputs.shape())
      throw shape_error("taylor: the gradients are " + shape_text(gradients.shape()) + ", expected " +
                        shape_text(outputs.shape()));
    detail::require_rows("taylor", examples, outputs.extent(0));
    if (!scale.empty() && scale.size() != examples.size())
      throw shape_error("taylor: " + std::to_string(scale.size()) + " scales for " + std::to_string(examples.size()) +
                        " examples");
    found_.assign(examples.size() * static_cast<std::size_t>(heads), 0);
    const auto place = [&](std::size_t e, index_t h) -> double& {
      return found_[e * static_cast<std::size_t>(heads) + static_cast<std::size_t>(h)];
    };
    score_counts added;
    for (std::size_t e = 0; e < examples.size(); ++e) {
      const row_span& rows = examples[e];
      if (rows.length == 0) {
        ++added.skipped;
        continue;
      }
      ++added.examples;
      added.tokens += rows.length;
      const double factor = scale.empty() ? 1 : scale[e];
      for (index_t t = rows.begin; t < rows.begin + rows.length; ++t)
        for (index_t h = 0; h < heads; ++h) {
          const double dot = head_dot(outputs, gradients, t, h * width, width);
          place(e, h) += absolute_ == taylor_absolute::per_token ? std::abs(dot) : dot;
        }
      for (index_t h = 0; h < heads; ++h) {
        place(e, h) = std::abs(place(e, h) * factor);
        if (!std::isfinite(place(e, h)))
          detail::fail_not_finite("taylor", "an output times its gradient", layer, h, static_cast<index_t>(e));
      }
    }
    for (std::size_t e = 0; e < examples.size(); ++e)
      for (index_t h = 0; h < heads; ++h) sum_of(layer, h) += place(e, h);
    counts_.add(layer, added);
  }

  /// dL/dgate of some examples, (examples, H): with `per_example` the same as `add`. Throws argument_error for
  /// `per_token`, whose terms the gates no longer show; shape_error; data_error.
  template <class T>
  void add_gates(index_t layer, tensor_view<const T, 2> gradients) {
    const index_t heads = layout_.heads(layer);
    if (absolute_ != taylor_absolute::per_example)
      throw argument_error("taylor: gates have no gradient per token, expected taylor_absolute::per_example");
    if (gradients.extent(0) < 0 || gradients.extent(1) != heads)
      throw shape_error("taylor: the gate gradients are " + shape_text(gradients.shape()) + ", expected (examples," +
                        std::to_string(heads) + ")");
    for (index_t e = 0; e < gradients.extent(0); ++e)
      for (index_t h = 0; h < heads; ++h)
        if (!std::isfinite(static_cast<double>(gradients(e, h))))
          detail::fail_not_finite("taylor", "a gate's gradient", layer, h, e);
    for (index_t e = 0; e < gradients.extent(0); ++e)
      for (index_t h = 0; h < heads; ++h) sum_of(layer, h) += std::abs(static_cast<double>(gradients(e, h)));
    counts_.add(layer, {gradients.extent(0), 0, 0});
  }

  /// Adds what another accumulator has seen. Throws argument_error for another layout or policy.
  void merge(const taylor& other) {
    if (other.layout_ != layout_) throw argument_error("taylor: merge of accumulators with different layouts");
    if (other.absolute_ != absolute_) throw argument_error("taylor: merge of accumulators with different policies");
    for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += other.sums_[i];
    counts_.merge(other.counts_);
  }

  /// Throws argument_error if no example was added or the layers saw different numbers of examples.
  head_scores scores(attention_kind kind = attention_kind::encoder_self) const {
    head_scores result("taylor");
    add_to(result, kind);
    return result;
  }
  /// The same as one kind of a result that is there.
  void add_to(head_scores& result, attention_kind kind) const {
    const score_counts seen = counts_.common("taylor", "example", layout_);
    std::vector<double> means;
    for (const exact_sum& sum : sums_) means.push_back(sum.value() / static_cast<double>(seen.examples));
    result.add(kind, layout_, std::move(means), seen);
  }

 private:
  template <class T>
  static double head_dot(const tensor_view<const T, 2>& a, const tensor_view<const T, 2>& b, index_t row, index_t first,
                         index_t width) {
    const T* const x = a.data() + row * a.stride(0) + first * a.stride(1);
    const T* const y = b.data() + row * b.stride(0) + first * b.stride(1);
    double sums[4] = {};  // four chains of additions, in a fixed order
    index_t k = 0;
    for (; k + 4 <= width; k += 4)
      for (index_t i = 0; i < 4; ++i)
        sums[i] += static_cast<double>(x[(k + i) * a.stride(1)]) * static_cast<double>(y[(k + i) * b.stride(1)]);
    for (; k < width; ++k) sums[0] += static_cast<double>(x[k * a.stride(1)]) * static_cast<double>(y[k * b.stride(1)]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  exact_sum& sum_of(index_t layer, index_t h) { return sums_[static_cast<std::size_t>(layout_.flat({layer, h}))]; }
  head_layout layout_;
  taylor_absolute absolute_;
  std::vector<exact_sum> sums_;
  detail::layer_counts counts_;
  std::vector<double> found_;  // scratch (examples, H)
};

}  // namespace headred
