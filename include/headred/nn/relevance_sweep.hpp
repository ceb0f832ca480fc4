// relevance_sweep: what every op's relevance on a tape shares: its rule, rescaling, accumulation, the ledger.
#pragma once

#include <array>
#include <cmath>
#include <string>

#include <headred/nn/op/row_loops.hpp>
#include <headred/nn/tape.hpp>

namespace headred {

namespace detail {

/// Sums of R and |R| of every row, added to sums (rows, 2).
template <class T, host_backend Backend>
void add_relevance_sums(Backend& be, const tensor_view<const T, 2>& r, double* sums) {
  for_row_blocks(be, r.extent(0), r.extent(1), [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) {
      const T* const row = r.data() + i * r.stride(0);
      constexpr index_t lanes = native_lanes<double>, at_once = 4;
      using vec = pack<double, lanes>;
      vec sum[at_once] = {}, size[at_once] = {};
      index_t c = 0;
      for (; c + at_once * lanes <= r.extent(1); c += at_once * lanes)
        for (index_t k = 0; k < at_once; ++k) {
          const vec x = load_converted<vec>(row + c + k * lanes);
          sum[k] += x;
          size[k] += select_less(x, vec{}, -x, x);
        }
      double plain = lane_total<double, lanes>((sum[0] + sum[1]) + (sum[2] + sum[3])),
             absolute = lane_total<double, lanes>((size[0] + size[1]) + (size[2] + size[3]));
      for (; c < r.extent(1); ++c) {
        plain += static_cast<double>(row[c]);
        absolute += std::abs(static_cast<double>(row[c]));
      }
      sums[2 * i] += plain;
      sums[2 * i + 1] += absolute;
    }
  });
}

}  // namespace detail

/// One way back over a tape. Ops call `pass`.
template <class T, backend Backend>
class relevance_sweep {
 public:
  using view_type = tensor_view<T, 2>;
  using const_view_type = tensor_view<const T, 2>;

  /// An input of an op: an activation, or some of its columns.
  struct input {
    slot source;
    index_t first = 0;
    index_t cols = -1;  ///< -1: all
  };

  relevance_sweep(tape<T, Backend>& t, const relevance_rules<T>& rules, relevance_ledger* ledger,
                  relevance_workspace<T>& workspace)
      : tape_(t), rules_(rules), ledger_(ledger), workspace_(workspace) {}

  const relevance_rules<T>& rules() const noexcept { return rules_; }
  relevance_workspace<T>& workspace() noexcept { return workspace_; }

  /// Runs f(rule, raw) -> relevance_terms, which writes to each of `raw` what the op hands to that input; then rescales
  /// it as the rule says, adds it to the inputs' relevance, and writes the ledger's entry.
  template <std::size_t N, class F>
  void pass(relevance_op op, const relevance_rule& rule, slot y, const std::array<input, N>& inputs, const F& f) {
    static_assert(N >= 1 && N <= 3);
    tape<T, Backend>& t = tape_;
    const const_view_type out = t.relevance(y);
    std::array<view_type, N> raw, to;
    std::array<bool, N> in_place{};
    for (std::size_t n = 0; n < N; ++n) {
      const input& x = inputs[n];
      if (x.cols < 0 || (x.first == 0 && x.cols == t.cols(x.source))) {
        bool fresh = false;
        to[n] = t.relevance_to_write(x.source, fresh);
        in_place[n] = fresh;
      } else {
        to[n] = t.relevance(x.source).narrow(1, x.first, x.cols);
      }
      const index_t rows = to[n].extent(0), cols = to[n].extent(1);
      raw[n] = in_place[n] ? to[n] : view_type(workspace_.input(n, rows * cols), {rows, cols});
    }
    ledger_entry e;
    e.op = op;
    e.output = y.number;
    e.lost = f(rule, raw);
    const bool factors = rule.rescale;
    if (ledger_ != nullptr || factors) account<N>(rule, y, inputs, out, raw, e);
    T* factor = workspace_.factors(0);
    for (std::size_t n = 0; n < N; ++n) {
      finish(raw[n], to[n], in_place[n], factors ? factor : nullptr);
      factor += raw[n].extent(0);
    }
    if (ledger_ != nullptr) ledger_->entries.push_back(e);
  }

 private:
  /// The rows of sample b of an activation; all rows where samples do not count.
  sequence rows_of_sample(slot s, std::size_t b, std::size_t count) const {
    const auto samples = tape_.samples(s);
    if (count <= 1 && samples.size() != 1) return {0, tape_.rows(s)};
    return samples[b];
  }

