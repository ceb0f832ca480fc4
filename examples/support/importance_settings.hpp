// The command line of head_importance.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/core/head.hpp>

#include "arguments.hpp"
#include "pruning_settings.hpp"

namespace examples {

inline constexpr std::string_view importance_help =
    R"(head_importance: which heads matter, and what they do

  head_importance --model DIR --data FILE --out DIR     a model
  head_importance --attention FILE... --out DIR         what attention maps alone can tell
  head_importance --out DIR                             a small model that is trained on an invented language first

Scores every head by several criteria, says how far these agree, counts what the heads look at, and keeps the highest.
With --curve it measures the model as heads are removed by each criterion and by chance.

Model and data
  --model DIR          config.json, model.safetensors and vocabularies: an encoder-decoder (Marian) or a masked LM (ALBERT,
                       BERT)
  --data FILE          what to score on: SOURCE<tab>TARGET a line; for a masked LM one sentence a line, tokens between
                       spaces. Every tenth line is set aside to select checkpoints by
  --eval FILE          what curves are measured on. Default: another tenth of --data
  --sentences N        sentences to score on, drawn from --data. Default: 256 (64 without --model)
Maps
  --attention PATH...  .safetensors or .npy files, or folders of them, as for head_redundancy
  --scale X            what one unit of integer maps is worth
  --no-end-token       the last token of a sentence is an ordinary one; tokens, if known, decide for themselves
Words
  --sentences-json FILE  of the maps: an array of objects with "id", "tokens", "words" and "dependencies" ([word, head or
                       null, relation]). Tensors end in their sentence's id; others go by their order
  --conllu FILE        sentences with their trees (CoNLL-U). Of maps: one token a word, in the order of the maps, with or
                       without a first and a last token around them. Of a masked LM: what it reads while roles are counted,
                       cut into word pieces
  --frequencies FILE   WORD COUNT a line, most frequent first: finds rare-word heads. Needs words
Scores and plan
  --method A,B,...     of confidence, lrp, taylor, ablation, redundancy; the first makes the plan.
                       Default: taylor,lrp,confidence; without --model all of them; of maps confidence
  --kinds NAME...      encoder_self, decoder_self, cross. Default: all
  --prune RATIO        share of the heads that the plan removes, in [0,1). Default: 0.5
Curves
  --curve              writes curves.json too
  --remove N,N,...     heads to remove of each kind. Default: a quarter, a half, three quarters
  --samples N          samples of sentences to score on, a plan by each. Default: 1 (3 with --curve)
  --random-plans N     default: 6
  --updates N          trains every plan, and the whole model, further. Default: 0
  --trained-plans N    plans of each sort that are trained. Default: all
  --rate X             highest learning rate of Adam. Default: 0.001
  --batch-tokens N     default: 1024
Other
  --train N            updates for the small model, without --model. Default: 200
  --threads N          1 to 4096; 0 takes all cores (default). No result depends on it
  --seed S             of samples, random plans and training. Default: 1
  --out DIR            receives scores.json, roles.json, plan.json and report.html
  --version            prints the version of headred
  --help, -h

Exit code: 0 done; 1 the input cannot be used or the output not be written; 2 the command line is wrong.
)";

struct importance_settings {
  std::string model, data, eval, out, conllu, frequencies, sentences_json;
  std::vector<std::string> attention;
  std::optional<double> scale;
  bool no_end_token = false;
  std::vector<std::string> methods;
  std::vector<headred::attention_kind> kinds;  // none: all
  double prune = .5;
  bool curve = false;
  std::vector<index_t> remove;
  index_t sentences = 0, samples = 0, train = 0;
  pruning_settings study;  // threads, seed, training, random plans

  bool of_maps() const { return !attention.empty(); }
  bool of_grammar() const { return model.empty() && !of_maps(); }
};

