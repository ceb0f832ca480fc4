// Fixed attention patterns: the masks that learned ones are compared with.
#pragma once

#include <array>
#include <string>

#include <headred/core/random.hpp>
#include <headred/sparsity/element_loops.hpp>

namespace headred {

/// Sparse Transformer, strided (Child et al. 2019): |i-j| < stride or |i-j| a multiple of stride.
struct strided_pattern {
  index_t stride = 4;
  bool diagonal = true;  ///< false: without i = j
  HEADRED_FUNCTION bool operator()(index_t i, index_t j) const {
    const index_t d = i < j ? j - i : i - j;
    return (diagonal || d > 0) && (d < stride || d % stride == 0);
  }
  void require_valid() const;
};

/// Sparse Transformer, fixed: i and j in the same block, or j the last of its block.
struct fixed_pattern {
  index_t block = 4;
  HEADRED_FUNCTION bool operator()(index_t i, index_t j) const {
    return i / block == j / block || j % block == block - 1;
  }
  void require_valid() const;
};

/// Longformer (Beltagy et al. 2020): |i-j| <= window, and the first `global` tokens see and are seen by all.
struct longformer_pattern {
  index_t window = 5;
  index_t global = 2;
  HEADRED_FUNCTION bool operator()(index_t i, index_t j) const {
    return (i < j ? j - i : i - j) <= window || i < global || j < global;
  }
  void require_valid() const;
};

/// LogSparse Transformer (Li et al. 2019): |i-j| is 0 or a power of 2.
struct logsparse_pattern {
  HEADRED_FUNCTION bool operator()(index_t i, index_t j) const {
    const index_t d = i < j ? j - i : i - j;
    return (d & (d - 1)) == 0;
  }
  void require_valid() const {}
};

/// Star-Transformer (Guo et al. 2019): |i-j| <= 1, and the first token sees and is seen by all.
struct star_pattern {
  HEADRED_FUNCTION bool operator()(index_t i, index_t j) const {
    return (i < j ? j - i : i - j) <= 1 || i == 0 || j == 0;
  }
  void require_valid() const {}
};

/// BigBird (Zaheer et al. 2020): |i-j| <= window, the first `global` tokens, and `random` different keys a row, drawn
/// from all keys by the seed; head h of a mask with heads draws from stream h.
struct bigbird_pattern {
  static constexpr index_t most_random = 64;

  index_t window = 1;
  index_t global = 1;
  index_t random = 4;  ///< at most 64
  std::uint64_t seed = 0;
  HEADRED_FUNCTION bool operator()(index_t i, index_t j) const {
    return (i < j ? j - i : i - j) <= window || i < global || j < global;
  }
  void require_valid() const;
};

namespace detail {

inline void require_pattern(const char* pattern, const char* name, index_t value, index_t lowest, index_t highest) {
  if (value < lowest || value > highest)
    throw argument_error(std::string(pattern) + ": " + name + " is " + std::to_string(value) + ", expected [" +
                         std::to_string(lowest) + "," + std::to_string(highest) + "]");
}
inline constexpr index_t longest_pattern = index_t{1} << 30;

template <class T, class Space, class Pattern>
struct draw_pattern {
  Pattern pattern;
  tensor_view<T, 3, Space> mask;
  HEADRED_FUNCTION void operator()(index_t row) const {
    const index_t h = row / mask.extent(1), i = row % mask.extent(1);
    for (index_t j = 0; j < mask.extent(2); ++j) mask(h, i, j) = pattern(i, j) ? T(1) : T(0);
  }
};

/// The random keys of bigbird_pattern, added to what is there.
template <class T, class Space>
struct draw_random_keys {
  bigbird_pattern pattern;
  tensor_view<T, 3, Space> mask;
  HEADRED_FUNCTION void operator()(index_t row) const {
    const index_t h = row / mask.extent(1), i = row % mask.extent(1), keys = mask.extent(2);
    const index_t count = pattern.random < keys ? pattern.random : keys;
    const random_stream draws(pattern.seed, static_cast<std::uint64_t>(h));
    // Floyd's sampling without replacement: each set of keys is as likely as any other.
    std::array<index_t, bigbird_pattern::most_random> chosen{};
    for (index_t n = 0; n < count; ++n) {
      const index_t last = keys - count + n;
      const auto number = static_cast<std::uint64_t>(i * bigbird_pattern::most_random + n);
      auto key = static_cast<index_t>(draws.below(number, static_cast<std::uint64_t>(last + 1)));
      for (index_t m = 0; m < n; ++m)
        if (chosen[static_cast<std::size_t>(m)] == key) {
          key = last;
          break;
        }
      chosen[static_cast<std::size_t>(n)] = key;
      mask(h, i, key) = T(1);
    }
  }
};

}  // namespace detail

inline void strided_pattern::require_valid() const {
  detail::require_pattern("strided_pattern", "stride", stride, 1, detail::longest_pattern);
}
inline void fixed_pattern::require_valid() const {
  detail::require_pattern("fixed_pattern", "block", block, 1, detail::longest_pattern);
}
inline void longformer_pattern::require_valid() const {
  detail::require_pattern("longformer_pattern", "window", window, 0, detail::longest_pattern);
  detail::require_pattern("longformer_pattern", "global", global, 0, detail::longest_pattern);
}
inline void bigbird_pattern::require_valid() const {
  detail::require_pattern("bigbird_pattern", "window", window, 0, detail::longest_pattern);
  detail::require_pattern("bigbird_pattern", "global", global, 0, detail::longest_pattern);
  detail::require_pattern("bigbird_pattern", "random", random, 0, most_random);
}

/// Fills a mask (H,T,S) with 1 where the pattern lets query i see key j, else 0. A pattern is a struct with
/// `bool operator()(i, j) const` and `require_valid()`, which throws argument_error for settings out of range.
/// Cost O(H T S).
template <backend Backend, class T, class Pattern>
void pattern_mask(Backend& be, const Pattern& pattern, tensor_view<T, 3, typename Backend::space> mask) {
  pattern.require_valid();
  using space = typename Backend::space;
  const index_t rows = mask.extent(0) * mask.extent(1);
  be.for_each(rows, detail::draw_pattern<T, space, Pattern>{pattern, mask});
  if constexpr (std::is_same_v<Pattern, bigbird_pattern>)
    be.for_each(rows, detail::draw_random_keys<T, space>{pattern, mask});
}

/// The same for a mask (T,S) that all heads share.
template <backend Backend, class T, class Pattern>
void pattern_mask(Backend& be, const Pattern& pattern, tensor_view<T, 2, typename Backend::space> mask) {
  pattern_mask(be, pattern,
               tensor_view<T, 3, typename Backend::space>(mask.data(), {1, mask.extent(0), mask.extent(1)},
                                                          {0, mask.stride(0), mask.stride(1)}));
}

}  // namespace headred
