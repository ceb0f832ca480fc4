// How good is a model? Pairs decoded and scored against their references, or masked tokens guessed.
// run: none
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/atomic_file.hpp>

#include "support/evaluation.hpp"
#include "support/tool_main.hpp"

namespace {

using examples::evaluation_settings;
using headred::index_t;

constexpr std::string_view help = R"(evaluate_model: how good a model is

  evaluate_model --model DIR --data FILE --out FILE.json

Input
  --model DIR            config.json, model.safetensors and the vocabularies: source_vocabulary.txt and
                         target_vocabulary.txt of an encoder-decoder, vocab.txt of a masked language model
  --data FILE            of an encoder-decoder: SOURCE<tab>TARGET lines; of a masked language model: a sentence a line,
                         its tokens separated by blanks
  --tokens WHAT          what lines of pairs are cut into: characters (default), or words separated by blanks
  --precision f32|f64    arithmetic. Default: f32
  --batch N              sentences at once. Default: 64
Decoding
  --beam N               rows of a sentence side by side; 1 (default) is greedy
  --length-penalty NAME  what log-probabilities are divided by: none (default), division (n^alpha) or
                         gnmt (((5 + n) / 6)^alpha), n tokens
  --alpha X              Default: 1
  --max-length N         tokens of a hypothesis at most, the end counted; 0: what the positions leave. Default: 200
Masking
  --masked N             tokens of a sentence that are masked at most, each alone, never the first or last. Default: 20
  --mask SYMBOL          Default: [MASK]
  --seed S               of the choice. Default: 1
Other
  --threads N            1 to 4096; 0 takes all cores (default). No result depends on it
  --out FILE.json        receives exact_match, cer, nll_per_character, nll_per_token, perplexity and, where references
                         have several words, bleu; of masked tokens masked_accuracy, nll_per_token and perplexity;
                         and the settings
  --hypotheses FILE      receives what was decoded, a sentence a line
  --version              prints the version of headred
  --help, -h

Exit code: 0 done; 1 the input cannot be used or the output not be written; 2 the command line is wrong.
)";

evaluation_settings read_settings(examples::arguments words) {
  evaluation_settings s;
  const auto one_of = [&](const std::vector<std::string>& names, const std::string& expected) {
    const std::string name = words.value();
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) words.refuse(name, expected);
    return found - names.begin();
  };
  while (!words.empty()) {
    const std::string option = words.option();
    if (option == "--model") {
      s.model = words.value();
    } else if (option == "--data") {
      s.data = words.value();
    } else if (option == "--out") {
      s.out = words.value();
    } else if (option == "--hypotheses") {
      s.hypotheses = words.value();
    } else if (option == "--tokens") {
      s.words = one_of({"characters", "words"}, "characters or words") == 1;
    } else if (option == "--precision") {
      s.wide = one_of({"f32", "f64"}, "f32 or f64") == 1;
    } else if (option == "--batch") {
      s.batch = words.whole(1, 65536);
    } else if (option == "--beam") {
      s.search.beam = words.whole(1, 1024);
    } else if (option == "--length-penalty") {
      using headred::length_penalty;
      constexpr length_penalty kinds[] = {length_penalty::none, length_penalty::division, length_penalty::gnmt};
      s.search.penalty = kinds[one_of({"none", "division", "gnmt"}, "none, division or gnmt")];
    } else if (option == "--alpha") {
      s.search.alpha = words.number<double>("a number in [0,100]", [](double x) { return x >= 0 && x <= 100; });
    } else if (option == "--max-length") {
      s.search.max_length = words.whole(0, 1 << 24);
    } else if (option == "--masked") {
      s.masked = words.whole(1, 1 << 20);
    } else if (option == "--mask") {
      s.mask = words.value();
    } else if (option == "--seed") {
      s.seed = words.seed();
    } else if (option == "--threads") {
      s.threads = words.threads();
    } else {
      throw examples::usage_error("unknown option " + option);
    }
  }
  for (const auto& [name, value] : {std::pair("--model", &s.model), {"--data", &s.data}, {"--out", &s.out}})
    if (value->empty()) throw examples::usage_error(std::string(name) + " is missing");
  return s;
}

nlohmann::ordered_json settings_json(const evaluation_settings& s) {
  constexpr const char* penalties[] = {"none", "division", "gnmt"};
  return {{"model", s.model},
          {"data", s.data},
          {"tokens", s.words ? "words" : "characters"},
          {"precision", s.wide ? "f64" : "f32"},
          {"batch", s.batch},
          {"beam", s.search.beam},
          {"length_penalty", penalties[static_cast<int>(s.search.penalty)]},
          {"alpha", s.search.alpha},
          {"max_length", s.search.max_length},
          {"masked", s.masked},
          {"mask", s.mask},
          {"seed", s.seed}};
}

void run(const evaluation_settings& s) {
  const auto start = std::chrono::steady_clock::now();
  headred::cpu be{{.threads = s.threads}};
  headred::atomic_file out(s.out);  // an output that cannot be written is found out first
  auto result = s.wide ? examples::evaluate<double>(be, s) : examples::evaluate<float>(be, s);
  if (!s.hypotheses.empty()) {
    if (result.hypotheses.empty()) throw headred::error("--hypotheses: a masked language model decodes nothing");
    std::string text;
    for (const auto& line : result.hypotheses) text.append(line).append("\n");
    headred::write_file_atomically(s.hypotheses, text);
  }
  auto& metrics = result.metrics;
  metrics["settings"] = settings_json(s);
  metrics["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  examples::stop_if_interrupted();
  out.write(metrics.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  out.commit();
  for (const auto& [name, value] : metrics.items())
    if (value.is_number() && name != "seconds") std::cout << name << ": " << value << '\n';
}

}  // namespace

int main(int count, char** words) {
  return examples::tool_main("evaluate_model", help, count, words,
                             [](const examples::arguments& all) { run(read_settings(all)); });
}
