// The Transformer: products, passes, training steps, and what pruned attention saves; --threads=N. Counters: tokens/s,
// FLOP/s and the share of the FMA peak measured in the same run.
#include <headred/backend/cpu.hpp>
#include <headred/nn/initialize.hpp>
#include <headred/nn/model_cost.hpp>
#include <headred/nn/training_step.hpp>
#include <headred/nn/uniform_config.hpp>
#include <headred/prune/apply.hpp>
#include <headred/prune/model_layout.hpp>

#include "benchmark_support.hpp"

namespace hr = headred;
using namespace headred_benchmark;

namespace {

using model_type = hr::transformer<float, hr::cpu>;

int threads = 2;

void count(benchmark::State& state, double flops, double tokens) {
  const double times = static_cast<double>(state.iterations());
  state.counters["FLOP/s"] = benchmark::Counter(flops * times, benchmark::Counter::kIsRate);
  state.counters["share_of_peak"] =
      benchmark::Counter(flops * times / (2 * multiply_add_limit<float>() * threads), benchmark::Counter::kIsRate);
  if (tokens > 0) state.counters["tokens/s"] = benchmark::Counter(tokens * times, benchmark::Counter::kIsRate);
}

hr::token_batch sentences(index_t number, index_t length, index_t vocabulary) {
  const hr::random_stream random(3);
  hr::token_batch batch;
  std::vector<hr::token_id> ids(static_cast<std::size_t>(length));
  for (index_t b = 0; b < number; ++b) {
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<hr::token_id>(
          3 + random.below(static_cast<std::uint64_t>(b * length) + i, static_cast<std::uint64_t>(vocabulary - 3)));
    batch.add(ids);
  }
  return batch;
}

void add_gemm(index_t m, index_t n, index_t k) {
  add("gemm/f32/" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k),
      [=](benchmark::State& state) {
        hr::cpu be{{.threads = threads}};
        hr::tensor<float, 3, hr::cpu> a(be, {1, m, k}), b(be, {1, n, k}), c(be, {1, m, n});
        std::fill_n(a.data(), a.size(), 1.f);
        std::fill_n(b.data(), b.size(), 1.f);
        for (auto _ : state)
          be.gemm(1.f, hr::tensor_view<const float, 3>(a.view()),
                  hr::tensor_view<const float, 3>(b.view().transposed()), 0.f, c.view());
        count(state, 2. * static_cast<double>(m * n * k), 0);
      });
}

void add_training(const std::string& name, const hr::uniform_geometry& g, index_t number, index_t length) {
  add("training_step/f32/" + name, [=](benchmark::State& state) {
    hr::cpu be{{.threads = threads}};
    const auto config = hr::uniform_config(g);
    model_type model(be, config);
    hr::initialize(be, model.weights(), 1);
    model.train();
    hr::adam<float, hr::cpu> optimizer(be, hr::parameter_list<float, hr::cpu>(model.weights()));
    hr::trainer<float, hr::cpu> run(model, optimizer, {.label_smoothing = .1, .longest_gradient = 1});
    hr::training_batch batch;
    batch.source = sentences(number, length, g.source_vocabulary);
    batch.target = sentences(number, length, g.target_vocabulary);
    batch.labels = batch.target.ids;
    for (int i = 0; i < 2; ++i) run.step(batch);
    for (auto _ : state) run.step(batch);
    const std::vector<index_t> lengths(static_cast<std::size_t>(number), length);
    count(state, 3 * hr::forward_flops(config, lengths, lengths).total(), static_cast<double>(number * length));
  });
}

hr::transformer_config bert_base() {
  auto c = hr::uniform_config(
      {.kind = hr::architecture::encoder, .layers = 12, .width = 768, .heads = 12, .source_vocabulary = 30522});
  c.pre_norm = c.final_norm = false;
  c.activation = hr::activation::gelu;
  c.source.positions = hr::positions::learned;
  c.source.token_types = 2;
  c.source.norm = true;
  c.source.scale = 1;
  c.output = hr::output_head::none;
  return c;
}

