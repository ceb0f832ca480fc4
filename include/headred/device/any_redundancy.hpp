// The name of the accumulator of head distances, which a host's backend and a device's each have one of.
#pragma once

#include <headred/backend/concept.hpp>

namespace headred {

class fixed_sum;

/// The mean over sentences of all pair distances: distance/redundancy.hpp has the one for host backends,
/// device/redundancy.hpp that for devices. The backend's type decides.
template <class Distance, class Backend, class Sum = fixed_sum>
class redundancy;

}  // namespace headred
