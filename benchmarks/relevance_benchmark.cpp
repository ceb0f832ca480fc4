// Which heads matter, timed: relevance by rule beside the gradient sweep over the same recording, Taylor beside a training
// step without its optimiser, confidence and roles beside a copy; --threads=N. compare_relevance.py puts PyTorch beside it.
#include <headred/backend/cpu.hpp>
#include <headred/importance/confidence.hpp>
#include <headred/importance/roles/positional_heads.hpp>
#include <headred/nn/initialize.hpp>
#include <headred/nn/start_relevance.hpp>
#include <headred/nn/uniform_config.hpp>
#include <headred/prune/model_importance.hpp>

#include "benchmark_support.hpp"

namespace hr = headred;
using namespace headred_benchmark;

namespace {

constexpr index_t layers = 4, width = 256, heads = 8, hidden = 1024, vocabulary = 1000, number = 8, length = 64;

int threads = 2;

/// The encoder of tests/oracle/record_relevance.py (post-norm, ReLU), with biases: without them rules by sign are cheaper.
struct encoder {
  hr::cpu be{{.threads = threads}};
  hr::transformer<float, hr::cpu> model{be, config()};
  hr::training_batch batch;

  static hr::transformer_config config() {
    auto c = hr::uniform_config({.kind = hr::architecture::encoder,
                                 .layers = layers,
                                 .width = width,
                                 .heads = heads,
                                 .feed_forward = hidden,
                                 .source_vocabulary = vocabulary,
                                 .max_positions = length});
    c.pre_norm = c.final_norm = false;
    c.source.positions = hr::positions::learned;
    c.tied_output = false;
    return c;
  }

