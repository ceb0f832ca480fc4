// The command line of attention_masks.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/core/view.hpp>

#include "arguments.hpp"

namespace examples {

using headred::index_t;

inline constexpr std::string_view mask_help =
    R"(attention_masks: which positions attention needs, and masks that are learned

  attention_masks --out DIR                            a small model that is trained on an invented language first
  attention_masks --model DIR --data FILE --out DIR    a masked LM (ALBERT, BERT)

Parts
  --parts A,B,...      of
                         removal      the model without one class of positions: diagonal, near offsets, special tokens
                         importance   masks learned without a price, the model trained along: P(open) by offset
                         pretraining  models from scratch without the diagonal, without another near offset, with all
                         masks        learned masks over a range of prices against fixed patterns
                       Default: all; with --model removal
Model and data
  --model DIR          config.json, model.safetensors and vocab.txt of a masked LM
  --data FILE          one sentence a line, tokens between spaces. Every tenth line is set aside to measure on
  --places FILE        which tokens are masked to measure: a JSON object whose "reactions" hold "positions", one entry a
                       line of --data from the first on
  --sentences N        to measure on. Default: 200 (60 with --model)
  --masked N           tokens of each that are masked, one at a time. Default: 6 (10 with --model)
  --remove A,B,...     what `removal` takes away, one at a time: offsets, and special (special tokens as keys).
                       Default: 0,1,2,3,11,special
Training
  --seeds N            of models, data and noise. Default: 3 (1 with --model)
  --train N            updates from scratch. Default: 1000
  --updates N          updates with masks. Default: 200
  --rate X             highest learning rate. Default: 0.008 (0.0001 with --model)
  --mask-rate X        learning rate of masks. Default: 0.05
  --lambdas X,X,...    prices of an open entry. Default: 0.001,0.03,1
  --offsets N          pre-training goes without offsets 0 to N; importance lists them. Default: 3
  --length N           longest sentence to train on, with --model. Default: 128
  --soft               soft samples, as in the paper, instead of samples of 0 and 1
  --batch-tokens N     default: 512 (1024 with --model)
Other
  --threads N          1 to 4096; 0 takes all cores (default). No result depends on it
  --seed S             the first. Default: 1
  --runs DIR           keeps what every training came to, and takes what is there already: so a study that was
                       interrupted goes on
  --out DIR            receives results.json and report.html
  --version            prints the version of headred
  --help, -h

Exit code: 0 done; 1 the input cannot be used or the output not be written; 2 the command line is wrong.
)";

struct mask_settings {
  std::string model, data, places, out, runs;
  std::vector<std::string> parts;
  std::vector<index_t> remove;  // offsets
  bool remove_special = false;
  std::vector<double> lambdas;
  index_t sentences = 0, masked = 0, seeds = 0, train = 1000, updates = 200, offsets = 3, length = 0;
  index_t batch_tokens = 0;
  double rate = 0, mask_rate = .05;
  bool soft = false;
  int threads = 0;
  std::uint64_t seed = 1;

  bool has(std::string_view part) const { return std::find(parts.begin(), parts.end(), part) != parts.end(); }
};

/// Throws usage_error for whatever does not make sense without looking at a file.
inline mask_settings read_mask_settings(arguments words) {
  mask_settings s;
  while (!words.empty()) {
    const std::string option = words.option();
    if (option == "--parts") {
      const std::string expected = "a list of removal, importance, pretraining, masks";
      for (auto& part : words.parts(words.value(), expected)) {
        if ((part != "removal" && part != "importance" && part != "pretraining" && part != "masks") || s.has(part))
          words.refuse(part, expected);
        s.parts.push_back(std::move(part));
      }
    } else if (option == "--model") {
      s.model = words.value();
    } else if (option == "--data") {
      s.data = words.value();
    } else if (option == "--places") {
      s.places = words.value();
    } else if (option == "--out") {
      s.out = words.value();
    } else if (option == "--runs") {
      s.runs = words.value();
    } else if (option == "--lambdas") {
      const std::string expected = "a list of different numbers of at least 0";
      for (const auto& part : words.parts(words.value(), expected)) {
        double x = -1;
        const auto [end, problem] = std::from_chars(part.data(), part.data() + part.size(), x);
        if (problem != std::errc{} || end != part.data() + part.size() || !(x >= 0) || !std::isfinite(x) ||
            std::ranges::find(s.lambdas, x) != s.lambdas.end())
          words.refuse(part, expected);
        s.lambdas.push_back(x);
      }
    } else if (option == "--remove") {
      const std::string expected = "a list of different offsets and special";
      for (const auto& part : words.parts(words.value(), expected)) {
        index_t offset = -1;
        const auto [end, problem] = std::from_chars(part.data(), part.data() + part.size(), offset);
        const bool number = problem == std::errc{} && end == part.data() + part.size() && offset >= 0;
        const bool again = number ? std::ranges::find(s.remove, offset) != s.remove.end() : s.remove_special;
        if ((!number && part != "special") || again) words.refuse(part, expected);
        if (number) s.remove.push_back(offset);
        s.remove_special = s.remove_special || !number;
      }
    } else if (option == "--sentences") {
      s.sentences = words.whole(2);
    } else if (option == "--masked") {
      s.masked = words.whole(1);
    } else if (option == "--seeds") {
      s.seeds = words.whole(1, 100);
    } else if (option == "--train") {
      s.train = words.whole(1);
    } else if (option == "--updates") {
      s.updates = words.whole(1);
    } else if (option == "--rate") {
      s.rate = words.positive();
    } else if (option == "--mask-rate") {
      s.mask_rate = words.positive();
    } else if (option == "--offsets") {
      s.offsets = words.whole(0, 64);
    } else if (option == "--length") {
      s.length = words.whole(3, 32768);
    } else if (option == "--soft") {
      s.soft = true;
    } else if (option == "--batch-tokens") {
      s.batch_tokens = words.whole(1);
    } else if (option == "--threads") {
      s.threads = words.threads();
    } else if (option == "--seed") {
      s.seed = words.seed();
    } else {
      throw usage_error("unknown option " + option);
    }
  }
  if (s.out.empty()) throw usage_error("--out is missing");
  const bool small = s.model.empty();
  if (small && !s.data.empty()) throw usage_error("--data needs --model");
  if (!small && s.data.empty()) throw usage_error("--model needs --data");
  if (small && !s.places.empty()) throw usage_error("--places needs --model");
  if (small && s.length != 0) throw usage_error("--length needs --model");
  if (s.parts.empty())
    s.parts = small ? std::vector<std::string>{"removal", "importance", "pretraining", "masks"}
                    : std::vector<std::string>{"removal"};
  if (s.remove.empty() && !s.remove_special) {
    s.remove = {0, 1, 2, 3, 11};
    s.remove_special = true;
  }
  if (s.lambdas.empty()) s.lambdas = {1e-3, 3e-2, 1};
  if (s.sentences == 0) s.sentences = small ? 200 : 60;
  if (s.masked == 0) s.masked = small ? 6 : 10;
  if (s.seeds == 0) s.seeds = small ? 3 : 1;
  if (s.rate == 0) s.rate = small ? 8e-3 : 1e-4;
  if (s.length == 0 && !small) s.length = 128;
  if (s.batch_tokens == 0) s.batch_tokens = small ? 512 : 1024;
  return s;
}

}  // namespace examples
