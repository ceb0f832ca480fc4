// Relevance through a softmax on the device.
#pragma once

#include <headred/device/relevance_terms.hpp>

namespace headred::device {
namespace detail {

template <class T>
struct softmax_relevance_kernel : row_kernel<T> {
  tensor_view<const T, 2, device_space> x, y, relevance;
  tensor_view<T, 2, device_space> to;
  T* terms;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, typename row_kernel<T>::template shared<Block>& memory) const {
    const index_t r = block.block(), cols = y.extent(1);
    const auto sum = [&](const auto& f) { return this->fold(block, memory, cols, T(0), f, headred::detail::add{}); };
    const T total = sum([&](index_t c) { return relevance(r, c); });
    const T mean = sum([&](index_t c) { return y(r, c) == T(0) ? T(0) : y(r, c) * x(r, c); });
    const T lost = sum([&](index_t c) {
      const bool reached = y(r, c) != T(0);
      const T given = relevance(r, c);  // relevance may be to
      to(r, c) = reached ? x(r, c) * (given - y(r, c) * total) : T(0);
      return given * (reached ? T(1) - x(r, c) + mean : T(1) + mean);
    });
    if (block.thread() != 0) return;
    terms[3 * r] = terms[3 * r + 1] = T(0);
    terms[3 * r + 2] = lost;
  }
};

}  // namespace detail

/// relevance_in_rj = x_rj (R_rj - y_rj sum_k R_rk), the rule `attn`; what it does not hand on is the third term.
/// All (R,D) on the device, relevance_in overwritten; terms as in linear_relevance. Where y = 0 nothing arrives.
/// Scratch memory 3 R T of the workspace. Throws shape_error. Source: Achtibat et al. 2024, proposition 3.1.
template <class T, device_backend Backend>
void softmax_relevance(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> x,
                       std::type_identity_t<tensor_view<const T, 2, device_space>> y,
                       std::type_identity_t<tensor_view<const T, 2, device_space>> relevance_out,
                       tensor_view<T, 2, device_space> relevance_in,
                       std::type_identity_t<tensor_view<double, 1, device_space>> terms = {}) {
  const char* const op = "softmax_relevance";
  detail::require_shape(op, "y", y, x.shape());
  detail::require_shape(op, "relevance_out", relevance_out, x.shape());
  detail::require_shape(op, "relevance_in", relevance_in, x.shape());
  detail::require_terms(op, terms);
  const index_t rows = x.extent(0);
  T* const of_rows = static_cast<T*>(be.workspace(static_cast<std::size_t>(3 * rows) * sizeof(T)));
  be.launch(rows, detail::softmax_relevance_kernel<T>{{}, x, y, relevance_out, relevance_in, of_rows});
  detail::sum_terms(be, of_rows, rows, terms);
}

}  // namespace headred::device
