// A backend with nothing but what the concept asks for: one thread, one loop.
#pragma once

#include <cstring>
#include <new>

#include <headred/backend/gemm_rows.hpp>

namespace headred_test {

struct serial_backend {
  using space = headred::host_space;

  void* allocate(std::size_t bytes) { return ::operator new(bytes, std::align_val_t{64}); }
  void deallocate(void* p, std::size_t) { ::operator delete(p, std::align_val_t{64}); }
  void upload(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void synchronize() {}
  template <class F>
  void for_each(headred::index_t n, const F& f) {
    for (headred::index_t i = n; i-- > 0;) f(i);
  }
  template <class T, class Term, class Combine, class Sink>
  void reduce(headred::index_t rows, headred::index_t cols, T init, const Term& term, const Combine& combine,
              const Sink& sink) {
    for (headred::index_t r = 0; r < rows; ++r) {
      T sum = init;
      for (headred::index_t c = 0; c < cols; ++c) sum = combine(sum, term(r, c));
      sink(r, sum);
    }
  }
  template <class T, class Space>
  void gemm(T alpha, headred::tensor_view<const T, 3, Space> a, headred::tensor_view<const T, 3, Space> b, T beta,
            headred::tensor_view<T, 3, Space> c) {
    headred::gemm_by_rows(*this, alpha, a, b, beta, c);
  }
};

}  // namespace headred_test
