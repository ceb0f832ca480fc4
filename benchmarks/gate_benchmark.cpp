// Gates and masks: samples, penalties and their ways back, an element. compare_gates.py puts PyTorch's expressions beside them.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/sparsity/gumbel_sigmoid.hpp>
#include <headred/sparsity/hard_concrete.hpp>

namespace hr = headred;
using hr::index_t;

namespace {

std::vector<float> numbers(index_t count) {
  std::vector<float> all(static_cast<std::size_t>(count));
  for (index_t i = 0; i < count; ++i)
    all[static_cast<std::size_t>(i)] =
        static_cast<float>(6 * hr::random_stream(1).uniform(static_cast<std::uint64_t>(i)) - 3);
  return all;
}

struct memory {
  std::vector<float> input, output, gradient, slope;
  explicit memory(index_t n) : input(numbers(n)), output(input.size()), gradient(numbers(n)), slope(input.size()) {}
  hr::tensor_view<const float, 1> in() const { return {input.data(), {static_cast<index_t>(input.size())}}; }
  hr::tensor_view<float, 1> out() { return {output.data(), {static_cast<index_t>(output.size())}}; }
  hr::tensor_view<const float, 1> dout() const { return {gradient.data(), {static_cast<index_t>(gradient.size())}}; }
  hr::tensor_view<float, 1> din() { return {slope.data(), {static_cast<index_t>(slope.size())}}; }
};

void count_elements(benchmark::State& state, index_t n) { state.SetItemsProcessed(state.iterations() * n); }

void hard_concrete(benchmark::State& state, bool back) {
  const index_t n = state.range(0);
  hr::cpu be{{.threads = static_cast<int>(state.range(1))}};
  memory m(n);
  const hr::hard_concrete policy;
  std::uint64_t step = 0;
  for (auto _ : state) {
    const hr::random_stream draws(7, step++);
    hr::hard_concrete_sample(be, policy, m.in(), draws, m.out());
    double penalty = hr::hard_concrete_penalty(be, policy, m.in());
    benchmark::DoNotOptimize(penalty);
    if (!back) continue;
    hr::hard_concrete_gradient(be, policy, m.in(), draws, m.dout(), m.din());
    hr::hard_concrete_penalty_gradient(be, policy, m.in(), .01, m.din());
  }
  count_elements(state, n);
}

void gumbel_sigmoid(benchmark::State& state, bool back) {
  const index_t n = state.range(0);
  hr::cpu be{{.threads = static_cast<int>(state.range(1))}};
  memory m(n);
  const hr::gumbel_sigmoid policy;
  std::uint64_t step = 0;
  for (auto _ : state) {
    const hr::random_stream draws(7, step++);
    hr::gumbel_sigmoid_sample(be, policy, m.in(), draws, m.out());
    if (back) hr::gumbel_sigmoid_gradient(be, policy, m.in(), draws, m.dout(), m.din());
  }
  count_elements(state, n);
}

}  // namespace

BENCHMARK_CAPTURE(hard_concrete, sample_and_penalty, false)->Args({10000000, 2})->Args({10000000, 1})->UseRealTime();
BENCHMARK_CAPTURE(hard_concrete, forward_and_back, true)->Args({10000000, 2})->Args({10000000, 1})->UseRealTime();
BENCHMARK_CAPTURE(gumbel_sigmoid, sample, false)->Args({12 * 128 * 128, 2})->Args({12 * 128 * 128, 1})->UseRealTime();
BENCHMARK_CAPTURE(gumbel_sigmoid, forward_and_back, true)
    ->Args({12 * 128 * 128, 2})
    ->Args({12 * 128 * 128, 1})
    ->UseRealTime();

BENCHMARK_MAIN();
