// Bounds for activations that are x or 0 far from 0.
#pragma once

#include <headred/simd/pack.hpp>

namespace headred::detail {

template <class Pack>
HEADRED_INLINE Pack at_least(const Pack& x, lane_type<Pack> least) {
  const Pack p = broadcast<Pack>(least);
  return select_less(x, p, p, x);
}
template <class Pack>
HEADRED_INLINE Pack within(const Pack& x, lane_type<Pack> most) {
  const Pack p = broadcast<Pack>(most);
  return select_less(p, x, p, at_least(x, -most));
}

}  // namespace headred::detail