  template <std::size_t N>
  void account(const relevance_rule& rule, slot y, const std::array<input, N>& inputs, const const_view_type& out,
               const std::array<view_type, N>& raw, ledger_entry& e) {
    index_t rows = out.extent(0);
    for (const view_type& r : raw) rows += r.extent(0);
    double* const sums = workspace_.sums(2 * rows);
    std::fill_n(sums, 2 * rows, 0.0);
    T* const factors = workspace_.factors(rows - out.extent(0));
    detail::add_relevance_sums<T>(tape_.backend(), out, sums);
    double* at = sums + 2 * out.extent(0);
    for (const view_type& r : raw) {
      detail::add_relevance_sums<T>(tape_.backend(), r, at);
      at += 2 * r.extent(0);
    }
    for (index_t i = 0; i < out.extent(0); ++i) {
      e.out += sums[2 * i];
      e.absolute_out += sums[2 * i + 1];
    }
    std::fill_n(factors, rows - out.extent(0), T(1));
    if (rule.rescale) choose_factors<N>(rule, y, inputs, raw, sums, factors);
    at = sums + 2 * out.extent(0);
    for (index_t i = 0; i < rows - out.extent(0); ++i) {
      const double factor = static_cast<double>(factors[i]);
      e.in += factor * at[2 * i];
      e.absolute_in += std::abs(factor) * at[2 * i + 1];
      e.rescale += (1 - factor) * at[2 * i];
    }
  }

  /// factor = sum|R_out| / (sum|R_in| + eps) of each sample, for every row of every input.
  template <std::size_t N>
  void choose_factors(const relevance_rule& rule, slot y, const std::array<input, N>& inputs,
                      const std::array<view_type, N>& raw, const double* sums, T* factors) {
    std::size_t count = tape_.samples(y).size();
    for (const input& x : inputs)
      if (tape_.samples(x.source).size() != count) count = 1;
    const auto size_of = [](const double* from, const sequence& s) {
      double size = 0;
      for (index_t i = s.begin; i < s.begin + s.length; ++i) size += from[2 * i + 1];
      return size;
    };
    for (std::size_t b = 0; b < std::max<std::size_t>(1, count); ++b) {
      const double out = size_of(sums, rows_of_sample(y, b, count));
      double in = 0;
      index_t first = tape_.rows(y);
      for (std::size_t n = 0; n < N; ++n) {
        in += size_of(sums + 2 * first, rows_of_sample(inputs[n].source, b, count));
        first += raw[n].extent(0);
      }
      // what handed on nothing, by a rule without a stabiliser, or next to nothing, has nothing to rescale
      const double whole = in + rule.epsilon, ratio = out / whole;
      const T factor = static_cast<T>(std::abs(ratio) < 1e30 ? ratio : 1);
      first = 0;
      for (std::size_t n = 0; n < N; ++n) {
        const sequence s = rows_of_sample(inputs[n].source, b, count);
        std::fill_n(factors + first + s.begin, s.length, factor);
        first += raw[n].extent(0);
      }
    }
  }

  void finish(const view_type& raw, const view_type& to, bool in_place, const T* factors) {
    if (in_place && factors == nullptr) return;
    detail::for_row_blocks(tape_.backend(), raw.extent(0), raw.extent(1), [&](index_t begin, index_t end) {
      using vec = detail::pack<T, native_lanes<T>>;
      for (index_t r = begin; r < end; ++r) {
        const T factor = factors == nullptr ? T(1) : factors[r];
        T* const row = to.data() + r * to.stride(0);
        const T* const from = raw.data() + r * raw.stride(0);
        if (in_place)
          detail::map_row(
              raw.extent(1), row, [factor](const vec& a) { return a * factor; }, from);
        else
          detail::map_row(
              raw.extent(1), row, [factor](const vec& a, const vec& b) { return a + b * factor; },
              static_cast<const T*>(row), from);
      }
    });
  }

  tape<T, Backend>& tape_;
  const relevance_rules<T>& rules_;
  relevance_ledger* ledger_;
  relevance_workspace<T>& workspace_;
};

namespace detail {

/// Ops whose inputs get the relevance of their outputs as it is.
template <class T, host_backend Backend>
void pass_relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s, relevance_op op, slot x, slot y) {
  if (!t.has_relevance(y)) return;
  const tensor_view<const T, 2> out = t.relevance(y);
  s.pass(op, relevance_rule::identity(), y, std::array<typename relevance_sweep<T, Backend>::input, 1>{{{x}}},
         [&](const relevance_rule&, const auto& raw) {
           if (const auto* own = s.rules().own(op))
             return (*own)({op, t.input(x), t.input(y), {}, {}, {}, out, raw[0]});
           map_rows<T>(
               t.backend(), raw[0], [](const auto& r) { return r; }, out);
           return relevance_terms{};
         });
}

/// The sum of terms (n, 3), in order.
inline relevance_terms total_of(const double* terms, index_t n) {
  relevance_terms sum;
  for (index_t i = 0; i < n; ++i) {
    sum.bias += terms[3 * i];
    sum.eps += terms[3 * i + 1];
    sum.nonlinear += terms[3 * i + 2];
  }
  return sum;
}

[[noreturn]] inline void refuse_rule(relevance_op op, rule_kind kind) {
  constexpr const char* names[] = {"alpha_beta", "epsilon", "z_plus", "attn", "identity"};
  throw argument_error(std::string(to_string(op)) + ": cannot follow the rule " +
                       names[static_cast<std::size_t>(kind)]);
}

}  // namespace detail
}  // namespace headred