void add_bert(index_t number) {
  add("forward/bert_base/f32/" + std::to_string(number) + "x128", [=](benchmark::State& state) {
    hr::cpu be{{.threads = threads}};
    const auto config = bert_base();
    model_type model(be, config);
    hr::initialize(be, model.weights(), 1);
    const auto batch = sentences(number, 128, config.source.vocabulary);
    hr::tape<float, hr::cpu> tape(be, hr::tape_mode::inference);
    const auto pass = [&] {
      tape.clear();
      model.encode(tape, batch);
    };
    pass();  // memory grows in the first
    for (auto _ : state) pass();
    const std::vector<index_t> lengths(static_cast<std::size_t>(number), 128);
    count(state, hr::forward_flops(config, lengths).total(), static_cast<double>(number * 128));
  });
}

/// The attention blocks of BERT-base alone (no feed-forward neurons), with so many heads of each layer removed.
void add_pruned_attention(index_t removed) {
  add("attention/bert_base/f32/8x128/" + std::to_string(12 - removed) + "_of_12_heads", [=](benchmark::State& state) {
    hr::cpu be{{.threads = threads}};
    auto config = bert_base();
    config.encoder.layers.resize(1);
    config.encoder.layers[0].feed_forward = 0;
    model_type whole(be, config);
    hr::initialize(be, whole.weights(), 1);
    hr::prune_plan plan(hr::model_layout(config));
    std::vector<index_t> kept;
    for (index_t h = removed; h < 12; ++h) kept.push_back(h);
    plan.set_kept(hr::attention_kind::encoder_self, 0, kept);
    model_type model = hr::apply(plan, whole);
    auto& w = model.weights().encoder[0].self;
    const auto& c = model.config().encoder.layers[0].self;
    const auto batch = sentences(8, 128, config.source.vocabulary);
    hr::tape<float, hr::cpu> tape(be, hr::tape_mode::inference);
    const auto pass = [&] {
      tape.clear();
      const hr::slot x = tape.add(8 * 128, 768);
      std::fill_n(tape.value(x).data(), tape.value(x).size(), .5f);
      hr::attention_call<float, hr::cpu> call;
      call.shape = {c.heads, c.kv_heads, c.head_size};
      call.queries = call.keys = batch.sentences;
      call.q = linear(tape, x, w.query.weight, &w.query.bias);
      call.k = linear(tape, x, w.key.weight, &w.key.bias);
      call.v = linear(tape, x, w.value.weight, &w.value.bias);
      linear(tape, attention(tape, call), w.output.weight, &w.output.bias);
    };
    pass();
    for (auto _ : state) pass();
    const double flops = 1024. * (8 * 768 * 64 + 4 * 64 * 128) * static_cast<double>(12 - removed);
    count(state, flops, 1024);
  });
}

}  // namespace

int main(int argc, char** argv) {
  threads = std::max(1, asked_shape::take(argc, argv, {.threads = threads}).threads);
  for (const auto& [m, n, k] :
       {std::array<index_t, 3>{128, 768, 768}, {1024, 768, 768}, {1024, 512, 128}, {1024, 4000, 128}, {64, 32, 32}})
    add_gemm(m, n, k);
  const hr::uniform_geometry small{
      .layers = 2, .width = 128, .heads = 8, .feed_forward = 512, .source_vocabulary = 4000, .target_vocabulary = 4000};
  auto small_dropped = small;
  small_dropped.dropout = .1;
  add_training("2+2x128/32x32", small, 32, 32);
  add_training("2+2x128/32x32/dropout", small_dropped, 32, 32);
  add_training("6+6x512/4x32",
               {.layers = 6,
                .width = 512,
                .heads = 8,
                .feed_forward = 2048,
                .source_vocabulary = 4000,
                .target_vocabulary = 4000},
               4, 32);
  add_bert(1);
  add_bert(8);
  for (const index_t removed : {0, 6, 9}) add_pruned_attention(removed);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
