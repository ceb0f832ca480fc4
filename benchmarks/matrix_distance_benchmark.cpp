// Procrustes and canonical correlation over all pairs of heads: headred beside a loop for the product with a Jacobi SVD, and
// beside Eigen's product with its divide-and-conquer SVD. The latter two are timed on a few pairs: compare pairs/s.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 warns of its own AVX-512 intrinsics within Eigen
#endif
#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <Eigen/SVD>

#include <headred/backend/cpu.hpp>
#include <headred/distance.hpp>

#include "benchmark_support.hpp"

namespace hr = headred;
using namespace headred_benchmark;

namespace {

template <class Real>
using dense = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class Real>
dense<Real> prepared(const hr::procrustes&, const Real* map, index_t t) {
  dense<Real> x = Eigen::Map<const dense<Real>>(map, t, t);
  x.rowwise() -= x.colwise().mean().eval();
  return x / x.norm();
}
template <class Real>
dense<Real> prepared(const hr::canonical_correlation& distance, const Real* map, index_t t) {
  const dense<Real> x = prepared(hr::procrustes{}, map, t);
  dense<Real> c = x.transpose() * x / static_cast<Real>(t);
  c.diagonal().array() += static_cast<Real>(distance.lambda) * c.trace() / static_cast<Real>(t);
  const Eigen::SelfAdjointEigenSolver<dense<Real>> eigen(c);
  const dense<Real> w = x * eigen.operatorInverseSqrt();
  return w / w.norm();
}

template <class Real, class Distance>
void add_ours(const Distance& distance, const asked_shape& shape) {
  const auto [heads, tokens, sentences, threads, in_double] = shape;
  add(std::string(Distance::name) + "/cpu/" + precision_name<Real> + "/" + shape_name(heads, tokens, threads),
      [=](benchmark::State& state) {
        const maps<Real> input(heads, tokens);
        hr::cpu be{{.threads = threads}};
        hr::redundancy<Distance, hr::cpu> red{be, {1, heads}, distance};
        for (auto _ : state) red.add(input.view());
        count_pairs(state, input.pairs());
        const double n = double(tokens);  // a product and a bidiagonalisation: n^3 and 4/3 n^3 multiply-adds
        count_share(state, "of FMA", double(input.pairs()) * n * n * n * 7 / 3, threads * multiply_add_limit<Real>());
      });
}

template <class Real, class Distance>
void add_all(const Distance& distance) {
  const std::string name(Distance::name);
  for (const index_t tokens : {16, 32, 64, 128, 512}) {
    const index_t heads = tokens > 128 ? 8 : tokens > 64 ? 48 : 144;
    for (const int threads : {1, 2}) add_ours<Real>(distance, {.heads = heads, .tokens = tokens, .threads = threads});
    const index_t sample = tokens > 128 ? 1 : tokens > 64 ? 4 : 20;
    add(name + "/naive/" + precision_name<Real> + "/" + shape_name(sample + 1, tokens, 1),
        [=](benchmark::State& state) {
          const maps<Real> input(sample + 1, tokens);
          std::vector<dense<Real>> heads_;
          for (index_t h = 0; h <= sample; ++h) heads_.push_back(prepared(distance, input.row(h, 0), tokens));
          for (auto _ : state)
            for (std::size_t h = 1; h < heads_.size(); ++h) {
              dense<Real> c = dense<Real>::Zero(tokens, tokens);
              for (index_t i = 0; i < tokens; ++i)
                for (index_t j = 0; j < tokens; ++j)
                  for (index_t t = 0; t < tokens; ++t) c(i, j) += heads_[0](t, i) * heads_[h](t, j);
              Real d = 1 - Eigen::JacobiSVD<dense<Real>>(c).singularValues().sum();
              benchmark::DoNotOptimize(d);
            }
          count_pairs(state, sample);
        });
    // without the heads' preparation, which is once a head: in favour of Eigen
    add(name + "/eigen/" + precision_name<Real> + "/" + shape_name(sample + 1, tokens, 1),
        [=](benchmark::State& state) {
          const maps<Real> input(sample + 1, tokens);
          std::vector<dense<Real>> heads_;
          for (index_t h = 0; h <= sample; ++h) heads_.push_back(prepared(distance, input.row(h, 0), tokens));
          for (auto _ : state)
            for (std::size_t h = 1; h < heads_.size(); ++h) {
              const dense<Real> c = heads_[0].transpose() * heads_[h];
              Real d = 1 - Eigen::BDCSVD<dense<Real>>(c).singularValues().sum();
              benchmark::DoNotOptimize(d);
            }
          count_pairs(state, sample);
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
      hr::procrustes{}, hr::canonical_correlation{});
}
