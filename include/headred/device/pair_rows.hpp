// First kernel of the pair distances: what each row's entries are shifted and divided by, and whether it is a row at
// all.
#pragma once

#include <bit>
#include <cmath>
#include <limits>

#include <headred/device/block_context.hpp>
#include <headred/device/pair_rules.hpp>

namespace headred::device::detail {

enum row_kind : int { zero_row, constant_row, regular_row, broken_row };

/// Device memory of the pair kernels, for N heads and T tokens; row (head, token) is at head T + token.
template <class T>
struct pair_memory {
  double *sum, *shift, *scale;  // x -> (x - shift) / scale
  T *first, *rest, *unit;       // the same in T: ((x - first) - rest) unit
  int* kind;
  long long* partial;  // (groups, N, N): sums over a group's tokens, see pair_sum
  index_t groups;
};

/// Fast distances are summed as integers, in units of 2^-50: exact, and without double arithmetic in float kernels. A
/// pair with close rows has -1 instead, and later the bits of a double below a sign bit: its digits may lie lower.
inline constexpr double distance_unit = 0x1p-50;
struct pair_sum {
  static constexpr long long sign = std::numeric_limits<long long>::min();
  HEADRED_FUNCTION static long long of_close(double sum) { return std::bit_cast<long long>(sum) | sign; }
  HEADRED_FUNCTION static double value(long long stored) {
    return stored < 0 ? std::bit_cast<double>(stored & ~sign) : static_cast<double>(stored) * distance_unit;
  }
};
/// Tokens are summed in so many groups: as few tokens together as memory allows, since a group with a close pair is
/// computed twice (of BERT's pairs with 2 tokens a group 3 %, with 8 a group 10 %). 2^12 distances of at most 1 fit
/// into 62 bits.
constexpr index_t token_groups(index_t heads, index_t tokens) {
  const bool few_heads = heads <= 512;
  const index_t wanted = tokens / (few_heads ? 2 : 8), most = few_heads ? 64 : 16;
  const index_t some = wanted < 1 ? 1 : wanted > most ? most : wanted;
  const index_t needed = (tokens + 4095) / 4096;
  return some < needed ? needed : some;
}

template <class T, class Rule>
struct pair_rows_kernel {
  static constexpr int threads = 128;
  template <class Block>
  struct shared {
    typename Block::template array<double, threads / 32> part;
  };

  tensor_view<const T, 4, device_space> maps;  // (L,H,T,S)
  pair_memory<T> memory;
  double tolerance;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, shared<Block>& memory_of_block) const {
    const index_t row = block.block(), tokens = maps.extent(2), keys = maps.extent(3);
    const index_t head = row / tokens, heads = maps.extent(1);
    const T* const x =
        maps.data() + head / heads * maps.stride(0) + head % heads * maps.stride(1) + row % tokens * maps.stride(2);
    const index_t step = maps.stride(3);
    const auto total = [&](double value) {
      return headred::detail::block_fold<threads>(block, memory_of_block.part, value, headred::detail::add{});
    };
    double sum = 0, wrong = 0;
    for (index_t k = block.thread(); k < keys; k += threads) {
      const double v = static_cast<double>(x[k * step]);
      sum += v;
      if (!(v >= 0)) wrong = 1;
    }
    sum = total(sum);
    wrong = total(wrong);
    double shift = 0, scale = sum;
    int kind = regular_row;
    if constexpr (Rule::scale != row_scale::sum) {
      if constexpr (Rule::scale == row_scale::centred_length) shift = sum / static_cast<double>(keys);
      double squares = 0;
      for (index_t k = block.thread(); k < keys; k += threads) {
        const double d = static_cast<double>(x[k * step]) - shift;
        squares += d * d;
      }
      squares = total(squares);
      scale = std::sqrt(squares);
      const double length = std::sqrt(squares + static_cast<double>(keys) * shift * shift);
      if (Rule::scale == row_scale::centred_length &&
          scale <= 16 * static_cast<double>(std::numeric_limits<T>::epsilon()) * length)
        kind = constant_row;
    }
    if (sum == 0) kind = zero_row;
    if (wrong > 0 || !(std::fabs(sum - 1) <= tolerance || sum == 0)) kind = broken_row;
    if (block.thread() != 0) return;
    if (kind != regular_row) scale = 1;
    memory.sum[row] = sum;
    memory.shift[row] = shift;
    memory.scale[row] = scale;
    const T first = static_cast<T>(shift);
    memory.first[row] = first;
    memory.rest[row] = static_cast<T>(shift - static_cast<double>(first));
    memory.unit[row] = static_cast<T>(1 / scale);
    memory.kind[row] = kind;
  }
};

}  // namespace headred::device::detail
