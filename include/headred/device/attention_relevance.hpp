// Relevance through attention on the device: y = A v, A = softmax(scale q k^T + bias + mask).
#pragma once

#include <headred/device/attention_signs.hpp>

namespace headred::device {

/// What attention_relevance writes; q and k are empty where the probabilities count as constants.
template <class T>
struct attention_relevance_in {
  tensor_view<T, 2, device_space> q = {}, k = {}, v = {};  ///< shapes of the operands
};

namespace detail {

/// What the steps of attention_relevance share, and its scratch memory.
template <class T, class Backend>
struct attention_way_back {
  Backend& be;
  const attention_table& table;
  const attention_operands<T>& in;
  const T* probabilities;
  tensor_view<const T, 2, device_space> relevance;
  rule_numbers<T> rule;
  T* terms;    // (query rows, 3), then of attn (query rows, heads, 3)
  T* factors;  // (query rows, columns), by sign a second time
  T* rest;

  index_t rows() const { return in.q.extent(0); }
  tensor_view<T, 2, device_space> outputs(T* at) const { return {at, in.q.shape()}; }
  tensor_view<T, 2, device_space> values(T* at) const { return {at, in.v.shape()}; }

  void clear(const tensor_view<T, 2, device_space>& to) const { be.for_each(to.size(), zero_entry<T>{to}); }
  void add(bool of_queries, const T* weights, T factor, const tensor_view<const T, 2, device_space>& x,
           const tensor_view<T, 2, device_space>& to) const {
    issue_attention_sum<T>(be, table, in, of_queries, weights, factor, {}, x, to);
  }
  /// to = x times the weighted sum of what.
  void hand_on(bool of_queries, const T* weights, T factor, const tensor_view<const T, 2, device_space>& what,
               const tensor_view<const T, 2, device_space>& x, const tensor_view<T, 2, device_space>& to) const {
    clear(to);
    add(of_queries, weights, factor, what, to);
    be.for_each(to.size(), times_input<T>{x, nullptr, to});
  }
  void turn(const tensor_view<const T, 2, device_space>& sums, T* minus) const {
    be.launch(rows(), attention_factors_kernel<T>{{}, table, relevance, sums, rule, factors, minus, terms});
  }
  /// A (x - mean of x), x_ij = the product of rows i and j in a head.
  void weigh(const tensor_view<const T, 2, device_space>& left, const tensor_view<const T, 2, device_space>& right,
             T* to) const {
    attention_operands<T> plain = in;
    plain.gates = {};
    plain.v = right;
    be.launch(table.query_tiles * in.heads,
              attention_scores_kernel<T>{{}, table, plain, probabilities, left, nullptr, to});
  }

