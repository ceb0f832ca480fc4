// Multi-head attention and its gradient, written the slow and obvious way in long double.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

#include <headred/nn/sequence.hpp>

namespace headred_test::oracle {

using headred::index_t;
using headred::sequence;

/// A dense array of up to three axes.
struct array {
  index_t n0 = 0, n1 = 0, n2 = 1;
  std::vector<long double> values;

  array() = default;
  array(index_t a, index_t b, index_t c = 1) : n0(a), n1(b), n2(c), values(static_cast<std::size_t>(a * b * c), 0.0L) {}
  long double& operator()(index_t i, index_t j, index_t k = 0) {
    return values.at(static_cast<std::size_t>((i * n1 + j) * n2 + k));
  }
  long double operator()(index_t i, index_t j, index_t k = 0) const {
    return values.at(static_cast<std::size_t>((i * n1 + j) * n2 + k));
  }
  bool given() const { return !values.empty(); }
};

struct attention_problem {
  index_t heads = 1, kv_heads = 1, head_size = 1;
  bool causal = false;
  long double scale = 1, penalty = 10000;
  std::vector<sequence> queries, keys;
  array q, k, v;                                 // (rows, heads * head_size)
  array bias, mask;                              // (heads, T, S), or nothing
  std::vector<long double> gates;                // (heads), or nothing
  std::function<long double(index_t)> survival;  // factor of the probability at this place of the storage, or nothing
};

struct attention_values {
  array out, context;
  std::vector<long double> probabilities;  // (heads, T, S) of one sentence after the other
};

struct attention_gradients {
  array q, k, v, bias, mask;
  std::vector<long double> gates, probabilities;
};

/// Where a query stands among the keys: queries are the last of them when attention is causal.
inline index_t position(const attention_problem& p, index_t i, index_t queries, index_t keys) {
  return p.causal ? i + keys - queries : i;
}

inline attention_values attend(const attention_problem& p) {
  attention_values r;
  const index_t size = p.head_size;
  r.out = array(p.q.n0, p.q.n1);
  r.context = r.out;
  for (std::size_t b = 0; b < p.queries.size(); ++b) {
    const index_t rows = p.queries[b].length, cols = p.keys[b].length;
    for (index_t h = 0; h < p.heads; ++h) {
      const index_t g = h / (p.heads / p.kv_heads);
      for (index_t i = 0; i < rows; ++i) {
        const index_t at = position(p, i, rows, cols), row = p.queries[b].begin + i;
        std::vector<long double> score(static_cast<std::size_t>(cols)), a(score.size());
        std::vector<bool> seen(score.size());
        long double greatest = 0;
        bool any = false;
        for (index_t j = 0; j < cols; ++j) {
          const auto n = static_cast<std::size_t>(j);
          if (p.causal && j > at) continue;
          if (p.mask.given() && p.mask(h, at, j) == 0) continue;
          for (index_t c = 0; c < size; ++c)
            score[n] += p.q(row, h * size + c) * p.k(p.keys[b].begin + j, g * size + c);
          score[n] *= p.scale;
          if (p.bias.given()) score[n] += p.bias(h, at, j);
          if (p.mask.given()) score[n] -= (1 - p.mask(h, at, j)) * p.penalty;
          seen[n] = true;
          if (!any || score[n] > greatest) greatest = score[n];
          any = true;
        }
        long double sum = 0;
        for (std::size_t n = 0; n < score.size(); ++n)
          if (seen[n]) sum += a[n] = std::exp(score[n] - greatest);
        for (std::size_t n = 0; n < score.size(); ++n) {
          if (seen[n]) a[n] /= sum;
          const long double survival = p.survival ? p.survival(static_cast<index_t>(r.probabilities.size())) : 1;
          r.probabilities.push_back(a[n]);
          for (index_t c = 0; c < size; ++c)
            r.context(row, h * size + c) +=
                a[n] * survival * p.v(p.keys[b].begin + static_cast<index_t>(n), g * size + c);
        }
        for (index_t c = 0; c < size; ++c)
          r.out(row, h * size + c) =
              r.context(row, h * size + c) * (p.gates.empty() ? 1 : p.gates[static_cast<std::size_t>(h)]);
      }
    }
  }
  return r;
}

inline attention_gradients attend_back(const attention_problem& p, const array& dout) {
  const attention_values r = attend(p);
  attention_gradients d;
  const index_t size = p.head_size;
  d.q = array(p.q.n0, p.q.n1);
  d.k = d.v = array(p.k.n0, p.k.n1);
  d.bias = array(p.bias.n0, p.bias.n1, p.bias.n2);
  d.mask = array(p.mask.n0, p.mask.n1, p.mask.n2);
  d.gates.resize(static_cast<std::size_t>(p.heads));
  d.probabilities.resize(r.probabilities.size());
  index_t offset = 0;
  for (std::size_t b = 0; b < p.queries.size(); ++b) {
    const index_t rows = p.queries[b].length, cols = p.keys[b].length;
    for (index_t h = 0; h < p.heads; ++h) {
      const index_t g = h / (p.heads / p.kv_heads);
      const long double gate = p.gates.empty() ? 1 : p.gates[static_cast<std::size_t>(h)];
      for (index_t i = 0; i < rows; ++i, offset += cols) {
        const index_t at = position(p, i, rows, cols), row = p.queries[b].begin + i;
        for (index_t c = h * size; c < (h + 1) * size; ++c)
          d.gates[static_cast<std::size_t>(h)] += dout(row, c) * r.context(row, c);
        long double mean = 0;
        for (index_t j = 0; j < cols; ++j) {
          const auto n = static_cast<std::size_t>(offset + j);
          const long double survival = p.survival ? p.survival(offset + j) : 1;
          for (index_t c = 0; c < size; ++c) {
            const long double dcontext = gate * dout(row, h * size + c);
            d.probabilities[n] += survival * dcontext * p.v(p.keys[b].begin + j, g * size + c);
            d.v(p.keys[b].begin + j, g * size + c) += r.probabilities[n] * survival * dcontext;
          }
          mean += r.probabilities[n] * d.probabilities[n];
        }
        for (index_t j = 0; j < cols; ++j) {
          const auto n = static_cast<std::size_t>(offset + j);
          const long double dscore = r.probabilities[n] * (d.probabilities[n] - mean);
          if (dscore == 0) continue;
          if (p.bias.given()) d.bias(h, at, j) += dscore;
          if (p.mask.given()) d.mask(h, at, j) += dscore * p.penalty;
          for (index_t c = 0; c < size; ++c) {
            d.q(row, h * size + c) += p.scale * dscore * p.k(p.keys[b].begin + j, g * size + c);
            d.k(p.keys[b].begin + j, g * size + c) += p.scale * dscore * p.q(row, h * size + c);
          }
        }
      }
    }
  }
  return d;
}

}  // namespace headred_test::oracle
