// The command line of zero_shot_pruning.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/core/head.hpp>

#include "arguments.hpp"
#include "distance_names.hpp"

namespace examples {

using headred::index_t;

inline constexpr std::string_view pruning_help =
    R"(zero_shot_pruning: heads kept by redundancy against heads kept by chance

  zero_shot_pruning [--model DIR [--data FILE [--eval FILE]]] --out DIR

Random tokens go through the model; heads that attend alike are clustered; each cluster keeps one head. Such plans, one
for each seed of random tokens, are measured beside random plans that keep as many heads, as pruned and after the same
further updates.

Model and data
  --model DIR          config.json, model.safetensors and vocabularies: an encoder-decoder (Marian) or a masked LM (ALBERT,
                       BERT). Without it, a small model is trained on an invented language first
  --data FILE          what to train on: SOURCE<tab>TARGET a line; for a masked LM one sentence a line, tokens between
                       spaces. Every tenth line is set aside to select checkpoints by
  --eval FILE          what to report on. Default: another tenth of --data
Plans
  --ratios FROM:TO:STEP  shares of heads to remove, in [0,1). Default: 0.25:0.75:0.25
  --kinds NAME...      encoder_self, decoder_self, cross alone, or all of them together. Default: each that there is, and all
                       (all without --model)
  --distance NAME      default: jensen_shannon
  --seeds N            of random tokens, a plan each. Default: 3
  --random-plans N     default: 6
  --sentences N        random sentences for each seed. Default: 256 (32 without --model)
  --lengths MIN:MAX    of random sentences. Default: 8:128 (8:24 without --model)
Training
  --updates N          after pruning, for every plan and for the whole model. Default: 0 (12 without --model)
  --trained-plans N    plans of each sort that are trained. Default: all
  --scratch N          updates for models of the same shapes that start from nothing. Default: 0, none
  --rate X             highest learning rate of Adam. Default: 0.001
  --batch-tokens N     default: 1024
  --decode             exact match and symbol error rate by greedy decoding, too
Other
  --matrices           also compares redundancy matrices: of random tokens and of --eval, and of all seven distances
  --compare DIR...     also compares the model's redundancy matrices with those of other models of its shape and
                       vocabularies (after fine-tuning, for another task), on the same random tokens. Needs --model
  --threads N          1 to 4096; 0 takes all cores (default). No result depends on it
  --seed S             of training and of the first random tokens. Default: 1
  --out DIR            receives curves.json, report.html and, of the first seed, plan_<kinds>_<heads removed>.json
  --version            prints the version of headred
  --help, -h

Exit code: 0 done; 1 the input cannot be used or the output not be written; 2 the command line is wrong.
)";

struct pruning_settings {
  std::string model, data, eval, out;
  std::vector<double> ratios;
  std::vector<std::string> kinds;    // none: each and all
  std::vector<std::string> compare;  // folders of models
  std::string distance = "jensen_shannon";
  index_t seeds = 3, random_plans = 6;
  index_t sentences = 0;
  std::pair<index_t, index_t> lengths = {0, 0};
  index_t updates = -1, trained_plans = 1 << 20, scratch = 0, batch_tokens = 1024;
  double rate = 1e-3;
  bool decode = false, matrices = false;
  int threads = 0;
  std::uint64_t seed = 1;
};

namespace detail {

/// The numbers of "FROM:TO:STEP", each to 9 digits so that 0.05:0.95:0.05 has 0.35 and not 0.35000000000000003.
inline std::vector<double> ratio_list(const arguments& words, const std::string& text) {
  double parts[3] = {};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int i = 0; i < 3; ++i) {
    const auto [next, problem] = std::from_chars(at, end, parts[i]);
    if (problem != std::errc{} || (i < 2 ? next == end || *next != ':' : next != end))
      words.refuse(text, "FROM:TO:STEP with 0 <= FROM <= TO < 1 and a STEP above 0");
    at = next + 1;
  }
  if (!(parts[0] >= 0 && parts[0] <= parts[1] && parts[1] < 1 && parts[2] >= 1e-4))
    words.refuse(text, "FROM:TO:STEP with 0 <= FROM <= TO < 1 and a STEP of 0.0001 or more");
  std::vector<double> all;
  for (int i = 0; parts[0] + i * parts[2] <= parts[1] + 1e-9; ++i)
    all.push_back(std::round((parts[0] + i * parts[2]) * 1e9) / 1e9);
  return all;
}

}  // namespace detail

/// Throws usage_error for whatever does not make sense without looking at a file.
inline pruning_settings read_pruning_settings(arguments words) {
  pruning_settings s;
  while (!words.empty()) {
    const std::string option = words.option();
    if (option == "--model") {
      s.model = words.value();
    } else if (option == "--data") {
      s.data = words.value();
    } else if (option == "--eval") {
      s.eval = words.value();
    } else if (option == "--out") {
      s.out = words.value();
    } else if (option == "--ratios") {
      s.ratios = detail::ratio_list(words, words.value());
    } else if (option == "--kinds") {
      for (auto& kind : words.values()) {
        if (kind != "encoder_self" && kind != "decoder_self" && kind != "cross" && kind != "all")
          words.refuse(kind, "encoder_self, decoder_self, cross or all");
        s.kinds.push_back(std::move(kind));
      }
    } else if (option == "--distance") {
      s.distance = words.value();
      if (!is_distance(s.distance)) words.refuse(s.distance, "one of the seven names (see head_redundancy --help)");
    } else if (option == "--seeds") {
      s.seeds = words.whole(1);
    } else if (option == "--random-plans") {
      s.random_plans = words.whole(2);
    } else if (option == "--sentences") {
      s.sentences = words.whole(1);
    } else if (option == "--lengths") {
      s.lengths = words.range<index_t>("MIN:MAX with 1 <= MIN <= MAX <= 100000",
                                       [](index_t a, index_t b) { return 1 <= a && a <= b && b <= 100000; });
    } else if (option == "--updates") {
      s.updates = words.whole(0);
    } else if (option == "--trained-plans") {
      s.trained_plans = words.whole(1);
    } else if (option == "--scratch") {
      s.scratch = words.whole(0);
    } else if (option == "--rate") {
      s.rate = words.positive();
    } else if (option == "--batch-tokens") {
      s.batch_tokens = words.whole(1);
    } else if (option == "--decode") {
      s.decode = true;
    } else if (option == "--compare") {
      for (auto& folder : words.values()) s.compare.push_back(std::move(folder));
    } else if (option == "--matrices") {
      s.matrices = true;
    } else if (option == "--threads") {
      s.threads = words.threads();
    } else if (option == "--seed") {
      s.seed = words.seed();
    } else {
      throw usage_error("unknown option " + option);
    }
  }
  if (s.out.empty()) throw usage_error("--out is missing");
  if (!s.data.empty() && s.model.empty()) throw usage_error("--data needs --model");
  if (!s.model.empty() && s.data.empty()) throw usage_error("--model needs --data");
  if (!s.eval.empty() && s.data.empty()) throw usage_error("--eval needs --data");
  if (!s.compare.empty() && s.model.empty()) throw usage_error("--compare needs --model");
  if (s.ratios.empty()) s.ratios = {.25, .5, .75};
  const bool small = s.model.empty();
  if (small && s.kinds.empty()) s.kinds = {"all"};
  if (s.updates < 0) s.updates = small ? 12 : 0;
  if (s.sentences == 0) s.sentences = small ? 32 : 256;
  if (s.lengths.first == 0)
    s.lengths = small ? std::pair<index_t, index_t>{8, 24} : std::pair<index_t, index_t>{8, 128};
  return s;
}

}  // namespace examples
