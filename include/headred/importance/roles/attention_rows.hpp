// attention_rows: one sentence's maps as the roles read them.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <headred/core/as_view.hpp>
#include <headred/core/head_layout.hpp>
#include <headred/distance/sentence_maps.hpp>
#include <headred/importance/end_token.hpp>
#include <headred/importance/row_peak.hpp>

namespace headred {

namespace detail {

/// Rows of one sentence's heads as double. Keeps its memory from sentence to sentence.
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
    row_.resize(static_cast<std::size_t>(maps_.empty() ? 0 : maps_.keys()));
    single_row_.resize(single_ ? row_.size() : 0);
  }

  index_t heads() const { return maps_.heads(); }
  index_t queries() const { return queries_; }        ///< queries asked: the first ones
  index_t candidates() const { return candidates_; }  ///< keys that may be chosen: the first ones
  index_t all_queries() const { return maps_.queries(); }
  index_t all_keys() const { return maps_.keys(); }

  /// Row t of head h, all_keys() numbers divided by their sum; nullptr for a row of zeros. Throws data_error for a bad row.
  const double* row(index_t h, index_t t) {
    if (maps_.read_raw_row(h, t, row_.data()) == 0) return nullptr;
    // Eight partial sums and one division an entry, nothing that depends on the machine: sums over the pieces of words
    // can tie exactly, and then the last bit decides.
    double part[8]{};
    std::size_t s = 0;
    for (; s + 8 <= row_.size(); s += 8)
      for (std::size_t i = 0; i < 8; ++i) part[i] += row_[s + i];
    double sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    for (; s < row_.size(); ++s) sum += row_[s];
    for (double& x : row_) x /= sum;
    return row_.data();
  }

  /// The greatest of row t's candidates, at least one, the first of equals; -1 for a row of zeros. Floats are read in
  /// place. Throws data_error for a bad row.
  index_t favourite(index_t h, index_t t) {
    return single_ ? favourite_of(maps_.row_in<float>(h, t, single_row_.data()), h, t)
                   : favourite_of(maps_.row_in<double>(h, t, row_.data()), h, t);
  }

  /// The greatest of the first n, n >= 1; the first of equals.
  static index_t argmax(const double* row, index_t n) {
    index_t best = 0;
    for (index_t s = 1; s < n; ++s)
      if (row[s] > row[best]) best = s;
    return best;
  }

 private:
  template <class Real>
  index_t favourite_of(const Real* row, index_t h, index_t t) const {
    const row_peak peak = peak_of(row, all_keys(), candidates_);
    // The slow way tells a row of zeros from a bad one, which it names.
    if ((!(std::abs(peak.sum - 1) <= maps_.tolerance()) || peak.least < 0) && maps_.checked_sum(h, t) == 0) return -1;
    return place_of(row, candidates_, static_cast<Real>(peak.most));
  }

  sentence_maps maps_;
  bool single_ = false;
  std::vector<double> row_;
  std::vector<float> single_row_;
  index_t queries_ = 0, candidates_ = 0;
};

inline void require_same_layout(const char* who, const head_layout& a, const head_layout& b) {
  if (a != b) throw argument_error(std::string(who) + ": merge of accumulators with different layouts");
}

}  // namespace detail
}  // namespace headred
