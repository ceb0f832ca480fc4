// Rows of attention on their way into a slab: transposed, summed and judged as many at a time as a pack has lanes.
#pragma once

#include <algorithm>
#include <limits>

#include <headred/distance/sentence_maps.hpp>
#include <headred/numeric/column_block.hpp>
#include <headred/simd/lane_total.hpp>
#include <headred/simd/transpose.hpp>

namespace headred::detail {

/// A row of a head.
struct row_place {
  index_t head, token;
};

/// Stores transposed rows, and sums them a block of keys at a time.
template <class Real>
struct slab_filler {
  using vec = pack<Real, native_lanes<Real>>;
  Real* to;
  index_t columns;
  lane_doubles<Real> total{};
  vec sum{}, least{};

  HEADRED_INLINE void operator()(index_t k, const vec& x) {
    store(to + k * columns, x);
    sum += x;
    least = select_less(x, least, x, least);
  }
  HEADRED_INLINE void flush() {
    total.add(sum);
    sum = vec{};
  }
};

/// Rows place(0) .. place(count - 1) as given to columns 0 .. lanes of `to` (keys, columns), the columns from count on zero;
/// returns their sums, 1 for a row of zeros, which is named by zero_row(l). Rows whose sums are not clearly near 1 are looked
/// at more closely: throws what read_raw_row throws. scratch: lanes + 1 rows.
template <class Real, class Place, class Zero>
HEADRED_INLINE lane_doubles<Real> read_columns(const sentence_maps& maps, int count, const Place& place, Real* scratch,
                                               Real* to, index_t columns, const Zero& zero_row) {
  constexpr int lanes = native_lanes<Real>;
  constexpr double epsilon = static_cast<double>(std::numeric_limits<Real>::epsilon());
  using vec = pack<Real, lanes>;
  using doubles = typename lane_doubles<Real>::doubles;
  const index_t keys = maps.keys();
  const Real* rows[lanes];
  slab_filler<Real> filler{to, columns};
  for (int l = 0; l < count; ++l) {
    const row_place at = place(l);
    rows[l] = maps.row_in<Real>(at.head, at.token, scratch + l * keys);
  }
  if (count < lanes) {
    Real* none = scratch + lanes * keys;
    std::fill(none, none + keys, Real(0));
    for (int l = count; l < lanes; ++l) {
      rows[l] = none;
      filler.total.set(l, 1);  // nothing to judge
    }
  }
  transpose_rows<Real, lanes>(rows, keys, filler);

  const vec zero{}, one = broadcast<vec>(Real(1));
  const doubles limit = broadcast<doubles>(maps.tolerance() - 64 * epsilon);
  const auto far = filler.total.map([&](const doubles& sum) {
    const doubles none{}, off = sum - 1.;
    return select_less(select_less(off, none, -off, off), limit, none, broadcast<doubles>(1.));
  });
  if (lane_total<Real, lanes>(far.narrow() + select_less(filler.least, zero, one, zero)) != 0)
    for (int l = 0; l < count; ++l) {
      const row_place at = place(l);
      if (maps.checked_sum(at.head, at.token) == 0) {
        zero_row(l);
        filler.total.set(l, 1);
      }
    }
  return filler.total;
}

}  // namespace headred::detail
