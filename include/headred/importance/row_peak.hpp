// row_peaks: the sum and the greatest entry of rows of attention, in one pass over each.
#pragma once

#include <cstdint>

#include <headred/simd/partial_pack.hpp>

namespace headred::detail {

template <class Real>
struct row_peak {
  double sum = 0;
  Real most = 0;      ///< 0 where no candidate is greater
  index_t place = 0;  ///< of the first candidate that is `most`
};

/// a < b ? x : y where x and y are packs of numbers as wide as those of a and b.
template <class Pack, class Other>
HEADRED_INLINE Other choose_less(const Pack& a, const Pack& b, const Other& x, const Other& y) {
#if defined(__GNUC__) || defined(__clang__)
  return a < b ? x : y;
#else
  Other p;
  for (int i = 0; i < lanes_of<Pack>; ++i) p[i] = a[i] < b[i] ? x[i] : y[i];
  return p;
#endif
}

/// Entries as doubles. g++ 12 converts packs of 512 bits by halves, which doubles the time of a row.
template <class Pack, class T>
HEADRED_INLINE Pack load_wide(const T* from) {
  return load_converted<Pack>(from);
}
#if defined(__AVX512F__) && !defined(__clang__)
template <>
HEADRED_INLINE pack<double, 8> load_wide<pack<double, 8>, float>(const float* from) {
  return __builtin_ia32_cvtps2pd512_mask(load<pack<float, 8>>(from), pack<double, 8>{}, static_cast<char>(-1), 4);
}
#endif

struct fold_less {
  template <class Pack>
  HEADRED_INLINE Pack operator()(const Pack& a, const Pack& b) const {
    return select_less(a, b, a, b);
  }
};

/// Rows one after the other; what is negative is noted for all of them together, since it is looked for and not found.
/// Sixteen partial sums in double, whatever the machine: the bits depend on the numbers alone.
template <class Real>
class row_peaks {
 public:
  static constexpr index_t longest = index_t{1} << 30;  ///< `of` finds places in rows of up to so many keys

  /// Sum of `keys` entries, the greatest of the first `candidates` and, if asked for, its place. `only`, if given: 1 for
  /// those of the candidates that count, 0 for the others.
  template <bool Places>
  HEADRED_INLINE row_peak<Real> of(const Real* row, index_t keys, index_t candidates, const Real* only = nullptr) {
    wide sum[wides]{};
    narrow most[narrows]{};
    places at[narrows]{}, now = first_places();
    narrow least = least_;
    index_t k = 0;
    const auto add = [&](const Real* x, index_t i, narrow part, const narrow& share) {
      least = select_less(part, least, part, least);
      if (only != nullptr) part *= share;
      if constexpr (Places) {
        at[i] = choose_less(most[i], part, now, at[i]);
        now += static_cast<place_type>(narrow_lanes);
      }
      most[i] = select_less(most[i], part, part, most[i]);
      for (index_t w = 0; w < narrow_lanes / wide_lanes; ++w)
        sum[i * (narrow_lanes / wide_lanes) + w] += load_wide<wide>(x + w * wide_lanes);
    };
    for (; k + at_once <= candidates; k += at_once)
      for (index_t i = 0; i < narrows; ++i)
        add(row + k + i * narrow_lanes, i, load<narrow>(row + k + i * narrow_lanes),
            only == nullptr ? narrow{} : load<narrow>(only + k + i * narrow_lanes));
    for (index_t i = 0; i < narrows && k < candidates; ++i, k += narrow_lanes) {
      const index_t left = candidates - k;
      const narrow part = up_to(row + k, left);
      Real copy[narrow_lanes];  // to be read as doubles without what lies behind the row
      store(copy, part);
      add(copy, i, part, only == nullptr ? narrow{} : up_to(only + k, left));
    }
    row_peak<Real> peak;
    for (index_t half = wides / 2; half > 0; half /= 2)
      for (index_t i = 0; i < half; ++i) sum[i] += sum[i + half];
    peak.sum = lane_total<double, wide_lanes>(sum[0]);
    for (index_t s = candidates; s < keys; ++s) {
      peak.sum += static_cast<double>(row[s]);
      if (row[s] < Real(0)) least[0] = row[s];
    }
    least_ = least;
    narrow greatest = most[0];
    for (index_t i = 1; i < narrows; ++i) greatest = fold_greater{}(greatest, most[i]);
    peak.most = greatest_lane<Real, narrow_lanes>(greatest);
    if constexpr (Places) {
      const narrow all = broadcast<narrow>(peak.most);
      places first = broadcast<places>(static_cast<place_type>(longest));
      for (index_t i = 0; i < narrows; ++i) first = fold_less{}(first, choose_less(most[i], all, first, at[i]));
      peak.place = static_cast<index_t>(fold_lanes<place_type, narrow_lanes>(first, fold_less{}));
    }
    return peak;
  }

