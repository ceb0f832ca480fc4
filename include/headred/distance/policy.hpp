// What makes a type a distance between two heads.
#pragma once

#include <concepts>
#include <string_view>

namespace headred {

/// Whether a distance is a mean over query rows (token) or one number for the two matrices (sentence).
enum class distance_level { token, sentence };

/// The name of a level.
constexpr std::string_view to_string(distance_level level) noexcept {
  return level == distance_level::token ? "token" : "sentence";
}

/// A distance policy: a small value type with its options as fields, a `name` and a `level`. Every distance of headred is
/// exactly 0 for heads with identical bits, bitwise symmetric, and lies in [0,1].
/// A distance of one's own needs one thing more, `double operator()(a, b) const` on two maps
/// tensor_view<const double, 2> (T,S) whose rows sum to 1; headred's own bring an engine for all pairs at once.
template <class D>
concept distance_policy = std::copyable<D> && requires {
  { D::name } -> std::convertible_to<std::string_view>;
  { D::level } -> std::convertible_to<distance_level>;
};

}  // namespace headred
