// select_pieces: the part of a tensor that a parameter_selection names, in the memory of any backend.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <headred/backend/tensor.hpp>
#include <headred/prune/model_selection.hpp>

namespace headred {
namespace detail {

// to[o,p,i] = from[o,pieces[p],i] factors[p]
template <class T>
struct select_pieces_body {
  const T* from;
  T* to;
  const index_t* pieces;
  const T* factors;                  // or nullptr
  index_t count_from, count, inner;  // pieces before and after, elements of a piece that lie together

  HEADRED_FUNCTION void operator()(index_t at) const {
    const index_t o = at / (count * inner), p = at / inner % count, i = at % inner;
    const T value = from[(o * count_from + pieces[p]) * inner + i];
    to[at] = factors == nullptr ? value : value * factors[p];
  }
};

template <class U, backend Backend>
tensor<U, 1, Backend> uploaded(Backend& be, const std::vector<U>& values) {
  tensor<U, 1, Backend> copy(be, {static_cast<index_t>(values.size())});
  if (!values.empty()) be.upload(copy.data(), values.data(), copy.bytes());
  return copy;
}

}  // namespace detail

/// What `part` takes of a tensor shaped like the unpruned parameter: bit by bit, or times the part's factors.
///   from : contiguous, part.count * part.piece on part.axis;  result : part.pieces.size() * part.piece there
/// `factors` says whether they are multiplied in; the moments of an optimiser, say, are taken without.
/// Throws shape_error for another extent on that axis and for a view with gaps. Cost O(elements of the result).
template <class T, int Rank, backend Backend>
tensor<T, Rank, Backend> select_pieces(Backend& be, tensor_view<const T, Rank, typename Backend::space> from,
                                       const parameter_selection& part, bool factors = false) {
  if (!from.contiguous())
    throw shape_error("select_pieces: " + part.from + " " + shape_text(from.shape()) + " is not contiguous");
  const int axis = part.axis < 0 ? 0 : part.axis;
  const index_t piece = part.axis < 0 ? 1 : part.piece;
  const index_t count_from = part.axis < 0 ? from.extent(0) : part.count;
  if (axis >= Rank || from.extent(axis) != count_from * piece)
    throw shape_error("select_pieces: " + part.from + " is " + shape_text(from.shape()) + ", expected " +
                      std::to_string(count_from * piece) + " on axis " + std::to_string(axis));
  std::vector<index_t> pieces = part.pieces;
  if (part.axis < 0)
    for (index_t i = 0; i < count_from; ++i) pieces.push_back(i);
  shape_t<Rank> shape = from.shape();
  shape[static_cast<std::size_t>(axis)] = static_cast<index_t>(pieces.size()) * piece;
  tensor<T, Rank, Backend> to(be, shape);
  if (to.size() == 0) return to;

  index_t inner = piece;
  for (int a = axis + 1; a < Rank; ++a) inner *= from.extent(a);
  std::vector<T> scale;
  if (factors)
    for (const double f : part.factors) scale.push_back(static_cast<T>(f));
  const auto at = detail::uploaded(be, pieces);
  const auto by = detail::uploaded(be, scale);
  be.for_each(to.size(), detail::select_pieces_body<T>{from.data(), to.data(), at.data(), by.data(), count_from,
                                                       static_cast<index_t>(pieces.size()), inner});
  be.synchronize();  // the lists go
  return to;
}

}  // namespace headred
