// Multi-head attention over packed sentences on the device: out_h = gate_h softmax(scale q_h k_g^T + bias + mask) v_g.
#pragma once

#include <cmath>
#include <string>

#include <headred/core/number_text.hpp>
#include <headred/device/attention_tiles.hpp>
#include <headred/device/require_shape.hpp>

namespace headred::device {
namespace detail {

/// The softmax is taken tile after tile of keys, what was summed so far scaled down when a greater score comes; scores
/// wait in the memory of the probabilities, where those are wanted, for the final sum.
template <class T>
struct attention_kernel : attention_tile<T> {
  using tile = attention_tile<T>;
  attention_table table;
  attention_operands<T> in;
  T scale;
  T* probabilities;
  tensor_view<T, 2, device_space> context, out;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, typename tile::template shared<Block>& memory) const {
    constexpr T lowest = -std::numeric_limits<T>::infinity();
    const auto part = attention_part::of<tile::columns>(table, true, in.heads, in.head_size, block.block());
    const attention_sentence& s = *part.sentence;
    const index_t group = part.head / (in.heads / in.kv_heads), key_column = group * in.head_size;
    const int lane = block.thread() % tile::across, warp = block.thread() / tile::across;
    const int size = static_cast<int>(in.head_size), own = warp * tile::each;
    const bool keeps = probabilities != nullptr && part.column == 0;

    T most[tile::each], sum[tile::each], values[tile::packs][tile::each] = {};
    for (int a = 0; a < tile::each; ++a) {
      most[a] = lowest;
      sum[a] = T(0);
    }
    const row_block<T> queries{in.q.data() + (s.query_begin + part.first) * in.q.stride(0) + part.head * in.head_size,
                               in.q.stride(0), part.rows};
    const index_t end = part.visible(in.causal, part.first + part.rows - 1);
    for (index_t j0 = 0; j0 < end; j0 += tile::across) {
      T score[tile::each];
      tile::products(block, memory, queries, rows_of(in.k, s.key_begin, j0, end, key_column), size, score);
      for (int a = 0; a < tile::each; ++a) {
        const index_t i = part.first + own + a, j = j0 + lane;
        const bool seen = own + a < part.rows && j < part.visible(in.causal, i);
        const T x = seen ? masked(score[a] * scale, part, i, j) : lowest;
        if (keeps && seen) probabilities[part.place(in.heads, i) + j] = x;
        const T before = most[a];
        most[a] = tile::fold(block, before < x ? x : before, headred::detail::take_greater{});
        const T shift = most[a] == lowest ? T(0) : most[a], e = std::exp(x - shift), down = std::exp(before - shift);
        sum[a] = sum[a] * down + tile::fold(block, e, headred::detail::add{});
        for (int m = 0; m < tile::packs; ++m) values[m][a] *= down;
        memory.weights[(own + a) * tile::pitch + lane] = e;
      }
      block.sync();
      tile::add_weighted(block, memory, rows_of(in.v, s.key_begin, j0, end, key_column + part.column), part.columns,
                         values);
    }
    const T gate = in.gates.data() == nullptr ? T(1) : in.gates(part.head);
    for (int a = 0; a < tile::each; ++a) {
      if (own + a >= part.rows) continue;
      const index_t i = part.first + own + a, row = s.query_begin + i;
      const T unit = sum[a] > T(0) ? T(1) / sum[a] : sum[a];  // nothing seen: 0; a NaN stays one
      for (int m = 0; m < tile::packs; ++m) {
        const int c = m * tile::across + lane;
        if (c >= part.columns) continue;
        const index_t column = part.head * in.head_size + part.column + c;
        const T value = values[m][a] * unit;
        if (context.data() != nullptr) context(row, column) = value;
        out(row, column) = value * gate;
      }
      if (!keeps) continue;
      const index_t seen = part.visible(in.causal, i);
      const T shift = most[a] == lowest ? T(0) : most[a];
      T* const p = probabilities + part.place(in.heads, i);
      for (index_t j = lane; j < s.keys; j += tile::across) p[j] = j < seen ? std::exp(p[j] - shift) * unit : T(0);
    }
  }

