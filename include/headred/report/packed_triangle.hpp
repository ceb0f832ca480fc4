// A redundancy matrix as the page carries it: its upper triangle, quantised and packed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <headred/core/matrix.hpp>

namespace headred::detail {

/// Bits a value in the page: as many as 8 MB of base64 hold for all matrices together, at most 16, at least 8.
inline int packed_bits(index_t heads, std::size_t matrices) {
  const double values = 0.5 * static_cast<double>(heads) * static_cast<double>(heads + 1) *
                        static_cast<double>(std::max<std::size_t>(1, matrices));
  const double bits = std::floor(8e6 * 0.75 * 8 / values);
  return static_cast<int>(std::clamp(bits, 8.0, 16.0));
}

/// The upper triangle with its diagonal, row by row: value x in [0,1] becomes the code round(x (2^bits - 2)), NaN the
/// code 2^bits - 1; codes are packed without gaps, lowest bit first, into ceil(N (N + 1) / 2 bits / 8) bytes.
inline std::vector<std::uint8_t> packed_triangle(const matrix& values, int bits) {
  const index_t n = values.rows();
  const std::uint32_t missing = (1u << bits) - 1;
  const auto count = static_cast<std::size_t>(n) * static_cast<std::size_t>(n + 1) / 2;
  std::vector<std::uint8_t> bytes;
  bytes.reserve((count * static_cast<std::size_t>(bits) + 7) / 8);
  std::uint32_t pending = 0;
  int filled = 0;
  for (index_t i = 0; i < n; ++i) {
    for (index_t j = i; j < n; ++j) {
      const double x = values(i, j);
      const std::uint32_t code =
          std::isnan(x) ? missing : static_cast<std::uint32_t>(std::clamp(x, 0.0, 1.0) * (missing - 1) + 0.5);
      pending |= code << filled;
      for (filled += bits; filled >= 8; filled -= 8, pending >>= 8)
        bytes.push_back(static_cast<std::uint8_t>(pending & 255));
    }
  }
  if (filled > 0) bytes.push_back(static_cast<std::uint8_t>(pending & 255));
  return bytes;
}

}  // namespace headred::detail
