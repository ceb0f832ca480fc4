// sequence: which rows of a packed batch belong together.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <headred/core/error.hpp>

namespace headred {

/// A sentence's rows in a matrix (rows, D): [begin, begin + length). Batches carry no padding: sentences of any lengths
/// lie one after the other. A padded batch (B,T) is described as well, by begin = b T and the true lengths.
struct sequence {
  index_t begin = 0;
  index_t length = 0;
  friend bool operator==(const sequence&, const sequence&) = default;
};

/// Sentences of these lengths, one directly after the other. Throws argument_error for a negative length.
inline std::vector<sequence> pack_sequences(std::span<const index_t> lengths) {
  std::vector<sequence> all;
  all.reserve(lengths.size());
  index_t begin = 0;
  for (const index_t length : lengths) {
    if (length < 0 || length > std::numeric_limits<std::int32_t>::max())
      throw argument_error("pack_sequences: length " + std::to_string(length) + " of sentence " +
                           std::to_string(all.size()) + ", expected [0,2^31)");
    all.push_back({begin, length});
    begin += length;
  }
  return all;
}

/// One past the last row that any of them uses.
inline index_t rows_of(std::span<const sequence> sequences) {
  index_t rows = 0;
  for (const sequence& s : sequences)
    if (s.begin + s.length > rows) rows = s.begin + s.length;
  return rows;
}

}  // namespace headred
