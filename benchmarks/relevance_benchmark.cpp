// Which heads matter, timed: relevance by rule beside the gradient sweep over the same recording, Taylor beside a training
// step without its optimiser, confidence and roles beside a copy; --threads=N. compare_relevance.py puts PyTorch beside it.
#include <headred/backend/cpu.hpp>
#include <headred/importance/confidence.hpp>
#include <headred/importance/roles/positional_heads.hpp>
#include <headred/importance/roles/rare_tokens.hpp>
#include <headred/importance/roles/syntactic_heads.hpp>
#include <headred/importance/roles/target_heads.hpp>
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

constexpr index_t sentences = 32, map_heads = 144, map_tokens = 128;

/// 302 MB: more than the caches hold.
const maps<float>& many_maps() {
  static const maps<float> all(sentences * map_heads, map_tokens);
  return all;
}
hr::tensor_view<const float, 4> sentence(index_t s) {
  return {many_maps().row(s * map_heads, 0), {1, map_heads, map_tokens, map_tokens}};
}

/// What reads maps, sentence by sentence: bytes of their valid entries a second, and what share of the bytes that a copy
/// on as many cores reads and writes. A pass that reads alone can come to half of them.
template <class F>
void add_reader(const std::string& name, index_t valid, const F& make) {
  add(name + "/f32/32x144x" + std::to_string(valid) + "of128", [=](benchmark::State& state) {
    hr::cpu be{{.threads = threads}};
    auto add_one = make(be, valid);
    many_maps();
    for (auto _ : state)
      for (index_t s = 0; s < sentences; ++s)  // rows sum to 1 over all tokens, to less over those that are valid
        add_one(sentence(s), hr::sentence_options{.length = valid, .sum_tolerance = .5});
    const double bytes = static_cast<double>(state.iterations() * sentences * map_heads * valid * valid) * 4;
    state.counters["GB/s"] = benchmark::Counter(bytes / 1e9, benchmark::Counter::kIsRate);
    state.counters["share_of_copy"] = benchmark::Counter(bytes / (copy_limit() * threads), benchmark::Counter::kIsRate);
  });
}

void add_readers(index_t valid) {
  const hr::head_layout layout(1, map_heads);
  add_reader("sum", valid, [](hr::cpu& be, index_t) {
    return [&be](const auto& maps, const hr::sentence_options& o) {
      hr::task_runner<hr::cpu>(be).run(map_heads, [&](index_t h, int) {
        hr::detail::pack<float, hr::native_lanes<float>> sum[4] = {};
        for (index_t t = 0; t < o.length; ++t)
          for (index_t s = 0; s + hr::native_lanes<float> <= o.length; s += hr::native_lanes<float>)
            sum[(s / hr::native_lanes<float>) % 4] +=
                hr::detail::load<hr::detail::pack<float, hr::native_lanes<float>>>(&maps(0, h, t, s));
        benchmark::DoNotOptimize(sum);
      });
    };
  });
  add_reader("confidence", valid, [=](hr::cpu& be, index_t) {
    return [sure = hr::confidence<hr::cpu>(be, layout)](const auto& maps, const auto& o) mutable { sure.add(maps, o); };
  });
  add_reader("positional_heads", valid, [=](hr::cpu& be, index_t) {
    return [&be, heads = hr::positional_heads(layout)](const auto& maps, const auto& o) mutable {
      heads.add(be, maps, o);
    };
  });
  add_reader("rare_words", valid, [=](hr::cpu& be, index_t n) {
    std::vector<index_t> ranks;
    for (index_t t = 0; t < n; ++t) ranks.push_back(t * 7919 % 3000);
    hr::key_targets targets;
    hr::rare_token_targets(ranks, n, targets);
    return [&be, targets, heads = hr::target_heads(layout, "rare", {.end = hr::end_token::excluded})](
               const auto& maps, const auto& o) mutable { heads.add(be, maps, targets, o); };
  });
  add_reader("syntactic_heads", valid, [=](hr::cpu& be, index_t n) {
    std::vector<index_t> governors, word;
    std::vector<std::string> relations;
    for (index_t t = 0; t < n; ++t) word.push_back(t - t / 8);  // every eighth word has two pieces
    const char* const names[] = {"nsubj", "obj", "amod", "advmod", "det"};
    for (index_t w = 0; w <= word.back(); ++w) {
      governors.push_back(w == 0 ? -1 : w * 5 % w);
      relations.emplace_back(names[w % 5]);
    }
    return
        [&be, governors, word, relations, all = hr::syntactic_heads(layout)](const auto& maps, const auto& o) mutable {
          all.add(be, maps, hr::word_tree{governors, relations, word}, o);
        };
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
  for (const index_t valid : {map_tokens, index_t{100}}) add_readers(valid);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
