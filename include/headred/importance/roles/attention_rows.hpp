// attention_rows: one sentence's maps as the roles read them.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <headred/core/as_view.hpp>
#include <headred/core/head_layout.hpp>
#include <headred/distance/sentence_maps.hpp>
#include <headred/importance/end_token.hpp>
#include <headred/importance/head_tasks.hpp>
#include <headred/importance/row_peak.hpp>

namespace headred {

namespace detail {

/// Rows of one sentence's heads. Keeps its memory from sentence to sentence.
class attention_rows {
 public:
  /// attention (L,H,T,S), or a range of its layers (H_l,T,S). Throws shape_error where it does not fit the layout.
  template <class Attention>
  void assign(const head_layout& layout, Attention&& attention, const sentence_options& options, end_token end) {
    if constexpr (viewable_as<Attention, 4>) {
      const auto view = as_view(attention);
      using value = typename decltype(view)::value_type;
      maps_.assign(layout, tensor_view<const value, 4>(view), options);
      single_ = std::same_as<value, float> && options.scale == 1;
    } else if constexpr (layer_range<Attention>) {
      maps_.assign(layout, attention, options);
      using value = typename std::ranges::range_value_t<std::remove_cvref_t<Attention>>::value_type;
      single_ = std::same_as<value, float> && options.scale == 1;
    } else {
      static_assert(!sizeof(Attention), "expected attention (L,H,T,S), or a range of its layers, tensor_view (H,T,S)");
    }
    queries_ = maps_.empty() ? 0 : maps_.queries() - (end_asks(end) ? 0 : 1);
    candidates_ = maps_.empty() ? 0 : maps_.keys() - (end_is_candidate(end) ? 0 : 1);
  }

  index_t heads() const { return maps_.heads(); }
  index_t queries() const { return queries_; }        ///< queries asked: the first ones
  index_t candidates() const { return candidates_; }  ///< keys that may be chosen: the first ones
  index_t all_queries() const { return maps_.queries(); }
  index_t all_keys() const { return maps_.keys(); }

  /// What reading rows out of place needs, one for each thread.
  struct scratch {
    std::vector<double> row;
    std::vector<float> single;
  };
  const sentence_maps& maps() const { return maps_; }
  /// Whether rows are read as floats, in place where they lie side by side.
  bool single() const { return single_; }

  /// Row t of head h, all_keys() numbers divided by their sum; nullptr for a row of zeros. Throws data_error for a bad row.
  const double* row(index_t h, index_t t, std::vector<double>& memory) const {
    const index_t n = all_keys();
    memory.resize(static_cast<std::size_t>(n));
    double* const row = memory.data();
    if (maps_.read_raw_row(h, t, row) == 0) return nullptr;
    // Eight partial sums and one division an entry, nothing that depends on the machine: sums over the pieces of words
    // can tie exactly, and then the last bit decides.
    double part[8]{};
    index_t s = 0;
    for (; s + 8 <= n; s += 8)
      for (index_t i = 0; i < 8; ++i) part[i] += row[s + i];
    double sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    for (; s < n; ++s) sum += row[s];
    using vec = pack<double, native_lanes<double>>;
    constexpr index_t lanes = native_lanes<double>;
    index_t k = 0;
    for (; k + lanes <= n; k += lanes) store(row + k, load<vec>(row + k) / broadcast<vec>(sum));
    for (; k < n; ++k) row[k] /= sum;
    return row;
  }

  /// f(i, row, sum, place) for the rows queries[i] of head h that are not zero: all_keys() numbers, floats in place, not
  /// divided by their sum, and the place of the greatest of the candidates, at least one, the first of equals. Throws
  /// data_error for a bad row.
  template <class F>
  void each_peak(index_t h, std::span<const index_t> queries, scratch& s, const F& f) const {
    if (single_)
      each_peak_in<float>(h, queries, s.single, f);
    else
      each_peak_in<double>(h, queries, s.row, f);
  }

  /// The greatest of the first n, n >= 1; the first of equals.
  static index_t argmax(const double* row, index_t n) {
    index_t best = 0;
    for (index_t s = 1; s < n; ++s)
      if (row[s] > row[best]) best = s;
    return best;
  }

 private:
  template <class Real, class F>
  void each_peak_in(index_t h, std::span<const index_t> queries, std::vector<Real>& memory, const F& f) const {
    const index_t keys = all_keys();
    if (memory.size() < static_cast<std::size_t>(keys)) memory.resize(static_cast<std::size_t>(keys));
    row_peaks<Real> peaks;
    const auto next = h + 1;
    row_prefetch ahead(
        static_cast<index_t>(queries.size()),
        next < heads() ? maps_.row_in<Real>(next, queries.empty() ? 0 : queries[0], memory.data()) : nullptr);
    const bool places = keys <= row_peaks<Real>::longest;
    for (std::size_t i = 0; i < queries.size(); ++i) {
      const index_t t = queries[i];
      const Real* const row = maps_.row_in<Real>(h, t, memory.data());
      ahead.ask(row, keys);
      row_peak<Real> peak;
      if (places) {
        peak = peaks.template of<true>(row, keys, candidates_);
      } else {
        peak = peaks.template of<false>(row, keys, candidates_);
        peak.place = place_of(row, candidates_, peak.most);
      }
      // The slow way tells a row of zeros from a bad one, which it names.
      if (!(std::abs(peak.sum - 1) <= maps_.tolerance()) && maps_.checked_sum(h, t) == 0) continue;
      f(i, row, peak.sum, peak.place);
    }
    if (peaks.negative())
      for (const index_t t : queries) maps_.checked_sum(h, t);
  }

  sentence_maps maps_;
  bool single_ = false;
  index_t queries_ = 0, candidates_ = 0;
};

inline void require_same_layout(const char* who, const head_layout& a, const head_layout& b) {
  if (a != b) throw argument_error(std::string(who) + ": merge of accumulators with different layouts");
}

}  // namespace detail
}  // namespace headred
