// What this machine can do: multiply-adds, log2 and copying, of one core. Shares in the other programs refer to these.
#include <benchmark/benchmark.h>

#include "benchmark_support.hpp"

namespace {

void report(const char* name, double (*limit)()) {
  benchmark::RegisterBenchmark(name, [limit](benchmark::State& state) {
    double rate = 0;
    for (auto _ : state) rate = limit();
    state.counters["a second"] = benchmark::Counter(rate, benchmark::Counter::kDefaults, benchmark::Counter::kIs1000);
  })->Iterations(1);
}

}  // namespace

int main(int argc, char** argv) {
  report("limits/multiply_adds/f32", headred_benchmark::multiply_add_limit<float>);
  report("limits/multiply_adds/f64", headred_benchmark::multiply_add_limit<double>);
  report("limits/log2/f32", headred_benchmark::log2_limit<float>);
  report("limits/log2/f64", headred_benchmark::log2_limit<double>);
  report("limits/copied_bytes", headred_benchmark::copy_limit);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
