// sparse_mask: the ones of a binary attention mask as lists, so that work goes to them alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <headred/backend/concept.hpp>
#include <headred/core/error.hpp>
#include <headred/core/number_text.hpp>

namespace headred {

/// Where a binary mask (H,T,S) is 1, by rows (the keys that a query sees) and by columns (the queries that see a key),
/// both ascending: a shorter sentence, or a causal one, reads the beginning or the end of a list. A mask whose heads
/// are one, or lie in the same memory, is kept once. Made once for each mask; `assign` again reuses the memory.
/// Bytes: 12 for each 1, 8 for each row and column.
class sparse_mask {
 public:
  sparse_mask() = default;
  template <host_backend Backend, class T, int Rank>
  sparse_mask(Backend& be, const tensor_view<T, Rank>& mask) {
    assign(be, mask);
  }

  /// Reads a mask (H,T,S) of zeros and ones, any strides. Throws shape_error for an extent from 2^31 on, argument_error
  /// for another entry or more than 2^31 ones in a head; the mask is then empty. Cost: O(H T S), once.
  template <host_backend Backend, class T>
  void assign(Backend& be, const tensor_view<T, 3>& mask);
  /// The same for a mask (T,S) that all heads share.
  template <host_backend Backend, class T>
  void assign(Backend& be, const tensor_view<T, 2>& mask) {
    assign(be,
           tensor_view<T, 3>(mask.data(), {1, mask.extent(0), mask.extent(1)}, {0, mask.stride(0), mask.stride(1)}));
  }

  index_t heads() const noexcept { return heads_; }  ///< kept apart: 1 where all share one
  index_t rows() const noexcept { return rows_; }
  index_t cols() const noexcept { return cols_; }
  index_t ones() const noexcept { return static_cast<index_t>(keys_.size()); }
  /// The greatest number of keys that a query sees.
  index_t longest_row() const noexcept { return longest_; }
  /// The share of ones, in [0,1]; 0 for an empty mask.
  double density() const noexcept {
    const index_t all = heads_ * rows_ * cols_;
    return all > 0 ? static_cast<double>(ones()) / static_cast<double>(all) : 0;
  }

  /// How many ones lie before row i of head h; i may be rows().
  index_t begin(index_t h, index_t i) const { return row_begin_[static_cast<std::size_t>(h * rows_ + i)]; }
  /// The keys that row i of head h sees, ascending.
  std::span<const std::int32_t> keys(index_t h, index_t i) const { return part(keys_, begin(h, i), begin(h, i + 1)); }

  struct column {
    std::span<const std::int32_t> rows;    ///< that see the key, ascending
    std::span<const std::int32_t> places;  ///< of these ones among the head's, row by row
  };
  column seen_by(index_t h, index_t key) const {
    const auto at = static_cast<std::size_t>(h * cols_ + key);
    return {part(queries_, col_begin_[at], col_begin_[at + 1]), part(places_, col_begin_[at], col_begin_[at + 1])};
  }

 private:
  template <class T>
  struct count_row;
  template <class T>
  struct list_row;
  struct list_columns;

  static std::span<const std::int32_t> part(const std::vector<std::int32_t>& of, index_t begin, index_t end) {
    return {of.data() + begin, static_cast<std::size_t>(end - begin)};
  }

