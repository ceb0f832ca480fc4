// Trains an encoder-decoder on sentence pairs (yours, or those of a small translation grammar), or a masked language
// model on text.
// run: --out model --updates 20 --width 32 --layers 1 --threads 2
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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

#include "support/masked_text.hpp"
#include "support/output_folder.hpp"
#include "support/pair_data.hpp"
#include "support/status_line.hpp"
#include "support/tool_main.hpp"

namespace {

using headred::index_t;
using model_type = headred::transformer<float, headred::cpu>;
using trainer_type = headred::trainer<float, headred::cpu>;
namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr std::string_view help = R"(train_transformer: an encoder-decoder from sentence pairs, or a masked LM from text

  train_transformer [--data FILE.tsv] [--model DIR] --out DIR
  train_transformer --text FILE... --pieces FILE --out DIR

Data
  --data FILE.tsv        SOURCE<tab>TARGET lines, read character by character. Without this option: pairs of a small
                         translation grammar (see headred/nn/translation_grammar.hpp)
  --sentences N          of the grammar. Default: 40000
  --held-out N           the last N pairs or sentences are not trained on, but evaluated. Default: 500
  --text FILE...         for a masked LM: a sentence a line, words between spaces, or treebanks (*.conllu). 15 % of the
                         tokens are hidden, others in every pass; sentences of more than 128 pieces are left out
  --pieces FILE          a vocabulary of word pieces, as BERT's, one a line
  --least N              pieces that the text needs less often are spelled with others. Default: 5
Model
  --model DIR            training goes on with this model; its vocabularies lie beside it (with --data)
  --layers N             of each stack. Default: 2
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
  --out DIR              receives config.json, model.safetensors, the vocabularies and training.json; with --text also
                         held_out.txt, the pieces of the sentences that were held out
  --version              prints the version of headred
  --help, -h

Exit code: 0 done; 1 the input cannot be used or the output not be written; 2 the command line is wrong.
)";

struct settings {
  std::string data, model, pieces, out;
  std::vector<std::string> text;
  index_t sentences = 40000, held_out = 500, layers = 2, width = 64, heads = 8, feed_forward = 0, updates = 400,
          batch_tokens = 1024, warm_up = -1, checkpoint_every = 0, least = 5;
  double rate = .005, dropout = 0, label_smoothing = 0, clip = 1;
  std::uint64_t seed = 1;
  int threads = 0;
  bool resume = false;
};

settings read_settings(examples::arguments words) {
  settings s;
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
    else if (option == "--text")
      for (auto& file : words.values()) s.text.push_back(std::move(file));
    else if (option == "--pieces")
      s.pieces = words.value();
    else if (option == "--least")
      s.least = words.whole(1, 1000000);
    else if (option == "--out")
      s.out = words.value();
    else if (option == "--sentences")
      s.sentences = words.whole(2, 100000000);
    else if (option == "--held-out")
      s.held_out = words.whole(0, 1000000);
    else if (option == "--layers")
      s.layers = words.whole(1, 256);
    else if (option == "--width")
      s.width = words.whole(2, 65536);
    else if (option == "--heads")
      s.heads = words.whole(1, 4096);
    else if (option == "--feed-forward")
      s.feed_forward = words.whole(1, 1 << 20);
    else if (option == "--updates")
      s.updates = words.whole(1, 1000000000);
    else if (option == "--batch-tokens")
      s.batch_tokens = words.whole(1, 1 << 24);
    else if (option == "--warm-up")
      s.warm_up = words.whole(1, 1000000000);
    else if (option == "--checkpoint-every")
      s.checkpoint_every = words.whole(0, 1000000000);
    else if (option == "--rate")
      s.rate = positive("a number of at least 0", 0);
    else if (option == "--clip")
      s.clip = positive("a number of at least 0", 0);
    else if (option == "--dropout")
      s.dropout = share();
    else if (option == "--label-smoothing")
      s.label_smoothing = share();
    else if (option == "--seed")
      s.seed = words.seed();
    else if (option == "--threads")
      s.threads = words.threads();
    else if (option == "--resume")
      s.resume = true;
    else
      throw examples::usage_error("unknown option " + option);
  }
  if (s.out.empty()) throw examples::usage_error("--out is missing");
  if (s.warm_up < 0) s.warm_up = std::clamp<index_t>(s.updates / 4, 1, 4000);
  if (s.text.empty() != s.pieces.empty()) throw examples::usage_error("--text and --pieces need each other");
  if (!s.text.empty() && (!s.data.empty() || !s.model.empty()))
    throw examples::usage_error("--text is for a new masked LM, without --data and --model");
  if (!s.model.empty() && s.data.empty()) throw examples::usage_error("--model needs --data");
  std::error_code ignored;
  if (!s.model.empty() && fs::equivalent(s.model, s.out, ignored))
    throw examples::usage_error("--out is the model's own folder, expected another");
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

