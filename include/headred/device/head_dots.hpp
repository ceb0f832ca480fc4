// Inner products of the heads' columns of two activations, sentence by sentence: what gradients of gates and Taylor
// importance are made of.
#pragma once

#include <headred/device/attention_batch.hpp>
#include <headred/device/softmax.hpp>

namespace headred::device {
namespace detail {

/// A block for each sentence and head.
template <class T>
struct head_dots_kernel : row_kernel<T> {
  attention_table table;
  tensor_view<const T, 2, device_space> a, b;
  index_t heads, head_size;
  T* sums;  // (sentences, heads)

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, typename row_kernel<T>::template shared<Block>& memory) const {
    const attention_sentence& s = table.sentences[block.block() / heads];
    const index_t head = block.block() % heads;
    const T sum = this->fold(
        block, memory, s.queries * head_size, T(0),
        [&](index_t at) {
          const index_t row = s.query_begin + at / head_size, column = head * head_size + at % head_size;
          return a(row, column) * b(row, column);
        },
        headred::detail::add{});
    if (block.thread() == 0) sums[s.number * heads + head] = sum;
  }
};

template <class T>
struct fill_with_zero {
  T* to;
  HEADRED_FUNCTION void operator()(index_t i) const { to[i] = T(0); }
};

/// to_h += the sums of all sentences, in order.
template <class T>
struct add_sentences {
  const T* sums;
  index_t sentences, heads;
  tensor_view<T, 1, device_space> to;
  HEADRED_FUNCTION void operator()(index_t h) const {
    T all = to(h);
    for (index_t b = 0; b < sentences; ++b) all += sums[b * heads + h];
    to(h) = all;
  }
};

template <class T, device_backend Backend>
void issue_head_dots(Backend& be, const attention_batch<Backend>& batch, const tensor_view<const T, 2, device_space>& a,
                     const tensor_view<const T, 2, device_space>& b, index_t heads, T* sums) {
  if (heads == 0) return;
  be.for_each(batch.sentences() * heads, fill_with_zero<T>{sums});
  be.launch(batch.table().count * heads,
            head_dots_kernel<T>{{}, batch.table(), a, b, heads, a.extent(1) / heads, sums});
}

}  // namespace detail

/// sums_bh = sum of a_rc b_rc over the query rows r of sentence b and the columns c of head h, 0 without rows.
/// a, b : (R, H K), heads side by side; sums : (B,H), densely packed -> overwritten. Sums in T, in one order. Throws
/// shape_error. Cost: one read of a and b.
template <class T, device_backend Backend>
void head_dots(Backend& be, const attention_batch<Backend>& batch,
               std::type_identity_t<tensor_view<const T, 2, device_space>> a,
               std::type_identity_t<tensor_view<const T, 2, device_space>> b, tensor_view<T, 2, device_space> sums) {
  const index_t heads = sums.extent(1);
  detail::require_shape("head_dots", "b", b, a.shape());
  detail::require_shape("head_dots", "sums", sums, {batch.sentences(), heads});
  if (!sums.contiguous()) throw shape_error("head_dots: sums " + shape_text(sums.shape()) + " is not densely packed");
  if (a.extent(0) < batch.query_rows() || (heads == 0 ? a.extent(1) != 0 : a.extent(1) % heads != 0))
    throw shape_error("head_dots: a is " + shape_text(a.shape()) + ", expected " + std::to_string(batch.query_rows()) +
                      " rows at least and columns for " + std::to_string(heads) + " heads");
  detail::issue_head_dots<T>(be, batch, a, b, heads, sums.data());
}

}  // namespace headred::device
