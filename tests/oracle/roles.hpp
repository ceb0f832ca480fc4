// Roles by their definitions, one number after the other; rows as long double, nothing shared with the library.
#pragma once

#include <map>
#include <vector>

namespace oracle {

using map_rows = std::vector<std::vector<long double>>;  // [query][key]

inline int first_greatest(const std::vector<long double>& row, int keys) {
  int best = 0;
  for (int s = 0; s < keys; ++s)
    if (row[static_cast<std::size_t>(s)] > row[static_cast<std::size_t>(best)]) best = s;
  return best;
}

inline bool zero(const std::vector<long double>& row) {
  for (const long double x : row)
    if (x != 0) return false;
  return true;
}

// Offsets of the argmax of every query; the last `without` queries and keys are left out.
inline std::map<int, int> offsets(const map_rows& a, int without) {
  std::map<int, int> count;
  for (int t = 0; t < static_cast<int>(a.size()) - without; ++t) {
    const auto& row = a[static_cast<std::size_t>(t)];
    const int keys = static_cast<int>(row.size()) - without;
    if (keys > 0 && !zero(row)) ++count[first_greatest(row, keys) - t];
  }
  return count;
}

struct target_sums {
  int tokens = 0, hits = 0;
  long double mass = 0;
};

// Hits and mass on named keys; all queries and keys.
inline target_sums on_targets(const map_rows& a, const std::vector<std::vector<int>>& targets) {
  target_sums sums;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    if (targets[t].empty() || zero(a[t])) continue;
    ++sums.tokens;
    long double all = 0, part = 0;
    for (const long double x : a[t]) all += x;
    for (const int s : targets[t]) {
      part += a[t][static_cast<std::size_t>(s)];
      sums.hits += s == first_greatest(a[t], static_cast<int>(a[t].size())) ? 1 : 0;
    }
    sums.mass += part / all;
  }
  return sums;
}

}  // namespace oracle
