// What multi-head attention works on: shape, options, sentences, operands; and their checks.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include <headred/core/number_text.hpp>
#include <headred/core/random.hpp>
#include <headred/nn/op/checked_matrix.hpp>
#include <headred/nn/sequence.hpp>

namespace headred {

/// Heads of one attention: query heads [g n, (g+1) n) share the keys and values of group g, n = heads / kv_heads.
/// A layer that has lost all its heads has heads = kv_heads = 0.
struct attention_shape {
  index_t heads = 0;
  index_t kv_heads = 0;
  index_t head_size = 0;
  friend bool operator==(const attention_shape&, const attention_shape&) = default;
};

/// One factor for each head's output, (H); empty: 1 each. Not an attention_mask_view, which acts before the softmax.
template <class T, class Space = host_space>
struct head_gates_view {
  tensor_view<const T, 1, Space> values;

  head_gates_view() = default;
  head_gates_view(const tensor_view<const T, 1, Space>& gates) : values(gates) {}
  head_gates_view(const tensor_view<T, 1, Space>& gates) : values(gates) {}
};

/// Which keys a query may look at, in [0,1]: (H,T,S), or (T,S) for all heads alike; empty: all. 0 excludes the key
/// exactly, m in (0,1) adds -penalty (1 - m) to the score. Not a head_gates_view, which scales a head's output.
template <class T, class Space = host_space>
struct attention_mask_view {
  tensor_view<const T, 3, Space> values;
  tensor_view<T, 3, Space> gradient;  ///< shape of `values`: a tape's way back adds dLoss/dmask there; empty: nowhere

