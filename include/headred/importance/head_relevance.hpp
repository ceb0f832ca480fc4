// head_relevance: how much of a layer's relevance flows through each of its heads.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headred/distance/fixed_sum.hpp>
#include <headred/importance/head_dots.hpp>
#include <headred/importance/head_scores.hpp>
#include <headred/importance/layer_counts.hpp>

namespace headred {

/// Relevance of the heads of one attention kind:
///   r_h = sum |R| over the head's output neurons, all rows of a step;  score = mean over steps of r_h / sum_h' r_h'
///   add(layer, relevance, steps)   R at the heads' outputs, (rows, H K); a step is one sweep from one logit: its rows
///   merge(other)                   exact: any order, batch or split gives the same bits
///   scores()                       in [0,1]; a layer's heads sum to 1
/// Where no relevance reaches a layer in a step, its heads get 0. A step without rows is skipped and counted. A call
/// that
/// throws changes nothing. Cost: one pass over R. Voita et al. 2019, section 4.
class head_relevance {
 public:
  explicit head_relevance(head_layout layout) : layout_(std::move(layout)) {
    sums_.resize(static_cast<std::size_t>(layout_.size()));
    counts_ = detail::layer_counts(layout_.layers());
  }

  const head_layout& layout() const noexcept { return layout_; }

  /// Throws shape_error, and data_error naming layer, head and row for relevance that is not finite.
  template <class T>
  void add(index_t layer, tensor_view<const T, 2> relevance, std::span<const row_span> steps) {
    const index_t heads = layout_.heads(layer), width = detail::head_width("head_relevance", layout_, layer, relevance);
    detail::require_rows("head_relevance", steps, relevance.extent(0));
    shares_.assign(steps.size() * static_cast<std::size_t>(heads), 0);
    score_counts added;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      if (steps[s].length == 0) {
        ++added.skipped;
        continue;
      }
      ++added.examples;
      added.tokens += steps[s].length;
      double* const own = shares_.data() + s * static_cast<std::size_t>(heads);
      for (index_t t = steps[s].begin; t < steps[s].begin + steps[s].length; ++t)
        for (index_t h = 0; h < heads; ++h) {
          double sum = 0;
          for (index_t k = h * width; k < (h + 1) * width; ++k)
            sum += std::abs(static_cast<double>(relevance.data()[t * relevance.stride(0) + k * relevance.stride(1)]));
          if (!std::isfinite(sum)) detail::fail_not_finite("head_relevance", "the relevance", layer, h, t);
          own[h] += sum;
        }
      // Divided by the greatest first: sums of very small or great relevance stay in range.
      const double most = heads == 0 ? 0 : *std::max_element(own, own + heads);
      if (most == 0 || !std::isfinite(most)) {
        if (most > 0) detail::fail_not_finite("head_relevance", "the sum of relevance", layer, 0, steps[s].begin);
        continue;
      }
      double all = 0;
      for (index_t h = 0; h < heads; ++h) all += own[h] /= most;
      for (index_t h = 0; h < heads; ++h) own[h] = std::min(1., own[h] / all);
    }
    for (std::size_t s = 0; s < steps.size(); ++s)
      for (index_t h = 0; h < heads; ++h)
        sums_[static_cast<std::size_t>(layout_.flat({layer, h}))] +=
            shares_[s * static_cast<std::size_t>(heads) + static_cast<std::size_t>(h)];
    counts_.add(layer, added);
  }

  /// Adds what another accumulator has seen. Throws argument_error for another layout.
  void merge(const head_relevance& other) {
    if (other.layout_ != layout_) throw argument_error("head_relevance: merge of accumulators with different layouts");
    for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += other.sums_[i];
    counts_.merge(other.counts_);
  }

  /// Throws argument_error if a layer with heads saw no step, or layers different numbers of steps.
  head_scores scores(attention_kind kind = attention_kind::encoder_self) const {
    head_scores result("relevance");
    add_to(result, kind);
    return result;
  }
  /// The same as one kind of a result that is there.
  void add_to(head_scores& result, attention_kind kind) const {
    const score_counts seen = counts_.common("head_relevance", "step", layout_);
    std::vector<double> means;
    for (const fixed_sum& sum : sums_) means.push_back(sum.value() / static_cast<double>(seen.examples));
    result.add(kind, layout_, std::move(means), seen);
  }

 private:
  head_layout layout_;
  std::vector<fixed_sum> sums_;
  detail::layer_counts counts_;
  std::vector<double> shares_;  // scratch (steps, H)
};

}  // namespace headred
