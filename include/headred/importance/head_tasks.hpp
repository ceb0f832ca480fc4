// head_tasks: the heads of one sentence over a backend's threads, or over none.
#pragma once

#include <algorithm>

#include <headred/distance/sentence_maps.hpp>

namespace headred::detail {

/// Runs tasks like a task_runner, one after the other.
struct serial_runner {
  static constexpr int workers() { return 1; }
  template <class F>
  void run(index_t n, const F& f) const {
    for (index_t i = 0; i < n; ++i) f(i, 0);
  }
};

/// f(head, worker) for each head of the sentence; short maps go to a worker several at a time.
template <class Runner, class F>
void run_heads(Runner&& runner, const sentence_maps& maps, const F& f) {
  constexpr index_t entries = index_t{1} << 15;
  const index_t heads = maps.heads(), size = std::max<index_t>(1, maps.queries() * maps.keys());
  const index_t at_once = std::clamp<index_t>(entries / size, 1, std::max<index_t>(1, heads));
  runner.run((heads + at_once - 1) / at_once, [&](index_t task, int worker) {
    for (index_t h = task * at_once; h < std::min(heads, (task + 1) * at_once); ++h) f(h, worker);
  });
}

/// Throws data_error for the first of a head's rows that is not attention.
inline void check_rows(const sentence_maps& maps, index_t head, index_t rows) {
  for (index_t t = 0; t < rows; ++t) maps.checked_sum(head, t);
}

}  // namespace headred::detail
