// Attention maps with a structure that is known: groups of heads that do the same, so that the right answer can be checked.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/backend/tensor.hpp>
#include <headred/core/random.hpp>

namespace examples {

/// 8 layers of 8 heads in 16 groups: twelve patterns of two to eight heads each and four heads that are like no other.
/// The first two heads of a group are twins bit by bit; the others are copies with noise, from 1 in 1000 to plain to see.
/// A pure function of the seed.
class planted_attention {
 public:
  static constexpr headred::index_t layers = 8, heads = 8, groups = 16;
  static constexpr headred::index_t sizes[groups] = {8, 7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 1, 1, 1, 1};

  explicit planted_attention(std::uint64_t seed) : seed_(seed) {
    for (headred::index_t g = 0; g < groups; ++g) group_.insert(group_.end(), static_cast<std::size_t>(sizes[g]), g);
    const headred::random_stream random(seed, 1);
    for (std::size_t i = group_.size() - 1; i > 0; --i) std::swap(group_[i], group_[random.below(i, i + 1)]);
    std::vector<headred::index_t> seen(groups, 0);
    for (const headred::index_t g : group_) member_.push_back(seen[static_cast<std::size_t>(g)]++);
  }

  /// The group of each head, in the order layer * heads + head.
  const std::vector<headred::index_t>& group() const { return group_; }
  /// Tokens of sentence s, 12 to 40.
  headred::index_t length(headred::index_t s) const {
    return 12 +
           static_cast<headred::index_t>(headred::random_stream(seed_, 2).below(static_cast<std::uint64_t>(s), 29));
  }

  /// Maps of sentence s: (L,H,T,T).
  headred::tensor<float, 4, headred::cpu> sentence(headred::cpu& be, headred::index_t s) const {
    const headred::index_t tokens = length(s);
    headred::tensor<float, 4, headred::cpu> maps(be, {layers, heads, tokens, tokens});
    be.for_each(layers * heads, [&](headred::index_t h) {
      const headred::index_t g = group_[static_cast<std::size_t>(h)], member = member_[static_cast<std::size_t>(h)];
      // member 1 is the twin of member 0: the same noise
      const std::uint64_t own = member < 2 ? 0 : static_cast<std::uint64_t>(member);
      const double strength = member < 2 ? 0 : std::pow(10.0, -3.0 + .4 * static_cast<double>(member));
      const headred::random_stream content(seed_, 1000 + static_cast<std::uint64_t>(s * groups + g));
      const headred::random_stream noise(seed_, 1000000 + static_cast<std::uint64_t>(s * groups + g) * 16 + own);
      std::vector<double> row(static_cast<std::size_t>(tokens));
      for (headred::index_t t = 0; t < tokens; ++t) {
        double largest = -INFINITY, sum = 0;
        for (headred::index_t k = 0; k < tokens; ++k) {
          const auto at = static_cast<std::uint64_t>(t * tokens + k);
          double& score = row[static_cast<std::size_t>(k)];
          score = pattern(g, t, k, tokens, content.uniform(at)) + strength * (noise.uniform(at) - .5);
          largest = std::max(largest, score);
        }
        for (double& x : row) sum += x = std::exp(x - largest);
        for (headred::index_t k = 0; k < tokens; ++k)
          maps(h / heads, h % heads, t, k) = static_cast<float>(row[static_cast<std::size_t>(k)] / sum);
      }
    });
    return maps;
  }

 private:
  static double pattern(headred::index_t g, headred::index_t t, headred::index_t k, headred::index_t tokens,
                        double random) {
    const auto offset = static_cast<double>(k - t);
    switch (g) {
      case 0: return -2 * std::abs(offset + 1);   // previous token
      case 1: return k == 0 ? 6 : 0;              // first token
      case 2: return k == tokens - 1 ? 6 : 0;     // last token
      case 3: return -2 * std::abs(offset - 1);   // next token
      case 4: return k / 5 == t / 5 ? 5 : 0;      // own block
      case 5: return -2 * std::abs(offset);       // itself
      case 6: return k <= t ? 4 : 0;              // everything before
      case 7: return k >= t ? 4 : 0;              // everything after
      case 8: return -2 * std::abs(offset + 3);   // three back
      case 9: return 0;                           // all alike
      case 10: return k % 4 == t % 4 ? 5 : 0;     // every fourth
      case 11: return -2 * std::abs(offset - 3);  // three ahead
      default: return 12 * random;                // by content, like no other
    }
  }

  std::uint64_t seed_;
  std::vector<headred::index_t> group_, member_;
};

}  // namespace examples
