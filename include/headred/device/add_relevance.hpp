// Relevance through y = a + b on the device.
#pragma once

#include <headred/device/relevance_terms.hpp>

namespace headred::device {
namespace detail {

template <class T>
struct add_relevance_kernel : row_kernel<T> {
  tensor_view<const T, 2, device_space> a, b, relevance;
  bool by_sign;
  rule_numbers<T> rule;
  tensor_view<T, 2, device_space> to_a, to_b;
  T* terms;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, typename row_kernel<T>::template shared<Block>& memory) const {
    const index_t r = block.block();
    T mine = T(0);
    for (index_t c = block.thread(); c < a.extent(1); c += row_kernel<T>::threads) {
      const T x = a(r, c), y = b(r, c);
      T above, below;
      if (by_sign) {
        above = (T(0) < x ? x : T(0)) + (T(0) < y ? y : T(0));
        below = (T(0) < x ? T(0) : x) + (T(0) < y ? T(0) : y);
        rule.turn(relevance(r, c), above, below, mine);
      } else {
        above = below = rule.of_sum(relevance(r, c), x + y, mine);
      }
      to_a(r, c) = (T(0) < x ? above : below) * x;
      to_b(r, c) = (T(0) < y ? above : below) * y;
    }
    const T lost = this->total(block, memory, mine);
    if (block.thread() != 0) return;
    terms[3 * r] = terms[3 * r + 2] = T(0);
    terms[3 * r + 1] = lost;
  }
};

}  // namespace detail

/// relevance_a, relevance_b = what the rule hands to a and b, the two contributions to every entry, not rescaled.
/// All (R,D) on the device, the last two overwritten; terms as in linear_relevance. Scratch memory 3 R T of the
/// workspace. Throws shape_error; argument_error for identity.
template <class T, device_backend Backend, relevance_policy Rule>
void add_relevance(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> a,
                   std::type_identity_t<tensor_view<const T, 2, device_space>> b, const Rule& rule,
                   std::type_identity_t<tensor_view<const T, 2, device_space>> relevance_out,
                   tensor_view<T, 2, device_space> relevance_a, tensor_view<T, 2, device_space> relevance_b,
                   std::type_identity_t<tensor_view<double, 1, device_space>> terms = {}) {
  const char* const op = "add_relevance";
  detail::require_shape(op, "b", b, a.shape());
  detail::require_shape(op, "relevance_out", relevance_out, a.shape());
  detail::require_shape(op, "relevance_a", relevance_a, a.shape());
  detail::require_shape(op, "relevance_b", relevance_b, a.shape());
  detail::require_terms(op, terms);
  detail::refuse_identity<Rule>("add");
  if constexpr (!detail::is_identity<Rule>) {
    const index_t rows = a.extent(0);
    T* const of_rows = static_cast<T*>(be.workspace(static_cast<std::size_t>(3 * rows) * sizeof(T)));
    be.launch(rows, detail::add_relevance_kernel<T>{{},
                                                    a,
                                                    b,
                                                    relevance_out,
                                                    detail::by_sign<Rule>,
                                                    detail::rule_numbers<T>::of(rule),
                                                    relevance_a,
                                                    relevance_b,
                                                    of_rows});
    detail::sum_terms(be, of_rows, rows, terms);
  }
}

}  // namespace headred::device