headred::uniform_geometry geometry_of(const settings& s) {
  return {.layers = s.layers, .width = s.width, .heads = s.heads, .feed_forward = s.feed_forward, .dropout = s.dropout};
}

model_type make_model(headred::cpu& be, const settings& s, const examples::pair_data& data) {
  if (!s.model.empty()) {
    auto loaded = headred::load_transformer<float>(be, fs::path(s.model));
    loaded.config.dropout = s.dropout;
    if (!loaded.config.has_cross()) throw headred::error(s.model + ": not an encoder-decoder, which pairs need");
    return model_type(be, std::move(loaded.config), std::move(loaded.weights));
  }
  const auto positions = static_cast<index_t>(std::max<std::size_t>(64, 2 * data.longest() + 2));
  headred::uniform_geometry geometry = geometry_of(s);
  geometry.source_vocabulary = data.source_symbols.size();
  geometry.target_vocabulary = data.target_symbols.size();
  geometry.max_positions = positions;
  model_type model(be, headred::uniform_config(geometry));
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

/// A model, its optimiser, and the order of what it is trained on.
class training {
 public:
  training(headred::cpu& be, const settings& s, model_type& model, std::vector<index_t> lengths)
      : settings_(s),
        optimizer_(be, headred::parameter_list<float, headred::cpu>(model.weights()), {.beta2 = .98}),
        trainer_(model, optimizer_,
                 {.rate = rate(s), .label_smoothing = s.label_smoothing, .longest_gradient = s.clip, .seed = s.seed}),
        order_(std::move(lengths), {.tokens = s.batch_tokens, .seed = s.seed}),
        out_(s.out) {
    if (!s.resume) return;
    headred::load_checkpoint(checkpoint(), trainer_, order_);
    if (trainer_.steps() > s.updates)
      throw headred::file_error(checkpoint().string(), "is after update " + std::to_string(trainer_.steps()) +
                                                           ", expected at most --updates, " +
                                                           std::to_string(s.updates));
    const auto& kept = trainer_.settings();
    if (kept.rate != rate(s) || kept.longest_gradient != s.clip || kept.label_smoothing != s.label_smoothing ||
        kept.seed != s.seed)
      std::cout << "resumed: --rate, --warm-up, --clip, --label-smoothing and --seed are those of the checkpoint\n";
  }
  trainer_type& trainer() { return trainer_; }

  /// All updates; fill(batch, numbers, epoch) makes a batch.
  template <class Fill>
  void run(const Fill& fill) {
    headred::training_batch batch;
    headred::progress progress(settings_.updates, trainer_.steps());
    examples::status_line line;
    index_t skipped = trainer_.skipped(), in_a_row = 0;
    while (trainer_.steps() < settings_.updates) {
      examples::stop_if_interrupted();
      const index_t epoch = order_.position().epoch;  // after next() it may be that of the batch that follows
      const auto numbers = order_.next();
      fill(batch, numbers, epoch);
      const auto step = trainer_.step(batch);
      line.show(headred::progress_line(progress.add(step.tokens), step.loss, step.learning_rate));
      const index_t n = trainer_.steps();
      in_a_row = trainer_.skipped() > skipped ? in_a_row + 1 : 0;
      skipped = trainer_.skipped();
      if (in_a_row == std::min(most_skipped, settings_.updates))
        throw headred::error("the gradients of " + std::to_string(in_a_row) +
                             " updates in a row were not finite, expected a lower --rate or other weights");
      if (n % std::max<index_t>(1, settings_.updates / 100) == 0 || n == settings_.updates)
        curve_.push_back({{"step", n}, {"loss", step.loss}, {"gradient_norm", step.gradient_norm}});
      if (settings_.checkpoint_every > 0 && n % settings_.checkpoint_every == 0)
        headred::save_checkpoint(checkpoint(), trainer_, order_);
    }
  }

  void print_skipped() const {
    if (trainer_.skipped() > 0)
      std::cout << trainer_.skipped() << " of them were skipped, their gradients not finite\n";
  }

  /// Where to write what belongs to the model.
  fs::path file(const std::string& name) { return out_.file(name); }
  /// Writes the model and training.json: the summary and the curve. All files appear now.
  void save(json summary) {
    out_.file("model.safetensors");
    headred::save_transformer(out_.file("config.json").parent_path(), trainer_.model().config(),
                              trainer_.model().weights());
    summary["curve"] = curve_;
    headred::write_file_atomically(out_.file("training.json"), summary.dump(1) + "\n");
    examples::stop_if_interrupted();
    out_.commit();
  }

 private:
  static constexpr index_t most_skipped = 100;

  static headred::learning_rate rate(const settings& s) { return {headred::decay_kind::noam, s.rate, s.warm_up}; }
  fs::path checkpoint() const { return fs::path(settings_.out) / "checkpoint.safetensors"; }

  const settings& settings_;
  headred::adam<float, headred::cpu> optimizer_;
  trainer_type trainer_;
  headred::batch_order order_;
  examples::output_folder out_;  // one that cannot be written is found out before anything is trained
  json curve_ = json::array();
};

void train_pairs(headred::cpu& be, const settings& s) {
  const examples::pair_data data = read_data(s);
  const index_t trained = data.size() - std::min(s.held_out, data.size() / 2);
  model_type model = make_model(be, s, data);
  examples::require_positions(data, model.config());
  model.train();
  auto lengths = headred::pair_lengths(data.sources, data.targets);
  lengths.resize(static_cast<std::size_t>(trained));
  training all(be, s, model, std::move(lengths));
  all.run([&](headred::training_batch& batch, std::span<const index_t> numbers, index_t) {
    headred::fill_pairs(batch, data.sources, data.targets, numbers, model.config().begin_id, model.config().end_id);
  });
  const evaluation e = evaluate(all.trainer(), data, trained);

  examples::save_vocabulary(all.file("source_vocabulary.txt"), data.source_symbols);
  examples::save_vocabulary(all.file("target_vocabulary.txt"), data.target_symbols);
  all.save({{"data", data.name},
            {"pairs", trained},
            {"updates", all.trainer().steps()},
            {"skipped_updates", all.trainer().skipped()},
            {"seed", s.seed},
            {"held_out_pairs", e.pairs},
            {"held_out_nll_per_token", e.nll},
            {"held_out_exact", e.exact}});
  std::cout << "trained on " << trained << " pairs: " << all.trainer().steps() << " updates\n";
  all.print_skipped();
  if (e.pairs > 0)
    std::cout << "held out: " << e.exact << " of " << e.pairs << " translated exactly, " << e.nll
              << " nats per token\n";
}

void train_text(headred::cpu& be, const settings& s) {
  examples::masked_text text = examples::read_masked_text(s.text, s.pieces, s.least);
  text.masking.seed = s.seed;
  const index_t trained = text.size() - std::min(s.held_out, text.size() / 2);
  model_type model(be, examples::masked_model(text, geometry_of(s)));
  headred::initialize(be, model.weights(), s.seed);
  model.train();
  auto lengths = headred::sentence_lengths(text.sentences);
  lengths.resize(static_cast<std::size_t>(trained));
  training all(be, s, model, std::move(lengths));
  all.run([&](headred::training_batch& batch, std::span<const index_t> numbers, index_t epoch) {
    headred::fill_masked(batch, text.sentences, numbers, text.masking, 1 + epoch);
  });

  const examples::piece_frequencies frequencies(text, trained);
  double nats = 0, guessed = 0;
  index_t tokens = 0;
  std::string lines;
  headred::training_batch batch;
  for (index_t i = trained; i < text.size(); ++i) {
    examples::stop_if_interrupted();
    headred::fill_masked(batch, text.sentences, std::vector<index_t>{i}, text.masking, 0);
    nats += all.trainer().evaluate(batch).loss * static_cast<double>(batch.tokens());
    tokens += batch.tokens();
    for (const headred::token_id id : batch.labels) guessed += frequencies.nll(id);
    lines += text.pieces.decode(text.sentences[static_cast<std::size_t>(i)], " ") + "\n";
  }
  const auto each = [&](double sum) { return tokens > 0 ? sum / static_cast<double>(tokens) : 0; };
  examples::save_vocabulary(all.file("vocab.txt"), text.pieces);
  headred::write_file_atomically(all.file("held_out.txt"), lines);
  all.save({{"data", text.name},
            {"sentences", trained},
            {"left_out", text.left_out},
            {"pieces", text.pieces.size()},
            {"updates", all.trainer().steps()},
            {"skipped_updates", all.trainer().skipped()},
            {"seed", s.seed},
            {"held_out_sentences", text.size() - trained},
            {"held_out_masked_tokens", tokens},
            {"held_out_nll_per_token", each(nats)},
            {"held_out_nll_by_frequency", each(guessed)}});
  std::cout << "trained on " << trained << " sentences, " << text.pieces.size() << " pieces: " << all.trainer().steps()
            << " updates\n";
  all.print_skipped();
  if (tokens > 0)
    std::cout << "held out: " << each(nats) << " nats per masked token, " << each(guessed)
              << " by the frequency of pieces\n";
}

void run(const settings& s) {
  headred::cpu be{{.threads = s.threads}};
  if (s.text.empty())
    train_pairs(be, s);
  else
    train_text(be, s);
  std::cout << "model: " << examples::one_line(s.out) << '\n';
}

}  // namespace

int main(int count, char** words) {
  return examples::tool_main("train_transformer", help, count, words,
                             [](const examples::arguments& all) { run(read_settings(all)); });
}
