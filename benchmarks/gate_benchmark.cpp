// Gates and masks: samples, penalties and their ways back, an element (compare_gates.py puts PyTorch's expressions
// beside them); what gates add to a training step; what a pruned model saves end to end.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/nn/gate_training.hpp>
#include <headred/nn/initialize.hpp>
#include <headred/nn/model_cost.hpp>
#include <headred/nn/uniform_config.hpp>
#include <headred/prune/apply.hpp>
#include <headred/prune/model_layout.hpp>
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

// The median, over the iterations, of processor time of `b` to that of `a`, which take turns; one thread.
template <class A, class B>
double alternate(benchmark::State& state, const A& a, const B& b) {
  for (int i = 0; i < 2; ++i) {
    a();
    b();
  }
  std::vector<double> ratios;
  const auto seconds = [](const auto& f) {
    const std::clock_t begin = std::clock();
    f();
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  for (auto _ : state) {
    const double first = seconds(a), second = seconds(b);
    ratios.push_back(second / std::max(1e-9, first));
  }
  std::nth_element(ratios.begin(), ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2), ratios.end());
  return ratios[ratios.size() / 2];
}

using model_type = hr::transformer<float, hr::cpu>;
using trainer_type = hr::trainer<float, hr::cpu>;

hr::uniform_geometry geometry(index_t layers, index_t width) {
  return {.layers = layers, .width = width, .heads = 8, .source_vocabulary = 4000, .target_vocabulary = 4000};
}

hr::training_batch pairs(index_t number, index_t length) {
  hr::training_batch batch;
  std::vector<hr::token_id> ids(static_cast<std::size_t>(length));
  for (index_t b = 0; b < number; ++b)
    for (hr::token_batch* side : {&batch.source, &batch.target}) {
      for (std::size_t i = 0; i < ids.size(); ++i)
        ids[i] =
            static_cast<hr::token_id>(3 + hr::random_stream(3).below(static_cast<std::uint64_t>(b * length) + i, 3997));
      side->add(ids);
    }
  batch.labels = batch.target.ids;
  return batch;
}

/// Everything of a training run, with gates on these units or without.
struct training_run {
  hr::cpu be{{.threads = 1}};
  model_type model;
  hr::gate_training<float, hr::cpu> gates;
  hr::parameter_list<float, hr::cpu> list;
  hr::adam<float, hr::cpu> optimizer;
  trainer_type trainer;

  training_run(const hr::transformer_config& config, const hr::gate_options* options)
      : model(be, config),
        gates(be, config, options == nullptr ? hr::gate_options{} : *options),
        list(parameters(options != nullptr)),
        optimizer(be, list),
        trainer(model, optimizer, settings(options != nullptr)) {}
  hr::parameter_list<float, hr::cpu> parameters(bool gated) {
    hr::initialize(be, model.weights(), 1);
    model.train();
    hr::parameter_list<float, hr::cpu> all(model.weights());
    if (gated) gates.add_to(all);
    return all;
  }
  trainer_type::options settings(bool gated) {
    trainer_type::options o{.label_smoothing = .1, .longest_gradient = 1};
    if (gated) gates.attach(o);
    return o;
  }
};

/// Counter `added`: by how much of its time a step with gates takes longer.
void gated_training_step(benchmark::State& state, const hr::gate_options& options) {
  const auto config = hr::uniform_config(geometry(state.range(0), state.range(1)));
  const auto batch = pairs(state.range(2), 32);
  training_run plain(config, nullptr), gated(config, &options);
  state.counters["added"] = alternate(
                                state, [&] { plain.trainer.step(batch); }, [&] { gated.trainer.step(batch); }) -
                            1;
}

/// Half of the heads and neurons removed. Counters: how many times faster, of how many times fewer operations.
void pruned_model(benchmark::State& state, bool training) {
  hr::cpu be{{.threads = 1}};
  const auto config = hr::uniform_config(geometry(6, 512));
  model_type whole(be, config);
  hr::initialize(be, whole.weights(), 1);
  hr::prune_plan plan(hr::whole_layout(config));
  for (const auto kind : plan.layout().kinds())
    for (index_t l = 0; l < 6; ++l) plan.set_kept(kind, l, {0, 2, 5, 7});
  for (const auto stack : plan.layout().stacks())
    for (index_t l = 0; l < 6; ++l) {
      std::vector<index_t> kept;
      for (index_t n = 0; n < 2048; n += 2) kept.push_back(n);
      plan.set_kept_neurons(stack, l, kept);
    }
  model_type pruned = hr::apply(plan, whole);
  const index_t number = 8, length = 64;
  const auto batch = pairs(number, length);
  const std::vector<index_t> lengths(static_cast<std::size_t>(number), length);
  const double fewer = hr::forward_flops(config, lengths, lengths).total() /
                       hr::forward_flops(pruned.config(), lengths, lengths).total();
  double slower = 0;
  if (training) {
    whole.train();
    pruned.train();
    hr::adam<float, hr::cpu> of_whole(be, hr::parameter_list<float, hr::cpu>(whole.weights())),
        of_pruned(be, hr::parameter_list<float, hr::cpu>(pruned.weights()));
    trainer_type a(whole, of_whole, {}), b(pruned, of_pruned, {});
    slower = alternate(
        state, [&] { b.step(batch); }, [&] { a.step(batch); });
  } else {
    hr::tape<float, hr::cpu> tape(be, hr::tape_mode::inference);
    const auto run = [&](model_type& model) {
      tape.clear();
      model.logits(tape, model.hidden(tape, batch.source, batch.target));
    };
    slower = alternate(
        state, [&] { run(pruned); }, [&] { run(whole); });
  }
  state.counters["times_faster"] = slower;
  state.counters["times_fewer_operations"] = fewer;
  state.counters["share"] = slower / fewer;
}

const hr::gate_options on_heads{.lambda = .01};
const hr::gate_options on_all{.lambda = .01,
                              .neurons = {hr::model_stack::encoder, hr::model_stack::decoder},
                              .layers = {hr::model_stack::encoder, hr::model_stack::decoder},
                              .neuron_weight = .01};

}  // namespace

BENCHMARK_CAPTURE(gated_training_step, heads, on_heads)->Args({2, 128, 32})->Args({6, 512, 4});
BENCHMARK_CAPTURE(gated_training_step, heads_neurons_layers, on_all)->Args({2, 128, 32})->Args({6, 512, 4});
BENCHMARK_CAPTURE(pruned_model, forward, false);
BENCHMARK_CAPTURE(pruned_model, training_step, true);
BENCHMARK_CAPTURE(hard_concrete, sample_and_penalty, false)->Args({10000000, 2})->Args({10000000, 1})->UseRealTime();
BENCHMARK_CAPTURE(hard_concrete, forward_and_back, true)->Args({10000000, 2})->Args({10000000, 1})->UseRealTime();
BENCHMARK_CAPTURE(gumbel_sigmoid, sample, false)->Args({12 * 128 * 128, 2})->Args({12 * 128 * 128, 1})->UseRealTime();
BENCHMARK_CAPTURE(gumbel_sigmoid, forward_and_back, true)
    ->Args({12 * 128 * 128, 2})
    ->Args({12 * 128 * 128, 1})
    ->UseRealTime();

BENCHMARK_MAIN();
