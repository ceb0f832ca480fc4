#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <headred/device/any_redundancy.hpp>
#include <headred/distance/fixed_sum.hpp>
#include <headred/distance/pairwise.hpp>

namespace headred {

/// Called before each sentence with the number of sentences done; returning false ends the call with `cancelled`.
using progress_callback = std::function<bool(index_t done)>;

/// Redundancy matrix of the heads of one attention kind: the mean over sentences of the distance of each pair of heads.
///   add(attention)            one sentence (L,H,T,S), or its layers with different head counts
///   add_batch(attention, lengths)   (B,L,H,T,S), padded
///   merge(other)              exact: any order, batch, split or number of threads gives the same bits
///   matrix()                  (N,N) in [0,1], diagonal 0, N = number of heads in all
/// Memory O(N^2), whatever the number of sentences; nothing is allocated from the second sentence of a length on.
/// `Sum` is fixed_sum, or double where 16 bytes a pair are too many (the order of sentences then shows in the last bits).
/// One thread at a time may use an accumulator; several accumulators may share a backend.
/// A call that throws leaves the accumulator as it was, but for `last` (add_batch: with the sentences before the failing one).
/// Bian et al. (NAACL 2021), section 3.
template <distance_policy Distance, host_backend Backend, class Sum>
class redundancy<Distance, Backend, Sum> {
 public:
  /// An accumulator that has seen nothing. Throws argument_error for a layout without heads.
  redundancy(Backend& be, head_layout layout, Distance distance = {})
      : backend_(&be), layout_(std::move(layout)), distance_(std::move(distance)) {
    const index_t n = layout_.size();
    if (n < 1) throw argument_error("redundancy: the layout holds no head");
    sentence_ = headred::matrix(n, n);  // first: it checks that n^2 can be counted
    sums_.resize(static_cast<std::size_t>(n * (n - 1) / 2));
  }

  const head_layout& layout() const noexcept { return layout_; }
  const Distance& distance() const noexcept { return distance_; }
  /// Sentences in the mean.
  index_t sentences() const noexcept { return sentences_; }
  /// Sentences without a valid token, or with fewer than the distance needs.
  index_t skipped() const noexcept { return skipped_; }
  /// Sentences for which the distance was underdetermined (canonical correlation with T < S); they are in the mean.
  index_t underdetermined() const noexcept { return underdetermined_; }

  /// Adds one sentence: attention (L,H,T,S), or a vector, array or span of its layers, tensor_view (H_l,T,S) each, which
  /// may hold different numbers of heads. False if it was skipped. `Precision` as in `pairwise`.
  template <class Precision = void, class Attention>
  bool add(Attention&& attention, const sentence_options& options = {}) {
    if constexpr (viewable_as<Attention, 4>) {
      const auto view = as_view(attention);
      using value = typename decltype(view)::value_type;
      maps_.assign(layout_, tensor_view<const value, 4>(view), options);
      return add_maps<detail::precision_of<Precision, value>>();
    } else if constexpr (detail::layer_range<Attention>) {
      using value = typename std::ranges::range_value_t<std::remove_cvref_t<Attention>>::value_type;
      maps_.assign(layout_, attention, options);
      return add_maps<detail::precision_of<Precision, value>>();
    } else {
      static_assert(!sizeof(Attention),
                    "redundancy::add: expected attention (L,H,T,S), such as tensor_view<float, 4>(p, "
                    "{L, H, T, S}), or a range of its layers, tensor_view (H,T,S) each");
    }
  }

  /// Adds B sentences (B,L,H,T,S) of lengths[b] valid tokens each (empty: all). Returns how many were not skipped.
  template <class Precision = void, viewable_as<5> Attention>
  index_t add_batch(Attention&& attention, std::span<const index_t> lengths = {}, const sentence_options& options = {},
                    const progress_callback& progress = {}) {
    const auto view = as_view(attention);
    if (view.extent(0) < 0) throw shape_error("redundancy: negative extent in " + shape_text(view.shape()));
    if (!lengths.empty() && static_cast<index_t>(lengths.size()) != view.extent(0))
      throw shape_error("redundancy: " + std::to_string(lengths.size()) + " lengths for a batch " +
                        shape_text(view.shape()));
    index_t added = 0;
    for (index_t b = 0; b < view.extent(0); ++b) {
      if (progress && !progress(b)) throw cancelled();
      sentence_options one = options;
      if (!lengths.empty()) one.length = lengths[static_cast<std::size_t>(b)];
      added += add<Precision>(view[b], one) ? 1 : 0;
    }
    return added;
  }

  /// Distances of the sentence added last (N,N).
  const headred::matrix& last() const noexcept { return sentence_; }

