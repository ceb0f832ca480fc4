// Heads that are close to each other, made from a head of any kind.
#pragma once

#include "oracle/attention_samples.hpp"

namespace headred_test {

// Head 0 is of the kind, the others are head 0 with each entry times 1 + size (-1 to 1), rows divided by their sums: from
// a rank-deficient head they are of full rank, and what makes them so is of the size of their difference.
inline attention_sample make_twins(sample_kind kind, double size, index_t heads, index_t queries, index_t keys,
                                   std::uint64_t seed) {
  const auto first = make_sample(kind, 1, 1, queries, keys, seed);
  attention_sample sample{1, heads, queries, keys, {}};
  sample.values.resize(static_cast<std::size_t>(heads * queries * keys));
  detail::draws draw(seed, 4242);
  for (index_t h = 0; h < heads; ++h)
    for (index_t t = 0; t < queries; ++t) {
      double* row = sample.row(h, t);
      for (index_t k = 0; k < keys; ++k)
        row[k] = first.row(0, t)[k] * (h == 0 ? 1 : 1 + size * (2 * draw.uniform() - 1));
      if (h > 0) detail::normalise_row(row, keys);
    }
  return sample;
}

}  // namespace headred_test
