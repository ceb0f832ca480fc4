// group_sums: sums over all pairs of heads whose terms come in groups, each group's by one thread.
#pragma once

#include <algorithm>

#include <headred/core/grow_buffer.hpp>
#include <headred/numeric/pair_tiles.hpp>

namespace headred::detail {

/// Which pairs i < j of heads are asked for: all, or with split > 0 those with i < split <= j.
struct pair_range {
  index_t heads = 0, split = 0;

  index_t rows() const { return split > 0 ? split : heads; }
  index_t first(index_t i) const { return std::max(i + 1, split); }
};

/// Sums (columns, columns) of `groups` groups of terms, added up in order of the groups. Of many heads a few groups are held
/// at a time, of few heads all: the bits are the same.
class group_sums {
 public:
  /// Memory for all that follows.
  void reserve(index_t groups, index_t columns, const pair_range& pairs) {
    groups_ = groups;
    columns_ = columns;
    pairs_ = pairs;
    held_ = pairs.heads <= 256 ? groups : std::min<index_t>(groups, 4);
    sums_.get(size());
  }

  /// f(group, worker, sum) for every group; it writes the pairs of `sum` (columns, columns).
  template <class Runner, class F>
  void run(Runner& tasks, const F& f) {
    for (index_t next = 0; next < groups_; next += count_) {
      if (next > 0) tasks.run_rows(pairs_.rows(), [&](index_t i, int) { row(i); });
      begin_ = next;
      count_ = std::min(held_, groups_ - begin_);
      tasks.run(count_, [&](index_t c, int worker) { f(begin_ + c, worker, held(c)); });
    }
  }

  /// Sums of the pairs (i, j), at j; to be called once for every i.
  const double* row(index_t i) {
    double* const total = sums_.get(size()) + i * columns_;
    for (index_t g = begin_ == 0 ? 1 : 0; g < count_; ++g) {
      const double* const more = held(g) + i * columns_;
      for (index_t j = pairs_.first(i); j < pairs_.heads; ++j) total[j] += more[j];
    }
    return total;
  }

 private:
  index_t size() const { return (held_ < groups_ ? held_ + 1 : held_) * columns_ * columns_; }
  /// Groups after the first lot lie behind the total, which the very first group has begun.
  double* held(index_t c) { return sums_.get(size()) + (c + (begin_ == 0 ? 0 : 1)) * columns_ * columns_; }

  index_t groups_ = 0, columns_ = 0, held_ = 0;
  pair_range pairs_;
  index_t begin_ = 0, count_ = 0;  // the groups held now
  grow_buffer<double> sums_;
};

}  // namespace headred::detail