  /// What values get by sign: their positive parts by the factors of positive contributions, and the others.
  void values_by_sign(T* minus, T* other, const tensor_view<T, 2, device_space>& to_v) const {
    clear(to_v);
    clear(values(other));
    add(false, probabilities, T(1), outputs(factors), to_v);
    add(false, probabilities, T(1), outputs(minus), values(other));
    be.for_each(to_v.size(), times_input<T>{in.v, other, to_v});
  }
  /// A_j v_j alone, by sign: the sums of the parts of v, and their way back.
  void constant_by_sign(const tensor_view<T, 2, device_space>& to_v) const {
    const index_t keys = in.v.size();
    T *const minus = factors + in.q.size(), *const above = rest, *const below = above + keys;
    be.for_each(keys, parts_by_sign<T>{in.v, above, below});
    clear(outputs(factors));
    clear(outputs(minus));
    add(true, probabilities, T(1), values(above), outputs(factors));
    add(true, probabilities, T(1), values(below), outputs(minus));
    turn({}, minus);
    values_by_sign(minus, above, to_v);
  }
  /// All contributions by sign, see attention_signs.hpp.
  void joint_by_sign(const tensor_view<const T, 2, device_space>& context, const attention_relevance_in<T>& to) const {
    const attention_signs<T> from{table, in, attention_scale(in), probabilities, context};
    const index_t count = in.heads * table.places;
    T *const minus = factors + in.q.size(), *const up = rest, *const down = up + count, *const other = down + count;
    be.for_each(count, score_signs<T>{from, up, down});
    be.for_each(in.q.size(), output_signs<T>{from, up, down, factors, minus});
    be.launch(rows() * in.heads, query_signs_kernel<T>{from, true, factors, minus, {}});
    turn({}, minus);
    clear(to.q);
    be.launch(rows() * in.heads, query_signs_kernel<T>{from, false, factors, minus, to.q});
    be.for_each(count, flow_signs<T>{from, factors, minus, up, down});
    clear(to.k);
    be.for_each(table.key_tiles * attention_tile_rows * in.k.extent(1), key_signs<T>{from, up, down, to.k});
    values_by_sign(minus, other, to.v);
  }
  /// By sums: with s_ij = 2 scale q_i k_j that of output c is y_c + sum_j A_j (s_j - mean of s) v_jc; then inputs times
  /// gradients, since every contribution has its input as a factor.
  void joint_by_sum(const tensor_view<const T, 2, device_space>& context, const attention_relevance_in<T>& to) const {
    const T scale = attention_scale(in);
    T* const weights = rest;
    weigh(in.q, in.k, weights);
    be.for_each(in.q.size(), entry_value<T, as_it_is>{context, outputs(factors)});
    add(true, weights, 2 * scale, in.v, outputs(factors));
    turn(outputs(factors), nullptr);
    weigh(outputs(factors), in.v, weights);
    hand_on(true, weights, scale, in.k, in.q, to.q);
    hand_on(false, weights, scale, in.q, in.k, to.k);
    hand_on(false, probabilities, T(1), outputs(factors), in.v, to.v);
  }
  /// AttnLRP: half of the epsilon rule to each factor of a product, its own rule for the softmax.
  void joint_by_product(const tensor_view<const T, 2, device_space>& context,
                        const attention_relevance_in<T>& to) const {
    const T half = attention_scale(in) / T(2);
    T *const flows = rest, *const scores = flows + in.heads * table.places;
    turn(context, nullptr);
    clear({terms + 3 * rows(), {rows(), 3 * in.heads}});
    be.launch(table.query_tiles * in.heads, attention_flow_kernel<T>{{},
                                                                     table,
                                                                     in,
                                                                     attention_scale(in),
                                                                     rule,
                                                                     probabilities,
                                                                     outputs(factors),
                                                                     flows,
                                                                     scores,
                                                                     terms + 3 * rows()});
    hand_on(true, flows, half, in.k, in.q, to.q);
    hand_on(false, flows, half, in.q, in.k, to.k);
    hand_on(false, probabilities, T(1) / T(2), outputs(factors), in.v, to.v);
  }
};

}  // namespace detail

/// What the rule hands to queries, keys and values, not rescaled: as headred::attention_relevance on the CPU.
/// Contributions by the Jacobians at the operands: A_ij v_jc to the values and, where to.q and to.k are given, those
/// through the softmax to queries and keys; `attn` goes back product, softmax, product. `in`, `probabilities` and
/// `context` (before the gates) as of attention_forward; relevance_out : (Rq, heads head_size), at the context. `to` is
/// overwritten, 0 outside all sentences; terms as in linear_relevance. A query without keys, or with relevance 0, hands
/// nothing on; operands and probabilities must be finite, those of such queries too. Keys of sentences must lie apart. Throws shape_error; argument_error for identity. Scratch memory of the
/// workspace: Rq (heads head_size + 3) T at least, for queries and keys once or twice the size of A.
/// Cost: 4 to 12 heads head_size sum_b T_b S_b operations; by sign with queries and keys head_size times as many.
template <class T, device_backend Backend, relevance_policy Rule>
void attention_relevance(Backend& be, const attention_batch<Backend>& batch, const attention_operands<T>& in,
                         const std::type_identity_t<T>* probabilities,
                         std::type_identity_t<tensor_view<const T, 2, device_space>> context, const Rule& rule,
                         std::type_identity_t<tensor_view<const T, 2, device_space>> relevance_out,
                         const attention_relevance_in<T>& to,
                         std::type_identity_t<tensor_view<double, 1, device_space>> terms = {}) {
  const char* const op = "attention_relevance";
  detail::refuse_identity<Rule>("attention");
  detail::require_attention(op, batch, in);
  detail::require_shape(op, "context", context, in.q.shape());
  detail::require_shape(op, "relevance_out", relevance_out, in.q.shape());
  const bool joint = to.q.data() != nullptr || to.k.data() != nullptr;
  if (joint) {
    detail::require_shape(op, "relevance of q", to.q, in.q.shape());
    detail::require_shape(op, "relevance of k", to.k, in.k.shape());
  }
  detail::require_shape(op, "relevance of v", to.v, in.v.shape());
  detail::require_terms(op, terms);
  if (!batch.keys_apart()) throw argument_error(std::string(op) + ": sentences share keys, expected them apart");
  const index_t count = batch.probability_count(in.heads), rows = in.q.extent(0);
  if (probabilities == nullptr && count > 0)
    throw argument_error(std::string(op) + ": there are no probabilities, expected those of attention_forward");
  if constexpr (!detail::is_identity<Rule>) {
    constexpr bool by_sign = detail::by_sign<Rule>;
    const bool product = detail::is_attn<Rule> && joint;
    const index_t triples = rows * (product ? 1 + in.heads : 1), factors = (by_sign ? 2 : 1) * in.q.size(),
                  maps = joint ? (by_sign || product ? 2 : 1) * count : 0,
                  values = by_sign ? (joint ? 1 : 2) * in.v.size() : 0;
    T* const memory =
        static_cast<T*>(be.workspace(static_cast<std::size_t>(3 * triples + factors + maps + values) * sizeof(T)));
    const detail::attention_way_back<T, Backend> back{be,
                                                      batch.table(),
                                                      in,
                                                      probabilities,
                                                      relevance_out,
                                                      detail::rule_numbers<T>::of(rule),
                                                      memory,
                                                      memory + 3 * triples,
                                                      memory + 3 * triples + factors};
    if constexpr (by_sign) {
      if (joint)
        back.joint_by_sign(context, to);
      else
        back.constant_by_sign(to.v);
    } else if (product) {
      back.joint_by_product(context, to);
    } else if (joint) {
      back.joint_by_sum(context, to);
    } else {
      back.turn(context, nullptr);
      back.hand_on(false, probabilities, T(1), back.outputs(back.factors), in.v, to.v);
    }
    detail::sum_terms<T>(be, memory, triples, terms);
  }
}

}  // namespace headred::device