 private:
  /// x + bias - (1 - mask) penalty, kept finite; -infinity where the mask is 0.
  HEADRED_FUNCTION T masked(T x, const attention_part& part, index_t i, index_t j) const {
    constexpr T least = std::numeric_limits<T>::lowest();
    const index_t at = in.causal ? i + part.sentence->keys - part.sentence->queries : i;
    if (in.bias.data() != nullptr) {
      x += in.bias(in.bias.extent(0) == 1 ? 0 : part.head, at, j);
      x = x < least ? least : x;
    }
    if (in.mask.data() != nullptr) {
      const T m = in.mask(in.mask.extent(0) == 1 ? 0 : part.head, at, j);
      x = x < least ? least : x;
      x -= (T(1) - m) * in.mask_penalty;
      x = x < least ? least : x;
      if (!(m > T(0) || m < T(0))) x = -std::numeric_limits<T>::infinity();
    }
    return x;
  }
};

/// Rows that no sentence covers become 0.
template <class T>
struct clear_between {
  attention_table table;
  tensor_view<T, 2, device_space> m;
  HEADRED_FUNCTION void operator()(index_t at) const {
    const index_t row = at / m.extent(1), column = at % m.extent(1);
    if (!table.covers(row)) m(row, column) = T(0);
  }
};

template <class View>
void require_rows(const char* op, const char* name, const View& m, index_t rows, index_t cols) {
  require_shape(op, name, m, {rows, cols});
  if (m.extent(1) > 1 && m.stride(1) != 1)
    throw shape_error(std::string(op) + ": the entries of a row of " + name + " are " + std::to_string(m.stride(1)) +
                      " apart, expected 1");
}

template <class View>
void require_positions(const char* op, const char* name, const View& p, index_t heads, index_t rows, index_t cols) {
  if (p.data() == nullptr) return;
  if ((p.extent(0) != heads && p.extent(0) != 1) || p.extent(1) < rows || p.extent(2) < cols)
    throw shape_error(std::string(op) + ": " + name + " is " + shape_text(p.shape()) + ", expected " +
                      shape_text(shape_t<3>{heads, rows, cols}) + " at least, or 1 for the heads");
}

/// Rows that bias and mask must have.
template <class T, class Batch>
index_t position_rows(const Batch& batch, const attention_operands<T>& in) {
  return in.causal ? batch.greatest_keys() : batch.greatest_queries();
}

/// Throws unless the operands fit together and hold the batch.
template <class T, class Batch>
void require_attention(const char* op, const Batch& batch, const attention_operands<T>& in) {
  const bool none = in.heads == 0 && in.kv_heads == 0;
  if (!none && (in.heads < 1 || in.kv_heads < 1 || in.heads % in.kv_heads != 0))
    throw argument_error(std::string(op) + ": " + std::to_string(in.heads) + " heads share " +
                         std::to_string(in.kv_heads) + " key/value heads, expected a divisor");
  if (const index_t size = in.head_size; (!none && size < 1) || size < 0 || size > (index_t{1} << 24))
    throw argument_error(std::string(op) + ": head_size is " + std::to_string(in.head_size) + ", expected [1,2^24]");
  if (!std::isfinite(in.scale) || !std::isfinite(in.mask_penalty))
    throw argument_error(std::string(op) + ": scale and mask_penalty must be finite");
  require_rows(op, "q", in.q, in.q.extent(0), in.heads * in.head_size);
  require_rows(op, "k", in.k, in.k.extent(0), in.kv_heads * in.head_size);
  require_rows(op, "v", in.v, in.k.extent(0), in.kv_heads * in.head_size);
  if (batch.query_rows() > in.q.extent(0) || batch.key_rows() > in.k.extent(0))
    throw shape_error(std::string(op) + ": q and k have " + std::to_string(in.q.extent(0)) + " and " +
                      std::to_string(in.k.extent(0)) + " rows, the batch takes " + std::to_string(batch.query_rows()) +
                      " and " + std::to_string(batch.key_rows()));
  const index_t rows = position_rows(batch, in);
  require_positions(op, "bias", in.bias, in.heads, rows, batch.greatest_keys());
  require_positions(op, "mask", in.mask, in.heads, rows, batch.greatest_keys());
  if (in.gates.data() != nullptr) require_shape(op, "gates", in.gates, {in.heads});
}

template <class T>
T attention_scale(const attention_operands<T>& in) {
  return in.scale == T(0) ? T(1) / std::sqrt(static_cast<T>(in.head_size)) : in.scale;
}

}  // namespace detail

/// For every sentence, query row i and head h of group g:
///   A_ij = softmax_j(scale q_i k_j + bias_ij - penalty (1 - mask_ij)), context_i = sum_j A_ij v_j,
///   out_i = gate_h context_i.
/// out : (Rq, heads head_size), rows outside all sentences 0. `probabilities` receives A, laid out as
/// attention_batch::probability_count says, or is nullptr: nothing of the size of A is then held. `context` : shape of
/// out, or empty. Results are the same bits whatever is kept and whatever else is in the batch. A query that sees no
/// key has A = 0 and context 0; a NaN in q or k stays NaN. There is no dropout here. Throws shape_error,
/// argument_error. Cost: 4 heads head_size sum_b T_b S_b operations, half as many when causal; products once more for
/// each 128 columns of a head beyond the first. Source: Vaswani et al. 2017, section 3.2; tile by tile: Milakov &
/// Gimelshein 2018.
template <class T, device_backend Backend>
void attention_forward(Backend& be, const attention_batch<Backend>& batch, const attention_operands<T>& in,
                       tensor_view<T, 2, device_space> out, std::type_identity_t<T>* probabilities = nullptr,
                       std::type_identity_t<tensor_view<T, 2, device_space>> context = {}) {
  constexpr const char* op = "attention_forward";
  detail::require_attention(op, batch, in);
  detail::require_shape(op, "out", out, in.q.shape());
  if (context.data() != nullptr) detail::require_shape(op, "context", context, in.q.shape());
  if (in.q.empty()) return;
  using kernel = detail::attention_kernel<T>;
  be.for_each(out.size(), detail::clear_between<T>{batch.table(), out});
  if (context.data() != nullptr) be.for_each(context.size(), detail::clear_between<T>{batch.table(), context});
  be.launch(batch.table().query_tiles * in.heads * detail::attention_part::chunks(in.head_size, kernel::columns),
            kernel{{}, batch.table(), in, detail::attention_scale(in), probabilities, context, out});
}

}  // namespace headred::device
