// Removes the heads that a plan says from a model: a smaller model in a folder of its own.
// run: --help
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/atomic_file.hpp>
#include <headred/io/load_transformer.hpp>
#include <headred/io/mapped_file.hpp>
#include <headred/io/plan_json.hpp>
#include <headred/io/save_transformer.hpp>
#include <headred/nn/model_cost.hpp>
#include <headred/prune/apply.hpp>
#include <headred/prune/plan_history.hpp>

#include "support/output_folder.hpp"
#include "support/tool_main.hpp"

namespace {

using headred::index_t;

constexpr std::string_view help = R"(prune_model: a model without the heads, neurons and layers that a plan removes

  prune_model --model DIR --plan FILE --out DIR [--untie] [--repeat]

  --model DIR   config.json and model.safetensors, of Hugging Face (BERT, ALBERT, Marian) or of headred
  --plan FILE   the plan, as JSON. For a model that was pruned before: in the head numbers of that model, or in those of
                the unpruned one; the heads that it has lost already stay lost
  --untie       layers that share their weights (ALBERT) and lose different heads get weights of their own;
                without this option such a plan is refused
  --repeat      key/value heads are repeated where a plan leaves groups of different sizes, which are refused otherwise
  --out DIR     receives config.json, model.safetensors and the vocabularies; another folder than the model's
  --version     prints the version of headred
  --help, -h

Weights are kept as f32 whatever the file holds. Exit code: 0 done; 1 the input cannot be used or the output not be
written; 2 the command line is wrong.
)";

struct settings {
  std::string model, plan, out;
  bool untie = false, repeat = false;
};

settings read_settings(examples::arguments words) {
  settings s;
  while (!words.empty()) {
    const std::string option = words.option();
    if (option == "--model") {
      s.model = words.value();
    } else if (option == "--plan") {
      s.plan = words.value();
    } else if (option == "--out") {
      s.out = words.value();
    } else if (option == "--untie") {
      s.untie = true;
    } else if (option == "--repeat") {
      s.repeat = true;
    } else {
      throw examples::usage_error("unknown option " + option);
    }
  }
  for (const auto& [name, value] : {std::pair("--model", &s.model), {"--plan", &s.plan}, {"--out", &s.out}})
    if (value->empty()) throw examples::usage_error(std::string(name) + " is missing");
  std::error_code ignored;
  if (std::filesystem::equivalent(s.model, s.out, ignored))
    throw examples::usage_error("--out is the model's own folder, expected another");
  return s;
}

/// "before -> after (share)" for people.
std::string change(double before, double after) {
  const auto whole = [](double x) { return std::to_string(static_cast<long long>(x)); };
  return whole(before) + " -> " + whole(after) + " (" + whole(before > 0 ? 100 * after / before + .5 : 100) + " %)";
}

/// What a plan leads to, with the name of its file where that fails.
template <class Make>
auto named(const std::filesystem::path& file, const Make& make) {
  try {
    return make();
  } catch (const headred::error& problem) {
    throw headred::file_error(file.string(), problem.what());
  }
}

void run(const settings& s) {
  headred::cpu be;
  const headred::prune_plan asked = headred::load_plan_json(s.plan);
  auto loaded = headred::load_transformer<float>(be, s.model);
  const headred::transformer_config before = loaded.config;
  // a plan may speak of the unpruned model, if it is known what became of it
  const bool history = named(std::filesystem::path(s.model) / "config.json", [&] {
    return loaded.plan && headred::pruned_layout(*loaded.plan).fits(headred::whole_layout(before));
  });
  const headred::prune_plan plan =
      named(s.plan, [&] { return history ? headred::plan_after(*loaded.plan, asked) : asked; });
  const headred::prune_plan whole =
      named(s.plan, [&] { return history ? headred::joint_plan(*loaded.plan, asked) : asked; });
  const headred::model_selection selection = named(s.plan, [&] {
    return headred::model_selection(
        plan, before,
        {.shared = s.untie ? headred::shared_layers::untie : headred::shared_layers::refuse,
         .uneven = s.repeat ? headred::uneven_groups::repeat : headred::uneven_groups::refuse});
  });
  const auto weights = headred::apply(selection, be, loaded.weights);
  examples::stop_if_interrupted();
  examples::output_folder out(s.out);
  out.file("model.safetensors");
  headred::save_transformer(out.file("config.json").parent_path(), selection.config(), weights, whole);
  for (const char* name : {"vocab.txt", "source_vocabulary.txt", "target_vocabulary.txt"}) {
    const auto from = std::filesystem::path(s.model) / name;
    if (!std::filesystem::exists(from)) continue;
    const headred::mapped_file file(from);
    const auto bytes = file.bytes();
    headred::write_file_atomically(out.file(name), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  examples::stop_if_interrupted();
  out.commit();

  const index_t length = std::min<index_t>(128, before.source.max_positions);
  const std::vector<index_t> sources{length}, targets(before.has_cross() ? 1 : 0, length);
  const auto flops = [&](const headred::transformer_config& c) {
    return headred::forward_flops(c, sources, targets).total();
  };
  std::cout << "heads: " << change(static_cast<double>(plan.layout().size()), static_cast<double>(plan.count()))
            << "\nparameters: "
            << change(headred::parameter_count(before).total(), headred::parameter_count(selection.config()).total())
            << "\noperations for " << length << " tokens: " << change(flops(before), flops(selection.config()))
            << "\nmodel: " << examples::one_line(s.out) << '\n';
}

}  // namespace

int main(int count, char** words) {
  return examples::tool_main("prune_model", help, count, words,
                             [](const examples::arguments& all) { run(read_settings(all)); });
}
