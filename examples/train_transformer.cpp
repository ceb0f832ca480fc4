// Trains an encoder-decoder on sentence pairs: on a file of yours, or on a small translation grammar.
// run: --out model --updates 20 --width 32 --layers 1 --threads 2
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/io/checkpoint.hpp>
#include <headred/io/load_transformer.hpp>
#include <headred/io/save_transformer.hpp>
#include <headred/nn/batch_order.hpp>
#include <headred/nn/greedy.hpp>
#include <headred/nn/initialize.hpp>
#include <headred/nn/progress.hpp>
#include <headred/nn/training_step.hpp>
#include <headred/nn/uniform_config.hpp>

#include <nlohmann/json.hpp>

#include "support/pair_data.hpp"
#include "support/status_line.hpp"
#include "support/tool_main.hpp"

namespace {

using headred::index_t;
using model_type = headred::transformer<float, headred::cpu>;
using trainer_type = headred::trainer<float, headred::cpu>;
namespace fs = std::filesystem;

constexpr std::string_view help = R"(train_transformer: an encoder-decoder from sentence pairs

  train_transformer [--data FILE.tsv] [--model DIR] --out DIR

Data
  --data FILE.tsv        SOURCE<tab>TARGET lines, read character by character. Without this option: pairs of a small
                         translation grammar (see headred/nn/translation_grammar.hpp)
  --sentences N          of the grammar. Default: 40000
  --held-out N           the last N pairs are not trained on, but evaluated. Default: 500
Model
  --model DIR            training goes on with this model; its vocabularies lie beside it (with --data)
  --layers N             of encoder and decoder. Default: 2
  --width N              Default: 64
  --heads N              Default: 8
  --feed-forward N       Default: 4 times the width
Training
  --updates N            Default: 400
  --batch-tokens N       Default: 1024
  --rate X               highest learning rate; it rises for the first --warm-up updates and falls as 1/sqrt(step).
                         Default: 0.005
  --warm-up N            Default: a quarter of the updates, at most 4000
  --dropout P            Default: 0
  --label-smoothing E    Default: 0
  --clip X               longest gradient; 0 does not clip. Default: 1
  --seed S               of weights, dropout, order and grammar. Default: 1
  --checkpoint-every N   updates; writes DIR/checkpoint.safetensors. Default: 0, none
  --resume               goes on from DIR/checkpoint.safetensors: the end is the same, bit for bit
Other
  --threads N            1 to 4096; 0 takes all cores (default). No result depends on it
  --out DIR              receives config.json, model.safetensors, the vocabularies and training.json
  --version              prints the version of headred
  --help, -h

Exit code: 0 done; 1 the input cannot be used or the output not be written; 2 the command line is wrong.
)";

struct settings {
  std::string data, model, out;
  index_t sentences = 40000, held_out = 500, layers = 2, width = 64, heads = 8, feed_forward = 0, updates = 400,
          batch_tokens = 1024, warm_up = -1, checkpoint_every = 0;
  double rate = .005, dropout = 0, label_smoothing = 0, clip = 1;
  std::uint64_t seed = 1;
  int threads = 0;
  bool resume = false;
};

