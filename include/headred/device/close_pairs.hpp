// Third kernel of the pair distances: pairs that came out close, once more in double, in a form that cannot cancel.
#pragma once

#include <headred/device/pair_rows.hpp>

namespace headred::device::detail {

/// A block looks at 128 of the (group, i, j) and computes those that are marked, one after the other.
template <class T, class Rule>
struct close_pairs_kernel {
  static constexpr int threads = 128;
  template <class Block>
  struct shared {
    typename Block::template array<double, threads / 32> part;
    typename Block::template array<int, threads> marked;
  };

  tensor_view<const T, 4, device_space> maps;  // (L,H,T,S)
  pair_memory<T> memory;

  static constexpr index_t blocks(index_t heads, index_t groups) {
    return (groups * heads * heads + threads - 1) / threads;
  }

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, shared<Block>& own) const {
    const index_t heads = maps.extent(0) * maps.extent(1), tokens = maps.extent(2);
    const index_t first = block.block() * threads, mine = first + block.thread();
    const bool wanted = mine < memory.groups * heads * heads && mine / heads % heads < mine % heads;
    own.marked[block.thread()] = wanted && memory.partial[mine] == -1;
    block.sync();
    for (int m = 0; m < threads; ++m) {
      if (!own.marked[m]) continue;
      const index_t i = (first + m) / heads % heads, j = (first + m) % heads, group = (first + m) / heads / heads;
      double sum = 0;
      for (index_t token = tokens * group / memory.groups; token < tokens * (group + 1) / memory.groups; ++token)
        sum += row_distance(block, own.part, i, j, token);
      if (block.thread() == 0) memory.partial[first + m] = pair_sum::of_close(sum);
    }
  }

 private:
  template <class Block, class Array>
  HEADRED_FUNCTION double row_distance(Block& block, Array& part, index_t i, index_t j, index_t token) const {
    const index_t a = i * maps.extent(2) + token, b = j * maps.extent(2) + token;
    const int kind_a = memory.kind[a], kind_b = memory.kind[b];
    if (kind_a != regular_row || kind_b != regular_row)
      return kind_a == kind_b ? 0 : kind_a == zero_row || kind_b == zero_row ? 1 : Rule::one_constant;
    const auto total = [&](double value) {
      return headred::detail::block_fold<threads>(block, part, value, headred::detail::add{});
    };
    // x/A - y/B from differences of entries: dividing first would round each quotient (distance/row_forms.hpp)
    const index_t keys = maps.extent(3), step = maps.stride(3);
    const T *const x = row(i, token), *const y = row(j, token);
    double shifts = memory.shift[a] - memory.shift[b];
    const double shift_sum = memory.shift[a] + memory.shift[b];
    double change = 0, square_change = 0, product = 0;
    for (index_t k = block.thread(); k < keys; k += threads) {
      const double p = static_cast<double>(x[k * step]), q = static_cast<double>(y[k * step]), u = (p - q) - shifts;
      change += u;
      square_change += u * ((p + q) - shift_sum);
      product += (p - memory.shift[a]) * (q - memory.shift[b]);
    }
    const double mean = .5 * (memory.scale[a] + memory.scale[b]), unit = 1 / (memory.scale[a] * memory.scale[b]);
    if constexpr (Rule::stable_if_close) {
      const double similarity = total(product) * unit;
      if (!Rule::close(similarity, keys)) return Rule::finish(similarity);
    }
    if constexpr (Rule::stable_if_close)
      if (std::fabs(memory.scale[a] - memory.scale[b]) > .1 * (memory.scale[a] + memory.scale[b]))
        return apart_distance(total, block.thread(), x, y, a, b);
    change = total(change);
    const double half = Rule::scale == row_scale::sum ? -.5 * change : -.25 * total(square_change) / mean;
    if (Rule::scale == row_scale::centred_length) shifts += change / static_cast<double>(keys);
    double sum = 0;
    for (index_t k = block.thread(); k < keys; k += threads) {
      const double p = static_cast<double>(x[k * step]), q = static_cast<double>(y[k * step]);
      const double u = (p - q) - shifts, v = (p + q) - shift_sum;
      sum += Rule::stable_term((u * mean + v * half) * unit, (v * mean + u * half) * unit, p * q * unit);
    }
    return Rule::stable_finish(total(sum));
  }
  /// Rows whose scales differ so much that p - q gains nothing from the rows' difference (distance/row_forms.hpp): p
  /// and q are formed first, their means taken away once more where a mean was.
  template <class Total>
  HEADRED_FUNCTION double apart_distance(const Total& total, int thread, const T* x, const T* y, index_t a,
                                         index_t b) const {
    const index_t keys = maps.extent(3), step = maps.stride(3);
    const auto shifted = [&](const T* from, index_t k, index_t at) {
      return static_cast<double>(from[k * step]) - memory.shift[at];
    };
    double left = 0, right = 0;
    if constexpr (Rule::scale == row_scale::centred_length) {
      for (index_t k = thread; k < keys; k += threads) {
        left += shifted(x, k, a);
        right += shifted(y, k, b);
      }
      left = total(left) / static_cast<double>(keys);
      right = total(right) / static_cast<double>(keys);
    }
    double sum = 0;
    for (index_t k = thread; k < keys; k += threads) {
      const double p = (shifted(x, k, a) - left) / memory.scale[a], q = (shifted(y, k, b) - right) / memory.scale[b];
      sum += Rule::stable_term(p - q, p + q, p * q);
    }
    return Rule::stable_finish(total(sum));
  }
  HEADRED_FUNCTION const T* row(index_t head, index_t token) const {
    return maps.data() + head / maps.extent(1) * maps.stride(0) + head % maps.extent(1) * maps.stride(1) +
           token * maps.stride(2);
  }
};

}  // namespace headred::device::detail
