// The seven distances by name.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include <headred/distance.hpp>

namespace examples {

inline constexpr std::array<std::string_view, 7> distance_names = {headred::cosine::name,
                                                                   headred::pearson::name,
                                                                   headred::jensen_shannon::name,
                                                                   headred::bhattacharyya::name,
                                                                   headred::distance_correlation::name,
                                                                   headred::procrustes::name,
                                                                   headred::canonical_correlation::name};

inline bool is_distance(std::string_view name) {
  return std::find(distance_names.begin(), distance_names.end(), name) != distance_names.end();
}

/// f(Distance{}) for every distance.
template <class F>
void for_each_distance(const F& f) {
  f(headred::cosine{});
  f(headred::pearson{});
  f(headred::jensen_shannon{});
  f(headred::bhattacharyya{});
  f(headred::distance_correlation{});
  f(headred::procrustes{});
  f(headred::canonical_correlation{});
}

}  // namespace examples