settings read_settings(examples::arguments words) {
  settings s;
  const auto count = [&](index_t least, index_t most) {
    return words.number<index_t>("a number from " + std::to_string(least) + " to " + std::to_string(most),
                                 [=](index_t n) { return n >= least && n <= most; });
  };
  const auto share = [&] {
    return words.number<double>("a number in [0,1)", [](double p) { return p >= 0 && p < 1; });
  };
  const auto positive = [&](const char* expected, double least) {
    return words.number<double>(expected, [=](double x) { return std::isfinite(x) && x >= least; });
  };
  while (!words.empty()) {
    const std::string option = words.option();
    if (option == "--data")
      s.data = words.value();
    else if (option == "--model")
      s.model = words.value();
    else if (option == "--out")
      s.out = words.value();
    else if (option == "--sentences")
      s.sentences = count(2, 100000000);
    else if (option == "--held-out")
      s.held_out = count(0, 1000000);
    else if (option == "--layers")
      s.layers = count(1, 256);
    else if (option == "--width")
      s.width = count(2, 65536);
    else if (option == "--heads")
      s.heads = count(1, 4096);
    else if (option == "--feed-forward")
      s.feed_forward = count(1, 1 << 20);
    else if (option == "--updates")
      s.updates = count(1, 1000000000);
    else if (option == "--batch-tokens")
      s.batch_tokens = count(1, 1 << 24);
    else if (option == "--warm-up")
      s.warm_up = count(1, 1000000000);
    else if (option == "--checkpoint-every")
      s.checkpoint_every = count(0, 1000000000);
    else if (option == "--rate")
      s.rate = positive("a number of at least 0", 0);
    else if (option == "--clip")
      s.clip = positive("a number of at least 0", 0);
    else if (option == "--dropout")
      s.dropout = share();
    else if (option == "--label-smoothing")
      s.label_smoothing = share();
    else if (option == "--seed")
      s.seed = words.number<std::uint64_t>("a number from 0 on", [](auto) { return true; });
    else if (option == "--threads")
      s.threads = static_cast<int>(count(0, 4096));
    else if (option == "--resume")
      s.resume = true;
    else
      throw examples::usage_error("unknown option " + option);
  }
  if (s.out.empty()) throw examples::usage_error("--out is missing");
  if (s.warm_up < 0) s.warm_up = std::clamp<index_t>(s.updates / 4, 1, 4000);
  if (!s.model.empty() && s.data.empty()) throw examples::usage_error("--model needs --data");
  if (s.model.empty() && s.width % s.heads != 0)
    throw examples::usage_error("--width is " + std::to_string(s.width) + ", expected a multiple of --heads, " +
                                std::to_string(s.heads));
  return s;
}

examples::pair_data read_data(const settings& s) {
  if (s.data.empty()) return examples::grammar_pairs(s.seed, 0, s.sentences);
  if (s.model.empty()) return examples::character_pairs(s.data);
  return examples::character_pairs(s.data, headred::load_vocabulary(fs::path(s.model) / "source_vocabulary.txt"),
                                   headred::load_vocabulary(fs::path(s.model) / "target_vocabulary.txt"));
}

model_type make_model(headred::cpu& be, const settings& s, const examples::pair_data& data) {
  if (!s.model.empty()) {
    auto loaded = headred::load_transformer<float>(be, fs::path(s.model));
    loaded.config.dropout = s.dropout;
    if (!loaded.config.has_cross()) throw headred::error(s.model + ": not an encoder-decoder, which pairs need");
    return model_type(be, std::move(loaded.config), std::move(loaded.weights));
  }
  const auto positions = static_cast<index_t>(std::max<std::size_t>(64, 2 * data.longest() + 2));
  model_type model(be, headred::uniform_config({.layers = s.layers,
                                                .width = s.width,
                                                .heads = s.heads,
                                                .feed_forward = s.feed_forward,
                                                .source_vocabulary = data.source_symbols.size(),
                                                .target_vocabulary = data.target_symbols.size(),
                                                .max_positions = positions,
                                                .dropout = s.dropout}));
  headred::initialize(be, model.weights(), s.seed);
  return model;
}

struct evaluation {
  double nll = 0;  ///< per target token, the end counted, in nats
  index_t exact = 0, pairs = 0;
};

/// The pairs from `begin` on: likelihood of the true targets, and how many greedy decoding gives back whole.
evaluation evaluate(trainer_type& run, const examples::pair_data& data, index_t begin) {
  evaluation e;
  const auto& c = run.model().config();
  headred::incremental_decoder<float, headred::cpu> decoder(run.model());
  headred::training_batch batch;
  double sum = 0;
  index_t tokens = 0;
  for (index_t i = begin; i < data.size(); i += 64) {
    examples::stop_if_interrupted();
    std::vector<index_t> numbers;
    for (index_t j = i; j < std::min(data.size(), i + 64); ++j) numbers.push_back(j);
    headred::fill_pairs(batch, data.sources, data.targets, numbers, c.begin_id, c.end_id);
    const auto found = run.evaluate(batch);
    sum += found.loss * static_cast<double>(found.tokens);
    tokens += found.tokens;
    const auto best = headred::greedy(decoder, batch.source, {.max_length = static_cast<index_t>(data.longest()) + 2});
    for (std::size_t j = 0; j < best.size(); ++j)
      e.exact += best[j].ids == data.targets[static_cast<std::size_t>(numbers[j])];
    e.pairs += static_cast<index_t>(numbers.size());
  }
  if (tokens > 0) e.nll = sum / static_cast<double>(tokens);
  return e;
}

