// Importance as its definitions read, in long double, without regard to speed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace oracle {

// Row maxima of one head's (queries, keys), rows divided by their sums, over the first `asked` queries and `offered` keys.
inline std::vector<long double> row_peaks(const std::vector<std::vector<double>>& map, std::size_t asked,
                                          std::size_t offered) {
  std::vector<long double> peaks;
  for (std::size_t t = 0; t < asked; ++t) {
    long double sum = 0, most = 0;
    for (const double x : map[t]) sum += x;
    for (std::size_t s = 0; s < offered; ++s) most = std::max(most, static_cast<long double>(map[t][s]));
    peaks.push_back(sum == 0 ? 0 : most / sum);
  }
  return peaks;
}

// Spearman's rho by counting, for each value, those below and equal.
inline long double spearman(const std::vector<double>& x, const std::vector<double>& y) {
  const auto rank = [](const std::vector<double>& v, std::size_t i) {
    long double below = 0, equal = 0;
    for (const double other : v) {
      below += other < v[i] ? 1 : 0;
      equal += other == v[i] ? 1 : 0;
    }
    return below + (equal + 1) / 2;
  };
  const auto n = static_cast<long double>(x.size());
  long double mx = 0, my = 0, xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mx += rank(x, i) / n;
    my += rank(y, i) / n;
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double u = rank(x, i) - mx, v = rank(y, i) - my;
    xx += u * u;
    yy += v * v;
    xy += u * v;
  }
  return xy / std::sqrt(xx * yy);
}

}  // namespace oracle
