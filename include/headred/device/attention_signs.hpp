// The kernels of attention's relevance by sign on the device. Output c of a query has the contributions
//   A_j v_jc   of values,   s_jd t_jc   of keys,   u_dc = q_d scale sum_j t_jc k_jd   of the query,
// where s_jd = scale q_d k_jd, and t_jc = A_j (v_jc - y_c) says how output c moves with score j. Those of keys have the
// sign of a product: their sums by sign come from those of its factors.
#pragma once

#include <headred/device/attention_factors.hpp>

namespace headred::device::detail {

template <class T>
struct attention_signs {
  attention_table table;
  attention_operands<T> in;
  T scale;
  const T* probabilities;
  tensor_view<const T, 2, device_space> context;

  /// Query i and key j of a sentence, in a head; number `at` of the probabilities.
  struct pair {
    index_t query, key, head, group;  // rows of q and k
  };
  HEADRED_FUNCTION pair pair_of(index_t at) const {
    const attention_sentence& s = table.find(&attention_sentence::place, at / in.heads);
    const index_t rest = at - in.heads * s.place, h = rest / (s.queries * s.keys);
    return {s.query_begin + rest / s.keys % s.queries, s.key_begin + rest % s.keys, h, h / (in.heads / in.kv_heads)};
  }
  HEADRED_FUNCTION T moves(T probability, const pair& p, index_t c) const {
    return probability * (in.v(p.key, p.group * in.head_size + c) - context(p.query, p.head * in.head_size + c));
  }
};

/// rising, falling = the sums by sign over d of s_jd.
template <class T>
struct score_signs {
  attention_signs<T> from;
  T *rising, *falling;
  HEADRED_FUNCTION void operator()(index_t at) const {
    const auto p = from.pair_of(at);
    const index_t size = from.in.head_size;
    T up = T(0), down = T(0);
    for (index_t d = 0; d < size; ++d) {
      const T s = from.scale * from.in.q(p.query, p.head * size + d) * from.in.k(p.key, p.group * size + d);
      up += T(0) < s ? s : T(0);
      down += T(0) < s ? T(0) : s;
    }
    rising[at] = up;
    falling[at] = down;
  }
};

/// plus, minus = the sums by sign of an output's contributions from values and keys; 0 in rows that are no query.
template <class T>
struct output_signs {
  attention_signs<T> from;
  const T *rising, *falling;
  T *plus, *minus;
  HEADRED_FUNCTION void operator()(index_t at) const {
    const auto [row, column] = matrix_place::of(at, from.context.extent(1));
    T up = T(0), down = T(0);
    if (from.table.covers(row)) {
      const attention_sentence& s = from.table.find(&attention_sentence::query_begin, row);
      const index_t h = column / from.in.head_size, g = h / (from.in.heads / from.in.kv_heads);
      const index_t first = from.in.heads * s.place + (h * s.queries + row - s.query_begin) * s.keys;
      const T y = from.context(row, column);
      for (index_t j = 0; j < s.keys; ++j) {
        const T p = from.probabilities[first + j];
        if (p == T(0)) continue;
        const T v = from.in.v(s.key_begin + j, g * from.in.head_size + column % from.in.head_size), z = p * v,
                t = p * (v - y), with = rising[first + j] * t, against = falling[first + j] * t;
        up += (T(0) < z ? z : T(0)) + (T(0) < t ? with : against);
        down += (T(0) < z ? T(0) : z) + (T(0) < t ? against : with);
      }
    }
    plus[at] = up;
    minus[at] = down;
  }
};

/// The contributions u_dc of a query, in tiles of 32 x 32 that are computed twice rather than kept: first their sums by
/// sign are added to plus and minus, then, given factors, to_d = sum_c f_c u_dc. A block for each query row and head.
template <class T>
struct query_signs_kernel {
  static constexpr int threads = 128, side = 32, each = 8, pitch = side + 1;
  template <class Block>
  struct shared {
    typename Block::template array<T, side * pitch> keys, moves;
    typename Block::template array<T, threads> up, down;
  };