void run(const settings& s) {
  const examples::pair_data data = read_data(s);
  const index_t trained = data.size() - std::min(s.held_out, data.size() / 2);
  headred::cpu be{{.threads = s.threads}};
  model_type model = make_model(be, s, data);
  model.train();
  headred::adam<float, headred::cpu> optimizer(be, headred::parameter_list<float, headred::cpu>(model.weights()),
                                               {.beta2 = .98});
  trainer_type trainer(model, optimizer,
                       {.rate = {headred::decay_kind::noam, s.rate, s.warm_up},
                        .label_smoothing = s.label_smoothing,
                        .longest_gradient = s.clip,
                        .seed = s.seed});
  auto lengths = headred::pair_lengths(data.sources, data.targets);
  lengths.resize(static_cast<std::size_t>(trained));
  headred::batch_order order(std::move(lengths), {.tokens = s.batch_tokens, .seed = s.seed});
  const fs::path out(s.out), checkpoint = out / "checkpoint.safetensors";
  std::error_code problem;
  fs::create_directories(out, problem);
  if (problem) throw headred::file_error(s.out, "cannot be made: " + problem.message());
  if (s.resume) headred::load_checkpoint(checkpoint, trainer, order);

  nlohmann::ordered_json curve = nlohmann::ordered_json::array();
  headred::training_batch batch;
  headred::progress progress(s.updates, trainer.steps());
  examples::status_line line;
  while (trainer.steps() < s.updates) {
    examples::stop_if_interrupted();
    headred::fill_pairs(batch, data.sources, data.targets, order.next(), model.config().begin_id,
                        model.config().end_id);
    const auto step = trainer.step(batch);
    line.show(headred::progress_line(progress.add(step.tokens), step.loss, step.learning_rate));
    const index_t n = trainer.steps();
    if (n % std::max<index_t>(1, s.updates / 100) == 0 || n == s.updates)
      curve.push_back({{"step", n}, {"loss", step.loss}, {"gradient_norm", step.gradient_norm}});
    if (s.checkpoint_every > 0 && n % s.checkpoint_every == 0) headred::save_checkpoint(checkpoint, trainer, order);
  }
  line.clear();
  const evaluation e = evaluate(trainer, data, trained);

  headred::save_transformer(out, model.config(), model.weights());
  examples::save_vocabulary(out / "source_vocabulary.txt", data.source_symbols);
  examples::save_vocabulary(out / "target_vocabulary.txt", data.target_symbols);
  const nlohmann::ordered_json summary = {{"data", data.name},
                                          {"pairs", trained},
                                          {"updates", trainer.steps()},
                                          {"skipped_updates", trainer.skipped()},
                                          {"seed", s.seed},
                                          {"held_out_pairs", e.pairs},
                                          {"held_out_nll_per_token", e.nll},
                                          {"held_out_exact", e.exact},
                                          {"curve", curve}};
  headred::write_file_atomically(out / "training.json", summary.dump(1) + "\n");
  std::cout << "trained on " << trained << " pairs: " << trainer.steps() << " updates\n";
  if (e.pairs > 0)
    std::cout << "held out: " << e.exact << " of " << e.pairs << " translated exactly, " << e.nll
              << " nats per token\n";
  std::cout << "model: " << examples::one_line(s.out) << '\n';
}

}  // namespace

int main(int count, char** words) {
  return examples::tool_main("train_transformer", help, count, words,
                             [](const examples::arguments& all) { run(read_settings(all)); });
}
