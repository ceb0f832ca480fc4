// The kernels behind for_each and reduce.
#pragma once

#include <headred/core/config.hpp>

namespace headred::detail {

/// f(i) for i in [0,n), a thread each.
template <class F>
struct for_each_kernel {
  static constexpr int threads = 256;
  template <class Block>
  struct shared {};

  index_t n;
  F f;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, shared<Block>&) const {
    const index_t i = block.block() * threads + block.thread();
    if (i < n) f(i);
  }
};

/// A row of a reduction, a block each: thread t folds the columns t, t + 128, ... in order, then the threads' results are
/// folded in halves, the lower half on the left.
template <class T, class Term, class Combine, class Sink>
struct fold_kernel {
  static constexpr int threads = 128;
  template <class Block>
  struct shared {
    typename Block::template array<T, threads> part;
  };

  index_t cols;
  T init;
  Term term;
  Combine combine;
  Sink sink;

  template <class Block>
  HEADRED_FUNCTION void operator()(Block& block, shared<Block>& memory) const {
    const index_t row = block.block();
    const int t = block.thread();
    if (t < cols) {
      T sum = term(row, t);
      for (index_t c = t + threads; c < cols; c += threads) sum = combine(sum, term(row, c));
      memory.part[t] = sum;
    }
    for (int half = threads / 2; half > 0; half /= 2) {
      block.sync();
      if (t < half && t + half < cols)
        memory.part[t] = combine(static_cast<T>(memory.part[t]), static_cast<T>(memory.part[t + half]));
    }
    if (t == 0) sink(row, combine(init, static_cast<T>(memory.part[0])));
  }
};

/// The same for a row of few columns, by one thread.
template <class T, class Term, class Combine, class Sink>
struct short_fold {
  index_t cols;
  T init;
  Term term;
  Combine combine;
  Sink sink;
  HEADRED_FUNCTION void operator()(index_t row) const {
    T sum = init;
    for (index_t c = 0; c < cols; ++c) sum = combine(sum, term(row, c));
    sink(row, sum);
  }
};

}  // namespace headred::detail