  attention_signs<T> from;
  bool sums;
  T *plus, *minus;
  tensor_view<T, 2, device_space> to;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, shared<Block>& memory) const {
    const index_t row = block.block() / from.in.heads, h = block.block() % from.in.heads, size = from.in.head_size;
    if (!from.table.covers(row)) return;
    const attention_sentence& s = from.table.find(&attention_sentence::query_begin, row);
    const index_t g = h / (from.in.heads / from.in.kv_heads);
    const T* const p = from.probabilities + from.in.heads * s.place + (h * s.queries + row - s.query_begin) * s.keys;
    const int t = block.thread(), lane = t % side, warp = t / side;
    const index_t outputs = row * from.context.extent(1) + h * size;
    for (index_t outer = 0; outer < size; outer += side) {
      T up = T(0), down = T(0), sum[each] = {};
      for (index_t inner = 0; inner < size; inner += side) {
        const index_t c0 = sums ? outer : inner, d0 = sums ? inner : outer, c = c0 + lane;
        T u[each] = {};
        for (index_t j0 = 0; j0 < s.keys; j0 += side) {
          block.sync();
          for (int r = warp; r < side; r += threads / side) {
            const index_t j = j0 + r, key = s.key_begin + j;
            const T a = j < s.keys ? p[j] : T(0);
            const bool reached = a != T(0);
            memory.keys[r * pitch + lane] = reached && d0 + lane < size ? from.in.k(key, g * size + d0 + lane) : T(0);
            memory.moves[r * pitch + lane] = reached && c < size ? from.moves(a, {row, key, h, g}, c) : T(0);
          }
          block.sync();
          for (int r = 0; r < side; ++r) {
            const T move = memory.moves[r * pitch + lane];
            for (int a = 0; a < each; ++a) u[a] += memory.keys[r * pitch + warp * each + a] * move;
          }
        }
        for (int a = 0; a < each; ++a) {
          const index_t d = d0 + warp * each + a;
          const T z = d < size && c < size ? from.scale * from.in.q(row, h * size + d) * u[a] : T(0);
          up += T(0) < z ? z : T(0);
          down += T(0) < z ? T(0) : z;
          if (!sums && c < size) sum[a] += (T(0) < z ? plus : minus)[outputs + c] * z;
        }
      }
      if (sums) {
        block.sync();
        memory.up[t] = up;
        memory.down[t] = down;
        block.sync();
        if (warp > 0 || outer + lane >= size) continue;
        for (int w = 0; w < threads / side; ++w) {
          plus[outputs + outer + lane] += memory.up[w * side + lane];
          minus[outputs + outer + lane] += memory.down[w * side + lane];
        }
        continue;
      }
      for (int a = 0; a < each; ++a) {
        T all = sum[a];
        for (int mask = side / 2; mask > 0; mask /= 2) all += block.shuffle_xor(all, mask);
        const index_t d = outer + warp * each + a;
        if (lane == 0 && d < size) to(row, h * size + d) = all;
      }
    }
  }
};

/// with, against = what a rising and a falling term of a score get: sum_c f_c t_jc, f of t's sign, and of the other.
template <class T>
struct flow_signs {
  attention_signs<T> from;
  const T *plus, *minus;
  T *with, *against;
  HEADRED_FUNCTION void operator()(index_t at) const {
    const auto p = from.pair_of(at);
    const index_t size = from.in.head_size, first = p.query * from.context.extent(1) + p.head * size;
    const T probability = from.probabilities[at];
    T same = T(0), other = T(0);
    for (index_t c = 0; probability != T(0) && c < size; ++c) {
      const T t = from.moves(probability, p, c), above = plus[first + c], below = minus[first + c];
      same += (T(0) < t ? above : below) * t;
      other += (T(0) < t ? below : above) * t;
    }
    with[at] = same;
    against[at] = other;
  }
};

/// to_jd += over the queries of the heads of its group: s_jd times what a term of its sign gets.
template <class T>
struct key_signs {
  attention_signs<T> from;
  const T *with, *against;
  tensor_view<T, 2, device_space> to;
  HEADRED_FUNCTION void operator()(index_t at) const {
    const index_t columns = to.extent(1), line = at / columns, column = at % columns, size = from.in.head_size;
    const attention_sentence& s = from.table.find(&attention_sentence::key_tile, line / attention_tile_rows);
    const index_t j = line - s.key_tile * attention_tile_rows, group = from.in.heads / from.in.kv_heads;
    if (j >= s.keys) return;
    const T k = from.scale * from.in.k(s.key_begin + j, column);
    T sum = T(0);
    for (index_t h = column / size * group; h < (column / size + 1) * group; ++h)
      for (index_t i = 0; i < s.queries; ++i) {
        const index_t place = from.in.heads * s.place + (h * s.queries + i) * s.keys + j;
        const T term = k * from.in.q(s.query_begin + i, h * size + column % size);
        sum += (T(0) < term ? with : against)[place] * term;
      }
    to(s.key_begin + j, column) += sum;
  }
};

}  // namespace headred::device::detail
