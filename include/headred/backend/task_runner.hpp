// Numbered workers on any host backend, so that kernels with scratch memory need no more than for_each.
#pragma once

#include <algorithm>

#include <headred/backend/concept.hpp>

namespace headred {

/// `run(n, f)` calls f(task, worker) once for each task in [0,n), tasks of one worker one after the other.
/// Takes the backend's own workers where it has them (task_backend); otherwise eight workers in one for_each.
template <host_backend Backend>
class task_runner {
 public:
  explicit task_runner(Backend& be) : backend_(be) {}

  int workers() const {
    if constexpr (task_backend<Backend>) {
      return static_cast<int>(backend_.workers());
    } else {
      return 8;
    }
  }

  template <class F>
  void run(index_t n, const F& f) {
    if constexpr (task_backend<Backend>) {
      backend_.run(n, f);
    } else {
      backend_.for_each(workers(), stripe<F>{n, workers(), &f});
    }
  }

  /// The same for many short tasks, handed out by eights: neighbours write to one cache line from one thread.
  template <class F>
  void run_rows(index_t n, const F& f) {
    constexpr index_t at_once = 8;
    run((n + at_once - 1) / at_once, [&](index_t part, int worker) {
      for (index_t i = part * at_once; i < std::min(n, (part + 1) * at_once); ++i) f(i, worker);
    });
  }

 private:
  template <class F>
  struct stripe {
    index_t count;
    index_t step;
    const F* body;
    void operator()(index_t worker) const {
      for (index_t i = worker; i < count; i += step) (*body)(i, static_cast<int>(worker));
    }
  };

  Backend& backend_;
};

}  // namespace headred
