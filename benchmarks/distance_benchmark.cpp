// The token-level distances and distance correlation over all pairs of heads: headred beside the naive loop and beside a
// sensible Eigen expression. `--benchmark_filter='jensen_shannon.*tokens:128'` picks.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 warns of its own AVX-512 intrinsics within Eigen
#endif
#include <Eigen/Core>

#include <headred/backend/cpu.hpp>
#include <headred/distance.hpp>

#include "benchmark_support.hpp"

namespace hr = headred;
using namespace headred_benchmark;

namespace {

template <class Real>
using dense = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// ---- naive: a loop over pairs, tokens and keys, with what belongs to one row computed before

template <class Real>
Real naive_pair(const hr::jensen_shannon&, const Real* p, const Real* q, index_t n) {
  Real sum = 0;
  for (index_t k = 0; k < n; ++k) {
    const Real m = (p[k] + q[k]) / 2;
    if (p[k] > 0) sum += p[k] * std::log2(p[k] / m) / 2;
    if (q[k] > 0) sum += q[k] * std::log2(q[k] / m) / 2;
  }
  return std::sqrt(std::max(sum, Real(0)));
}
template <class Real>
Real naive_pair(const hr::bhattacharyya&, const Real* p, const Real* q, index_t n) {
  Real sum = 0;
  for (index_t k = 0; k < n; ++k) sum += std::sqrt(p[k] * q[k]);
  return std::sqrt(std::max(1 - sum, Real(0)));
}
template <class Real>
Real naive_pair(const hr::cosine&, const Real* p, const Real* q, index_t n) {
  Real pp = 0, qq = 0, pq = 0;
  for (index_t k = 0; k < n; ++k) {
    pp += p[k] * p[k];
    qq += q[k] * q[k];
    pq += p[k] * q[k];
  }
  return 1 - pq / std::sqrt(pp * qq);
}
template <class Real>
Real naive_pair(const hr::pearson&, const Real* p, const Real* q, index_t n) {
  const Real mean = 1 / static_cast<Real>(n);
  Real pp = 0, qq = 0, pq = 0;
  for (index_t k = 0; k < n; ++k) {
    pp += (p[k] - mean) * (p[k] - mean);
    qq += (q[k] - mean) * (q[k] - mean);
    pq += (p[k] - mean) * (q[k] - mean);
  }
  return (1 - pq / std::sqrt(pp * qq)) / 2;
}
template <class Distance, class Real>
void naive(const Distance& distance, const maps<Real>& input, std::vector<double>& out) {
  for (index_t i = 0; i < input.heads; ++i)
    for (index_t j = i + 1; j < input.heads; ++j) {
      double sum = 0;
      for (index_t t = 0; t < input.tokens; ++t)
        sum += naive_pair(distance, input.row(i, t), input.row(j, t), input.tokens);
      out[static_cast<std::size_t>(i * input.heads + j)] = sum / double(input.tokens);
    }
}
template <class Real>
void naive(const hr::distance_correlation&, const maps<Real>& input, std::vector<double>& out) {
  const index_t t = input.tokens;
  std::vector<Real> centred(static_cast<std::size_t>(input.heads * t * t));
  std::vector<double> variance;
  for (index_t h = 0; h < input.heads; ++h) {
    Real* a = centred.data() + h * t * t;
    std::vector<Real> mean(static_cast<std::size_t>(t));
    Real whole = 0;
    for (index_t i = 0; i < t; ++i)
      for (index_t j = 0; j < t; ++j) {
        Real sum = 0;
        for (index_t k = 0; k < t; ++k)
          sum += (input.row(h, i)[k] - input.row(h, j)[k]) * (input.row(h, i)[k] - input.row(h, j)[k]);
        a[i * t + j] = std::sqrt(sum);
        mean[static_cast<std::size_t>(i)] += a[i * t + j] / static_cast<Real>(t);
        whole += a[i * t + j] / static_cast<Real>(t * t);
      }
    Real squares = 0;
    for (index_t i = 0; i < t; ++i)
      for (index_t j = 0; j < t; ++j) {
        a[i * t + j] += whole - mean[static_cast<std::size_t>(i)] - mean[static_cast<std::size_t>(j)];
        squares += a[i * t + j] * a[i * t + j];
      }
    variance.push_back(squares);
  }
  for (index_t i = 0; i < input.heads; ++i)
    for (index_t j = i + 1; j < input.heads; ++j) {
      Real sum = 0;
      for (index_t k = 0; k < t * t; ++k)
        sum += centred[static_cast<std::size_t>(i * t * t + k)] * centred[static_cast<std::size_t>(j * t * t + k)];
      out[static_cast<std::size_t>(i * input.heads + j)] =
          1 - std::sqrt(std::max(
                  0., sum / std::sqrt(variance[static_cast<std::size_t>(i)] * variance[static_cast<std::size_t>(j)])));
    }
}

// ---- Eigen: one matrix product a token; for Jensen-Shannon array expressions with tabulated entropies

template <class Real>
Eigen::Map<const dense<Real>, 0, Eigen::OuterStride<>> token_rows(const maps<Real>& input, index_t t) {
  return {input.row(0, t), input.heads, input.tokens, Eigen::OuterStride<>(input.tokens * input.tokens)};
}
template <class Real>
dense<Real> with_eigen(const hr::cosine&, const maps<Real>& input) {
  dense<Real> sum = dense<Real>::Zero(input.heads, input.heads);
  for (index_t t = 0; t < input.tokens; ++t) {
    const dense<Real> unit = token_rows(input, t).rowwise().normalized();
    sum.array() += 1 - (unit * unit.transpose()).array();
  }
  return sum / static_cast<Real>(input.tokens);
}
template <class Real>
dense<Real> with_eigen(const hr::pearson&, const maps<Real>& input) {
  dense<Real> sum = dense<Real>::Zero(input.heads, input.heads);
  for (index_t t = 0; t < input.tokens; ++t) {
    dense<Real> unit = token_rows(input, t);
    unit.colwise() -= unit.rowwise().mean().eval();
    unit.rowwise().normalize();
    sum.array() += (1 - (unit * unit.transpose()).array()) / 2;
  }
  return sum / static_cast<Real>(input.tokens);
}
template <class Real>
dense<Real> with_eigen(const hr::bhattacharyya&, const maps<Real>& input) {
  dense<Real> sum = dense<Real>::Zero(input.heads, input.heads);
  for (index_t t = 0; t < input.tokens; ++t) {
    const dense<Real> roots = token_rows(input, t).cwiseSqrt();
    sum.array() += (1 - (roots * roots.transpose()).array()).max(Real(0)).sqrt();
  }
  return sum / static_cast<Real>(input.tokens);
}
template <class Real>
dense<Real> with_eigen(const hr::jensen_shannon&, const maps<Real>& input) {
  dense<Real> sum = dense<Real>::Zero(input.heads, input.heads);
  const auto entropy = [](const auto& p) { return (p * (p + std::numeric_limits<Real>::min()).log()).sum(); };
  for (index_t t = 0; t < input.tokens; ++t) {
    const auto rows = token_rows(input, t).array();
    Eigen::Array<Real, Eigen::Dynamic, 1> table(input.heads);
    for (index_t i = 0; i < input.heads; ++i) table[i] = entropy(rows.row(i));
    Eigen::Array<Real, 1, Eigen::Dynamic> m(input.tokens);
    for (index_t i = 0; i < input.heads; ++i)
      for (index_t j = i + 1; j < input.heads; ++j) {
        m = (rows.row(i) + rows.row(j)) / 2;
        sum(i, j) += std::sqrt(std::max(Real(0), (table[i] + table[j]) / 2 - entropy(m)) / Real(0.693147180559945309));
      }
  }
  return sum / static_cast<Real>(input.tokens);
}
template <class Real>
dense<Real> with_eigen(const hr::distance_correlation&, const maps<Real>& input) {
  const index_t t = input.tokens;
  dense<Real> vectors(input.heads, t * t);
  for (index_t h = 0; h < input.heads; ++h) {
    const Eigen::Map<const dense<Real>> x(input.row(h, 0), t, t);
    const Eigen::Matrix<Real, Eigen::Dynamic, 1> squares = x.rowwise().squaredNorm();
    dense<Real> a = -2 * x * x.transpose();
    a.colwise() += squares;
    a.rowwise() += squares.transpose();
    a = a.cwiseMax(Real(0)).cwiseSqrt();
    const Eigen::Matrix<Real, Eigen::Dynamic, 1> mean = a.rowwise().mean();
    const Real whole = mean.mean();
    a.colwise() -= mean;
    a.rowwise() -= mean.transpose();
    a.array() += whole;
    vectors.row(h) = Eigen::Map<const Eigen::Matrix<Real, 1, Eigen::Dynamic>>(a.data(), t * t) / a.norm();
  }
  return 1 - (vectors * vectors.transpose()).array().max(Real(0)).sqrt();
}

template <class Real, class Distance>
void add_ours(const Distance& distance, const asked_shape& shape) {
  const auto [heads, tokens, sentences, threads, in_double] = shape;
  const std::string study = sentences > 0 ? "/sentences:" + std::to_string(sentences) : "";
  add(std::string(Distance::name) + "/cpu/" + precision_name<Real> + "/" + shape_name(heads, tokens, threads) + study,
      [=](benchmark::State& state) {
        const maps<Real> input(heads, tokens);
        hr::cpu be{{.threads = threads}};
        hr::redundancy<Distance, hr::cpu> red{be, {1, heads}, distance};
        for (auto _ : state) {
          if (sentences == 0) {
            red.add(input.view());
            continue;
          }
          hr::redundancy<Distance, hr::cpu> fresh{be, {1, heads}, distance};
          for (index_t s = 0; s < sentences; ++s) fresh.add(input.view());
          benchmark::DoNotOptimize(fresh.matrix().data());
        }
        const index_t added = std::max<index_t>(1, sentences);
        count_pairs(state, added * input.pairs());
        const double terms = double(added * input.pairs()) * double(tokens * tokens);
        if constexpr (std::is_same_v<Distance, hr::jensen_shannon>) {
          count_share(state, "of log2", terms, threads * log2_limit<Real>());
        } else {
          count_share(state, "of FMA", terms, threads * multiply_add_limit<Real>());
        }
        count_share(state, "of copy", double(added) * double(input.values.size() * sizeof(Real)), copy_limit());
      });
}

template <class Real, class Distance>
void add_all(const Distance& distance) {
  const std::string name(Distance::name);
  for (const index_t tokens : {16, 32, 64, 128, 512}) {
    const index_t heads = tokens > 128 ? 24 : 144;
    for (const int threads : {1, 2}) add_ours<Real>(distance, {.heads = heads, .tokens = tokens, .threads = threads});
    add(name + "/naive/" + precision_name<Real> + "/" + shape_name(heads, tokens, 1), [=](benchmark::State& state) {
      const maps<Real> input(heads, tokens);
      std::vector<double> out(static_cast<std::size_t>(heads * heads));
      for (auto _ : state) {
        naive(distance, input, out);
        benchmark::DoNotOptimize(out.data());
      }
      count_pairs(state, input.pairs());
    });
    add(name + "/eigen/" + precision_name<Real> + "/" + shape_name(heads, tokens, 1), [=](benchmark::State& state) {
      const maps<Real> input(heads, tokens);
      for (auto _ : state) {
        dense<Real> out = with_eigen(distance, input);
        benchmark::DoNotOptimize(out.data());
      }
      count_pairs(state, input.pairs());
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run_distances(
      argc, argv,
      [](const auto& distance, const asked_shape& shape) {
        shape.in_double ? add_ours<double>(distance, shape) : add_ours<float>(distance, shape);
      },
      [](const auto& distance) {
        add_all<float>(distance);
        add_all<double>(distance);
      },
      hr::cosine{}, hr::pearson{}, hr::jensen_shannon{}, hr::bhattacharyya{}, hr::distance_correlation{});
}