  /// Whether any entry of any row was below 0.
  bool negative() const {
    for (index_t l = 0; l < narrow_lanes; ++l)
      if (least_[static_cast<int>(l)] < Real(0)) return true;
    return false;
  }

 private:
  static constexpr index_t at_once = 16, wide_lanes = native_lanes<double>, narrow_lanes = native_lanes<Real>;
  static constexpr index_t wides = at_once / wide_lanes, narrows = at_once / narrow_lanes;
  using wide = pack<double, wide_lanes>;
  using narrow = pack<Real, narrow_lanes>;
  using place_type = integer_of<Real>;
  using places = pack<place_type, narrow_lanes>;

  /// A pack from memory of which `left` entries are there, zeros behind them.
  static HEADRED_INLINE narrow up_to(const Real* from, index_t left) {
    return left < narrow_lanes ? load_part<narrow>(from, left, Real(0)) : load<narrow>(from);
  }
  static HEADRED_INLINE places first_places() {
    places p;
    for (index_t l = 0; l < narrow_lanes; ++l) p[static_cast<int>(l)] = static_cast<place_type>(l);
    return p;
  }

  narrow least_{};
};

/// Asks for what will be read soon of the rows of a head, which lie at even distances, and of the first ones of the next
/// head. The arithmetic of a row is too long for a processor to look past it by itself: without, a pass takes the time of
/// its arithmetic and that of the memory, one after the other.
class row_prefetch {
 public:
  /// next : the first row of the next head, or nullptr.
  row_prefetch(index_t rows, const void* next) : left_(rows), next_(reinterpret_cast<std::uintptr_t>(next)) {}

  /// Before `row` of `keys` entries is read.
  template <class Real>
  HEADRED_INLINE void ask([[maybe_unused]] const Real* row, [[maybe_unused]] index_t keys) {
#if defined(__GNUC__) || defined(__clang__)
    const auto at = reinterpret_cast<std::uintptr_t>(row);
    if (at - last_ != step_) {
      step_ = at - last_;
      ahead_ = step_ > 0 && step_ < far ? far / step_ : 1;
    }
    last_ = at;
    const auto left = static_cast<std::uintptr_t>(left_--);
    const std::uintptr_t begin = ahead_ < left ? at + ahead_ * step_ : next_ + (ahead_ - left) * step_;
    const std::uintptr_t end = begin + static_cast<std::uintptr_t>(keys) * sizeof(Real);
    for (std::uintptr_t line = begin; line < end; line += 64)
      __builtin_prefetch(reinterpret_cast<const void*>(line), 0, 2);
#endif
  }

 private:
  static constexpr std::uintptr_t far = 8192;  // bytes
  index_t left_;
  std::uintptr_t next_, last_ = 0, step_ = 0, ahead_ = 1;
};

/// The first of the first n entries that is `most`; n if none is.
template <class Real>
index_t place_of(const Real* row, index_t n, Real most) {
  index_t k = 0;
  while (k < n && row[k] != most) ++k;
  return k;
}

}  // namespace headred::detail