  index_t heads_ = 0, rows_ = 0, cols_ = 0, longest_ = 0;
  std::vector<index_t> row_begin_, col_begin_;
  std::vector<std::int32_t> keys_, queries_, places_;
};

/// The number of ones in a row, or -1 - j where entry j is the first that is neither 0 nor 1.
template <class T>
struct sparse_mask::count_row {
  tensor_view<T, 3> mask;
  index_t* to;
  void operator()(index_t row) const {
    const T* const m = mask.data() + row / mask.extent(1) * mask.stride(0) + row % mask.extent(1) * mask.stride(1);
    const index_t n = mask.extent(2), step = mask.stride(2);
    std::int32_t ones = 0, others = 0;
    const auto count = [&](index_t by) {
      for (index_t j = 0; j < n; ++j) {
        ones += m[j * by] == T(1);
        others += m[j * by] != T(1) && m[j * by] != T(0);
      }
    };
    step == 1 ? count(1) : count(step);
    if (others > 0) {
      ones = -1;
      while (m[(-1 - ones) * step] == T(1) || m[(-1 - ones) * step] == T(0)) --ones;
    }
    to[row] = ones;
  }
};

template <class T>
struct sparse_mask::list_row {
  tensor_view<T, 3> mask;
  sparse_mask& lists;
  void operator()(index_t row) const {
    const T* const m = mask.data() + row / mask.extent(1) * mask.stride(0) + row % mask.extent(1) * mask.stride(1);
    std::int32_t* to = lists.keys_.data() + lists.row_begin_[static_cast<std::size_t>(row)];
    std::int32_t* const end = lists.keys_.data() + lists.row_begin_[static_cast<std::size_t>(row) + 1];
    for (index_t j = 0; to < end; ++j) {
      *to = static_cast<std::int32_t>(j);
      to += m[j * mask.stride(2)] != T(0);
    }
  }
};

/// The ones of a head, from rows to columns: counted, then put where the count says.
struct sparse_mask::list_columns {
  sparse_mask& lists;
  void operator()(index_t h) const {
    index_t* const slots = lists.col_begin_.data() + h * lists.cols_;
    const index_t first = lists.begin(h, 0), last = lists.begin(h, lists.rows_), cols = lists.cols_;
    std::fill_n(slots, cols, index_t{0});
    for (index_t e = first; e < last; ++e) ++slots[lists.keys_[static_cast<std::size_t>(e)]];
    for (index_t j = 0, at = first; j < cols; ++j) {
      const index_t n = slots[j];
      slots[j] = at;
      at += n;
    }
    for (index_t i = 0, e = first; i < lists.rows_; ++i)
      for (; e < lists.begin(h, i + 1); ++e) {
        const auto at = static_cast<std::size_t>(slots[lists.keys_[static_cast<std::size_t>(e)]]++);
        lists.queries_[at] = static_cast<std::int32_t>(i);
        lists.places_[at] = static_cast<std::int32_t>(e - first);
      }
    // Each slot now holds the end of its column, which is the begin of the next.
    for (index_t j = cols; --j > 0;) slots[j] = slots[j - 1];
    if (cols > 0) slots[0] = first;
  }
};

template <host_backend Backend, class T>
void sparse_mask::assign(Backend& be, const tensor_view<T, 3>& mask) {
  constexpr index_t limit = std::numeric_limits<std::int32_t>::max();
  heads_ = rows_ = cols_ = longest_ = 0;
  keys_.clear();
  if (mask.extent(0) > limit || mask.extent(1) > limit || mask.extent(2) > limit)
    throw shape_error("sparse_mask: the mask is " + shape_text(mask.shape()) + ", expected extents below 2^31");
  const index_t heads = mask.stride(0) == 0 ? std::min<index_t>(1, mask.extent(0)) : mask.extent(0);
  const index_t rows = mask.extent(1), cols = mask.extent(2);
  row_begin_.assign(static_cast<std::size_t>(heads * rows) + 1, 0);
  be.for_each(heads * rows, count_row<T>{mask, row_begin_.data() + 1});
  index_t longest = 0;
  for (index_t row = 0; row < heads * rows; ++row) {
    index_t& n = row_begin_[static_cast<std::size_t>(row) + 1];
    const index_t h = row / rows, i = row % rows;
    if (n < 0)
      throw argument_error("sparse_mask: entry (" + std::to_string(h) + "," + std::to_string(i) + "," +
                           std::to_string(-1 - n) + ") is " + number_text(static_cast<double>(mask(h, i, -1 - n))) +
                           ", expected 0 or 1");
    longest = std::max(longest, n);
    n += row_begin_[static_cast<std::size_t>(row)];
    if (n - row_begin_[static_cast<std::size_t>(h * rows)] > limit)
      throw argument_error("sparse_mask: head " + std::to_string(h) + " has 2^31 ones or more, expected fewer");
  }
  const auto ones = static_cast<std::size_t>(row_begin_.back());
  queries_.resize(ones);
  places_.resize(ones);
  col_begin_.assign(static_cast<std::size_t>(heads * cols) + 1, row_begin_.back());
  keys_.resize(ones);
  heads_ = heads;
  rows_ = rows;
  cols_ = cols;
  longest_ = longest;
  be.for_each(heads * rows, list_row<T>{mask, *this});
  be.for_each(heads, list_columns{*this});
}

}  // namespace headred