  encoder() {
    hr::initialize(be, model.weights(), 1);
    std::uint64_t seed = 2;
    hr::visit_parameters(model.weights(), [&](std::string_view name, auto& p) {
      const hr::random_stream random(seed++);
      if (name.ends_with("bias") || name.ends_with("shift"))
        for (index_t i = 0; i < p.value.size(); ++i)
          p.value.data()[i] = static_cast<float>(.4 * random.uniform(static_cast<std::uint64_t>(i)) - .2);
    });
    model.train();
    const hr::random_stream random(3);
    std::vector<hr::token_id> ids(static_cast<std::size_t>(length));
    for (index_t b = 0; b < number; ++b) {
      for (std::size_t i = 0; i < ids.size(); ++i)
        ids[i] = static_cast<hr::token_id>(random.below(static_cast<std::uint64_t>(b * length) + i, vocabulary));
      batch.source.add(ids);
    }
    batch.labels = batch.source.ids;
  }
};

/// Times f(tape, logits) over recordings that are made outside of the time.
template <class F>
void over_recordings(benchmark::State& state, const F& f) {
  encoder e;
  hr::tape<float, hr::cpu> t(e.be);
  const auto once = [&] {
    t.clear();
    const hr::slot logits = e.model.logits(t, e.model.hidden(t, e.batch.source, {}));
    const auto begin = std::chrono::steady_clock::now();
    f(e, t, logits);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  for (int i = 0; i < 2; ++i) once();
  for (auto _ : state) state.SetIterationTime(once());
}

template <class F>
void add_timed(const std::string& name, const F& f) {
  benchmark::RegisterBenchmark((name + "/f32/4x256/8x64").c_str(), f)
      ->Unit(benchmark::kMillisecond)
      ->UseManualTime()
      ->MinTime(.05);
}

/// From every token's greatest logit, or from that of each sentence's last token.
std::vector<hr::relevance_start> starts(bool all) {
  std::vector<hr::relevance_start> chosen;
  for (index_t row = 0; row < number * length; ++row)
    if (all || row % length == length - 1) chosen.push_back({row, -1});
  return chosen;
}

void add_gradient(bool all) {
  add_timed(all ? "gradient" : "gradient/last", [=](benchmark::State& state) {
    const auto from = starts(all);
    over_recordings(state, [&](encoder&, auto& t, hr::slot logits) {
      const auto d = t.gradient(logits);
      for (const auto& s : from) d(s.row, 7) = 1;
      t.backward();
    });
  });
}

void add_sweep(const std::string& name, const hr::relevance_rule& rule, bool all = true) {
  add_timed("sweep/" + name + (all ? "" : "/last"), [=](benchmark::State& state) {
    const auto from = starts(all);
    over_recordings(state, [&](encoder&, auto& t, hr::slot logits) {
      hr::start_relevance<float>(t, logits, from);
      t.sweep(rule);
    });
  });
}

void add_taylor() {
  constexpr int batches = 8;
  const auto per_batch = [](benchmark::State& state, const auto& f) {
    for (auto _ : state) {
      const auto begin = std::chrono::steady_clock::now();
      f();
      state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / batches);
    }
  };
  add_timed("training_step/no_optimiser", [=](benchmark::State& state) {
    encoder e;
    per_batch(state, [&] {
      hr::tape<float, hr::cpu> t(e.be);
      for (int i = 0; i < batches; ++i) {
        t.clear();
        const auto loss = hr::detail::batch_loss(e.model, t, e.batch, {}, 1.f);
        *t.gradient(loss.total).data() += 1;
        t.backward();
      }
    });
  });
  add_timed("taylor", [=](benchmark::State& state) {
    encoder e;
    const std::vector<hr::training_batch> all(batches, e.batch);
    per_batch(state, [&] { benchmark::DoNotOptimize(hr::model_taylor(e.model, std::span(all))); });
  });
}

/// What reads maps: bytes of them a second, and their share of what a copy reads and writes.
template <class F>
void add_reader(const std::string& name, int workers, const F& make) {
  add(name + "/f32/144x256x256", [=](benchmark::State& state) {
    constexpr index_t tokens = 256;
    const maps<float> attention(144, tokens);
    hr::cpu be{{.threads = workers}};
    auto reader = make(be);
    for (auto _ : state) reader.add(attention.view());
    const double bytes = static_cast<double>(state.iterations()) * 144 * tokens * tokens * 4;
    state.counters["GB/s"] = benchmark::Counter(bytes / 1e9, benchmark::Counter::kIsRate);
    state.counters["share_of_copy"] = benchmark::Counter(bytes / copy_limit(), benchmark::Counter::kIsRate);
  });
}

}  // namespace

int main(int argc, char** argv) {
  threads = std::max(1, asked_shape::take(argc, argv).threads);
  using rule = hr::relevance_rule;
  const auto absorbed = [](rule r) {
    r.bias = hr::bias_mode::absorbed;
    return r;
  };
  const auto constant = [](rule r) {
    r.attention = hr::attention_mode::constant;
    return r;
  };
  for (const bool all : {true, false}) {
    add_gradient(all);
    add_sweep("alpha_beta", rule::alpha_beta(), all);
  }
  add_sweep("alpha_beta/constant", constant(rule::alpha_beta()));
  add_sweep("alpha_beta/absorbed", absorbed(rule::alpha_beta()));
  add_sweep("alpha_beta/absorbed/constant", constant(absorbed(rule::alpha_beta())));
  add_sweep("z_plus", rule::z_plus());
  add_sweep("epsilon", rule::of_epsilon());
  add_sweep("epsilon/constant", constant(rule::of_epsilon()));
  add_sweep("epsilon/absorbed/constant", constant(absorbed(rule::of_epsilon())));
  add_sweep("attn", rule::attn());
  add_sweep("attn/absorbed", absorbed(rule::attn()));
  add_taylor();
  add_reader("confidence", threads, [](hr::cpu& be) { return hr::confidence<hr::cpu>(be, hr::head_layout(1, 144)); });
  add_reader("positional_heads", 1, [](hr::cpu&) { return hr::positional_heads(hr::head_layout(1, 144)); });
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
