// Loops over the elements of views of any rank, numbered in row-major order whatever the strides.
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include <headred/backend/tensor.hpp>

namespace headred::detail {

/// Views of a backend's memory whose element type another argument says.
template <class T, int Rank, backend Backend>
using input_view = std::type_identity_t<tensor_view<const T, Rank, typename Backend::space>>;
template <class T, int Rank, backend Backend>
using output_view = std::type_identity_t<tensor_view<T, Rank, typename Backend::space>>;

/// Element number i of a view.
template <class T, int Rank, class Space>
HEADRED_FUNCTION T& element(const tensor_view<T, Rank, Space>& v, index_t i) {
  index_t offset = 0;
  for (int axis = Rank - 1; axis > 0; --axis) {
    offset += i % v.extent(axis) * v.stride(axis);
    i /= v.extent(axis);
  }
  return v.data()[offset + i * v.stride(0)];
}

template <class A, class B, int Rank, class Space>
void require_same_shape(const char* op, const char* name, const tensor_view<A, Rank, Space>& a,
                        const tensor_view<B, Rank, Space>& like) {
  if (a.shape() != like.shape())
    throw shape_error(std::string(op) + ": " + name + " is " + shape_text(a.shape()) + ", expected " +
                      shape_text(like.shape()));
}

struct plus {
  HEADRED_FUNCTION double operator()(double a, double b) const { return a + b; }
};
struct least {
  HEADRED_FUNCTION double operator()(double a, double b) const { return b < a ? b : a; }
};
struct store_number {
  double* to;
  HEADRED_FUNCTION void operator()(index_t i, double x) const { to[i] = x; }
};
/// Elements in rows of `cols`; beyond the last one `neutral`.
template <class Term>
struct term_in_rows {
  Term term;
  index_t cols, count;
  double neutral;
  HEADRED_FUNCTION double operator()(index_t r, index_t c) const {
    const index_t i = r * cols + c;
    return i < count ? term(i) : neutral;
  }
};

/// neutral (+) term(0) (+) ... (+) term(n-1), on the host, in an order that depends on n alone.
template <backend Backend, class Term, class Combine>
double fold_elements(Backend& be, index_t n, double neutral, const Term& term, const Combine& combine) {
  constexpr index_t rows = 64;
  double all = neutral;
  if constexpr (host_backend<Backend>) {
    if (n <= rows) {  // too little to share among threads
      for (index_t i = 0; i < n; ++i) all = combine(all, term(i));
      return all;
    }
  }
  std::array<double, rows> parts;
  const index_t cols = (n + rows - 1) / rows;
  const term_in_rows<Term> in_rows{term, cols, n, neutral};
  if constexpr (host_backend<Backend>) {
    be.reduce(rows, cols, neutral, in_rows, combine, store_number{parts.data()});
    be.synchronize();
  } else {
    tensor<double, 1, Backend> there(be, {rows});
    be.reduce(rows, cols, neutral, in_rows, combine, store_number{there.data()});
    be.download(parts.data(), there.data(), there.bytes());
    be.synchronize();
  }
  for (const double part : parts) all = combine(all, part);
  return all;
}

/// The number of the first NaN among the elements from r block on, infinity if there is none.
template <class View>
struct first_nan {
  static constexpr index_t block = 256;
  View values;
  bool dense;
  HEADRED_FUNCTION double operator()(index_t r) const {
    const index_t first = r * block, left = values.size() - first, end = first + (left < block ? left : block);
    if (dense && end - first == block) {
      // a sum that the compiler turns into vector instructions
      const auto* const x = values.data() + first;
      int wrong = 0;
      for (index_t i = 0; i < block; ++i) wrong += x[i] != x[i];
      if (wrong == 0) return std::numeric_limits<double>::infinity();
    }
    for (index_t i = first; i < end; ++i) {
      const auto x = element(values, i);
      if (x != x) return static_cast<double>(i);
    }
    return std::numeric_limits<double>::infinity();
  }
};

/// Throws argument_error, naming the first, where an element is NaN.
template <backend Backend, class T, int Rank, class Space>
void require_no_nan(Backend& be, const char* op, const char* name, const tensor_view<T, Rank, Space>& v) {
  using search = first_nan<tensor_view<T, Rank, Space>>;
  const double first = fold_elements(be, (v.size() + search::block - 1) / search::block,
                                     std::numeric_limits<double>::infinity(), search{v, v.contiguous()}, least{});
  if (std::isfinite(first))
    throw argument_error(std::string(op) + ": element " + std::to_string(static_cast<index_t>(first)) + " of " + name +
                         " is NaN, expected a number");
}

template <class T>
struct add_number {
  T* to;
  T x;
  HEADRED_FUNCTION void operator()(index_t) const { *to += x; }
};

/// Adds x to the one element of a view. Throws shape_error for a view of another size.
template <backend Backend, class T>
void add_to_scalar(Backend& be, const char* op, const char* name, const tensor_view<T, 1, typename Backend::space>& to,
                   double x) {
  if (to.extent(0) != 1)
    throw shape_error(std::string(op) + ": " + name + " is " + shape_text(to.shape()) + ", expected (1)");
  be.for_each(1, add_number<T>{to.data(), static_cast<T>(x)});
}

}  // namespace headred::detail
