// More heads than fit side by side: distances by blocks from a mapped file, then clusters from the spectral vectors that are
// needed. --heads=N --tokens=N --threads=N; default 1024 x 32, which takes seconds. 16384 x 64 takes minutes and 2.3 GB.
// Peak memory is what the process held resident beyond the mapped input, in bytes of the result.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/cluster/leading_embedding.hpp>
#include <headred/distance/cosine.hpp>
#include <headred/distance/jensen_shannon.hpp>
#include <headred/distance/pairwise_by_blocks.hpp>
#include <headred/io/mapped_file.hpp>

#include "benchmark_support.hpp"

namespace hr = headred;
using headred_benchmark::asked_shape;
using headred_benchmark::index_t;

namespace {

// Raw float maps (H,T,T) in a file that is removed at the end: 40 groups of heads that look alike.
class maps_file {
 public:
  maps_file(index_t heads, index_t tokens)
      : path_(std::filesystem::temp_directory_path() / ("headred_many_heads_" + std::to_string(heads))) {
    std::FILE* const file = std::fopen(path_.string().c_str(), "wb");
    if (file == nullptr) throw hr::file_error(path_.string(), "cannot be written");
    std::vector<float> row(static_cast<std::size_t>(tokens));
    bool written = true;
    for (index_t h = 0; h < heads; ++h)
      for (index_t t = 0; t < tokens; ++t) {
        float sum = 0;
        for (index_t k = 0; k < tokens; ++k) {
          const auto at = static_cast<std::uint64_t>((h * tokens + t) * tokens + k);
          const auto group = static_cast<std::uint64_t>(((h % 40) * tokens + t) * tokens + k);
          const double score = 4 * hr::random_stream(1).uniform(group) + 2 * hr::random_stream(2).uniform(at);
          sum += row[static_cast<std::size_t>(k)] = static_cast<float>(std::exp(score));
        }
        for (float& x : row) x /= sum;
        written = written && std::fwrite(row.data(), sizeof(float), row.size(), file) == row.size();
      }
    if (std::fclose(file) != 0 || !written) throw hr::file_error(path_.string(), "cannot be written");
  }
  ~maps_file() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  maps_file(const maps_file&) = delete;
  maps_file& operator=(const maps_file&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

double peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

template <class Distance>
void study(benchmark::State& state, const asked_shape& shape) {
  const index_t heads = shape.heads, tokens = shape.tokens;
  const maps_file input(heads, tokens);
  const hr::mapped_file mapped(input.path());
  const auto* const values = reinterpret_cast<const float*>(mapped.bytes().data());
  hr::cpu be{{.threads = shape.threads}};
  for (auto _ : state) {
    const double before = peak_bytes();
    std::vector<double> distances(static_cast<std::size_t>(heads * heads));
    const hr::tensor_view<double, 2> out(distances.data(), {heads, heads});
    const auto read = [&](index_t first, index_t count) {
      return hr::tensor_view<const float, 3>(values + first * tokens * tokens, {count, tokens, tokens});
    };
    const auto seconds = [start = std::chrono::steady_clock::now()] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    hr::pairwise_by_blocks(be, heads, read, Distance{}, out);
    const double pairs = seconds();
    const index_t k = std::min<index_t>(100, heads / 16);
    const hr::leading_embedding<hr::cpu> embedding(be, out, k);
    const auto clusters = embedding.clusters(k);
    benchmark::DoNotOptimize(clusters.found);
    state.counters["seconds of distances"] = pairs;
    state.counters["seconds of clusters"] = seconds() - pairs;
    state.counters["clusters"] = static_cast<double>(clusters.found);
    state.counters["ns a pair element"] =
        pairs /
        (static_cast<double>(heads) * static_cast<double>(heads - 1) / 2 * static_cast<double>(tokens * tokens)) * 1e9;
    // the mapped input counts as resident where it was read
    state.counters["memory / result"] = (peak_bytes() - before - static_cast<double>(mapped.bytes().size())) /
                                        (static_cast<double>(distances.size()) * sizeof(double));
  }
}

template <class Distance>
void add(const asked_shape& shape) {
  benchmark::RegisterBenchmark(("many_heads/" + std::string(Distance::name) + "/" +
                                headred_benchmark::shape_name(shape.heads, shape.tokens, shape.threads))
                                   .c_str(),
                               [shape](benchmark::State& state) { study<Distance>(state, shape); })
      ->Iterations(1)
      ->Unit(benchmark::kSecond)
      ->UseRealTime();
}

}  // namespace

int main(int argc, char** argv) {
  asked_shape shape = asked_shape::take(argc, argv);
  if (!shape) shape = {.heads = 1024, .tokens = 32, .threads = 2};
  add<hr::cosine>(shape);
  add<hr::jensen_shannon>(shape);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
