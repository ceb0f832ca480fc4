// Each detector of the emulator must fire on a fault planted for it: what never fails proves nothing.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>

#include <headred/device/redundancy.hpp>

#include "device.hpp"

using namespace headred_test;
namespace emulator = headred_emulator;
static_assert(hr::block_context<emulator::emulated_block> && hr::device_backend<hr::cuda>);

namespace {

enum class fault {
  none,
  read_before_write,
  read_without_barrier,
  write_without_barrier,
  write_after_read,
  out_of_bounds,
  barrier_left_out_by_some,
  barriers_at_two_places,
  shuffle_left_out_by_some,
  shuffle_too_far,
};

/// Reverses 64 numbers through shared memory, correctly or not.
struct reversing_kernel {
  static constexpr int threads = 64;
  template <class Block>
  struct shared {
    typename Block::template array<float, threads> x;
  };
  float* data;
  fault planted;

  template <class Block>
  void operator()(Block& block, shared<Block>& memory) const {
    const int t = block.thread();
    if (planted == fault::out_of_bounds && t == 63) memory.x[64] = 0;
    if (planted != fault::read_before_write) memory.x[t] = data[t];
    if (planted == fault::write_without_barrier && t > 0) memory.x[t - 1] = 1;
    if (planted == fault::barrier_left_out_by_some && t == 5) return;
    if (planted == fault::barriers_at_two_places && t == 5)
      block.sync();
    else if (planted != fault::read_without_barrier)
      block.sync();
    data[t] = memory.x[threads - 1 - t];
    if (planted == fault::write_after_read) memory.x[t] = 0;
    if (planted == fault::shuffle_left_out_by_some && t == 40) return;
    if (planted == fault::shuffle_left_out_by_some || planted == fault::shuffle_too_far)
      data[t] += block.shuffle_xor(1.f, planted == fault::shuffle_too_far ? 32 : 1);
  }
};

/// Runs the kernel once; what the emulator found, and that the backend reported a failure just then.
std::string found(fault planted, emulator::thread_order order) {
  auto& now = emulator::device_behaviour();
  const auto before = now;
  now.order = order;
  std::string text;
  {
    hr::cuda be;
    const auto values = numbers<float>(64, 9);
    auto x = put<float, 1>(be, values, {64});
    bool failed = false;
    try {
      be.launch(1, reversing_kernel{x.data(), planted});
      be.synchronize();
    } catch (const hr::cuda_error& e) {
      failed = true;
      CHECK(std::string(e.what()) == "cudaStreamSynchronize: cudaErrorLaunchFailure, unspecified launch failure");
    }
    text = emulator::take_fault();
    CHECK(failed == !text.empty());
    if (planted == fault::none) CHECK(get(be, x) == std::vector<float>(values.rbegin(), values.rend()));
  }
  now = before;
  return text;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

/// Whether f() ends the process by a segmentation fault.
template <class F>
bool crashes(const F& f) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    f();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

struct write_behind_the_end {
  float* x;
  void operator()(hr::index_t i) const { x[i + 1] = 0; }
};
struct nothing_to_do {
  void operator()(hr::index_t) const {}
};
struct write_far_behind {
  float* x;
  void operator()(hr::index_t i) const { x[i + 4096] = 0; }
};

}  // namespace

TEST_SUITE("cuda") {
  TEST_CASE("planted faults of kernels are found in every order of threads") {
    for (const auto order :
         {emulator::thread_order::forward, emulator::thread_order::reverse, emulator::thread_order::shuffled}) {
      CHECK(found(fault::none, order) == "");
      CHECK(has(found(fault::read_before_write, order), "which nobody has written"));
      CHECK(has(found(fault::read_without_barrier, order), "shared memory: thread"));
      CHECK(has(found(fault::write_without_barrier, order), "without a barrier between"));
      CHECK(has(found(fault::write_after_read, order), "without a barrier between"));
      CHECK(has(found(fault::out_of_bounds, order), "thread 63 uses element 64 of 64"));
      CHECK(has(found(fault::barrier_left_out_by_some, order), "barrier: 1 of 64 threads ended while thread"));
      CHECK(has(found(fault::barriers_at_two_places, order), "barrier: threads of one block wait at lines"));
      CHECK(has(found(fault::shuffle_left_out_by_some, order),
                "shuffle: lane 8 of the warp of thread 32 does not take part"));
      CHECK(has(found(fault::shuffle_too_far, order), "shuffle: the mask is 32"));
    }
  }

  TEST_CASE("device memory is out of the host's reach, outside kernels and copies") {
    hr::cuda be;
    auto x = put<float, 1>(be, {1, 2, 3}, {3});
    float* const p = x.data();
    CHECK(crashes([p] { *const_cast<volatile float*>(p) = 0; }));
    CHECK(crashes([p] { static_cast<void>(*const_cast<volatile float*>(p)); }));
    CHECK_FALSE(crashes([] {}));
    CHECK(get(be, x) == std::vector<float>{1, 2, 3});
  }

  TEST_CASE("fresh device memory is full of NaNs") {
    hr::cuda be;
    hr::tensor<float, 1, hr::cuda> x(be, {5});
    for (const float v : get(be, x)) CHECK(std::isnan(v));
    hr::tensor<double, 1, hr::cuda> y(be, {5});
    for (const double v : get(be, y)) CHECK(std::isnan(v));
  }

  TEST_CASE("writes behind an allocation are found") {
    {
      hr::cuda be;
      auto x = put<float, 1>(be, {1, 2, 3}, {3});
      be.for_each(3, write_behind_the_end{x.data()});
      be.synchronize();
    }
    CHECK(emulator::take_fault() == "device memory: byte 0 behind an allocation of 12 bytes was written");
    hr::cuda be;
    auto x = put<float, 1>(be, {1, 2, 3}, {3});
    CHECK(crashes([&] {
      be.for_each(3, write_far_behind{x.data()});
      be.synchronize();
    }));
  }

  TEST_CASE("copies with a wrong direction or beyond an allocation are refused") {
    hr::cuda be;
    float host[8] = {};
    auto x = put<float, 1>(be, {1, 2, 3}, {3});
    CHECK_THROWS_AS(be.upload(host, host, 4), hr::cuda_error);
    CHECK_THROWS_AS(be.download(host, host, 4), hr::cuda_error);
    CHECK_THROWS_AS(be.download(x.data(), x.data(), 4), hr::cuda_error);
    CHECK_THROWS_WITH_AS(be.download(host, x.data(), 16),
                         "cudaMemcpyAsync: cudaErrorInvalidValue, invalid argument, 16 bytes", hr::cuda_error);
    CHECK_NOTHROW(be.download(host, x.data(), 12));
  }

  TEST_CASE("products with operands beyond an allocation are refused") {
    hr::cuda be;
    auto a = put<float, 3>(be, std::vector<float>(4, 1), {1, 2, 2});
    const hr::tensor_view<const float, 3, hr::device_space> large(a.data(), {1, 2, 3}), tall(a.data(), {1, 3, 2});
    CHECK_THROWS_WITH_AS(be.gemm(1.f, large, tall, 0.f, a.view()),
                         "cublasSgemmStridedBatched: CUBLAS_STATUS_INVALID_VALUE", hr::cuda_error);
  }

  TEST_CASE("memory runs short at every allocation in turn, and nothing is left behind") {
    const auto before = emulator::device_census();
    auto& now = emulator::device_behaviour();
    int failures = 0;
    for (hr::index_t n = 0; n < 10; ++n) {
      now.allocations_to_go = n;
      try {
        hr::cuda be;
        auto maps = put<float, 4>(be, std::vector<float>(16, .5f), {1, 2, 4, 2});
        hr::device::redundancy<hr::device::cosine, hr::cuda> mean(be, 1, 2);
        be.workspace(1);  // as small as it gets: the sentence makes it grow
        mean.add(maps.view());
        CHECK(mean.matrix()(0, 1) == 0);
        now.allocations_to_go = -1;
        break;
      } catch (const hr::cuda_error& e) {
        ++failures;
        CHECK(e.call() == "cudaMalloc");
      }
    }
    now.allocations_to_go = -1;
    CHECK(failures == 5);
    const auto after = emulator::device_census();
    CHECK(after.allocations == before.allocations);
    CHECK(after.bytes == before.bytes);
    CHECK(after.streams == before.streams);
    CHECK(after.handles == before.handles);
  }

  TEST_CASE("lazily issued work happens at the wait, and a host buffer changed too early shows") {
    auto& now = emulator::device_behaviour();
    const auto before = now;
    now.lazy = true;
    {
      hr::cuda be;
      hr::tensor<float, 1, hr::cuda> x(be, {1});
      float source = 1;
      // what the backend must not do: hand a buffer over and not wait
      CHECK(cudaMemcpyAsync(x.data(), &source, 4, cudaMemcpyHostToDevice, be.stream()) == cudaSuccess);
      source = 2;
      CHECK(get(be, x) == std::vector<float>{2});
      be.upload(x.data(), &source, 4);
      source = 3;
      CHECK(get(be, x) == std::vector<float>{2});
    }
    now = before;
  }

  TEST_CASE("a backend on another device leaves the thread's current device alone") {
    hr::cuda first, second{{.device = 1}};
    CHECK(first.device() == 0);
    CHECK(second.device() == 1);
    auto x = put<float, 3>(second, {1, 2, 3, 4}, {1, 2, 2});
    hr::tensor<float, 3, hr::cuda> y(second, {1, 2, 2});
    const hr::tensor_view<const float, 3, hr::device_space> v = x.view();
    second.gemm(1.f, v, v, 0.f, y.view());
    second.for_each(3, nothing_to_do{});
    CHECK(get(second, y) == std::vector<float>{7, 10, 15, 22});
    int device = -1;
    cudaGetDevice(&device);
    CHECK(device == 0);
  }

  TEST_CASE("a steady state allocates nothing") {
    hr::cuda be;
    hr::tensor<float, 2, hr::cuda> x(be, {4, 100});
    hr::tensor<float, 3, hr::cuda> a(be, {1, 4, 4}), c(be, {1, 4, 4});
    const hr::tensor_view<const float, 3, hr::device_space> v = a.view();
    be.workspace(512);
    be.gemm(1.f, v, v, 0.f, c.view());
    be.synchronize();
    const auto before = emulator::device_census().all_allocations;
    for (int i = 0; i < 3; ++i) {
      be.workspace(512);
      be.gemm(1.f, v, v, 0.f, c.view());
      be.for_each(10, nothing_to_do{});
    }
    be.synchronize();
    CHECK(emulator::device_census().all_allocations == before);
  }
}

// The last case of the program by its name: everything that the cases before took was given back.
TEST_CASE("zz: nothing leaks") {
  const auto now = emulator::device_census();
  CHECK(now.allocations == 0);
  CHECK(now.bytes == 0);
  CHECK(now.streams == 0);
  CHECK(now.handles == 0);
  CHECK(emulator::take_fault() == "");
}
