// Clustering of heads: the eigendecomposition, labels for one k and for a sweep, silhouettes, order for display.
// Names: what/backend/type, then N (and k). A naive silhouette stands beside ours.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <limits>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/cluster/auto_clusters.hpp>
#include <headred/cluster/hierarchical_order.hpp>

namespace hr = headred;

namespace {

// 16 planted clusters with noise.
hr::matrix planted(hr::index_t n) {
  const hr::random_stream draws(1);
  hr::matrix d(n, n);
  for (hr::index_t i = 0; i < n; ++i)
    for (hr::index_t j = 0; j < i; ++j)
      d(i, j) = d(j, i) = (i % 16 == j % 16 ? .4 : .7) + .2 * draws.uniform(static_cast<std::uint64_t>(i * n + j));
  return d;
}

void embedding(benchmark::State& state) {
  hr::cpu be{{.threads = 1}};
  const auto d = planted(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(hr::spectral_embedding{be, d}.eigenvalues().back());
}

void labels(benchmark::State& state, hr::labelling method) {
  hr::cpu be{{.threads = 1}};
  const hr::spectral_embedding e{be, planted(state.range(0))};
  for (auto _ : state) benchmark::DoNotOptimize(e.clusters({.count = state.range(1), .method = method}).found);
}

void sweep(benchmark::State& state, hr::labelling method) {
  hr::cpu be{{.threads = static_cast<int>(state.range(1))}};
  const hr::spectral_embedding e{be, planted(state.range(0))};
  for (auto _ : state)
    benchmark::DoNotOptimize(hr::auto_clusters(be, e, {.min = 2, .max = state.range(0) / 2, .method = method}).k);
}

void silhouette(benchmark::State& state) {
  hr::cpu be{{.threads = 1}};
  const auto d = planted(state.range(0));
  const auto c = hr::spectral_clusters(be, d, {.count = 16});
  for (auto _ : state) benchmark::DoNotOptimize(hr::silhouette(be, d, c).mean);
  state.SetItemsProcessed(state.iterations() * d.rows() * d.rows());
}

void silhouette_naive(benchmark::State& state) {
  hr::cpu be{{.threads = 1}};
  const auto d = planted(state.range(0));
  const auto c = hr::spectral_clusters(be, d, {.count = 16});
  const auto k = static_cast<std::size_t>(c.found);
  for (auto _ : state) {
    double mean = 0;
    for (hr::index_t i = 0; i < d.rows(); ++i) {
      std::vector<double> sum(k, 0.0), count(k, 0.0);
      for (hr::index_t j = 0; j < d.rows(); ++j) {
        if (j == i) continue;
        sum[static_cast<std::size_t>(c.labels[static_cast<std::size_t>(j)])] += d(i, j);
        count[static_cast<std::size_t>(c.labels[static_cast<std::size_t>(j)])] += 1;
      }
      const auto own = static_cast<std::size_t>(c.labels[static_cast<std::size_t>(i)]);
      if (count[own] == 0) continue;
      double b = std::numeric_limits<double>::infinity();
      for (std::size_t l = 0; l < k; ++l)
        if (l != own) b = std::min(b, sum[l] / count[l]);
      const double a = sum[own] / count[own];
      mean += (b - a) / std::max(a, b);
    }
    benchmark::DoNotOptimize(mean);
  }
  state.SetItemsProcessed(state.iterations() * d.rows() * d.rows());
}

void order(benchmark::State& state) {
  const auto d = planted(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(hr::hierarchical_order(d).front());
}

BENCHMARK(embedding)->Name("embedding/cpu/f64")->Arg(144)->Arg(384)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(labels, qr, hr::labelling::cluster_qr)
    ->Name("labels_cluster_qr/cpu/f64")
    ->Args({144, 36})
    ->Args({144, 72})
    ->Args({384, 96})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(labels, kmeans, hr::labelling::kmeans)
    ->Name("labels_kmeans/cpu/f64")
    ->Args({144, 36})
    ->Args({144, 72})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep, qr, hr::labelling::cluster_qr)
    ->Name("sweep_cluster_qr/cpu/f64")
    ->ArgNames({"N", "threads"})
    ->Args({144, 1})
    ->Args({144, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep, kmeans, hr::labelling::kmeans)
    ->Name("sweep_kmeans/cpu/f64")
    ->ArgNames({"N", "threads"})
    ->Args({144, 1})
    ->Args({144, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(silhouette)->Name("silhouette/cpu/f64")->Arg(144)->Arg(1024)->Unit(benchmark::kMicrosecond);
BENCHMARK(silhouette_naive)->Name("silhouette_naive_loop/f64")->Arg(144)->Arg(1024)->Unit(benchmark::kMicrosecond);
BENCHMARK(order)->Name("hierarchical_order/f64")->Arg(144)->Arg(1024)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
