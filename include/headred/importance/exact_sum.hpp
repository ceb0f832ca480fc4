// exact_sum: sums of numbers of any size that do not depend on their order.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <headred/core/error.hpp>

namespace headred {

/// Exact sum of finite numbers >= 0, rounded once, when it is read: a fixed-point number that spans all doubles, so
/// that
/// terms and sums may be added in any order with the same bits. Up to 2^31 terms; 552 bytes.
/// Source: Kulisch and Miranker 1981 (the long accumulator); the split into words of 32 bits with room for carries is
/// ours.
class exact_sum {
 public:
  /// Throws argument_error for a number that is negative or not finite.
  exact_sum& operator+=(double x) {
    if (!(x >= 0) || x > std::numeric_limits<double>::max())
      throw argument_error("exact_sum: a term is not a finite number >= 0");
    const auto bits = std::bit_cast<std::uint64_t>(x) & ~(std::uint64_t{1} << 63);
    const std::uint64_t exponent = bits >> 52;
    std::uint64_t digits = bits & ((std::uint64_t{1} << 52) - 1);
    if (exponent != 0) digits |= std::uint64_t{1} << 52;
    const std::uint64_t place = exponent == 0 ? 0 : exponent - 1;  // of the lowest digit, in bits above 2^-1074
    const std::size_t word = static_cast<std::size_t>(place / 32);
    const std::uint64_t shift = place % 32;
    const std::uint64_t low = (digits & 0xffffffffu) << shift, high = (digits >> 32) << shift;
    words_[word] += low & 0xffffffffu;
    words_[word + 1] += (low >> 32) + (high & 0xffffffffu);
    words_[word + 2] += high >> 32;
    if (++since_carry_ == most_terms) carry();
    return *this;
  }
  exact_sum& operator+=(const exact_sum& other) {
    exact_sum more = other;
    more.carry();
    carry();
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] += more.words_[i];
    carry();
    return *this;
  }

  /// The sum, rounded to nearest, ties to even.
  double value() const {
    exact_sum sum = *this;
    sum.carry();
    std::size_t top = sum.words_.size();
    while (top > 0 && sum.words_[top - 1] == 0) --top;
    if (top == 0) return 0;
    const auto word = [&](std::size_t below) { return below < top ? sum.words_[top - 1 - below] : 0; };
    // 64 bits from the highest set one on; whatever lies below them is noted in the last.
    const int zeros = std::countl_zero(static_cast<std::uint32_t>(word(0)));
    const std::uint64_t upper = word(0) << 32 | word(1), lower = word(2) << 32;
    std::uint64_t leading = zeros == 0 ? upper : upper << zeros | lower >> (64 - zeros);
    bool rest = zeros == 0 ? lower != 0 : (lower << zeros) != 0;
    for (std::size_t below = 3; below < top && !rest; ++below) rest = word(below) != 0;
    if (rest) leading |= 1;
    return std::ldexp(static_cast<double>(leading), static_cast<int>(top) * 32 - 64 - zeros - 1074);
  }

  friend bool operator==(exact_sum a, exact_sum b) {
    a.carry();
    b.carry();
    return a.words_ == b.words_;
  }

 private:
  static constexpr std::uint32_t most_terms = std::uint32_t{1} << 30;  // a word takes at most 2^33 from one term

  void carry() {
    std::uint64_t over = 0;
    for (std::uint64_t& word : words_) {
      word += over;
      over = word >> 32;
      word &= 0xffffffffu;
    }
    since_carry_ = 0;
  }

  std::array<std::uint64_t, 68> words_{};  // 32 bits each, from 2^-1074 on, the upper half for carries
  std::uint32_t since_carry_ = 0;
};

}  // namespace headred
