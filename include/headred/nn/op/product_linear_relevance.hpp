// Relevance by sign through x W^T, where no bias is spread over the contributions: three products of matrices.
#pragma once

#include <algorithm>

#include <headred/backend/tensor.hpp>
#include <headred/lrp/factor_row.hpp>
#include <headred/lrp/relevance_workspace.hpp>
#include <headred/nn/op/row_loops.hpp>

namespace headred::detail {

template <class View>
auto batch_of_one(const View& m) {
  return tensor_view<typename View::element_type, 3>(m.data(), {1, m.extent(0), m.extent(1)},
                                                     {0, m.stride(0), m.stride(1)});
}

/// x, |x|, w and |w| know all about contributions z = w x without a bias: z+ = (z + |z|) / 2, z- = (z - |z|) / 2.
template <class T>
struct unbiased_row {
  static constexpr index_t lanes = native_lanes<T>;
  using vec = pack<T, lanes>;

  const T* x;
  const T* relevance;
  const T* y;
  const T* bias;  ///< that keeps its own share, or nullptr
  T* to;
  double* terms;

  /// f(get, put, w x) for all inputs, in packs.
  template <class F>
  static void each(const T* w, const T* x, index_t in, const F& f) {
    in_packs<T>(in, [&](const auto& get, const auto& put) { f(get, put, get(w) * get(x)); });
  }

  /// In: sums of |z| in `size`. Out: half the sum and half the difference of the factors by sign. Where one sign
  /// outweighs the other by far, differences of sums would cost digits: such an output goes to `to` here and now.
  /// uneven (out) is scratch memory.
  template <class Rule>
  void factors(const Rule& rule, const tensor_view<const T, 2>& weight, T* mean, T* size, T* uneven) const {
    const index_t in = weight.extent(1), out = weight.extent(0);
    vec found{};
    in_packs<T>(out, [&](const auto& get, const auto& put) {
      const vec zero{}, one = broadcast<vec>(T(1)), r = get(relevance), all = get(size), least = all / T(32),
                        sum = bias == nullptr ? get(y) : get(y) - get(bias), plus = (all + sum) / T(2),
                        minus = (sum - all) / T(2);
      const vec doubtful = select_less(least, plus, select_less(least, -minus, zero, one), one),
                wanted = select_less(zero, r, doubtful, select_less(r, zero, doubtful, zero));
      put(mean, plus);
      put(size, minus);
      put(uneven, wanted);
      found += wanted;
    });
    const bool some = lane_total<T, lanes>(found) > T(0);
    for (index_t o = 0; some && o < out; ++o)
      if (uneven[o] > T(0)) sums_of(weight.data() + o * weight.stride(0), in, mean[o], size[o]);
    const relevance_terms lost = factor_row(rule, relevance, bias, mean, size, out);
    terms[0] += lost.bias;
    terms[1] += lost.eps;
    for (index_t o = 0; some && o < out; ++o) {
      if (uneven[o] == T(0)) continue;
      hand_on(weight.data() + o * weight.stride(0), in, mean[o], size[o]);
      mean[o] = size[o] = T(0);
    }
    in_packs<T>(out, [&](const auto& get, const auto& put) {
      const vec plus = get(mean), minus = get(size);
      put(mean, (plus + minus) / T(2));
      put(size, (plus - minus) / T(2));
    });
  }

  /// The contributions of one output, summed by sign.
  void sums_of(const T* w, index_t in, T& plus, T& minus) const {
    vec up{}, down{};
    each(w, x, in, [&](const auto&, const auto&, const vec& z) {
      const vec positive = select_less(vec{}, z, z, vec{});
      up += positive;
      down += z - positive;
    });
    plus = lane_total<T, lanes>(up);
    minus = lane_total<T, lanes>(down);
  }

  void hand_on(const T* w, index_t in, T plus, T minus) const {
    const vec above = broadcast<vec>(plus), below = broadcast<vec>(minus);
    each(w, x, in, [&](const auto& get, const auto& put, const vec& z) {
      put(to, get(to) + select_less(vec{}, z, above, below) * z);
    });
  }
};

/// By sign, without a bias to spread: three products.
template <class T, host_backend Backend, class Rule>
void product_linear_relevance(Backend& be, const tensor_view<const T, 2>& x, const tensor_view<const T, 2>& weight,
                              const T* bias, const tensor_view<const T, 2>& y, const Rule& rule,
                              const tensor_view<const T, 2>& relevance_out, const tensor_view<T, 2>& relevance_in,
                              double* terms, relevance_workspace<T>& workspace) {
  using vec = pack<T, native_lanes<T>>;
  const index_t in = x.extent(1), out = weight.extent(0);
  index_t* const active = workspace.rows(x.extent(0));
  index_t rows = 0;
  for (index_t r = 0; r < x.extent(0); ++r) {
    const T* const from = relevance_out.data() + r * relevance_out.stride(0);
    std::fill_n(relevance_in.data() + r * relevance_in.stride(0), in, T(0));
    if (std::any_of(from, from + out, [](T v) { return v != T(0); })) active[rows++] = r;
  }
  T* at = workspace.values(out * in + 2 * rows * (in + out));
  const auto take = [&at](index_t n, index_t m) {
    const tensor_view<T, 2> view(at, {n, m});
    at += n * m;
    return view;
  };
  const auto size_of_weight = take(out, in), size_of_x = take(rows, in), product = take(rows, in),
             mean = take(rows, out), size = take(rows, out);
  const auto absolute = [](const vec& a) { return select_less(a, vec{}, -a, a); };
  map_rows<T>(be, size_of_weight, absolute, weight);
  for_row_blocks(be, rows, in, [&](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r)
      map_row(in, size_of_x.data() + r * in, absolute, x.data() + active[r] * x.stride(0));
  });
  const auto multiply = [&](tensor_view<const T, 2> a, tensor_view<const T, 2> b, const tensor_view<T, 2>& to) {
    be.gemm(T(1), batch_of_one(a), batch_of_one(b), T(0), batch_of_one(to));
  };
  multiply(size_of_x, tensor_view<const T, 2>(size_of_weight).transposed(), size);
  task_runner<Backend> runner(be);
  workspace.reserve(runner.workers(), out);
  runner.run_rows(rows, [&](index_t n, int worker) {
    const index_t r = active[n];
    const unbiased_row<T> row{x.data() + r * x.stride(0),
                              relevance_out.data() + r * relevance_out.stride(0),
                              y.data() + r * y.stride(0),
                              bias,
                              relevance_in.data() + r * relevance_in.stride(0),
                              terms + 3 * r};
    row.factors(rule, weight, mean.data() + n * out, size.data() + n * out, workspace.scratch(worker));
  });
  const auto add_times = [&](const auto& row_of_x) {
    for_row_blocks(be, rows, in, [&](index_t begin, index_t end) {
      for (index_t r = begin; r < end; ++r) {
        T* const to = relevance_in.data() + active[r] * relevance_in.stride(0);
        map_row(
            in, to, [](const vec& a, const vec& b, const vec& c) { return a + b * c; }, static_cast<const T*>(to),
            static_cast<const T*>(product.data() + r * in), row_of_x(r));
      }
    });
  };
  multiply(size, size_of_weight, product);
  add_times([&](index_t r) { return static_cast<const T*>(size_of_x.data() + r * in); });
  multiply(mean, weight, product);
  add_times([&](index_t r) { return x.data() + active[r] * x.stride(0); });
}

}  // namespace headred::detail
