// What the parts of the emulator share.
#pragma once

#include <mutex>

#include "emulator.hpp"

namespace headred_emulator {

std::recursive_mutex& device_mutex();
census& census_now();
bool has_fault();

}  // namespace headred_emulator
