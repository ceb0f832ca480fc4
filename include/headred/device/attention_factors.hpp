// The kernels of attention's relevance on the device: factors of outputs, and what AttnLRP hands to scores.
#pragma once

#include <headred/device/attention_gradient.hpp>
#include <headred/device/relevance_terms.hpp>

namespace headred::device::detail {

/// A block for each row: sums become factors, `plus` and `minus` in place; rows that are no query have none.
template <class T>
struct attention_factors_kernel : row_kernel<T> {
  attention_table table;
  tensor_view<const T, 2, device_space> relevance, sums;  // sums: of contributions of either sign; or empty
  rule_numbers<T> rule;
  T *plus, *minus, *terms;  // minus: of the rules by sign

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, typename row_kernel<T>::template shared<Block>& memory) const {
    const index_t r = block.block(), cols = relevance.extent(1);
    const bool covered = table.covers(r);
    T mine = T(0);
    for (index_t c = block.thread(); c < cols; c += row_kernel<T>::threads) {
      const index_t at = r * cols + c;
      if (!covered) {
        plus[at] = T(0);
        if (minus != nullptr) minus[at] = T(0);
      } else if (minus != nullptr) {
        rule.turn(relevance(r, c), plus[at], minus[at], mine);
      } else {
        plus[at] = rule.of_sum(relevance(r, c), sums(r, c), mine);
      }
    }
    const T lost = this->total(block, memory, mine);
    if (block.thread() != 0) return;
    terms[3 * r] = terms[3 * r + 2] = T(0);
    terms[3 * r + 1] = lost;
  }
};

/// AttnLRP behind the values: with R_ij = A_ij v_j f_i / 2 the softmax has s_ij (R_ij - A_ij sum_l R_il) at its scores,
/// and `flows` their factors by the epsilon rule; laid out as the probabilities, as is `scores`, scratch memory.
template <class T>
struct attention_flow_kernel : attention_tile<T> {
  using tile = attention_tile<T>;
  attention_table table;
  attention_operands<T> in;
  T scale;
  rule_numbers<T> rule;
  const T* probabilities;
  tensor_view<const T, 2, device_space> factors;
  T *flows, *scores, *terms;  // terms: (query rows, heads, 3)

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, typename tile::template shared<Block>& memory) const {
    const auto part = attention_part::of<tile::columns>(table, true, in.heads, 1, block.block());
    const attention_sentence& s = *part.sentence;
    const index_t key_column = part.head / (in.heads / in.kv_heads) * in.head_size;
    const int size = static_cast<int>(in.head_size), lane = block.thread() % tile::across,
              own = block.thread() / tile::across * tile::each;
    const auto queries = [&](const tensor_view<const T, 2, device_space>& m) {
      return row_block<T>{m.data() + (s.query_begin + part.first) * m.stride(0) + part.head * in.head_size, m.stride(0),
                          part.rows};
    };
    const index_t end = part.visible(in.causal, part.first + part.rows - 1);
    T all[tile::each] = {}, mean[tile::each] = {};
    for (index_t j0 = 0; j0 < end; j0 += tile::across) {
      T flow[tile::each], score[tile::each];
      tile::products(block, memory, queries(factors), rows_of(in.v, s.key_begin, j0, end, key_column), size, flow);
      tile::products(block, memory, queries(in.q), rows_of(in.k, s.key_begin, j0, end, key_column), size, score);
      for (int a = 0; a < tile::each; ++a) {
        const index_t i = part.first + own + a, j = j0 + lane;
        if (own + a >= part.rows || j >= part.visible(in.causal, i)) continue;
        const index_t at = part.place(in.heads, i) + j;
        const T p = probabilities[at];
        flows[at] = p * flow[a] / T(2);
        scores[at] = score[a] * scale + beside(part, i, j);
        all[a] += flows[at];
        mean[a] += p * scores[at];
      }
    }
    for (int a = 0; a < tile::each; ++a) {
      const T sum = tile::fold(block, all[a], headred::detail::add{}),
              middle = tile::fold(block, mean[a], headred::detail::add{});
      const index_t i = part.first + own + a, first = part.place(in.heads, i), seen = part.visible(in.causal, i);
      T bias = T(0), stabiliser = T(0), nonlinear = T(0);
      for (index_t j = lane; own + a < part.rows && j < s.keys; j += tile::across) {
        const T p = j < seen ? probabilities[first + j] : T(0), flow = j < seen ? flows[first + j] : T(0);
        if (p == T(0)) {  // excluded, or as good as: a score without a way to the output
          nonlinear += flow * (T(1) + middle);
          flows[first + j] = T(0);
          continue;
        }
        const T score = scores[first + j];
        nonlinear += flow * (T(1) - score + middle);
        const T f = rule.of_sum(score * (flow - p * sum), score, stabiliser);
        bias += f * beside(part, i, j);
        flows[first + j] = f;
      }
      bias = tile::fold(block, bias, headred::detail::add{});
      stabiliser = tile::fold(block, stabiliser, headred::detail::add{});
      nonlinear = tile::fold(block, nonlinear, headred::detail::add{});
      if (own + a >= part.rows || lane != 0) continue;
      T* const to = terms + 3 * ((s.query_begin + i) * in.heads + part.head);
      to[0] = bias;
      to[1] = stabiliser;
      to[2] = nonlinear;
    }
  }

 private:
  /// What a score has besides the product of query and key.
  HEADRED_FUNCTION T beside(const attention_part& part, index_t i, index_t j) const {
    const index_t at = in.causal ? i + part.sentence->keys - part.sentence->queries : i;
    T x = T(0);
    if (in.bias.data() != nullptr) x = in.bias(in.bias.extent(0) == 1 ? 0 : part.head, at, j);
    if (in.mask.data() == nullptr) return x;
    const T m = in.mask(in.mask.extent(0) == 1 ? 0 : part.head, at, j);
    return m > T(0) ? x - (T(1) - m) * in.mask_penalty : x;
  }
};

/// plus, minus (rows, columns) = the positive and the negative parts of x.
template <class T>
struct parts_by_sign {
  tensor_view<const T, 2, device_space> x;
  T *plus, *minus;
  HEADRED_FUNCTION void operator()(index_t at) const {
    const auto [r, c] = matrix_place::of(at, x.extent(1));
    const T value = x(r, c), positive = T(0) < value ? value : T(0);
    plus[at] = positive;
    minus[at] = value - positive;
  }
};

/// to = x times what arrived, by the sign of x where that was kept apart; where nothing arrived 0, whatever x is.
template <class T>
struct times_input {
  tensor_view<const T, 2, device_space> x;
  const T* of_negative;  // or nullptr
  tensor_view<T, 2, device_space> to;
  HEADRED_FUNCTION void operator()(index_t at) const {
    const auto [r, c] = matrix_place::of(at, to.extent(1));
    const T arrived = of_negative == nullptr || T(0) < x(r, c) ? to(r, c) : of_negative[at];
    to(r, c) = arrived == T(0) ? T(0) : arrived * x(r, c);
  }
};

template <class T>
struct zero_entry {
  tensor_view<T, 2, device_space> to;
  HEADRED_FUNCTION void operator()(index_t at) const {
    const auto [r, c] = matrix_place::of(at, to.extent(1));
    to(r, c) = T(0);
  }
};

}  // namespace headred::device::detail
