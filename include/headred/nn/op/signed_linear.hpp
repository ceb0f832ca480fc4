// The contributions w_oi x_i + bias_o / I of a linear by their signs, tile by tile.
#pragma once

#include <algorithm>
#include <array>

#include <headred/backend/cpu_gemm.hpp>
#include <headred/lrp/factor_row.hpp>
#include <headred/nn/op/row_loops.hpp>

namespace headred::detail {

/// Weights in panels of two packs, once with the outputs side by side (for sums over inputs), once with the inputs (for
/// sums over outputs), and what every contribution to an output gets of its bias.
template <class T>
struct signed_panels {
  static constexpr int lanes = native_lanes<T>, width = 2 * lanes;

  index_t in, out;
  T* memory;

  static index_t count(index_t n) { return (n + width - 1) / width; }
  static index_t elements(index_t in, index_t out) { return count(out) * width * (in + 1) + count(in) * width * out; }
  T* by_output(index_t panel) const { return memory + panel * width * in; }
  T* by_input(index_t panel) const { return memory + count(out) * width * in + panel * width * out; }
  T* shares() const { return memory + count(out) * width * in + count(in) * width * out; }

  /// Fills panel number n of count(out) + count(in).
  void fill(index_t n, const tensor_view<const T, 2>& weight, const T* bias) const {
    const index_t row = weight.stride(0), first = n < count(out) ? n * width : (n - count(out)) * width;
    if (n >= count(out)) {
      pack_panel<T>({weight.data() + first, 1, row}, in - first, out, width, T(1), by_input(n - count(out)));
      return;
    }
    pack_panel<T>({weight.data() + first * row, row, 1}, out - first, in, width, T(1), by_output(n));
    for (index_t o = first; o < first + width; ++o) shares()[o] = o < out ? bias[o] / static_cast<T>(in) : T(0);
  }
};

/// Rows of x, of the outputs' values and relevance, and of what x receives.
template <class T, int Rows>
struct signed_rows {
  std::array<const T*, Rows> x, y, relevance;
  std::array<T*, Rows> to;
  std::array<double*, Rows> terms;
};

/// Rows that go through the panels together. Sums, factors and contributions stay in registers: a contribution costs
/// fma, compare, add on the way to its sum and fma, compare, select, fma on the way back.
template <class T>
class signed_linear {
  static constexpr int lanes = native_lanes<T>, width = 2 * lanes;
  using vec = pack<T, lanes>;

 public:
  static constexpr int at_once = native_vector_bytes == 64 ? 8 : 4;
  static index_t scratch(index_t out) { return 2 * at_once * signed_panels<T>::count(out) * width; }

  template <int Rows, class Rule>
  static void run(const signed_panels<T>& w, const Rule& rule, const signed_rows<T, Rows>& rows, T* factors) {
    for (index_t p = 0; p < w.count(w.out); ++p) {
      T* const some = factors + p * 2 * Rows * width;
      positive_sums<Rows>(rows, w.by_output(p), w.in, w.shares() + p * width, some);
      choose_factors<Rows>(w, rule, rows, p, some);
    }
    for (index_t p = 0; p < w.count(w.in); ++p) contract<Rows>(w, rows, p, factors);
  }

 private:
  template <int Rows>
  static void positive_sums(const signed_rows<T, Rows>& rows, const T* panel, index_t in, const T* share, T* plus) {
    vec sum[Rows][2] = {};
    const vec b0 = load<vec>(share), b1 = load<vec>(share + lanes), zero{};
    for (index_t i = 0; i < in; ++i) {
      const vec w0 = load<vec>(panel + i * width), w1 = load<vec>(panel + i * width + lanes);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 8
#endif
      for (int r = 0; r < Rows; ++r) {
        const vec x = broadcast<vec>(rows.x[static_cast<std::size_t>(r)][i]), z0 = w0 * x + b0, z1 = w1 * x + b1;
        sum[r][0] = select_less(zero, z0, sum[r][0] + z0, sum[r][0]);
        sum[r][1] = select_less(zero, z1, sum[r][1] + z1, sum[r][1]);
      }
    }
    for (int r = 0; r < Rows; ++r)
      for (int k = 0; k < 2; ++k) store(plus + 2 * r * width + k * lanes, sum[r][k]);
  }

  /// The negative contributions to an output, summed for themselves.
  static T negative_sum(const signed_panels<T>& w, const T* x, index_t o) {
    const T* const column = w.by_output(o / width) + o % width;
    T sum = T(0);
    for (index_t i = 0; i < w.in; ++i) sum += std::min(T(0), w.shares()[o] + column[i * width] * x[i]);
    return sum;
  }

  /// factors (panels, Rows, 2, width): of positive contributions, then of negative ones. Both sums add up to the output's
  /// value, so that one pass gives both; where their difference would cost digits the negative ones are summed.
  template <int Rows, class Rule>
  static void choose_factors(const signed_panels<T>& w, const Rule& rule, const signed_rows<T, Rows>& rows,
                             index_t panel, T* factors) {
    const index_t first = panel * width, n = std::min<index_t>(width, w.out - first);
    for (std::size_t r = 0; r < Rows; ++r, factors += 2 * width) {
      T *const plus = factors, *const minus = factors + width;
      const T* const relevance = rows.relevance[r] + first;
      map_row(
          n, minus, [](const vec& y, const vec& up) { return y - up; }, rows.y[r] + first, static_cast<const T*>(plus));
      for (index_t o = 0; o < n; ++o)
        if (relevance[o] != T(0) && !(minus[o] < T(-.0625) * plus[o])) minus[o] = negative_sum(w, rows.x[r], first + o);
      rows.terms[r][1] += factor_row<T>(rule, relevance, nullptr, plus, minus, n).eps;
    }
  }

  template <int Rows>
  static void contract(const signed_panels<T>& w, const signed_rows<T, Rows>& rows, index_t panel, const T* factors) {
    const index_t first = panel * width, n = std::min<index_t>(width, w.in - first);
    alignas(64) T x[Rows * width] = {};
    for (int r = 0; r < Rows; ++r) std::copy_n(rows.x[static_cast<std::size_t>(r)] + first, n, x + r * width);
    vec sum[Rows][2] = {};
    const vec zero{};
    const T *column = w.by_input(panel), *shares = w.shares();
    for (index_t o = 0; o < w.out; ++o, column += width, ++factors) {
      if (o > 0 && o % width == 0) factors += (2 * Rows - 1) * width;
      const vec w0 = load<vec>(column), w1 = load<vec>(column + lanes), b = broadcast<vec>(shares[o]);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 8
#endif
      for (int r = 0; r < Rows; ++r) {
        const vec z0 = w0 * load<vec>(x + r * width) + b, z1 = w1 * load<vec>(x + r * width + lanes) + b;
        const vec plus = broadcast<vec>(factors[2 * r * width]), minus = broadcast<vec>(factors[(2 * r + 1) * width]);
        sum[r][0] += select_less(zero, z0, plus, minus) * z0;
        sum[r][1] += select_less(zero, z1, plus, minus) * z1;
      }
    }
    for (int r = 0; r < Rows; ++r) {
      if (n == width) {
        for (int k = 0; k < 2; ++k) store(rows.to[static_cast<std::size_t>(r)] + first + k * lanes, sum[r][k]);
        continue;
      }
      for (int k = 0; k < 2; ++k) store(x + r * width + k * lanes, sum[r][k]);
      std::copy_n(x + r * width, n, rows.to[static_cast<std::size_t>(r)] + first);
    }
  }
};

}  // namespace headred::detail