namespace detail {

inline std::vector<std::string> method_names(const arguments& words, const std::string& list) {
  const std::string expected =
      "names out of confidence, lrp, taylor, ablation, redundancy, each once, parted by commas";
  const std::string known[] = {"confidence", "lrp", "taylor", "ablation", "redundancy"};
  auto names = words.parts(list, expected);
  for (std::size_t i = 0; i < names.size(); ++i)
    if (std::find(std::begin(known), std::end(known), names[i]) == std::end(known) ||
        std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
            names.begin() + static_cast<std::ptrdiff_t>(i))
      words.refuse(list, expected);
  return names;
}

inline std::vector<headred::attention_kind> kind_names(arguments& words) {
  std::vector<headred::attention_kind> kinds;
  for (const std::string& name : words.values()) {
    const std::size_t before = kinds.size();
    for (const auto kind :
         {headred::attention_kind::encoder_self, headred::attention_kind::decoder_self, headred::attention_kind::cross})
      if (name == to_string(kind) && std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
    if (kinds.size() == before) words.refuse(name, "encoder_self, decoder_self or cross, each once");
  }
  return kinds;
}

inline std::vector<index_t> head_counts(const arguments& words, const std::string& list) {
  const std::string expected = "whole numbers from 1 on, each above the one before, parted by commas";
  std::vector<index_t> counts;
  for (const std::string& part : words.parts(list, expected)) {
    index_t n = 0;
    const auto [end, problem] = std::from_chars(part.data(), part.data() + part.size(), n);
    if (problem != std::errc{} || end != part.data() + part.size() || n < 1 || n > 1000000 ||
        (!counts.empty() && n <= counts.back()))
      words.refuse(list, expected);
    counts.push_back(n);
  }
  return counts;
}

/// What goes with what.
inline void require_consistent(const importance_settings& s) {
  const auto need = [](bool fine, const char* text) {
    if (!fine) throw usage_error(text);
  };
  const bool words = !s.conllu.empty() || !s.sentences_json.empty();
  need(!s.out.empty(), "--out is missing");
  need(s.model.empty() || !s.of_maps(), "--model and --attention exclude each other");
  need(s.model.empty() || !s.data.empty(), "--model needs --data");
  need(s.data.empty() || !s.model.empty(), "--data needs --model");
  need(s.eval.empty() || !s.data.empty(), "--eval needs --data");
  need(s.train == 0 || s.of_grammar(), "--train is for the small model, without --model and --attention");
  need(!s.of_grammar() || !words, "--conllu and --sentences-json need --model or --attention");
  need(s.sentences_json.empty() || s.of_maps(), "--sentences-json needs --attention");
  need(s.sentences_json.empty() || s.conllu.empty(), "--sentences-json and --conllu exclude each other");
  need(s.frequencies.empty() || words, "--frequencies needs words: --conllu or --sentences-json");
  need((!s.scale && !s.no_end_token) || s.of_maps(), "--scale and --no-end-token need --attention");
  if (s.of_maps()) {
    need(s.methods.size() == 1 && s.methods[0] == "confidence", "--method: maps alone tell confidence, no more");
    need(!s.curve && s.sentences == 0 && s.kinds.empty(), "--curve, --sentences and --kinds need a model");
  }
  need(s.curve || (s.remove.empty() && s.study.updates <= 0), "--remove and --updates need --curve");
}

}  // namespace detail

/// Throws usage_error for whatever does not make sense without looking at a file.
inline importance_settings read_importance_settings(arguments words) {
  importance_settings s;
  const std::pair<std::string_view, std::string*> texts[] = {{"--model", &s.model},
                                                             {"--data", &s.data},
                                                             {"--eval", &s.eval},
                                                             {"--out", &s.out},
                                                             {"--conllu", &s.conllu},
                                                             {"--frequencies", &s.frequencies},
                                                             {"--sentences-json", &s.sentences_json}};
  while (!words.empty()) {
    const std::string option = words.option();
    const auto text =
        std::find_if(std::begin(texts), std::end(texts), [&](const auto& t) { return t.first == option; });
    if (text != std::end(texts)) {
      *text->second = words.value();
    } else if (option == "--attention") {
      for (auto& path : words.values()) s.attention.push_back(std::move(path));
    } else if (option == "--scale") {
      s.scale = words.positive();
    } else if (option == "--no-end-token") {
      s.no_end_token = true;
    } else if (option == "--method") {
      s.methods = detail::method_names(words, words.value());
    } else if (option == "--kinds") {
      s.kinds = detail::kind_names(words);
    } else if (option == "--prune") {
      s.prune = words.number<double>("a number in [0,1)", [](double x) { return x >= 0 && x < 1; });
    } else if (option == "--curve") {
      s.curve = true;
    } else if (option == "--remove") {
      s.remove = detail::head_counts(words, words.value());
    } else if (option == "--sentences") {
      s.sentences = words.whole(1);
    } else if (option == "--samples") {
      s.samples = words.whole(1);
    } else if (option == "--train") {
      s.train = words.whole(1);
    } else if (option == "--random-plans") {
      s.study.random_plans = words.whole(2);
    } else if (option == "--updates") {
      s.study.updates = words.whole(0);
    } else if (option == "--trained-plans") {
      s.study.trained_plans = words.whole(1);
    } else if (option == "--rate") {
      s.study.rate = words.positive();
    } else if (option == "--batch-tokens") {
      s.study.batch_tokens = words.whole(1);
    } else if (option == "--threads") {
      s.study.threads = words.threads();
    } else if (option == "--seed") {
      s.study.seed = words.seed();
    } else {
      throw usage_error("unknown option " + option);
    }
  }
  if (s.methods.empty()) {
    s.methods = {"taylor", "lrp", "confidence"};
    if (s.of_maps()) s.methods = {"confidence"};
    if (s.of_grammar()) s.methods.insert(s.methods.end(), {"ablation", "redundancy"});
  }
  detail::require_consistent(s);
  if (s.study.updates < 0) s.study.updates = 0;
  if (s.sentences == 0) s.sentences = s.of_grammar() ? 64 : 256;
  if (s.train == 0) s.train = 200;
  if (s.samples == 0) s.samples = s.curve ? 3 : 1;
  return s;
}

}  // namespace examples
