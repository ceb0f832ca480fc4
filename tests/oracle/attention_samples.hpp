// Attention maps of the kinds that heads have, among them those on which the usual formulas fail. Seeded.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <headred/core/random.hpp>
#include <headred/core/view.hpp>

namespace headred_test {

using headred::index_t;

// Maps (L,H,T,S) of doubles that know how they are seen.
struct attention_sample {
  index_t layers = 1, heads = 1, queries = 0, keys = 0;
  std::vector<double> values;

  index_t size() const { return layers * heads; }
  double* row(index_t head, index_t query) { return values.data() + (head * queries + query) * keys; }
  const double* row(index_t head, index_t query) const { return values.data() + (head * queries + query) * keys; }
  headred::tensor_view<const double, 4> view() const { return {values.data(), {layers, heads, queries, keys}}; }
  std::vector<float> narrow() const { return {values.begin(), values.end()}; }
};

enum class sample_kind {
  random,        // softmax of normal-like scores
  uniform,       // 1/S exactly: constant rows
  near_uniform,  // 1/S (1 + 1e-3 noise)
  near_one_hot,  // .999 on a key of the head's own
  one_hot,       // 1 on a key of the head's own
  same_key,      // heads that put .98 to .9999 on the same key
  twins_1e3,     // heads that differ by 1e-3 relatively, entry by entry
  twins_1e6,
  twins_1e9,
  zero_rows,       // some rows attend to nothing
  constant_rows,   // some rows are uniform
  rank_deficient,  // rows take two values only
  block_constant,  // constant within blocks of four queries and keys
};

inline constexpr std::array all_sample_kinds{
    sample_kind::random,        sample_kind::uniform,   sample_kind::near_uniform,  sample_kind::near_one_hot,
    sample_kind::one_hot,       sample_kind::same_key,  sample_kind::twins_1e3,     sample_kind::twins_1e6,
    sample_kind::twins_1e9,     sample_kind::zero_rows, sample_kind::constant_rows, sample_kind::rank_deficient,
    sample_kind::block_constant};

inline const char* to_string(sample_kind kind) {
  constexpr std::array names{"random",        "uniform",        "near_uniform",  "near_one_hot", "one_hot",
                             "same_key",      "twins_1e3",      "twins_1e6",     "twins_1e9",    "zero_rows",
                             "constant_rows", "rank_deficient", "block_constant"};
  return names[static_cast<std::size_t>(kind)];
}

namespace detail {

// Draws one after the other.
class draws {
 public:
  explicit draws(std::uint64_t seed, std::uint64_t stream) : random_(seed, stream) {}
  double uniform() { return random_.uniform(next_++); }
  double score() { return 2 * (uniform() + uniform() + uniform() + uniform() - 2) * std::sqrt(3.); }
  index_t below(index_t n) { return static_cast<index_t>(random_.below(next_++, static_cast<std::uint64_t>(n))); }

 private:
  headred::random_stream random_;
  std::uint64_t next_ = 0;
};

inline void normalise_row(double* row, index_t keys) {
  double sum = 0;
  for (index_t k = 0; k < keys; ++k) sum += row[k];
  for (index_t k = 0; k < keys; ++k) row[k] /= sum;
}

inline void random_row(draws& draw, double* row, index_t keys) {
  for (index_t k = 0; k < keys; ++k) row[k] = std::exp(draw.score());
  normalise_row(row, keys);
}

}  // namespace detail

inline attention_sample make_sample(sample_kind kind, index_t layers, index_t heads, index_t queries, index_t keys,
                                    std::uint64_t seed) {
  attention_sample sample{layers, heads, queries, keys, {}};
  const index_t count = layers * heads;
  sample.values.resize(static_cast<std::size_t>(count * queries * keys));
  detail::draws draw(seed, static_cast<std::uint64_t>(kind));
  const double even = 1 / static_cast<double>(keys);
  for (index_t h = 0; h < count; ++h)
    for (index_t t = 0; t < queries; ++t) {
      double* row = sample.row(h, t);
      const auto spike = [&](index_t key, double weight) {
        const double rest = keys > 1 ? (1 - weight) / static_cast<double>(keys - 1) : 0;
        for (index_t k = 0; k < keys; ++k) row[k] = k == key || keys == 1 ? (keys == 1 ? 1 : weight) : rest;
      };
      const auto twin = [&](double distance) {
        if (h == 0) return detail::random_row(draw, row, keys);
        const double* first = sample.row(0, t);
        for (index_t k = 0; k < keys; ++k) row[k] = first[k] * (1 + distance * (2 * draw.uniform() - 1));
        detail::normalise_row(row, keys);
      };
      switch (kind) {
        case sample_kind::random: detail::random_row(draw, row, keys); break;
        case sample_kind::uniform: std::fill(row, row + keys, even); break;
        case sample_kind::near_uniform:
          for (index_t k = 0; k < keys; ++k) row[k] = even * (1 + 1e-3 * (2 * draw.uniform() - 1));
          detail::normalise_row(row, keys);
          break;
        case sample_kind::near_one_hot: spike(draw.below(keys), .999); break;
        case sample_kind::one_hot: spike(draw.below(keys), 1); break;
        case sample_kind::same_key: spike((t * 7) % keys, 1 - .02 * (draw.uniform() + .005)); break;
        case sample_kind::twins_1e3: twin(1e-3); break;
        case sample_kind::twins_1e6: twin(1e-6); break;
        case sample_kind::twins_1e9: twin(1e-9); break;
        case sample_kind::zero_rows:
          if (draw.uniform() < .3) {
            std::fill(row, row + keys, 0.0);
          } else {
            detail::random_row(draw, row, keys);
          }
          break;
        case sample_kind::constant_rows:
          if (draw.uniform() < .3) {
            std::fill(row, row + keys, even);
          } else {
            detail::random_row(draw, row, keys);
          }
          break;
        case sample_kind::rank_deficient:
          if (t < 2) {
            detail::random_row(draw, row, keys);
          } else {
            const double* other = sample.row(h, draw.below(2));
            std::copy(other, other + keys, row);
          }
          break;
        case sample_kind::block_constant: {
          const detail::draws blocks(seed + static_cast<std::uint64_t>(h * 1000 + t / 4), 77);
          detail::draws weights = blocks;
          for (index_t k = 0; k < keys; ++k) row[k] = k % 4 == 0 ? std::exp(weights.score()) : row[k - 1];
          detail::normalise_row(row, keys);
          break;
        }
      }
    }
  return sample;
}

}  // namespace headred_test
