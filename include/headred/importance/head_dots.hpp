// head_dots: what taylor and head_relevance read: activations of heads side by side, (rows, H K).
#pragma once

#include <span>
#include <string>

#include <headred/core/error.hpp>
#include <headred/core/head_layout.hpp>
#include <headred/core/view.hpp>

namespace headred {

/// One example's rows [begin, begin + length) in a matrix whose rows are tokens.
struct row_span {
  index_t begin = 0;
  index_t length = 0;
  friend bool operator==(const row_span&, const row_span&) = default;
};

namespace detail {

/// Width of one head in a layer's (rows, H K). Throws shape_error for columns that H heads cannot share.
template <class T>
index_t head_width(const char* who, const head_layout& layout, index_t layer, const tensor_view<const T, 2>& x) {
  const index_t heads = layout.heads(layer);
  if (x.extent(0) < 0 || x.extent(1) < 0 || (heads == 0 ? x.extent(1) != 0 : x.extent(1) % heads != 0))
    throw shape_error(std::string(who) + ": layer " + std::to_string(layer) + " is " + shape_text(x.shape()) +
                      ", expected columns for " + std::to_string(heads) + " heads");
  return heads == 0 ? 0 : x.extent(1) / heads;
}

inline void require_rows(const char* who, std::span<const row_span> examples, index_t rows) {
  for (const row_span& e : examples)
    if (e.begin < 0 || e.length < 0 || e.begin > rows || e.length > rows - e.begin)
      throw shape_error(std::string(who) + ": an example of rows [" + std::to_string(e.begin) + ", + " +
                        std::to_string(e.length) + ") in a matrix of " + std::to_string(rows));
}

[[noreturn]] inline void fail_not_finite(const char* who, const char* what, index_t layer, index_t head, index_t at) {
  throw data_error(std::string(who) + ": " + what + " is not finite", {layer, head, at});
}

}  // namespace detail
}  // namespace headred
