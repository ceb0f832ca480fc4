// The command line of gated_pruning.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/core/head.hpp>
#include <headred/nn/gate_training.hpp>

#include "arguments.hpp"

namespace examples {

using headred::index_t;

inline constexpr std::string_view gated_help =
    R"(gated_pruning: which heads a model keeps when each has its price

  gated_pruning --model DIR --data FILE [--eval FILE] --lambda L,L,... --out DIR
  gated_pruning --out DIR                        a small model that is trained on an invented language first

Every head of a trained model gets a Hard-Concrete gate, and the loss a price for open gates (Voita et al. 2019). After
--updates with gates the closed heads are cut out, the model is saved, loaded, compared with the gated one and trained
further. Beside it: the whole model and random plans with as many heads of each kind, both trained on for as long.

Model and data
  --model DIR          config.json, model.safetensors and vocabularies: an encoder-decoder (Marian) or a masked LM
                       (ALBERT, BERT)
  --data FILE          what to train on: SOURCE<tab>TARGET a line; for a masked LM one sentence a line, tokens between
                       spaces. Every tenth line is set aside to select checkpoints and prices by
  --eval FILE          what to report on. Default: another tenth of --data
Gates
  --kinds KINDS        heads with gates: encoder, or all. Default: all
  --freeze-decoder     only the encoder learns while there are gates and afterwards; with --kinds encoder
  --lambda L,L,...     prices of an open gate, in nats a token. Default: 0.003,0.01,0.03
  --target K,K,...     instead: heads that shall stay, of all with gates; finds the price
  --target-rate X      in (0,1]: how fast it moves (target_sparsity's rate). Default: by number of gates and updates
  --method NAME        what lambda multiplies: the sum of P(open) over all gates, or with layer_mean the mean over
                       layers of each layer's sum. Default: sum
  --gate-rate X        learning rate of the gates. Default: 0.05 (0.1 without --model)
Training
  --updates N          with gates. Default: 1000 (120 without --model)
  --further N          after the closed heads are gone. Default: half of --updates
  --seeds N            of gates, batches and random plans, a run each. Default: 3 (2 without --model)
  --random-plans N     for each price. Default: as many as --seeds
  --scratch            trains models of the same shapes from nothing, for as long as all phases together
  --scratch-rate X     highest learning rate of these. Default: 0.005
  --rate X             highest learning rate of Adam: constant while there are gates, then it falls to 0. Default: 0.001
  --dropout P          in [0,1), of all training. Default: 0
  --batch-tokens N     default: 1024
Small model, without --model
  --layers N, --width N, --heads N  default: 2, 48, 6
Other
  --train N            updates of the small model before it gets gates, default 600; with --model those that it has had,
                       which --scratch adds, default 0
  --runs DIR           keeps every finished run there, pruned models too, and takes what is there already: so a study
                       that was interrupted goes on
  --threads N          1 to 4096; 0 takes all cores (default). No result depends on it
  --seed S             the first seed. Default: 1
  --out DIR            receives results.json, report.html and plan_<price>_<seed>.json
  --version            prints the version of headred
  --help, -h

Exit code: 0 done; 1 the input cannot be used or the output not be written; 2 the command line is wrong.
)";

struct gated_settings {
  std::string model, data, eval, out, runs;
  bool encoder_only = false, freeze_decoder = false, to_target = false, scratch = false;
  std::vector<double> prices;  ///< lambda, or with to_target numbers of heads; each once
  headred::gate_penalty method = headred::gate_penalty::sum;
  index_t updates = -1, further = -1, seeds = -1, random_plans = -1, train = -1, batch_tokens = 1024;
  index_t layers = 0, width = 0, heads = 0;
  double rate = 1e-3, gate_rate = 0, target_rate = 0, scratch_rate = 5e-3, dropout = 0;
  int threads = 0;
  std::uint64_t seed = 1;