  /// Adds what another accumulator of the same distance and layout has seen. Throws argument_error for another one.
  void merge(const redundancy& other) {
    if (other.layout_ != layout_) throw argument_error("redundancy: merge of accumulators with different layouts");
    if (other.settings() != settings())
      throw argument_error("redundancy: merge of " + other.settings() + " into " + settings());
    constexpr index_t most = index_t{1} << 32;  // what a fixed_sum holds
    if (sentences_ > most - other.sentences_ || skipped_ > most - other.skipped_)
      throw argument_error("redundancy: merge to more than 2^32 sentences");
    for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += other.sums_[i];
    sentences_ += other.sentences_;
    skipped_ += other.skipped_;
    underdetermined_ += other.underdetermined_;
  }

  /// The mean so far, (N,N). Throws argument_error if no sentence was added.
  headred::matrix matrix() const {
    if (sentences_ == 0)
      throw argument_error("redundancy: no sentence was added (" + std::to_string(skipped_) + " skipped)");
    const index_t n = layout_.size();
    headred::matrix mean(n, n);
    std::size_t at = 0;
    for (index_t i = 0; i < n; ++i)
      for (index_t j = i + 1; j < n; ++j) {
        mean(i, j) = mean(j, i) = value_of(sums_[at++]) / static_cast<double>(sentences_);
      }
    return mean;
  }

  /// Name and options of the distance, as two accumulators must share them.
  std::string settings() const {
    std::string text(Distance::name);
    if constexpr (requires { distance_.settings(); }) {
      if (const std::string options = distance_.settings(); !options.empty()) text += " " + options;
    } else {
      static_assert(std::is_empty_v<Distance>,
                    "redundancy: a distance with options needs std::string settings() const, "
                    "so that accumulators with other options are told apart");
    }
    return text;
  }

  /// What `redundancy_state` stores and restores.
  struct state {
    std::vector<Sum> sums;  ///< strict upper triangle, row by row
    index_t sentences = 0, skipped = 0, underdetermined = 0;
  };
  state snapshot() const { return {sums_, sentences_, skipped_, underdetermined_}; }
  /// Throws argument_error for a state that does not fit the layout.
  void restore(state stored) {
    if (stored.sums.size() != sums_.size() || stored.sentences < 0 || stored.skipped < 0 ||
        stored.underdetermined < 0 || stored.underdetermined > stored.sentences ||
        !std::all_of(stored.sums.begin(), stored.sums.end(), [&](const Sum& sum) {
          const double value = value_of(sum);  // a sum of as many numbers in [0,1]
          return value >= 0 && value <= static_cast<double>(stored.sentences) * (1 + 1e-9);
        }))
      throw argument_error("redundancy: the stored state does not fit " + std::to_string(layout_.size()) + " heads");
    sums_ = std::move(stored.sums);
    sentences_ = stored.sentences;
    skipped_ = stored.skipped;
    underdetermined_ = stored.underdetermined;
  }

 private:
  static double value_of(double sum) { return sum; }
  static double value_of(const fixed_sum& sum) { return sum.value(); }

  template <class Real>
  bool add_maps() {
    if (maps_.empty() || maps_.queries() < detail::least_tokens(distance_)) {
      ++skipped_;
      return false;
    }
    task_runner<Backend> tasks(*backend_);
    status outcome;
    if constexpr (std::same_as<Real, float>) {
      outcome = detail::all_pairs<Real>(distance_, tasks, maps_, single_, sentence_.view());
    } else {
      outcome = detail::all_pairs<Real>(distance_, tasks, maps_, double_, sentence_.view());
    }
    const index_t n = layout_.size();
    tasks.run_rows(n, [&](index_t i, int) {
      Sum* sum = sums_.data() + i * (2 * n - i - 1) / 2;
      for (index_t j = i + 1; j < n; ++j) *sum++ += sentence_(i, j);
    });
    ++sentences_;
    underdetermined_ += outcome == status::underdetermined ? 1 : 0;
    return true;
  }

  Backend* backend_;
  head_layout layout_;
  Distance distance_;
  std::vector<Sum> sums_;  // strict upper triangle, row by row
  index_t sentences_ = 0, skipped_ = 0, underdetermined_ = 0;
  // scratch, reused from sentence to sentence
  detail::sentence_maps maps_;
  typename detail::workspace_of<Distance, float>::type single_;
  typename detail::workspace_of<Distance, double>::type double_;
  headred::matrix sentence_;
};

template <distance_policy Distance, host_backend Backend>
redundancy(Backend&, head_layout, Distance) -> redundancy<Distance, Backend>;

}  // namespace headred
