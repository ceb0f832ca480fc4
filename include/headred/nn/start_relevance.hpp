// start_relevance: where a sweep of relevance begins.
#pragma once

#include <span>
#include <string>

#include <headred/nn/op_relevance.hpp>
#include <headred/nn/tape.hpp>

namespace headred {

/// What a logit starts with.
enum class start_value {
  one,    ///< relevance 1
  value,  ///< the logit itself
};

/// A logit: a row (position) of the logits and its column, -1 for the greatest of the row, the lowest one at a tie.
struct relevance_start {
  index_t row = 0;
  index_t column = -1;
};

/// Forgets all relevance on the tape and sets that of these logits: one for each sentence, say, whose sweeps then run as
/// one batch. Throws argument_error for a row or column that is not there, and where all logits of a row are NaN.
template <class T, host_backend Backend>
void start_relevance(tape<T, Backend>& t, slot logits, std::span<const relevance_start> starts,
                     start_value value = start_value::one) {
  const tensor_view<const T, 2> y = t.input(logits);
  for (const relevance_start& s : starts)
    if (s.row < 0 || s.row >= y.extent(0) || s.column < -1 || s.column >= y.extent(1) || y.extent(1) == 0)
      throw argument_error("start_relevance: row " + std::to_string(s.row) + ", column " + std::to_string(s.column) +
                           ", expected within " + shape_text(y.shape()));
  t.clear_relevance();
  const tensor_view<T, 2> relevance = t.relevance(logits);
  for (const relevance_start& s : starts) {
    index_t column = s.column;
    if (column < 0) {
      for (index_t c = 0; c < y.extent(1); ++c)
        if (y(s.row, c) == y(s.row, c) && (column < 0 || y(s.row, c) > y(s.row, column))) column = c;
      if (column < 0) throw argument_error("start_relevance: all logits of row " + std::to_string(s.row) + " are NaN");
    }
    relevance(s.row, column) = value == start_value::one ? T(1) : y(s.row, column);
  }
}

}  // namespace headred
