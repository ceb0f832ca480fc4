// The cpu backend's threads: they sleep when no call follows soon, and the caller's thread works too.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include <headred/core/config.hpp>

namespace headred::detail {

/// Runs f(task, worker) for every task in [0,n): tasks are handed out one by one, so who runs a task is not fixed;
/// callers make tasks independent and combine their results in task order. If tasks throw, the exception of the lowest
/// task that threw is rethrown after all workers have stopped; tasks above it may not have run.
/// A call from within a task is carried out by the calling thread alone, under its worker's number; a call while another
/// thread is running one waits for its turn.
class thread_pool {
 public:
  explicit thread_pool(int workers) : workers_(workers < 1 ? 1 : workers) {
    try {
      for (int w = 1; w < workers_; ++w) threads_.emplace_back([this, w] { serve(w); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~thread_pool() { stop(); }
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;

  int workers() const noexcept { return workers_; }

  /// The number under which the calling thread works on a task of this pool, -1 outside of its tasks.
  int current_worker() const noexcept { return current().pool == this ? current().worker : -1; }

  template <class F>
  void run(index_t n, const F& f) {
    if (n <= 0) return;
    // A task that calls run again works alone under its own worker number.
    if (current().pool == this) {
      for (index_t i = 0; i < n; ++i) f(i, current().worker);
      return;
    }
    // Calls from several threads take turns, since worker numbers name scratch memory.
    const std::lock_guard turn(turn_);
    if (workers_ == 1 || n == 1) {
      const scope here(this, 0);
      for (index_t i = 0; i < n; ++i) f(i, 0);
      return;
    }
    failed_task_ = n;
    failure_ = nullptr;
    body_ = [](const void* function, index_t task, int worker) { (*static_cast<const F*>(function))(task, worker); };
    function_ = &f;
    count_ = n;
    next_.store(0, std::memory_order_relaxed);
    busy_.store(workers_ - 1, std::memory_order_relaxed);
    bool sleepers;
    {
      const std::lock_guard lock(mutex_);
      round_.fetch_add(1, std::memory_order_release);
      sleepers = sleepers_ > 0;
    }
    if (sleepers) start_.notify_all();
    work(0);
    if (!soon([this] { return busy_.load(std::memory_order_acquire) == 0; })) {
      std::unique_lock lock(mutex_);
      done_.wait(lock, [this] { return busy_.load(std::memory_order_acquire) == 0; });
    }
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  struct place {
    const thread_pool* pool = nullptr;
    int worker = 0;
  };
  static place& current() noexcept {
    thread_local place here;
    return here;
  }
  struct scope {
    scope(const thread_pool* pool, int worker) noexcept : before(current()) { current() = {pool, worker}; }
    ~scope() { current() = before; }
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    place before;
  };

  void work(int worker) {
    const scope here(this, worker);
    for (index_t i = next_.fetch_add(1, std::memory_order_relaxed); i < count_;
         i = next_.fetch_add(1, std::memory_order_relaxed)) {
      try {
        body_(function_, i, worker);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (i < failed_task_) {
          failed_task_ = i;
          failure_ = std::current_exception();
        }
        next_.store(count_, std::memory_order_relaxed);
      }
    }
  }

  // Waits some ten microseconds for what mostly comes at once: waking a sleeping thread costs more than many a call.
  template <class Condition>
  static bool soon(const Condition& holds) {
    for (int i = 0; i < 64; ++i) {
      for (int j = 0; j < 32; ++j)
        if (holds()) return true;
      std::this_thread::yield();
    }
    return false;
  }

  void serve(int worker) {
    std::uint64_t seen = 0;
    const auto called = [&] {
      return stopping_.load(std::memory_order_acquire) || round_.load(std::memory_order_acquire) != seen;
    };
    for (;;) {
      if (!soon(called)) {
        std::unique_lock lock(mutex_);
        ++sleepers_;
        start_.wait(lock, called);
        --sleepers_;
      }
      if (stopping_.load(std::memory_order_acquire)) return;
      seen = round_.load(std::memory_order_acquire);
      work(worker);
      if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        {
          const std::lock_guard lock(mutex_);
        }  // the caller either sees 0 or is already waiting
        done_.notify_one();
      }
    }
  }

  void stop() noexcept {
    {
      const std::lock_guard lock(mutex_);
      stopping_.store(true, std::memory_order_release);
    }
    start_.notify_all();
    for (auto& t : threads_) t.join();
  }

  const int workers_;
  std::mutex turn_;
  std::mutex mutex_;
  std::condition_variable start_, done_;
  std::vector<std::thread> threads_;
  std::atomic<index_t> next_{0};
  void (*body_)(const void*, index_t, int) = nullptr;
  const void* function_ = nullptr;
  index_t count_ = 0;
  std::atomic<int> busy_{0};
  std::atomic<std::uint64_t> round_{0};
  std::atomic<bool> stopping_{false};
  int sleepers_ = 0;
  index_t failed_task_ = 0;
  std::exception_ptr failure_;
};

}  // namespace headred::detail
