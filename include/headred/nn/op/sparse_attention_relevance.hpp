// Relevance through sparse attention: each query is a sentence of its own, whose keys are those that it sees.
#pragma once

#include <headred/nn/op/attention_relevance.hpp>
#include <headred/nn/op/sparse_attention_forward.hpp>

namespace headred {

namespace detail {

/// Ones whose keys and values are laid side by side at once.
inline constexpr index_t listed_at_once = index_t{1} << 13;

/// Queries [i, end) of head h of a sentence. The ones that the sentence does not reach have probability 0, and rows of
/// 0.
template <class T, host_backend Backend, rule_policy Rule>
relevance_terms listed_relevance(Backend& be, const attention_inputs<T>& in, const listed_keys& seen, std::size_t b,
                                 index_t h, index_t i, index_t end, const T* probabilities,
                                 const tensor_view<const T, 2>& context, const Rule& rule, attention_mode mode,
                                 const tensor_view<const T, 2>& relevance_out, const attention_relevance_in<T>& to,
                                 relevance_workspace<T>& memory, sparse_attention_workspace<T>& workspace) {
  const index_t size = in.shape.head_size, column = h / (in.shape.heads / in.shape.kv_heads) * size;
  const index_t first = seen.place(i), n = seen.place(end) - first, key = in.keys[b].begin;
  auto& listed = workspace.listed();
  T *const k = listed.rows.get(4 * n * size), *const v = k + n * size, *const to_k = v + n * size,
           *const to_v = to_k + n * size;
  listed.queries.clear();
  listed.keys.clear();
  std::fill_n(k, 2 * n * size, T(0));
  for (index_t r = i; r < end; ++r) {
    const index_t at = seen.place(r) - first;
    listed.queries.push_back({r - i, 1});
    listed.keys.push_back({at, seen.place(r + 1) - first - at});
    T *row = k + at * size, *other = v + at * size;
    for (const std::int32_t j : seen.of(r)) {
      std::copy_n(in.k.data() + (key + j) * in.k.stride(0) + column, size, row);
      std::copy_n(in.v.data() + (key + j) * in.v.stride(0) + column, size, other);
      row += size;
      other += size;
    }
  }
  const auto part = [&](const auto& m) {
    return m.narrow(0, in.queries[b].begin + i, end - i).narrow(1, h * size, size);
  };
  attention_inputs<T> row_by_row;
  row_by_row.shape = {1, 1, size};
  row_by_row.options = in.options;
  row_by_row.options.causal = false;
  row_by_row.queries = listed.queries;
  row_by_row.keys = listed.keys;
  row_by_row.q = part(in.q);
  row_by_row.k = {k, {n, size}};
  row_by_row.v = {v, {n, size}};
  const bool joint = mode == attention_mode::joint;
  attention_relevance_in<T> part_to;
  if (joint) {
    part_to.q = part(to.q);
    part_to.k = {to_k, {n, size}};
  }
  part_to.v = {to_v, {n, size}};
  const relevance_terms lost = attention_relevance<T>(be, row_by_row, probabilities + first, part(context), rule, mode,
                                                      part(relevance_out), part_to, memory, listed.dense);
  for (index_t r = i; r < end; ++r) {
    index_t at = (seen.place(r) - first) * size;
    for (const std::int32_t j : seen.of(r)) {
      if (joint) add_scaled_to(to_k + at, size, T(1), to.k.data() + (key + j) * to.k.stride(0) + column);
      add_scaled_to(to_v + at, size, T(1), to.v.data() + (key + j) * to.v.stride(0) + column);
      at += size;
    }
  }
  return lost;
}

}  // namespace detail

/// attention_relevance under the mask that the lists were made of, equal to it to rounding: operands, rules, what is
/// lost and what is thrown are as there, `probabilities` those of sparse_attention_forward.
/// Memory: 2^15 rows of head_size beside that of attention_relevance. Cost by sign and joint: heads head_size^2 a one,
/// otherwise head_size times less.
template <class T, host_backend Backend, rule_policy Rule>
relevance_terms sparse_attention_relevance(Backend& be, const attention_inputs<T>& in, const sparse_mask& mask,
                                           const std::type_identity_t<T>* probabilities,
                                           std::type_identity_t<tensor_view<const T, 2>> context, const Rule& rule,
                                           attention_mode mode,
                                           std::type_identity_t<tensor_view<const T, 2>> relevance_out,
                                           const attention_relevance_in<T>& to, relevance_workspace<T>& memory,
                                           sparse_attention_workspace<T>& workspace) {
  constexpr const char* op = "sparse_attention_relevance";
  detail::require_sparse_attention(op, in, mask);
  detail::require_sequences(op, "keys", in.keys, in.k.extent(0), true);
  detail::require_matrix(op, "context", context, in.q.extent(0), in.q.extent(1));
  detail::require_matrix(op, "relevance_out", relevance_out, in.q.extent(0), in.q.extent(1));
  const auto begin = [&](const char* name, const tensor_view<T, 2>& r, const tensor_view<const T, 2>& like) {
    detail::require_matrix(op, name, r, like.extent(0), like.extent(1));
    for (index_t i = 0; i < r.extent(0); ++i) std::fill_n(r.data() + i * r.stride(0), r.extent(1), T(0));
  };
  if (mode == attention_mode::joint) {
    begin("relevance of q", to.q, in.q);
    begin("relevance of k", to.k, in.k);
  }
  begin("relevance of v", to.v, in.v);
  workspace.cut(in.shape, in.options.causal, in.queries, in.keys, mask, false);
  if (probabilities == nullptr && workspace.probabilities() > 0)
    throw argument_error(std::string(op) + ": there are no probabilities, expected those of sparse_attention_forward");
  relevance_terms all;
  for (std::size_t b = 0; b < in.queries.size(); ++b)
    for (index_t h = 0; h < in.shape.heads; ++h) {
      const index_t rows = in.queries[b].length, offset = workspace.offset(static_cast<index_t>(b), h);
      const detail::listed_keys seen(mask, detail::mask_head(mask, h), in.options.causal, rows, in.keys[b].length);
      for (index_t i = 0, end = 0; i < rows; i = end) {
        do ++end;
        while (end < rows && seen.place(end + 1) - seen.place(i) <= detail::listed_at_once);
        const auto lost = detail::listed_relevance(be, in, seen, b, h, i, end,
                                                   probabilities == nullptr ? nullptr : probabilities + offset, context,
                                                   rule, mode, relevance_out, to, memory, workspace);
        all.bias += lost.bias;
        all.eps += lost.eps;
        all.nonlinear += lost.nonlinear;
      }
    }
  return all;
}

}  // namespace headred
