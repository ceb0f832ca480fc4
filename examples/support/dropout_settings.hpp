// The command line of dropout_study.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/core/view.hpp>

#include "arguments.hpp"

namespace examples {

using headred::index_t;

inline constexpr std::string_view dropout_help =
    R"(dropout_study: does dropout while training make attention heads more alike?

  dropout_study [--task translation|masked] --out DIR

Trains small models on an invented language: without dropout, with hidden dropout (on embeddings and on what each block
adds) and with attention dropout (on attention weights), at each rate, with several seeds. Of every model the heads'
mean distance is measured on held-out sentences by all seven distances (Bian et al. 2021). All models of a seed have
the same first weights and batches.

Models
  --task NAME          translation: an encoder-decoder on sentence pairs; masked: an encoder that finds masked tokens of
                       their source side. Default: translation
  --rates P,P,...      rates of dropout in [0,1), ascending, from 0 on, at least three. Default: 0,0.1,0.2,0.3,0.4
  --seeds N            of weights, batches and dropout. Default: 3
  --layers N, --width N, --heads N  of each stack. Default: 2, 48, 6
Training
  --updates N          Default: 800
  --batch-tokens N     Default: 512
  --rate X             highest learning rate: it rises for a tenth of the updates, then falls. Default: 0.005
  --train N            sentences to train on. Default: 8000
Other
  --sentences N        held-out sentences to measure distances on. Default: 60
  --runs DIR           keeps what each model came to there, and takes what is there already: so a study that was
                       interrupted goes on
  --threads N          1 to 4096; 0 takes all cores (default). No result depends on it
  --seed S             the first seed. Default: 1
  --out DIR            receives results.json and report.html
  --version            prints the version of headred
  --help, -h

Exit code: 0 done; 1 the input cannot be used or the output not be written; 2 the command line is wrong.
)";

struct dropout_settings {
  std::string out, runs;
  bool masked = false;  ///< the task
  std::vector<double> rates = {0, .1, .2, .3, .4};
  index_t seeds = 3, layers = 2, width = 48, heads = 6, updates = 800, batch_tokens = 512, train = 8000, sentences = 60;
  double rate = 5e-3;
  int threads = 0;
  std::uint64_t seed = 1;

  std::string task() const { return masked ? "masked" : "translation"; }
};

namespace detail {

inline std::vector<double> dropout_rates(arguments& words) {
  const std::string expected = "at least three ascending numbers in [0,1), from 0 on, parted by commas";
  std::vector<double> all;
  const std::string list = words.value();
  for (const std::string& part : words.parts(list, expected)) {
    double p = -1;
    const auto [end, problem] = std::from_chars(part.data(), part.data() + part.size(), p);
    const bool number = problem == std::errc{} && end == part.data() + part.size();
    if (!number || !(p < 1) || !(all.empty() ? p == 0 : p > all.back())) words.refuse(list, expected);
    all.push_back(p);
  }
  if (all.size() < 3) words.refuse(list, expected);
  return all;
}

}  // namespace detail

/// Throws usage_error for whatever does not make sense.
inline dropout_settings read_dropout_settings(arguments words) {
  dropout_settings s;
  const std::pair<std::string_view, std::string*> texts[] = {{"--out", &s.out}, {"--runs", &s.runs}};
  struct number {
    std::string_view name;
    index_t* value;
    index_t least, most;
  };
  const number counts[] = {{"--seeds", &s.seeds, 2, 1000},          {"--layers", &s.layers, 1, 256},
                           {"--width", &s.width, 2, 65536},         {"--heads", &s.heads, 2, 4096},
                           {"--updates", &s.updates, 1, 100000000}, {"--batch-tokens", &s.batch_tokens, 1, 1 << 24},
                           {"--train", &s.train, 1, 10000000},      {"--sentences", &s.sentences, 1, 100000}};
  while (!words.empty()) {
    const std::string option = words.option();
    const auto named = [&](const auto& entry) { return entry.first == option; };
    const auto counted = [&](const number& entry) { return entry.name == option; };
    if (const auto* text = std::find_if(std::begin(texts), std::end(texts), named); text != std::end(texts)) {
      *text->second = words.value();
    } else if (const auto* n = std::find_if(std::begin(counts), std::end(counts), counted); n != std::end(counts)) {
      *n->value = words.whole(n->least, n->most);
    } else if (option == "--task") {
      const std::string task = words.value();
      if (task != "translation" && task != "masked") words.refuse(task, "translation or masked");
      s.masked = task == "masked";
    } else if (option == "--rates") {
      s.rates = detail::dropout_rates(words);
    } else if (option == "--rate") {
      s.rate = words.positive();
    } else if (option == "--threads") {
      s.threads = words.threads();
    } else if (option == "--seed") {
      s.seed = words.seed();
    } else {
      throw usage_error("unknown option " + option);
    }
  }
  if (s.out.empty()) throw usage_error("--out is missing");
  if (s.width % s.heads != 0) throw usage_error("--width is no multiple of --heads");
  return s;
}

}  // namespace examples
