// Relevance by the definition: all contributions in one explicit matrix, long double.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

#include <headred/lrp/relevance_rule.hpp>

namespace oracle {

using real = long double;
using reals = std::vector<real>;

/// R_i = sum_o R_o T_oi for contributions z (outputs, inputs).
inline reals contract(const std::vector<reals>& z, const reals& relevance, const headred::relevance_rule& rule) {
  const real eps = rule.epsilon, alpha = rule.kind == headred::rule_kind::z_plus ? 1 : rule.alpha,
             beta = rule.kind == headred::rule_kind::z_plus ? 0 : rule.beta;
  const bool sums = rule.kind == headred::rule_kind::epsilon || rule.kind == headred::rule_kind::attn;
  reals in(z.empty() ? 0 : z[0].size());
  for (std::size_t o = 0; o < z.size(); ++o) {
    real plus = 0, minus = 0;
    for (const real c : z[o]) (c > 0 ? plus : minus) += c;
    const real sum = plus + minus;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const real c = z[o][i];
      in[i] += relevance[o] * (sums    ? c / (sum + (sum < 0 ? -eps : eps))
                               : c > 0 ? alpha * c / (plus + eps)
                                       : beta * c / (minus - eps));
    }
  }
  return in;
}

/// f(0) / N + J_oi x_i with J from four-point differences of f.
inline std::vector<reals> contributions(const std::function<reals(const reals&)>& f, const reals& x,
                                        const reals& at_0) {
  const real h = 1e-4L;
  std::vector<reals> z(f(x).size(), reals(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto moved = [&](real by) {
      reals y = x;
      y[i] += by;
      return f(y);
    };
    const reals a = moved(-2 * h), b = moved(-h), c = moved(h), d = moved(2 * h);
    for (std::size_t o = 0; o < z.size(); ++o)
      z[o][i] = at_0[o] / static_cast<real>(x.size()) + x[i] * (a[o] - 8 * b[o] + 8 * c[o] - d[o]) / (12 * h);
  }
  return z;
}

/// One sentence: x = q (T, heads K), then k and v (S, groups K); keys j <= i + S - T where causal; mask (T, S), 0 where
/// a query does not look; extra (T, S) is added to the scores, unless it is empty.
struct attention_case {
  std::size_t heads, groups, size, queries, keys;
  bool causal;
  reals mask;
  reals extra = {};

  std::size_t q(std::size_t i, std::size_t h, std::size_t d) const { return (i * heads + h) * size + d; }
  std::size_t k(std::size_t j, std::size_t h, std::size_t d) const {
    return queries * heads * size + (j * groups + h / (heads / groups)) * size + d;
  }
  std::size_t v(std::size_t j, std::size_t h, std::size_t d) const { return k(j, h, d) + keys * groups * size; }
  bool sees(std::size_t i, std::size_t j) const {
    return (!causal || j + queries <= i + keys) && (mask.empty() || mask[i * keys + j] > 0);
  }
  real score(const reals& x, std::size_t i, std::size_t j, std::size_t h) const {
    real s = 0;
    for (std::size_t d = 0; d < size; ++d) s += x[q(i, h, d)] * x[k(j, h, d)];
    return s / std::sqrt(static_cast<real>(size)) + (extra.empty() ? 0 : extra[i * keys + j]);
  }
  reals probabilities(const reals& x, std::size_t i, std::size_t h) const {
    reals p(keys);
    real total = 0;
    for (std::size_t j = 0; j < keys; ++j)
      if (sees(i, j)) total += p[j] = std::exp(score(x, i, j, h));
    for (real& e : p) e = total > 0 ? e / total : 0;
    return p;
  }
  reals operator()(const reals& x) const {
    reals y(queries * heads * size);
    for (std::size_t i = 0; i < queries; ++i)
      for (std::size_t h = 0; h < heads; ++h) {
        const reals p = probabilities(x, i, h);
        for (std::size_t j = 0; j < keys; ++j)
          for (std::size_t d = 0; d < size; ++d) y[q(i, h, d)] += p[j] * x[v(j, h, d)];
      }
    return y;
  }
  /// AttnLRP: product, softmax, product, one after the other.
  reals attn(const reals& x, const reals& relevance, real eps) const {
    const auto stable = [eps](real s) { return s + (s < 0 ? -eps : eps); };
    reals in(x.size());
    const reals y = (*this)(x);
    for (std::size_t i = 0; i < queries; ++i)
      for (std::size_t h = 0; h < heads; ++h) {
        const reals p = probabilities(x, i, h);
        reals of_p(keys);
        real total = 0;
        for (std::size_t j = 0; j < keys; ++j)
          for (std::size_t d = 0; d < size; ++d) {
            const real r = relevance[q(i, h, d)] * p[j] * x[v(j, h, d)] / stable(y[q(i, h, d)]) / 2;
            in[v(j, h, d)] += r;
            of_p[j] += r;
            total += r;
          }
        for (std::size_t j = 0; j < keys; ++j) {
          if (!sees(i, j)) continue;
          const real s = score(x, i, j, h), r = s * (of_p[j] - p[j] * total) / stable(s) / 2;
          for (std::size_t d = 0; d < size; ++d) {
            const real z = r * x[q(i, h, d)] * x[k(j, h, d)] / std::sqrt(static_cast<real>(size));
            in[q(i, h, d)] += z;
            in[k(j, h, d)] += z;
          }
        }
      }
    return in;
  }
};

}  // namespace oracle
