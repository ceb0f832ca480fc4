// confidence: how much of its attention a head gives to its favourite token.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <headred/backend/task_runner.hpp>
#include <headred/core/as_view.hpp>
#include <headred/distance/fixed_sum.hpp>
#include <headred/distance/sentence_maps.hpp>
#include <headred/importance/end_token.hpp>
#include <headred/importance/head_scores.hpp>
#include <headred/importance/head_tasks.hpp>
#include <headred/importance/row_peak.hpp>

namespace headred {

/// What the mean is over.
enum class token_average {
  pooled,        ///< all tokens of all sentences
  per_sentence,  ///< the sentences' own means
};

/// What counts as a token, and what the mean is taken over.
struct confidence_options {
  end_token end = end_token::excluded;
  token_average average = token_average::pooled;
  friend bool operator==(const confidence_options&, const confidence_options&) = default;
};

namespace detail {

/// What a row is read as: floats in place, all else as double, which peak_of computes in anyway.
template <class T>
using peak_element = std::conditional_t<std::same_as<T, float>, float, double>;

}  // namespace detail

/// Confidence of the heads of one attention kind: the mean over tokens t of max_s A[t,s], A's rows divided by their
/// sums.
///   add(attention)                  one sentence (L,H,T,S), or its layers (H_l,T,S) as for_each_attention hands them
///   out
///   add_batch(attention, lengths)   (B,L,H,T,S), padded
///   merge(other)                    exact: any order, batch, split or number of threads gives the same bits
///   scores()                        in [0,1]
/// Padding does not exist. A row of zeros has confidence 0. A sentence without a query or a candidate (an end token
/// alone) is skipped and counted. A call that throws leaves the accumulator as it was (add_batch: with the sentences
/// before). Cost: one pass over the maps. Voita et al. 2019, section 4; that the end token is left out as query and as
/// key is our reading of "excluding EOS".
template <host_backend Backend>
class confidence {
 public:
  confidence(Backend& be, head_layout layout, confidence_options options = {})
      : backend_(&be), layout_(std::move(layout)), options_(options) {
    if (layout_.size() < 1) throw argument_error("confidence: the layout holds no head");
    sums_.resize(static_cast<std::size_t>(layout_.size()));
    sentence_.resize(sums_.size());
  }

  const head_layout& layout() const noexcept { return layout_; }
  const confidence_options& options() const noexcept { return options_; }
  const score_counts& counts() const noexcept { return counts_; }

  /// False if the sentence was skipped. Throws shape_error where the maps do not fit the layout or the options,
  /// data_error
  /// for entries that are negative or not finite and for rows that do not sum to 1.
  template <class Attention>
  bool add(Attention&& attention, const sentence_options& options = {}) {
    if constexpr (viewable_as<Attention, 4>) {
      const auto view = as_view(attention);
      using value = typename decltype(view)::value_type;
      maps_.assign(layout_, tensor_view<const value, 4>(view), options);
      return add_maps<detail::peak_element<value>>();
    } else if constexpr (detail::layer_range<Attention>) {
      using value = typename std::ranges::range_value_t<std::remove_cvref_t<Attention>>::value_type;
      maps_.assign(layout_, attention, options);
      return add_maps<detail::peak_element<value>>();
    } else {
      static_assert(
          !sizeof(Attention),
          "confidence::add: expected attention (L,H,T,S), or a range of its layers, tensor_view (H,T,S) each");
    }
  }

  /// Adds B sentences of lengths[b] valid tokens each (empty: all). Returns how many were not skipped.
  template <viewable_as<5> Attention>
  index_t add_batch(Attention&& attention, std::span<const index_t> lengths = {},
                    const sentence_options& options = {}) {
    const auto view = as_view(attention);
    if (view.extent(0) < 0) throw shape_error("confidence: negative extent in " + shape_text(view.shape()));
    if (!lengths.empty() && static_cast<index_t>(lengths.size()) != view.extent(0))
      throw shape_error("confidence: " + std::to_string(lengths.size()) + " lengths for a batch " +
                        shape_text(view.shape()));
    index_t added = 0;
    for (index_t b = 0; b < view.extent(0); ++b) {
      sentence_options one = options;
      if (!lengths.empty()) one.length = lengths[static_cast<std::size_t>(b)];
      added += add(view[b], one) ? 1 : 0;
    }
    return added;
  }

