// A backend of one's own: the required members and nothing else, on threads that live for one call.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <new>
#include <thread>
#include <vector>

#include <headred/headred.hpp>

#include "support/planted_attention.hpp"

namespace {

using headred::index_t;

/// Memory from aligned new, work on `threads` short-lived threads; counts what it allocates.
class short_lived_threads {
 public:
  using space = headred::host_space;

  explicit short_lived_threads(index_t threads) : threads_(threads) {}

  void* allocate(std::size_t bytes) {
    allocated_ += bytes;
    return ::operator new(bytes, std::align_val_t{64});
  }
  void deallocate(void* p, std::size_t) noexcept { ::operator delete(p, std::align_val_t{64}); }
  void upload(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void synchronize() noexcept {}

  template <class F>
  void for_each(index_t n, const F& f) {
    std::vector<std::exception_ptr> failures(static_cast<std::size_t>(threads_));
    {
      std::vector<std::jthread> workers;
      for (index_t w = 0; w < threads_; ++w)
        workers.emplace_back([&, w] {
          try {
            for (index_t i = w; i < n; i += threads_) f(i);
          } catch (...) {
            failures[static_cast<std::size_t>(w)] = std::current_exception();
          }
        });
    }
    for (const auto& failure : failures)
      if (failure) std::rethrow_exception(failure);
  }

  template <class T, class Term, class Combine, class Sink>
  void reduce(index_t rows, index_t cols, T init, const Term& term, const Combine& combine, const Sink& sink) {
    for_each(rows, [&](index_t r) {
      T sum = init;
      for (index_t c = 0; c < cols; ++c) sum = combine(sum, term(r, c));
      sink(r, sum);
    });
  }

  template <class T>
  void gemm(T alpha, headred::tensor_view<const T, 3> a, headred::tensor_view<const T, 3> b, T beta,
            headred::tensor_view<T, 3> c) {
    headred::gemm_by_rows(*this, alpha, a, b, beta, c);
  }

  std::size_t allocated() const { return allocated_; }

 private:
  index_t threads_;
  std::size_t allocated_ = 0;
};
static_assert(headred::host_backend<short_lived_threads> && !headred::task_backend<short_lived_threads>);

template <class Backend>
headred::matrix redundancy_on(Backend& be) {
  headred::cpu maker;
  const examples::planted_attention planted(7);
  headred::redundancy<headred::jensen_shannon, Backend> red{be, {planted.layers, planted.heads}};
  for (index_t s = 0; s < 3; ++s) red.add(planted.sentence(maker, s));
  return red.matrix();
}

/// The product of two small matrices, by the backend's own gemm.
template <class Backend>
std::vector<float> product_on(Backend& be) {
  headred::tensor<float, 3, Backend> a(be, {1, 8, 8}), b(be, {1, 8, 8}), c(be, {1, 8, 8});
  for (index_t i = 0; i < 64; ++i) {
    a.data()[i] = static_cast<float>(i % 7);
    b.data()[i] = static_cast<float>(i % 5);
  }
  const auto& read_a = a;
  const auto& read_b = b;
  be.gemm(1.f, read_a.view(), read_b.view(), 0.f, c.view());
  return {c.data(), c.data() + 64};
}

}  // namespace

int main() {
  short_lived_threads mine(3);
  headred::cpu cpu{{.threads = 2}};
  const bool same = redundancy_on(mine) == redundancy_on(cpu);

  const headred::tensor<float, 2, short_lived_threads> memory(mine, {8, 8});
  const bool same_product = product_on(mine) == product_on(cpu);  // whole numbers: no rounding
  std::cout << "the same bits as cpu: " << (same ? "yes" : "no") << '\n'
            << "the same product as cpu: " << (same_product ? "yes" : "no") << '\n'
            << "bytes from my own memory: " << mine.allocated() << '\n';
  return same && same_product ? EXIT_SUCCESS : EXIT_FAILURE;
}
