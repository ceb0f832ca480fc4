// The CPU backend: host memory and a pool of threads.
#pragma once

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <thread>

#include <headred/backend/concept.hpp>
#include <headred/backend/gemm_rows.hpp>
#include <headred/backend/thread_pool.hpp>
#include <headred/core/error.hpp>

namespace headred {

struct cpu_options {
  int threads = 0;  ///< threads that work, the caller's included; 0 takes as many as the machine runs at once
};

/// Backend on host memory. Results are bit-identical for any number of threads: work is cut by its own size, never by
/// the number of threads, and parts are combined in a fixed order.
/// Several threads may call one cpu; their calls take turns. Throws argument_error for threads < 0 or > 4096.
class cpu {
 public:
  using space = host_space;

  explicit cpu(cpu_options options = {}) : pool_(checked(options.threads)) {}

  /// Number of threads that work, the caller's included.
  int workers() const noexcept { return pool_.workers(); }

  void* allocate(std::size_t bytes) { return ::operator new(bytes, std::align_val_t{alignment}); }
  void deallocate(void* p, std::size_t) noexcept { ::operator delete(p, std::align_val_t{alignment}); }
  void upload(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void synchronize() noexcept {}

  /// f(task, worker) once for each task in [0,n); tasks may run at once, those of one worker never.
  template <class F>
  void run(index_t n, const F& f) {
    pool_.run(n, f);
  }

  /// f(i) once for each i in [0,n).
  template <class F>
  void for_each(index_t n, const F& f) {
    const index_t block = std::max<index_t>(1, n / 64);
    pool_.run((n + block - 1) / block, [&](index_t task, int) {
      const index_t end = std::min(n, (task + 1) * block);
      for (index_t i = task * block; i < end; ++i) f(i);
    });
  }

  /// sink(r, combine(...combine(combine(init, term(r,0)), term(r,1))..., term(r,cols-1))) for each row r.
  template <class T, class Term, class Combine, class Sink>
  void reduce(index_t rows, index_t cols, T init, const Term& term, const Combine& combine, const Sink& sink) {
    for_each(rows, [&](index_t r) {
      T sum = init;
      for (index_t c = 0; c < cols; ++c) sum = combine(sum, term(r, c));
      sink(r, sum);
    });
  }

  /// c = alpha a b + beta c for each of N matrices: a (N,M,K), b (N,K,P), c (N,M,P), any strides.
  template <class T, class Space>
  void gemm(T alpha, tensor_view<const T, 3, Space> a, tensor_view<const T, 3, Space> b, T beta,
            tensor_view<T, 3, Space> c) {
    gemm_by_rows(*this, alpha, a, b, beta, c);
  }

 private:
  static constexpr std::size_t alignment = 64;

  static int checked(int threads) {
    if (threads < 0 || threads > 4096)
      throw argument_error("cpu: threads is " + std::to_string(threads) + ", expected 0 (all) to 4096");
    if (threads > 0) return threads;
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }

  detail::thread_pool pool_;
};

}  // namespace headred
