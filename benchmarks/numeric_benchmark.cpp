// The kernels under the distances, each beside the loop or call that one would write.
#include <headred/numeric/cross_product.hpp>
#include <headred/numeric/nuclear_norm.hpp>
#include <headred/numeric/pair_tiles.hpp>
#include <headred/numeric/polar.hpp>
#include <headred/numeric/single_nuclear_norm.hpp>
#include <headred/numeric/whiten.hpp>

#include "benchmark_support.hpp"

namespace hr = headred;
using namespace headred_benchmark;

namespace {

template <class Real>
std::vector<Real> random_values(index_t n) {
  const hr::random_stream random(2);
  std::vector<Real> x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<Real>(random.uniform(i) + 1e-3);
  return x;
}

void count_items(benchmark::State& state, const char* name, double items) {
  state.counters[name] = benchmark::Counter(items, benchmark::Counter::kIsIterationInvariantRate);
}

template <class Real>
void add_elementary() {
  const std::string precision = precision_name<Real>;
  constexpr index_t count = 4096;
  constexpr int lanes = hr::native_lanes<Real>;
  using vec = hr::detail::pack<Real, lanes>;
  const auto each = [=](const std::string& name, auto pack_function, auto scalar_function) {
    add(name + "/packs/" + precision, [=](benchmark::State& state) {
      const auto x = random_values<Real>(count);
      auto y = x;
      for (auto _ : state) {
        for (std::size_t i = 0; i < x.size(); i += lanes)
          hr::detail::store(y.data() + i, pack_function(hr::detail::load<vec>(x.data() + i)));
        benchmark::ClobberMemory();
      }
      count_items(state, "values/s", count);
    });
    add(name + "/std/" + precision, [=](benchmark::State& state) {
      const auto x = random_values<Real>(count);
      auto y = x;
      for (auto _ : state) {
        for (std::size_t i = 0; i < x.size(); ++i) y[i] = scalar_function(x[i]);
        benchmark::ClobberMemory();
      }
      count_items(state, "values/s", count);
    });
  };
  each(
      "log2", [](const vec& x) { return hr::detail::log2_of<lanes>(x); }, [](Real x) { return std::log2(x); });
  each(
      "sqrt", [](const vec& x) { return hr::detail::sqrt_of<lanes>(x); }, [](Real x) { return std::sqrt(x); });
}

template <class Real, class Terms>
void add_pair_tiles(const std::string& name, double limit) {
  for (const index_t keys : {16, 128})
    add(name + "/" + precision_name<Real> + "/heads:144/keys:" + std::to_string(keys), [=](benchmark::State& state) {
      const index_t columns = hr::detail::slab_columns<Real>(144);
      const auto slab = random_values<Real>(keys * columns), table = random_values<Real>(keys * columns);
      std::vector<Real> out(static_cast<std::size_t>(columns * columns));
      for (auto _ : state) {
        hr::detail::pair_tiles<Terms, Real>(slab.data(), table.data(), keys, columns, out.data());
        benchmark::ClobberMemory();
      }
      const double terms = 144. * 143 / 2 * double(keys);
      count_items(state, "terms/s", terms);
      count_share(state, "of limit", terms, limit);
    });
}

template <class Real>
void add_nuclear() {
  constexpr int lanes = hr::native_lanes<Real>;
  for (const index_t n : {16, 32, 64, 128, 512}) {
    const std::string shape = std::string("/") + precision_name<Real> + "/n:" + std::to_string(n);
    add("cross_product" + shape, [=](benchmark::State& state) {
      const auto x = random_values<Real>(n * n), y = random_values<Real>(n * n * lanes);
      std::vector<Real> c(y.size());
      for (auto _ : state) {
        hr::detail::cross_product<Real, lanes>(x.data(), y.data(), n, n, c.data());
        benchmark::ClobberMemory();
      }
      count_items(state, "matrices/s", lanes);
      count_share(state, "of FMA", double(n * n * n * lanes), multiply_add_limit<Real>());
    });
    add("nuclear_norms" + shape, [=](benchmark::State& state) {
      const auto x = random_values<Real>(n * n * lanes);
      std::vector<Real> work(x.size()), scratch(static_cast<std::size_t>(5 * n * lanes));
      std::vector<double> line(static_cast<std::size_t>(2 * n));
      double norms[lanes];
      for (auto _ : state) {
        std::copy(x.begin(), x.end(), work.begin());
        hr::detail::nuclear_norms<Real, lanes>(work.data(), n, scratch.data(), line.data(), norms);
        benchmark::DoNotOptimize(norms);
      }
      count_items(state, "matrices/s", lanes);
      count_share(state, "of FMA", double(n * n * n * lanes) * 4 / 3, multiply_add_limit<Real>());
    });
    add("single_nuclear_norm" + shape, [=](benchmark::State& state) {  // product and norm
      const index_t stride = hr::detail::single_stride<Real, lanes>(n);
      const auto x = random_values<Real>(n * stride), y = random_values<Real>(n * stride);
      hr::grow_buffer<Real> product, scratch;
      std::vector<double> line(static_cast<std::size_t>(2 * n));
      for (auto _ : state) {
        double norm = hr::detail::single_nuclear_norm<Real>(x.data(), y.data(), n, n, product.get(n * stride),
                                                            scratch.get(3 * stride + 3 * n), line.data());
        benchmark::DoNotOptimize(norm);
      }
      count_items(state, "matrices/s", 1);
      count_share(state, "of FMA", double(n * n * n) * 7 / 3, multiply_add_limit<Real>());
    });
  }
}

void add_dense() {
  for (const index_t n : {16, 64, 128}) {
    const std::string shape = "/f64/n:" + std::to_string(n);
    add("whiten" + shape, [=](benchmark::State& state) {
      const auto x = random_values<double>(n * n);
      hr::grow_buffer<double> scratch;
      for (auto _ : state) {
        auto w = x;
        hr::detail::whiten(w.data(), n, n, hr::whitening::ridge, .01, scratch);
        benchmark::DoNotOptimize(w.data());
      }
      count_items(state, "matrices/s", 1);
    });
    add("procrustes_residual" + shape, [=](benchmark::State& state) {
      const auto x = random_values<double>(n * n);
      auto y = x;
      for (std::size_t i = 0; i < y.size(); i += 3) y[i] *= 1.01;
      hr::grow_buffer<double> scratch;
      for (auto _ : state) {
        double d = hr::detail::procrustes_residual(x.data(), y.data(), n, n, scratch);
        benchmark::DoNotOptimize(d);
      }
      count_items(state, "pairs/s", 1);
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  add_elementary<float>();
  add_elementary<double>();
  add_pair_tiles<float, hr::detail::product_terms>("products", multiply_add_limit<float>());
  add_pair_tiles<double, hr::detail::product_terms>("products", multiply_add_limit<double>());
  add_pair_tiles<float, hr::detail::entropy_terms>("entropies", log2_limit<float>());
  add_pair_tiles<double, hr::detail::entropy_terms>("entropies", log2_limit<double>());
  add_nuclear<float>();
  add_nuclear<double>();
  add_dense();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
