// row_peak: the sum, the least and the greatest of a row of attention, in one pass.
#pragma once

#include <algorithm>

#include <headred/simd/partial_pack.hpp>

namespace headred::detail {

struct row_peak {
  double sum = 0, most = 0, least = 0;
};

/// Sum and least of `keys` entries, most of the first `candidates`; in an order that depends on the numbers alone.
template <class Real>
row_peak peak_of(const Real* row, index_t keys, index_t candidates) {
  constexpr int lanes = native_lanes<double>;
  using vec = pack<double, lanes>;
  vec sum{}, sum2{}, most{}, most2{}, least{}, least2{};
  index_t k = 0;
  for (; k + 2 * lanes <= candidates; k += 2 * lanes) {
    const vec x = load_converted<vec>(row + k), y = load_converted<vec>(row + k + lanes);
    sum += x;
    sum2 += y;
    most = select_less(most, x, x, most);
    most2 = select_less(most2, y, y, most2);
    least = select_less(x, least, x, least);
    least2 = select_less(y, least2, y, least2);
  }
  sum += sum2;
  most = select_less(most, most2, most2, most);
  least = select_less(least2, least, least2, least);
  row_peak all;
  for (int l = 0; l < lanes; ++l) {
    all.sum += sum[l];
    all.most = std::max<double>(all.most, most[l]);
    all.least = std::min<double>(all.least, least[l]);
  }
  for (; k < keys; ++k) {
    const auto x = static_cast<double>(row[k]);
    all.sum += x;
    if (k < candidates) all.most = std::max(all.most, x);
    all.least = std::min(all.least, x);
  }
  return all;
}

/// The first of the first n entries that is `most`; n if none is.
template <class Real>
index_t place_of(const Real* row, index_t n, Real most) {
  constexpr index_t at_once = 16;
  index_t k = 0;
  for (; k + at_once <= n; k += at_once) {
    int found = 0;
    for (index_t i = 0; i < at_once; ++i) found |= row[k + i] == most ? 1 : 0;
    if (found != 0) break;
  }
  while (k < n && row[k] != most) ++k;
  return k;
}

}  // namespace headred::detail
