// gemm as a loop over rows: what a backend without a better way offers.
#pragma once

#include <string>

#include <headred/core/error.hpp>
#include <headred/core/view.hpp>

namespace headred {

namespace detail {

/// Throws shape_error unless a (N,M,K), b (N,K,P), c (N,M,P) fit together.
template <class T, class Space>
void require_gemm(const tensor_view<const T, 3, Space>& a, const tensor_view<const T, 3, Space>& b,
                  const tensor_view<T, 3, Space>& c) {
  const bool fits = a.extent(0) == b.extent(0) && a.extent(0) == c.extent(0) && a.extent(2) == b.extent(1) &&
                    a.extent(1) == c.extent(1) && b.extent(2) == c.extent(2);
  if (!fits)
    throw shape_error("gemm: a is " + shape_text(a.shape()) + ", b is " + shape_text(b.shape()) + ", c is " +
                      shape_text(c.shape()) + ", expected (N,M,K), (N,K,P), (N,M,P)");
}

// A row of c = alpha a b + beta c + row, for strides that nothing faster serves.
template <class T>
struct strided_row_product {
  T alpha;
  tensor_view<const T, 2> a, b;
  T beta;
  const T* row;
  tensor_view<T, 2> c;
  void operator()(index_t m) const {
    for (index_t p = 0; p < c.extent(1); ++p) {
      T sum = T(0);
      for (index_t k = 0; k < a.extent(1); ++k) sum += a(m, k) * b(k, p);
      sum *= alpha;
      if (row != nullptr) sum += row[p];
      c(m, p) = beta == T(0) ? sum : sum + beta * c(m, p);
    }
  }
};

}  // namespace detail

/// Body for `for_each` over the N M rows of c: c = alpha a b + beta c, beta = 0 not reading c.
template <class T, class Space>
struct gemm_row {
  T alpha;
  tensor_view<const T, 3, Space> a, b;
  T beta;
  tensor_view<T, 3, Space> c;

  HEADRED_FUNCTION void operator()(index_t i) const {
    const index_t n = i / c.extent(1), m = i % c.extent(1);
    for (index_t p = 0; p < c.extent(2); ++p) {
      T sum = T(0);
      for (index_t k = 0; k < a.extent(2); ++k) sum += a(n, m, k) * b(n, k, p);
      c(n, m, p) = beta == T(0) ? alpha * sum : alpha * sum + beta * c(n, m, p);
    }
  }
};

/// c = alpha a b + beta c for each of N matrices, on any backend; a backend's `gemm` may be this one call.
/// a : (N,M,K), b : (N,K,P), c : (N,M,P), any strides. Throws shape_error.
template <class Backend, class T, class Space>
void gemm_by_rows(Backend& be, T alpha, tensor_view<const T, 3, Space> a, tensor_view<const T, 3, Space> b, T beta,
                  tensor_view<T, 3, Space> c) {
  detail::require_gemm(a, b, c);
  be.for_each(c.extent(0) * c.extent(1), gemm_row<T, Space>{alpha, a, b, beta, c});
}

}  // namespace headred
