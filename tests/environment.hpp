// What a test may ask of its run: the seed, the folder with real data, and to be counted as skipped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace headred_test {

// HEADRED_TEST_SEED, else a fixed number; main prints it.
std::uint64_t seed();

// The folder with real data and references; empty when there is none.
std::filesystem::path shared_dir();

// Prints "skipped: why". A run without failures in which a test was skipped exits with 77, which CTest shows as skipped.
void skip(std::string const& why);

// Prints "skipped: why" and no more: for one case among many that ran, which must not hide them.
void leave_out(std::string const& why);

}  // namespace headred_test
