// What the benchmarks share: inputs, names, and the limits of this machine, measured in the same run.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <headred/core/random.hpp>
#include <headred/core/view.hpp>
#include <headred/numeric/vector_math.hpp>

namespace headred_benchmark {

using headred::index_t;

template <class Real>
inline constexpr const char* precision_name = sizeof(Real) == 8 ? "f64" : "f32";

inline std::string shape_name(index_t heads, index_t tokens, int threads) {
  return "heads:" + std::to_string(heads) + "/tokens:" + std::to_string(tokens) + "/threads:" + std::to_string(threads);
}

// Seconds that a benchmark runs at least; 0 leaves it to Google Benchmark. Short, so that a whole program is.
inline double& least_time() {
  static double seconds = .05;
  return seconds;
}

// What --heads=N --tokens=N --threads=N ask for: that shape alone, without the ways it is compared with; in float, or
// with --type=f64 in double.
// --sentences=N: of distances, not one sentence more for an accumulator in use, but a whole study of N sentences.
struct asked_shape {
  index_t heads = 0, tokens = 0, sentences = 0;
  int threads = 1;
  bool in_double = false;
  explicit operator bool() const { return heads > 0 && tokens > 0; }

  // Takes these options out of the command line; what is not given stays as in `asked`. The rest is Google Benchmark's,
  // whose --benchmark_min_time counts for what is added later.
  static asked_shape take(int& argc, char** argv, asked_shape asked) {
    int left = 1;
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      const auto value = [&] { return std::stol(word.substr(word.find('=') + 1)); };
      if (word.starts_with("--heads=")) {
        asked.heads = value();
      } else if (word.starts_with("--tokens=")) {
        asked.tokens = value();
      } else if (word.starts_with("--sentences=")) {
        asked.sentences = value();
      } else if (word.starts_with("--threads=")) {
        asked.threads = static_cast<int>(value());
      } else if (word == "--type=f32" || word == "--type=f64") {
        asked.in_double = word == "--type=f64";
      } else {
        if (word.starts_with("--benchmark_min_time=")) least_time() = 0;
        argv[left++] = argv[i];
      }
    }
    argc = left;
    return asked;
  }
  static asked_shape take(int& argc, char** argv) { return take(argc, argv, asked_shape{}); }
};

// Softmax rows of `heads` heads, (1,H,T,T).
template <class Real>
struct maps {
  index_t heads, tokens;
  std::vector<Real> values;
  maps(index_t heads_, index_t tokens_) : heads(heads_), tokens(tokens_) {
    const headred::random_stream random(1);
    values.resize(static_cast<std::size_t>(heads * tokens * tokens));
    std::uint64_t at = 0;
    std::vector<double> row(static_cast<std::size_t>(tokens));
    for (index_t r = 0; r < heads * tokens; ++r) {
      double sum = 0;
      for (double& v : row) sum += v = std::exp(6 * random.uniform(at++));
      for (index_t k = 0; k < tokens; ++k)
        values[static_cast<std::size_t>(r * tokens + k)] = static_cast<Real>(row[static_cast<std::size_t>(k)] / sum);
    }
  }
  headred::tensor_view<const Real, 4> view() const { return {values.data(), {1, heads, tokens, tokens}}; }
  const Real* row(index_t head, index_t token) const { return values.data() + (head * tokens + token) * tokens; }
  index_t pairs() const { return heads * (heads - 1) / 2; }
};

// The best of some rounds of `round`, in operations a second; a round makes `operations` of them.
template <class Round>
double best_rate(double operations, const Round& round) {
  double best = 0;
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    round();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    best = std::max(best, operations / time.count());
  }
  return best;
}

// Fused multiply-adds a second of one core.
template <class Real>
double multiply_add_limit() {
  static const double rate = [] {
    constexpr int lanes = headred::native_lanes<Real>, chains = 12, steps = 100000;
    using vec = headred::detail::pack<Real, lanes>;
    // volatile: not known to the compiler, and read as written (g++ may lose what DoNotOptimize leaves to a register)
    const volatile Real hidden_factor = Real(.999), hidden_term = Real(.5);
    volatile Real hidden_begin[chains];
    for (int c = 0; c < chains; ++c) hidden_begin[c] = static_cast<Real>(c);  // equal chains would be computed once
    const Real factor = hidden_factor, term = hidden_term;
    Real begin[chains];
    for (int c = 0; c < chains; ++c) begin[c] = hidden_begin[c];
    return best_rate(double(lanes) * chains * steps, [=] {
      const vec f = headred::detail::broadcast<vec>(factor), t = headred::detail::broadcast<vec>(term);
      vec sum[chains];  // local, so that it stays in registers
      for (int c = 0; c < chains; ++c) sum[c] = headred::detail::broadcast<vec>(begin[c]);
      for (int i = 0; i < steps; ++i) {
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 12
#endif
        for (int c = 0; c < chains; ++c) sum[c] = sum[c] * f + t;
      }
      vec all{};
      for (int c = 0; c < chains; ++c) all += sum[c];
      benchmark::DoNotOptimize(all);
    });
  }();
  return rate;
}

// log2_of a second of one core, from the first cache.
template <class Real>
double log2_limit() {
  static const double rate = [] {
    constexpr int lanes = headred::native_lanes<Real>, count = 2048, rounds = 100;
    using vec = headred::detail::pack<Real, lanes>;
    std::vector<Real> x(count, Real(.3));
    return best_rate(double(count) * rounds, [&] {
      vec sum{};
      for (int r = 0; r < rounds; ++r) {
        for (int i = 0; i < count; i += lanes)
          sum += headred::detail::log2_of<lanes>(headred::detail::load<vec>(x.data() + i));
        benchmark::ClobberMemory();
      }
      benchmark::DoNotOptimize(sum);
    });
  }();
  return rate;
}

// Bytes a second of one core that are read and written again, beyond all caches.
inline double copy_limit() {
  static const double rate = [] {
    const std::vector<char> from(std::size_t{1} << 27, 1);
    std::vector<char> to(from.size());
    return best_rate(2 * double(from.size()), [&] {
      std::memcpy(to.data(), from.data(), from.size());
      benchmark::ClobberMemory();
    });
  }();
  return rate;
}

// Adds a benchmark under its name, to run for least_time().
template <class F>
void add(const std::string& name, const F& f) {
  auto* const added = benchmark::RegisterBenchmark(name.c_str(), f)->Unit(benchmark::kMillisecond)->UseRealTime();
  if (least_time() > 0) added->MinTime(least_time());
}

// For each of `distances`: the shape that was asked for, or what its add_all adds in both precisions; then runs all.
template <class Ours, class All, class... Distances>
int run_distances(int argc, char** argv, const Ours& add_ours, const All& add_all, const Distances&... distances) {
  const asked_shape asked = asked_shape::take(argc, argv);
  const auto add_distance = [&](const auto& distance) {
    if (asked) {
      add_ours(distance, asked);
    } else {
      add_all(distance);
    }
  };
  (add_distance(distances), ...);
  multiply_add_limit<float>(), multiply_add_limit<double>();  // now, not within what is timed
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

inline void count_pairs(benchmark::State& state, index_t pairs) {
  state.counters["pairs/s"] =
      benchmark::Counter(static_cast<double>(pairs), benchmark::Counter::kIsIterationInvariantRate);
}

// What was done a second as a share of what the cores in use could do.
inline void count_share(benchmark::State& state, const char* name, double operations, double limit) {
  state.counters[name] = benchmark::Counter(operations / limit, benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace headred_benchmark
