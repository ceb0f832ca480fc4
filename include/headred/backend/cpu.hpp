// The CPU backend: host memory and a pool of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <headred/backend/concept.hpp>
#include <headred/backend/cpu_gemm_thin.hpp>
#include <headred/backend/gemm_rows.hpp>
#include <headred/backend/thread_pool.hpp>
#include <headred/core/error.hpp>

namespace headred {

/// What a cpu backend is made with.
struct cpu_options {
  int threads = 0;  ///< threads that work, the caller's included; 0 takes as many as the machine runs at once
};

/// Backend on host memory. Results are bit-identical for any number of threads: parts are combined in an order that
/// follows from the shapes alone, however the work is cut.
/// Several threads may call one cpu; their calls take turns. Throws argument_error for threads < 0 or > 4096.
class cpu {
 public:
  using space = host_space;

  /// Starts the threads. Throws argument_error for a number of threads that cannot be.
  explicit cpu(cpu_options options = {})
      : pool_(checked(options.threads)), scratch_(static_cast<std::size_t>(pool_.workers()) + 1) {}

  /// Number of threads that work, the caller's included.
  int workers() const noexcept { return pool_.workers(); }

  /// Memory of the backend concept: aligned to 64 bytes; copies are plain copies, nothing is ever under way.
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

  /// c = alpha a b + beta c for each of N matrices: a (N,M,K), b (N,K,P), c (N,M,P), any strides; beta = 0 does not
  /// read c. Each entry is summed over K in an order that depends on the shapes alone. Scratch memory for the packed
  /// operands grows to what was ever needed. Cost: 2 N M K P operations.
  template <class T, class Space>
  void gemm(T alpha, tensor_view<const T, 3, Space> a, tensor_view<const T, 3, Space> b, T beta,
            tensor_view<T, 3, Space> c) {
    detail::require_gemm(a, b, c);
    for (index_t n = 0; n < c.extent(0); ++n) multiply(alpha, a[n], b[n], beta, static_cast<const T*>(nullptr), c[n]);
  }

  /// c = a b + row on every row; an empty row adds nothing. a (M,K), b (K,P), row (P) contiguous, c (M,P).
  template <class T, class Space>
  void gemm_plus_row(tensor_view<const T, 2, Space> a, tensor_view<const T, 2, Space> b,
                     tensor_view<const T, 1, Space> row, tensor_view<T, 2, Space> c) {
    multiply(T(1), a, b, T(0), row.data(), c);
  }

 private:
  static constexpr std::size_t alignment = 64;

  static int checked(int threads) {
    if (threads < 0 || threads > 4096)
      throw argument_error("cpu: threads is " + std::to_string(threads) + ", expected 0 (all) to 4096");
    if (threads > 0) return threads;
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }

  template <class T>
  void multiply(T alpha, tensor_view<const T, 2> a, tensor_view<const T, 2> b, T beta, const T* row,
                tensor_view<T, 2> c) {
    if (c.empty()) return;
    if (c.stride(1) != 1 && c.extent(1) > 1) {
      // C^T = B^T A^T where that puts the entries of a row side by side; else row by row in any order
      if (c.stride(0) == 1 && row == nullptr) {
        multiply<T>(alpha, b.transposed(), a.transposed(), beta, row, c.transposed());
      } else {
        for_each(c.extent(0), detail::strided_row_product<T>{alpha, a, b, beta, row, c});
      }
      return;
    }
    const detail::gemm_operands<T> g{c.extent(0),
                                     c.extent(1),
                                     a.extent(1),
                                     alpha,
                                     {a.data(), a.stride(0), a.stride(1)},
                                     {b.data(), b.stride(0), b.stride(1)},
                                     beta,
                                     row,
                                     c.data(),
                                     c.stride(0)};
    // Large operands are packed part by part: scratch memory stays below some 40 MB, and 512 KB a worker.
    constexpr index_t part = index_t{1} << 22;
    if (g.n * g.k > part && g.n > 4096) {
      const index_t half = g.n / 2 / 256 * 256;
      multiply<T>(alpha, a, b.narrow(1, 0, half), beta, row, c.narrow(1, 0, half));
      return multiply<T>(alpha, a, b.narrow(1, half, g.n - half), beta, row == nullptr ? row : row + half,
                         c.narrow(1, half, g.n - half));
    }
    if (g.m * g.k > part && g.m > 4096) {
      const index_t half = g.m / 2 / 256 * 256;
      multiply<T>(alpha, a.narrow(0, 0, half), b, beta, row, c.narrow(0, 0, half));
      return multiply<T>(alpha, a.narrow(0, half, g.m - half), b, beta, row, c.narrow(0, half, g.m - half));
    }
    const int worker = pool_.current_worker();
    const bool small = g.m * g.n * std::max<index_t>(g.k, 1) <= 64 * 64 * 32;
    if (g.k == 0 || detail::thin_gemm(g)) {
      if (small || worker >= 0) return detail::gemm_columns(g, 0, g.n);
      constexpr index_t strip = 128;
      pool_.run((g.n + strip - 1) / strip,
                [&](index_t task, int) { detail::gemm_columns(g, task * strip, std::min(g.n, (task + 1) * strip)); });
      return;
    }
    if (detail::narrow_gemm(g)) {
      constexpr index_t rows = 64;
      const index_t parts = (g.m + rows - 1) / rows;
      const auto some = [&](index_t task, int) {
        detail::gemm_narrow_rows(g, task * rows, std::min(g.m, (task + 1) * rows));
      };
      if (worker >= 0)
        for (index_t task = 0; task < parts; ++task) some(task, worker);
      else
        pool_.run(parts, some);
      return;
    }
    // A task that multiplies works alone in scratch memory of its worker; calls from outside take turns.
    const detail::packed_gemm<T> product(g, small || worker >= 0 ? 1 : pool_.workers());
    const index_t bytes = static_cast<index_t>(sizeof(T)) * product.scratch();
    const auto serial = [](index_t n, const auto& f) {
      for (index_t i = 0; i < n; ++i) f(i, 0);
    };
    if (worker >= 0) {
      auto& memory = scratch_[static_cast<std::size_t>(worker) + 1];
      product.multiply(reinterpret_cast<T*>(memory.get(bytes)), serial);
      return;
    }
    const std::lock_guard turn(gemm_turn_);
    T* const memory = reinterpret_cast<T*>(scratch_[0].get(bytes));
    if (small)
      product.multiply(memory, serial);
    else
      product.multiply(memory, [&](index_t n, const auto& f) { pool_.run(n, f); });
  }

  detail::thread_pool pool_;
  std::vector<grow_buffer<std::byte>> scratch_;  // [0]: calls from outside; [1 + worker]: calls from within its tasks
  std::mutex gemm_turn_;
};

}  // namespace headred