  /// Adds what another accumulator has seen. Throws argument_error for one of another layout or other options.
  void merge(const confidence& other) {
    if (other.layout_ != layout_) throw argument_error("confidence: merge of accumulators with different layouts");
    if (other.options_ != options_) throw argument_error("confidence: merge of accumulators with different options");
    constexpr index_t most = index_t{1} << 32;  // what a fixed_sum holds
    if (counts_.tokens > most - other.counts_.tokens || counts_.examples > most - other.counts_.examples ||
        counts_.skipped > most - other.counts_.skipped)
      throw argument_error("confidence: merge to more than 2^32 tokens");
    for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += other.sums_[i];
    counts_.examples += other.counts_.examples;
    counts_.tokens += other.counts_.tokens;
    counts_.skipped += other.counts_.skipped;
  }

  /// The means so far, as one kind of head_scores. Throws argument_error before the first sentence.
  head_scores scores(attention_kind kind = attention_kind::encoder_self) const {
    head_scores result("confidence");
    add_to(result, kind);
    return result;
  }
  /// The same as one kind of a result that is there.
  void add_to(head_scores& result, attention_kind kind) const {
    if (counts_.examples == 0)
      throw argument_error("confidence: no sentence was added (" + std::to_string(counts_.skipped) + " skipped)");
    const index_t terms = options_.average == token_average::pooled ? counts_.tokens : counts_.examples;
    std::vector<double> means;
    for (const fixed_sum& sum : sums_) means.push_back(sum.value() / static_cast<double>(terms));
    result.add(kind, layout_, std::move(means), counts_);
  }

 private:
  template <class Real>
  auto& rows_of() {
    if constexpr (sizeof(Real) == 8)
      return double_rows_;
    else
      return single_rows_;
  }

  template <class Real>
  bool add_maps() {
    const bool no_query = !end_asks(options_.end);
    const bool no_key = !end_is_candidate(options_.end);
    const index_t queries = maps_.queries() - (no_query ? 1 : 0), candidates = maps_.keys() - (no_key ? 1 : 0);
    if (maps_.empty() || queries < 1 || candidates < 1) {
      ++counts_.skipped;
      return false;
    }
    task_runner<Backend> tasks(*backend_);
    auto& rows = rows_of<Real>();
    rows.resize(static_cast<std::size_t>(tasks.workers()));
    detail::run_heads(tasks, maps_, [&](index_t h, int worker) {
      auto& row = rows[static_cast<std::size_t>(worker)];
      if (row.size() < static_cast<std::size_t>(maps_.keys())) row.resize(static_cast<std::size_t>(maps_.keys()));
      fixed_sum sum;
      detail::row_peaks<Real> peaks;
      detail::row_prefetch ahead(queries,
                                 h + 1 < maps_.heads() ? maps_.template row_in<Real>(h + 1, 0, row.data()) : nullptr);
      for (index_t t = 0; t < queries; ++t) {
        const Real* const x = maps_.template row_in<Real>(h, t, row.data());
        ahead.ask(x, maps_.keys());
        auto peak = peaks.template of<false>(x, maps_.keys(), candidates);
        // The slow way tells a row of zeros from a bad one, which it names.
        if (!(std::abs(peak.sum - 1) <= maps_.tolerance())) peak.sum = maps_.checked_sum(h, t);
        if (peak.sum > 0) sum += std::min(1., static_cast<double>(peak.most) / peak.sum);
      }
      if (peaks.negative()) detail::check_rows(maps_, h, queries);
      sentence_[static_cast<std::size_t>(h)] = sum;
    });
    for (std::size_t h = 0; h < sums_.size(); ++h) {
      if (options_.average == token_average::pooled)
        sums_[h] += sentence_[h];
      else
        sums_[h] += std::min(1., sentence_[h].value() / static_cast<double>(queries));
    }
    ++counts_.examples;
    counts_.tokens += queries;
    return true;
  }

  Backend* backend_;
  head_layout layout_;
  confidence_options options_;
  score_counts counts_;
  std::vector<fixed_sum> sums_;
  // scratch, reused from sentence to sentence
  detail::sentence_maps maps_;
  std::vector<fixed_sum> sentence_;
  std::vector<std::vector<float>> single_rows_;
  std::vector<std::vector<double>> double_rows_;
};

}  // namespace headred