  attention_mask_view() = default;
  attention_mask_view(const tensor_view<const T, 3, Space>& mask, const tensor_view<T, 3, Space>& gradient_of_mask = {})
      : values(mask), gradient(gradient_of_mask) {}
  attention_mask_view(const tensor_view<T, 3, Space>& mask, const tensor_view<T, 3, Space>& gradient_of_mask = {})
      : values(mask), gradient(gradient_of_mask) {}
  attention_mask_view(const tensor_view<const T, 2, Space>& mask)
      : values(mask.data(), {1, mask.extent(0), mask.extent(1)}, {0, mask.stride(0), mask.stride(1)}) {}
  attention_mask_view(const tensor_view<T, 2, Space>& mask)
      : attention_mask_view(tensor_view<const T, 2, Space>(mask)) {}
};

template <class T>
struct attention_options {
  bool causal = false;        ///< query i sees the keys j <= i + (S - T): the queries are the last of the keys
  T scale = T(0);             ///< of the products of queries and keys; 0 takes 1 / sqrt(head_size)
  double dropout = 0;         ///< probability of losing an attention weight, in [0,1); the rest is scaled up
  random_stream draws{0};     ///< of the dropout, addressed by the place among the probabilities
  T mask_penalty = T(10000);  ///< what a mask of (almost) 0 takes off a score
};

/// The operands of attention over a batch of sentences: the queries of sentence b attend to the keys of sentence b.
/// The row of query i in the bias and the mask is i, and i + (S - T) when attention is causal, so that decoding with
/// kept keys reads the rows that the whole pass reads. Bias and mask serve all sentences and may be larger than those.
template <class T, class Space = host_space>
struct attention_inputs {
  attention_shape shape = {};
  attention_options<T> options = {};
  std::span<const sequence> queries = {};    ///< rows of q and out, in ascending order, apart
  std::span<const sequence> keys = {};       ///< rows of k and v; apart too where their gradients are wanted
  tensor_view<const T, 2, Space> q = {};     ///< (Rq, heads head_size), head after head
  tensor_view<const T, 2, Space> k = {};     ///< (Rk, kv_heads head_size)
  tensor_view<const T, 2, Space> v = {};     ///< (Rk, kv_heads head_size)
  tensor_view<const T, 3, Space> bias = {};  ///< (heads or 1, T, S), added to the scores; or empty
  attention_mask_view<T, Space> mask = {};   ///< (heads or 1, T, S); or empty
  head_gates_view<T, Space> gates = {};      ///< (heads); or empty
};

/// The probabilities of all sentences lie one sentence after the other, each (heads, T_b, S_b): how many they are.
inline index_t attention_probability_count(const attention_shape& shape, std::span<const sequence> queries,
                                           std::span<const sequence> keys) {
  index_t n = 0;
  for (std::size_t b = 0; b < queries.size(); ++b) n += shape.heads * queries[b].length * keys[b].length;
  return n;
}

/// Those of sentence b, (heads, T_b, S_b), for `probabilities` laid out as attention_probability_count says.
template <class Space = host_space, class T>
tensor_view<T, 3, Space> attention_probabilities(T* probabilities, const attention_shape& shape,
                                                 std::span<const sequence> queries, std::span<const sequence> keys,
                                                 index_t b) {
  const auto n = static_cast<std::size_t>(b);
  if (b < 0 || n >= queries.size() || n >= keys.size())
    throw argument_error("attention_probabilities: sentence " + std::to_string(b) + " of " +
                         std::to_string(queries.size()));
  return {probabilities + attention_probability_count(shape, queries.first(n), keys.first(n)),
          {shape.heads, queries[n].length, keys[n].length}};
}

namespace detail {

/// The factor of the scores that the options mean.
template <class T>
T attention_scale(const attention_shape& shape, const attention_options<T>& options) {
  return options.scale == T(0) ? T(1) / std::sqrt(static_cast<T>(shape.head_size)) : options.scale;
}

inline void require_sequences(const char* op, const char* name, std::span<const sequence> sequences, index_t rows,
                              bool apart) {
  index_t end = 0;
  for (std::size_t b = 0; b < sequences.size(); ++b) {
    const sequence s = sequences[b];
    if (s.begin < 0 || s.length < 0 || s.begin > rows || s.length > rows - s.begin)
      throw argument_error(std::string(op) + ": the " + name + " of sentence " + std::to_string(b) + " are rows " +
                           std::to_string(s.begin) + " and " + std::to_string(s.length) + " on, expected within [0," +
                           std::to_string(rows) + ")");
    if (s.length == 0) continue;
    if (apart && s.begin < end)
      throw argument_error(std::string(op) + ": the " + name + " of sentence " + std::to_string(b) + " begin at row " +
                           std::to_string(s.begin) + ", expected at " + std::to_string(end) +
                           " or later, after the sentence before");
    end = s.begin + s.length;
  }
}

/// Throws shape_error unless p is (heads or 1, >= rows, >= cols), the entries of a row side by side.
template <class T, class Space>
void require_positions(const char* op, const char* name, const tensor_view<T, 3, Space>& p, index_t heads, index_t rows,
                       index_t cols) {
  if (p.data() == nullptr) return;
  if ((p.extent(0) != heads && p.extent(0) != 1) || p.extent(1) < rows || p.extent(2) < cols)
    throw shape_error(std::string(op) + ": " + name + " is " + shape_text(p.shape()) + ", expected " +
                      shape_text(shape_t<3>{heads, rows, cols}) + " at least, or 1 for the heads");
  if (p.extent(2) > 1 && p.stride(2) != 1)
    throw shape_error(std::string(op) + ": the entries of a row of " + name + " are " + std::to_string(p.stride(2)) +
                      " apart, expected 1");
}

/// The greatest sentence: rows and columns that bias and mask must have.
struct attention_extent {
  index_t rows = 0;
  index_t cols = 0;
};

/// Throws shape_error or argument_error unless the operands fit together.
template <class T, class Space>
attention_extent require_attention(const char* op, const attention_inputs<T, Space>& in) {
  const attention_shape s = in.shape;
  const bool none = s.heads == 0 && s.kv_heads == 0;
  if (!none && (s.heads < 1 || s.kv_heads < 1 || s.heads % s.kv_heads != 0))
    throw argument_error(std::string(op) + ": " + std::to_string(s.heads) + " heads share " +
                         std::to_string(s.kv_heads) + " key/value heads, expected a divisor");
  if (s.head_size < (none ? 0 : 1) || s.head_size > (index_t{1} << 24))
    throw argument_error(std::string(op) + ": head_size is " + std::to_string(s.head_size) + ", expected [1,2^24]");
  if (!(in.options.dropout >= 0 && in.options.dropout < 1))
    throw argument_error(std::string(op) + ": dropout is " + number_text(in.options.dropout) + ", expected [0,1)");
  if (!std::isfinite(in.options.scale) || !std::isfinite(in.options.mask_penalty))
    throw argument_error(std::string(op) + ": scale and mask_penalty must be finite");
  if (in.queries.size() != in.keys.size())
    throw argument_error(std::string(op) + ": queries of " + std::to_string(in.queries.size()) +
                         " sentences, keys of " + std::to_string(in.keys.size()));
  require_matrix(op, "q", in.q, in.q.extent(0), s.heads * s.head_size);
  require_matrix(op, "k", in.k, in.k.extent(0), s.kv_heads * s.head_size);
  require_matrix(op, "v", in.v, in.k.extent(0), s.kv_heads * s.head_size);
  require_sequences(op, "queries", in.queries, in.q.extent(0), true);
  require_sequences(op, "keys", in.keys, in.k.extent(0), false);
  attention_extent extent;
  for (std::size_t b = 0; b < in.queries.size(); ++b) {
    const index_t rows = in.queries[b].length, cols = in.keys[b].length;
    if (rows == 0 || cols == 0) continue;
    extent.rows = std::max(extent.rows, in.options.causal ? cols : rows);
    extent.cols = std::max(extent.cols, cols);
  }
  require_positions(op, "bias", in.bias, s.heads, extent.rows, extent.cols);
  require_positions(op, "mask", in.mask.values, s.heads, extent.rows, extent.cols);
  if (in.gates.values.data() != nullptr) require_vector(op, "gates", in.gates.values, s.heads);
  return extent;
}

/// Throws shape_error or argument_error unless dout and the gradients that are wanted of q, k, v and gates fit operands
/// that passed require_attention.
template <class T, class Space, class Gradients>
void require_attention_gradients(const char* op, const attention_inputs<T, Space>& in,
                                 const tensor_view<const T, 2, Space>& context,
                                 const tensor_view<const T, 2, Space>& dout, const Gradients& gradients) {
  require_matrix(op, "dout", dout, in.q.extent(0), in.q.extent(1));
  const auto require = [&](const char* name, const auto& m, const auto& like) {
    if (m.data() != nullptr) require_matrix(op, name, m, like.extent(0), like.extent(1));
  };
  require("dq", gradients.q, in.q);
  require("dk", gradients.k, in.k);
  require("dv", gradients.v, in.v);
  if (gradients.k.data() != nullptr || gradients.v.data() != nullptr)
    require_sequences(op, "keys", in.keys, in.k.extent(0), true);
  if (gradients.gates.data() == nullptr) return;
  require_vector(op, "dgates", gradients.gates, in.shape.heads);
  require_matrix(op, "context", context, in.q.extent(0), in.q.extent(1));
}

}  // namespace detail
}  // namespace headred