  bool of_grammar() const { return model.empty(); }
  std::string price_name() const { return to_target ? "target" : "lambda"; }
};

namespace detail {

template <class Number, class Accept>
std::vector<double> price_list(arguments& words, const std::string& expected, const Accept& accept) {
  std::vector<double> all;
  const std::string list = words.value();
  for (const std::string& part : words.parts(list, expected)) {
    Number x{};
    const auto [end, problem] = std::from_chars(part.data(), part.data() + part.size(), x);
    if (problem != std::errc{} || end != part.data() + part.size() || !accept(x)) words.refuse(list, expected);
    if (std::find(all.begin(), all.end(), static_cast<double>(x)) != all.end()) words.refuse(list, expected);
    all.push_back(static_cast<double>(x));
  }
  return all;
}

/// What goes with what, and what is not given.
inline void complete(gated_settings& s) {
  const auto need = [](bool fine, const char* text) {
    if (!fine) throw usage_error(text);
  };
  const bool small = s.of_grammar();
  need(!s.out.empty(), "--out is missing");
  need(small || !s.data.empty(), "--model needs --data");
  need(s.data.empty() || !small, "--data needs --model");
  need(s.eval.empty() || !s.data.empty(), "--eval needs --data");
  need(s.target_rate == 0 || s.to_target, "--target-rate needs --target");
  need(!s.freeze_decoder || s.encoder_only, "--freeze-decoder needs --kinds encoder");
  need(small || (s.layers == 0 && s.width == 0 && s.heads == 0),
       "--layers, --width and --heads are for the small model, without --model");
  const auto set = [](index_t& n, index_t otherwise, index_t none) {
    if (n == none) n = otherwise;
  };
  if (s.prices.empty()) s.prices = {.003, .01, .03};
  set(s.updates, small ? 120 : 1000, -1);
  set(s.further, s.updates / 2, -1);
  set(s.seeds, small ? 2 : 3, -1);
  set(s.random_plans, s.seeds, -1);
  set(s.train, small ? 600 : 0, -1);
  if (s.gate_rate == 0) s.gate_rate = small ? .1 : .05;
  set(s.layers, 2, 0);
  set(s.width, 48, 0);
  set(s.heads, 6, 0);
  need(!small || s.width % s.heads == 0, "--width is no multiple of --heads");
}

}  // namespace detail

/// Throws usage_error for whatever does not make sense without looking at a file.
inline gated_settings read_gated_settings(arguments words) {
  gated_settings s;
  const std::pair<std::string_view, std::string*> texts[] = {
      {"--model", &s.model}, {"--data", &s.data}, {"--eval", &s.eval}, {"--out", &s.out}, {"--runs", &s.runs}};
  while (!words.empty()) {
    const std::string option = words.option();
    const auto text =
        std::find_if(std::begin(texts), std::end(texts), [&](const auto& t) { return t.first == option; });
    if (text != std::end(texts)) {
      *text->second = words.value();
    } else if (option == "--kinds") {
      const std::string kinds = words.value();
      if (kinds != "encoder" && kinds != "all") words.refuse(kinds, "encoder or all");
      s.encoder_only = kinds == "encoder";
    } else if (option == "--freeze-decoder") {
      s.freeze_decoder = true;
    } else if (option == "--lambda" || option == "--target") {
      if (!s.prices.empty() && s.to_target != (option == "--target"))
        throw usage_error("--lambda and --target exclude each other");
      s.to_target = option == "--target";
      s.prices = s.to_target
                     ? detail::price_list<index_t>(words, "whole numbers from 0 on, each once, parted by commas",
                                                   [](index_t n) { return n >= 0 && n <= 1000000; })
                     : detail::price_list<double>(words, "numbers of at least 0, each once, parted by commas",
                                                  [](double x) { return x >= 0 && std::isfinite(x); });
    } else if (option == "--method") {
      const std::string name = words.value();
      if (name != "sum" && name != "layer_mean") words.refuse(name, "sum or layer_mean");
      s.method = name == "sum" ? headred::gate_penalty::sum : headred::gate_penalty::layer_mean;
    } else if (option == "--updates") {
      s.updates = words.whole(1);
    } else if (option == "--further") {
      s.further = words.whole(0);
    } else if (option == "--seeds") {
      s.seeds = words.whole(1, 1000);
    } else if (option == "--random-plans") {
      s.random_plans = words.whole(0, 1000);
    } else if (option == "--train") {
      s.train = words.whole(0, 100000000);
    } else if (option == "--batch-tokens") {
      s.batch_tokens = words.whole(1);
    } else if (option == "--layers") {
      s.layers = words.whole(1, 256);
    } else if (option == "--width") {
      s.width = words.whole(2, 65536);
    } else if (option == "--heads") {
      s.heads = words.whole(1, 4096);
    } else if (option == "--rate") {
      s.rate = words.positive();
    } else if (option == "--target-rate") {
      s.target_rate = words.number<double>("a number in (0,1]", [](double x) { return x > 0 && x <= 1; });
    } else if (option == "--gate-rate") {
      s.gate_rate = words.positive();
    } else if (option == "--scratch-rate") {
      s.scratch_rate = words.positive();
    } else if (option == "--dropout") {
      s.dropout = words.number<double>("a number in [0,1)", [](double p) { return p >= 0 && p < 1; });
    } else if (option == "--scratch") {
      s.scratch = true;
    } else if (option == "--threads") {
      s.threads = words.threads();
    } else if (option == "--seed") {
      s.seed = words.seed();
    } else {
      throw usage_error("unknown option " + option);
    }
  }
  detail::complete(s);
  return s;
}

}  // namespace examples
