// A host that stands in for the GPU: kernels run in fibers, on shared memory that watches every access, and the symbols of
// the CUDA runtime and of cuBLAS that headred uses are defined in fake_runtime.cpp and fake_cublas.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <headred/backend/cuda_launch.hpp>

namespace headred_emulator {

using headred::index_t;

/// What no kernel may do; the text says which thread did it and where.
class kernel_fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class thread_order { forward, reverse, shuffled };

/// How the device behaves; tests change it, HEADRED_EMULATOR=reverse, shuffled, lazy (with commas) sets where it starts.
struct behaviour {
  thread_order order = thread_order::forward;
  bool lazy = false;               // stream work waits until somebody waits for it
  index_t allocations_to_go = -1;  // after so many more allocations memory is short; -1: never
};
behaviour& device_behaviour();

/// What is alive on the device.
struct census {
  index_t allocations = 0, bytes = 0, streams = 0, handles = 0, launches = 0, all_allocations = 0;
};
census device_census();

/// The text of the first fault since the last call, empty if there was none.
std::string take_fault();
/// Records a fault; later calls of the runtime fail until it is taken.
void record_fault(const std::string& text);

/// The block that is being run, as shared memory and the block context see it.
class block_run {
 public:
  block_run(index_t block, int threads) : block_(block), threads_(threads) {}
  /// Runs body(thread) for every thread, each in a fiber. Throws kernel_fault.
  void run(void (*body)(void* data, int thread), void* data);

  index_t block() const { return block_; }
  int thread() const { return thread_; }
  std::uint32_t epoch() const { return epoch_; }
  void sync(int line);
  void exchange(void* value, std::size_t bytes, int mask, int line);

  /// The block that this thread of the host is running.
  static block_run* current() { return current_; }

 private:
  friend struct fibers;
  void wait(int kind, int line);

  static inline constinit thread_local block_run* current_ = nullptr;

  index_t block_;
  int threads_;
  int thread_ = 0;
  std::uint32_t epoch_ = 1;
  struct fibers* fibers_ = nullptr;
};

/// Shared memory that finds elements read before they are written, races, and indices out of bounds. Two accesses of
/// different threads, one of them a write, need a barrier between them, in whatever order the threads happen to run.
template <class T, int Count>
class checked_array {
 public:
  class reference {
   public:
    reference(checked_array& from, index_t i) : array_(from), i_(i) {}
    reference(const reference&) = default;
    operator T() const { return array_.read(i_); }
    reference& operator=(T value) {
      array_.write(i_, value);
      return *this;
    }
    reference& operator=(const reference& other) { return *this = static_cast<T>(other); }
    reference& operator+=(T value) { return *this = static_cast<T>(array_.read(i_) + value); }

   private:
    checked_array& array_;
    index_t i_;
  };

  reference operator[](index_t i) {
    if (i < 0 || i >= Count)
      throw kernel_fault("shared memory: thread " + std::to_string(block_run::current()->thread()) + " uses element " +
                         std::to_string(i) + " of " + std::to_string(Count));
    return {*this, i};
  }

 private:
  static constexpr int nobody = -1, many = -2;
  struct cell {
    T value{};
    int writer = nobody, reader = nobody;
    std::uint32_t write_epoch = 0, read_epoch = 0;  // 0: never; each barrier begins an epoch
  };

  T read(index_t i) {
    cell& c = cells_[static_cast<std::size_t>(i)];
    const block_run& run = *block_run::current();
    if (c.write_epoch == 0) fail(i, "reads", "which nobody has written");
    if (c.write_epoch == run.epoch() && c.writer != run.thread())
      fail(i, "reads", "which thread " + std::to_string(c.writer) + " wrote without a barrier between");
    if (c.read_epoch != run.epoch()) {
      c.read_epoch = run.epoch();
      c.reader = run.thread();
    } else if (c.reader != run.thread()) {
      c.reader = many;
    }
    return c.value;
  }
  void write(index_t i, T value) {
    cell& c = cells_[static_cast<std::size_t>(i)];
    const block_run& run = *block_run::current();
    if (c.write_epoch == run.epoch() && c.writer != run.thread())
      fail(i, "writes", "which thread " + std::to_string(c.writer) + " wrote without a barrier between");
    if (c.read_epoch == run.epoch() && c.reader != run.thread())
      fail(i, "writes", "which another thread read without a barrier between");
    c.value = value;
    c.writer = run.thread();
    c.write_epoch = run.epoch();
  }
  [[noreturn]] static void fail(index_t i, const char* does, const std::string& why) {
    throw kernel_fault("shared memory: thread " + std::to_string(block_run::current()->thread()) + " " + does +
                       " element " + std::to_string(i) + ", " + why);
  }

  std::vector<cell> cells_ = std::vector<cell>(static_cast<std::size_t>(Count));
};

/// The block context that kernels get here.
class emulated_block {
 public:
  template <class T, int Count>
  using array = checked_array<T, Count>;

  explicit emulated_block(block_run& run) : run_(run), thread_(run.thread()) {}
  int thread() const { return thread_; }
  index_t block() const { return run_.block(); }
  void sync(int line = __builtin_LINE()) { run_.sync(line); }
  template <class T>
  T shuffle_xor(T value, int mask, int line = __builtin_LINE()) {
    run_.exchange(&value, sizeof value, mask, line);
    return value;
  }

 private:
  block_run& run_;
  int thread_;
};

/// What a launch hands to the fake runtime.
struct kernel_code {
  std::size_t bytes;
  int threads;
  void (*run_block)(const void* kernel, index_t block);
};

template <class Kernel>
void run_block(const void* kernel, index_t block) {
  using shared = typename Kernel::template shared<emulated_block>;
  struct state {
    const Kernel* kernel;
    shared memory;
    block_run run;
  } now{static_cast<const Kernel*>(kernel), {}, {block, Kernel::threads}};
  now.run.run(
      [](void* data, int) {
        auto& s = *static_cast<state*>(data);
        emulated_block context(s.run);
        (*s.kernel)(context, s.memory);
      },
      &now);
}

}  // namespace headred_emulator

namespace headred::detail {

template <class Kernel>
struct emulated_kernel {
  static const void* entry() {
    static constexpr headred_emulator::kernel_code code{sizeof(Kernel), Kernel::threads,
                                                        &headred_emulator::run_block<Kernel>};
    return &code;
  }
};

}  // namespace headred::detail
