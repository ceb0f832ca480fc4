// Numbered workers on any host backend, so that kernels with scratch memory need no more than for_each.
#pragma once

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
