// From text to a smaller model, from outside: train_transformer, zero_shot_pruning and prune_model on tiny models.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <headred/io/load_transformer.hpp>
#include <headred/io/plan_json.hpp>
#include <headred/io/vocabulary.hpp>
#include <headred/nn/batch_order.hpp>
#include <headred/nn/initialize.hpp>
#include <headred/nn/training_step.hpp>
#include <headred/prune/model_layout.hpp>

#include "tool/run_tool.hpp"

using namespace headred_test;
using headred::index_t;
using hr::attention_kind;

namespace {

using word_list = std::vector<std::string>;
using model_type = hr::transformer<float, hr::cpu>;

/// Another program that lies beside the one that HEADRED_TOOL names.
outcome run_beside(const std::string& program, const word_list& words) {
  std::string line = shell_word((fs::path(tool()).parent_path() / program).string());
  for (const auto& word : words) line += " " + shell_word(word);
  return run_shell(line);
}

void succeed(const std::string& program, const word_list& words) {
  const outcome o = run_beside(program, words);
  CAPTURE(program);
  CAPTURE(words);
  REQUIRE_MESSAGE(o.code == 0, o.err);
  CHECK(o.err == "");
}

/// Exit code and one line on standard error that has the text; nothing on standard output, and no file has changed.
void refused(const std::string& program, const temporary_folder& folder, int code, const word_list& words,
             const std::string& text) {
  const auto before = content(folder.path());
  const outcome o = run_beside(program, words);
  CAPTURE(words);
  CAPTURE(o.err);
  CHECK(o.code == code);
  CHECK(o.out == "");
  CHECK(o.err.starts_with(program + ": "));
  CHECK(o.err.find(text) != std::string::npos);
  CHECK(std::count(o.err.begin(), o.err.end(), '\n') == 1);
  CHECK(content(folder.path()) == before);
}

word_list with(word_list words, const word_list& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<std::string> names(const fs::path& folder) {
  std::vector<std::string> all;
  for (const auto& [name, text] : content(folder)) all.push_back(name);
  return all;
}

/// "pairs": an encoder-decoder of 2 + 2 layers with 4 heads for words spelled backwards, with its pairs.tsv.
void train_pairs(const temporary_folder& folder) {
  const hr::random_stream draws(5, 0);
  std::string text;
  for (std::uint64_t i = 0, n = 0; i < 90; ++i) {
    std::string word;
    for (std::uint64_t length = 2 + draws.below(n++, 6); length > 0; --length)
      word += static_cast<char>('a' + draws.below(n++, 6));
    text += word + "\t" + std::string(word.rbegin(), word.rend()) + "\n";
  }
  write_text(folder / "pairs.tsv", text);
  succeed("train_transformer",
          {"--data", (folder / "pairs.tsv").string(), "--width", "16", "--heads", "4", "--updates", "30",
           "--batch-tokens", "128", "--held-out", "10", "--out", (folder / "pairs").string()});
}

/// "masked": a masked LM of 2 layers with 4 heads, for a text of which half is a treebank.
void train_masked(const temporary_folder& folder) {
  write_text(folder / "pieces.txt",
             "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\ncats\ndog\n##s\nsee\nc\n##a\n##t\nd\n"
             "##o\n##g\n.\nnever\n");
  std::string lines, trees;
  for (int i = 0; i < 40; ++i) {
    lines += i == 7 ? "\xe6\x9d\xb1 ?\n" : "";  // no piece of it is known
    lines += i % 2 ? "The dogs see the cat .\n" : "the cat sees dogs.\n\n";
    trees += "1\tDogs\t_\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\tsee\t_\tVERB\t_\t_\t0\troot\t_\t_\n3\t" +
             std::string(i % 3 ? "cat" : "cats") + "\t_\tNOUN\t_\t_\t2\tobj\t_\t_\n\n";
  }
  write_text(folder / "lines.txt", lines);
  write_text(folder / "trees.conllu", trees);
  succeed("train_transformer",
          {"--text", (folder / "lines.txt").string(), (folder / "trees.conllu").string(), "--pieces",
           (folder / "pieces.txt").string(), "--width", "16", "--heads", "4", "--updates", "60", "--batch-tokens",
           "128", "--held-out", "25", "--least", "15", "--out", (folder / "masked").string()});
}

model_type load(hr::cpu& be, const fs::path& folder) {
  auto files = hr::load_transformer<float>(be, folder);
  return model_type(be, std::move(files.config), std::move(files.weights));
}

/// The logits of a few sentences, with gates of 0 on the heads that a plan removes.
std::vector<float> logits(model_type& model, const hr::prune_plan* plan = nullptr) {
  hr::model_gates<float, hr::cpu> gates(model.backend(), model.config());
  if (plan != nullptr)
    for (const attention_kind kind : plan->layout().kinds())
      for (index_t l = 0; l < plan->layout().heads(kind).layers(); ++l)
        for (index_t h = 0; h < plan->layout().heads(kind).heads(l); ++h)
          gates.of(kind, l).value.data()[h] = plan->is_kept(kind, {l, h}) ? 1.f : 0.f;
  hr::token_batch source, target;
  for (const std::vector<hr::token_id>& s : std::vector<std::vector<hr::token_id>>{{4, 5, 6, 7}, {8}, {5, 5, 9}}) {
    source.add(s);
    if (model.config().has_cross()) target.add(std::vector<hr::token_id>{1, 4, 6});
  }
  hr::tape<float, hr::cpu> tape(model.backend(), hr::tape_mode::inference);
  const auto rows = tape.input(model.logits(tape, model.hidden(tape, source, target, {.gates = &gates})));
  return {rows.data(), rows.data() + rows.size()};
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]));
  return most;
}

/// The plan that config.json carries.
hr::prune_plan carried_plan(const fs::path& folder) {
  hr::cpu be{{.threads = 1}};
  const auto files = hr::load_transformer<float>(be, folder);
  REQUIRE(files.plan.has_value());
  return *files.plan;
}

/// A plan for "pairs" in which a layer of the encoder loses all its heads.
hr::prune_plan uneven_plan(const hr::plan_layout& layout) {
  hr::prune_plan plan(layout);
  plan.set_kept(attention_kind::encoder_self, 0, {1, 3});
  plan.set_kept(attention_kind::encoder_self, 1, {});
  plan.set_kept(attention_kind::cross, 1, {0, 2, 3});
  return plan;
}

}  // namespace

TEST_SUITE("tool") {
  TEST_CASE("prune_model: smaller, the same as with gates of 0, and pruned again in either numbering") {
    const temporary_folder folder;
    train_pairs(folder);
    hr::cpu be{{.threads = 1}};
    model_type whole = load(be, folder / "pairs");
    const hr::plan_layout layout = hr::model_layout(whole.config());
    const hr::prune_plan plan = uneven_plan(layout);
    hr::save_plan_json(folder / "plan.json", plan);
    fs::create_directory(folder / "smaller");  // whatever else lies there stays
    write_text(folder / "smaller" / "notes.txt", "mine");
    const outcome o =
        run_beside("prune_model", {"--model", (folder / "pairs").string(), "--plan", (folder / "plan.json").string(),
                                   "--out", (folder / "smaller").string()});
    REQUIRE_MESSAGE(o.code == 0, o.err);
    CHECK(o.out.find("heads: 24 -> 17 (71 %)\n") != std::string::npos);
    CHECK(o.out.ends_with("model: " + (folder / "smaller").string() + "\n"));
    CHECK(names(folder / "smaller") == std::vector<std::string>{"config.json", "model.safetensors", "notes.txt",
                                                                "source_vocabulary.txt", "target_vocabulary.txt"});
    CHECK(read_text(folder / "smaller" / "notes.txt") == "mine");
    CHECK(read_text(folder / "smaller" / "source_vocabulary.txt") ==
          read_text(folder / "pairs" / "source_vocabulary.txt"));
    // a head of size 4 in a width of 16 has 3 (16 x 4 + 4) + 4 x 16 parameters
    const auto position = o.out.find("parameters: ");
    REQUIRE(position != std::string::npos);
    const auto arrow = o.out.find(" -> ", position);
    CHECK(std::stol(o.out.substr(position + 12)) - std::stol(o.out.substr(arrow + 4)) == 7 * (3 * 68 + 64));
    CHECK(fs::file_size(folder / "smaller" / "model.safetensors") <
          fs::file_size(folder / "pairs" / "model.safetensors"));
    CHECK(carried_plan(folder / "smaller") == plan);

    model_type smaller = load(be, folder / "smaller");
    const auto& heads = smaller.config().encoder.layers;
    CHECK(heads[0].self.heads == 2);
    CHECK(heads[0].self.original_of(1) == 3);
    CHECK(heads[1].self.heads == 0);
    const auto gated = logits(whole, &plan);
    CHECK(largest_difference(logits(smaller), gated) < 2e-5);
    CHECK(largest_difference(logits(whole), gated) > 1e-3);  // the heads do something

    // once more: the plan of a pruned model in its own numbers, and one for the unpruned model
    hr::prune_plan own(hr::model_layout(smaller.config()));
    own.set_kept(attention_kind::encoder_self, 0, {1});
    hr::save_plan_json(folder / "own.json", own);
    hr::prune_plan original(layout);
    original.set_kept(attention_kind::encoder_self, 0, {0, 2, 3});
    hr::save_plan_json(folder / "original.json", original);
    hr::prune_plan both = plan;
    both.set_kept(attention_kind::encoder_self, 0, {3});
    for (const char* name : {"own", "original"}) {
      CAPTURE(name);
      const fs::path out = folder / (std::string("after ") + name);
      succeed("prune_model", {"--model", (folder / "smaller").string(), "--plan",
                              (folder / (std::string(name) + ".json")).string(), "--out", out.string()});
      CHECK(carried_plan(out) == both);
      model_type last = load(be, out);
      CHECK(largest_difference(logits(last), logits(whole, &both)) < 2e-5);
    }
    CHECK(content(folder / "after own") == content(folder / "after original"));
    // a plan that removes nothing gives the same weights
    hr::save_plan_json(folder / "nothing.json", hr::prune_plan(layout));
    succeed("prune_model", {"--model", (folder / "pairs").string(), "--plan", (folder / "nothing.json").string(),
                            "--out", (folder / "same").string()});
    model_type same = load(be, folder / "same");
    CHECK(logits(same) == logits(whole));
  }

  TEST_CASE("prune_model: what it refuses, leaving nothing behind") {
    const temporary_folder folder;
    train_pairs(folder);
    hr::cpu be{{.threads = 1}};
    const hr::plan_layout layout = hr::model_layout(hr::load_transformer<float>(be, folder / "pairs").config);
    hr::save_plan_json(folder / "plan.json", uneven_plan(layout));
    hr::plan_layout others;
    others.add(attention_kind::encoder_self, hr::head_layout(2, 3));
    hr::save_plan_json(folder / "others.json", hr::prune_plan(others));
    write_text(folder / "half.json", read_text(folder / "plan.json").substr(0, 60));
    write_text(folder / "file", "not a folder");
    fs::create_directory(folder / "empty");
    fs::create_directories(folder / "earlier" / "target_vocabulary.txt");  // a folder where a file has to go
    write_text(folder / "earlier" / "config.json", "earlier");
    const auto line = [&](const std::string& model, const std::string& plan, const std::string& out) {
      return word_list{"--model", (folder / model).string(), "--plan", (folder / plan).string(), "--out", out};
    };
    const std::string out = (folder / "new" / "deep").string();
    const auto no = [&](int code, const word_list& words, const std::string& text) {
      refused("prune_model", folder, code, words, text);
    };
    no(2, {}, "--model is missing");
    no(2, {"--model", "m", "--plan", "p"}, "--out is missing");
    no(2, {"--model", "m", "--out", "o"}, "--plan is missing");
    no(2, with(line("pairs", "plan.json", out), {"--ratio", ".5"}), "unknown option --ratio");
    no(2, with(line("pairs", "plan.json", out), {"--plan", "again"}), "--plan is given twice");
    no(2, line("pairs", "plan.json", (folder / "pairs").string()), "--out is the model's own folder, expected another");
    no(2, line("pairs", "plan.json", (folder / "empty" / ".." / "pairs").string()), "--out is the model's own folder");
    no(1, line("none", "plan.json", out), "none");
    no(1, line("empty", "plan.json", out), "empty/model.safetensors: does not exist");
    no(1, line("pairs", "none.json", out), "none.json");
    no(1, line("pairs", "half.json", out), "half.json: plan JSON: ");
    no(1, line("pairs", "others.json", out), "others.json: ");
    no(1, line("pairs", "others.json", out), "encoder_self 2x3 heads");
    no(1, line("pairs", "plan.json", (folder / "file").string()), "file: cannot be written: it is not a folder");
    no(1, line("pairs", "plan.json", (folder / "file" / "deep").string()), "cannot be written");
    no(1, line("pairs", "plan.json", (folder / "earlier").string()), "target_vocabulary.txt: cannot be written");
    if (fs::exists("/dev/full"))
      no(1, line("pairs", "plan.json", "/dev/full"), "/dev/full: cannot be written: it is not a folder");
    // weights that are not those of config.json
    fs::copy(folder / "pairs", folder / "mixed");
    const std::string weights = read_text(folder / "mixed" / "model.safetensors");
    write_text(folder / "mixed" / "model.safetensors", weights.substr(0, weights.size() / 2));
    no(1, line("mixed", "plan.json", out), "model.safetensors");
    // a plan beside the weights that leaves no layer, or that is none
    fs::copy(folder / "pairs", folder / "planned");
    json config = json::parse(read_text(folder / "planned" / "config.json"));
    const json gone = {{"neurons", 64}, {"removed", true}}, headless = {{"heads", 4}, {"kept", json::array()}};
    config["plan"] = {{"format", "headred.prune_plan"},
                      {"schema", 2},
                      {"unit", "head"},
                      {"attention", {{{"kind", "encoder_self"}, {"layers", {headless, headless}}}}},
                      {"feed_forward", {{{"stack", "encoder"}, {"layers", {gone, gone}}}}}};
    write_text(folder / "planned" / "config.json", config.dump());
    no(1, line("planned", "plan.json", out), "planned/config.json: ");
    config["plan"]["unit"] = "tail";
    write_text(folder / "planned" / "config.json", config.dump());
    no(1, line("planned", "plan.json", out), "planned/config.json: plan JSON: unit is \"tail\"");
    CHECK(run_beside("prune_model", {"--help"}).out.starts_with("prune_model: "));
    CHECK(run_beside("prune_model", {"--version"}).out.starts_with("headred "));
  }

  TEST_CASE("zero_shot_pruning: plans, curves, on any number of threads; prune_model takes its plans") {
    const temporary_folder folder;
    train_pairs(folder);
    const word_list study = {"--model",  (folder / "pairs").string(),
                             "--data",   (folder / "pairs.tsv").string(),
                             "--ratios", "0:0.5:0.25",
                             "--kinds",  "cross",
                             "all",      "--seeds",
                             "2",        "--random-plans",
                             "3",        "--sentences",
                             "4",        "--lengths",
                             "3:8",      "--updates",
                             "3",        "--scratch",
                             "4",        "--batch-tokens",
                             "128",      "--decode"};
    // further training changes the model's redundancy matrices, and nothing else does
    succeed("train_transformer", {"--model", (folder / "pairs").string(), "--data", (folder / "pairs.tsv").string(),
                                  "--updates", "20", "--out", (folder / "later").string()});
    fs::copy(folder / "pairs", folder / "copy");
    const word_list others = {"--compare", (folder / "copy").string(), (folder / "later").string()};
    succeed("zero_shot_pruning", with(with(study, others), {"--threads", "1", "--out", (folder / "out").string()}));
    auto expected = std::vector<std::string>{"curves.json", "report.html"};
    for (const char* name : {"all_0", "all_12", "all_6", "cross_0", "cross_2", "cross_4"})
      expected.push_back(std::string("plan_") + name + ".json");
    std::sort(expected.begin(), expected.end());
    CHECK(names(folder / "out") == expected);
    const json curves = json::parse(read_text(folder / "out" / "curves.json"));
    CHECK(curves["layout"] == "encoder_self 2x4 heads, decoder_self 2x4 heads, cross 2x4 heads");
    REQUIRE(curves["points"].size() == 6);
    for (const json& p : curves["points"]) {
      CAPTURE(p.dump());
      const bool nothing = p["ratio"] == 0;
      CHECK(p["heads"] == (p["kinds"] == "all" ? 24 : 8));
      CHECK(p["removed"].get<double>() == p["ratio"].get<double>() * p["heads"].get<double>());
      CHECK((p["parameters"] == 1) == nothing);
      CHECK(p["redundancy"]["nll"].size() == 2);
      CHECK(p["random"]["nll"].size() == 3);
      CHECK(p["trained_redundancy"]["nll"].size() == 2);
      CHECK(p["trained_random"]["nll"].size() == 3);
      CHECK(p["scratch"]["nll"].size() == 1);
      CHECK(p["random"].contains("exact"));
      for (const json& nll : p["redundancy"]["nll"]) CHECK((nll == curves["unpruned"]["nll"][0]) == nothing);
      if (nothing) CHECK(p["trained_random"]["nll"][2] == curves["unpruned_trained"]["nll"][0]);
    }
    REQUIRE(curves["models"].size() == 3);
    for (const json& kind : curves["models"]) {
      CAPTURE(kind.dump());
      CHECK(kind["models"] == json::parse(R"(["pairs", "copy", "later"])"));
      CHECK(std::abs(kind["correlation"][0][1].get<double>() - 1) < 1e-12);
      CHECK(kind["correlation"][0][2].get<double>() < .9999);
      CHECK(kind["correlation"][1][2] == kind["correlation"][0][2]);
    }
    const hr::prune_plan plan = hr::load_plan_json(folder / "out" / "plan_cross_4.json");
    CHECK(plan.count() == 20);
    for (index_t l = 0; l < 2; ++l) CHECK(plan.count(attention_kind::encoder_self, l) == 4);

    succeed("zero_shot_pruning", with(with(study, others), {"--threads", "2", "--out", (folder / "again").string()}));
    CHECK(content(folder / "again") == content(folder / "out"));
    succeed("prune_model", {"--model", (folder / "pairs").string(), "--plan",
                            (folder / "out" / "plan_all_12.json").string(), "--out", (folder / "half").string()});
    CHECK(carried_plan(folder / "half").count() == 12);
  }

  TEST_CASE("zero_shot_pruning: what it refuses, leaving nothing behind") {
    const temporary_folder folder;
    train_pairs(folder);
    write_text(folder / "file", "not a folder");
    write_text(folder / "few.tsv", "ab\tba\n");
    const word_list model = {"--model", (folder / "pairs").string(), "--data", (folder / "pairs.tsv").string()};
    const word_list out = {"--out", (folder / "new" / "out").string()};
    const auto no = [&](int code, const word_list& words, const std::string& text) {
      refused("zero_shot_pruning", folder, code, words, text);
    };
    no(2, model, "--out is missing");
    for (const char* ratios : {"0:1:0.5", "-0.1:0.5:0.1", "0.5:0.25:0.25", "0.5", "0:0.5:0", "a:b:c", "0:0.5:nan"})
      no(2, with(with(model, out), {"--ratios", ratios}),
         std::string("--ratios is '") + ratios + "', expected FROM:TO:STEP");
    no(2, with(out, {"--kinds", "decoder"}), "--kinds is 'decoder', expected encoder_self, decoder_self, cross or all");
    no(2, with(out, {"--distance", "euclid"}), "--distance is 'euclid'");
    no(2, with(out, {"--seeds", "0"}), "--seeds is '0', expected a whole number from 1 to 1000000");
    no(2, with(out, {"--random-plans", "1"}), "--random-plans is '1', expected a whole number from 2");
    no(2, with(out, {"--rate", "0"}), "--rate is '0', expected a positive number");
    no(2, with(out, {"--ratio", ".5"}), "unknown option --ratio");
    no(2, with(out, {"--model", "m"}), "--model needs --data");
    no(2, with(out, {"--data", "d"}), "--data needs --model");
    no(2, with(out, {"--compare", "d"}), "--compare needs --model");
    succeed("train_transformer", {"--data", (folder / "pairs.tsv").string(), "--width", "16", "--heads", "2",
                                  "--updates", "1", "--out", (folder / "other").string()});
    no(1, with(with(model, out), {"--compare", (folder / "other").string()}),
       "other has other heads or vocabularies, expected those of pairs");
    fs::copy(folder / "pairs", folder / "short");
    json config = json::parse(read_text(folder / "short" / "config.json"));
    config["target"]["max_positions"] = 9;
    write_text(folder / "short" / "config.json", config.dump());
    no(1, with(with(model, out), {"--lengths", "10:12", "--compare", (folder / "short").string()}),
       "short has 9 positions, expected the 12 of the random sentences (see --lengths)");
    no(1, with(out, {"--model", (folder / "none").string(), "--data", "d"}), "none");
    no(1, with(out, {"--model", (folder / "pairs").string(), "--data", (folder / "none.tsv").string()}), "none.tsv");
    no(1, with(out, {"--model", (folder / "pairs").string(), "--data", (folder / "few.tsv").string()}),
       "has too few sentences to train, select and report on");
    no(1, with(model, {"--out", (folder / "file").string()}), "file: cannot be written: it is not a folder");
    no(1, with(model, {"--out", (folder / "file" / "deep").string()}), "cannot be written");
  }

  TEST_CASE("train_transformer --text: an epoch's only batch is hidden by the draws of that epoch") {
    const temporary_folder folder;
    const word_list words{"the", "cat", "dog", "see", "."};
    const hr::random_stream draws(3, 0);
    std::string text;
    std::vector<word_list> lines;
    for (std::uint64_t i = 0, n = 0; i < 24; ++i) {
      auto& line = lines.emplace_back(word_list{"[CLS]"});
      for (std::uint64_t length = 3 + draws.below(n++, 6); length > 0; --length)
        line.push_back(words[draws.below(n++, words.size())]);
      for (std::size_t w = 1; w < line.size(); ++w) text += line[w] + (w + 1 < line.size() ? " " : "\n");
      line.push_back("[SEP]");
    }
    write_text(folder / "lines.txt", text);
    write_text(folder / "pieces.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\ndog\nsee\n.\n");
    succeed("train_transformer", {"--text",         (folder / "lines.txt").string(),
                                  "--pieces",       (folder / "pieces.txt").string(),
                                  "--least",        "1",
                                  "--held-out",     "0",
                                  "--width",        "16",
                                  "--heads",        "4",
                                  "--updates",      "2",
                                  "--batch-tokens", "100000",
                                  "--seed",         "7",
                                  "--out",          (folder / "out").string()});
    const json curve = json::parse(read_text(folder / "out" / "training.json"))["curve"];
    REQUIRE(curve.size() == 2);

    hr::cpu be{{.threads = 1}};
    const hr::vocabulary pieces = hr::load_vocabulary(folder / "out" / "vocab.txt");
    hr::corpus sentences;
    for (const auto& line : lines) sentences.push_back(pieces.encode(line));
    model_type model(be, hr::load_transformer_config(folder / "out"));
    hr::initialize(be, model.weights(), 7);
    model.train();
    hr::adam<float, hr::cpu> adam(be, hr::parameter_list<float, hr::cpu>(model.weights()));
    hr::trainer<float, hr::cpu> trainer(model, adam, {});
    hr::batch_order order(hr::sentence_lengths(sentences), {.tokens = 100000, .seed = 7});
    const auto numbers = order.next();
    const auto loss = [&](index_t epoch) {
      hr::training_batch batch;
      hr::fill_masked(batch, sentences, numbers,
                      {.mask_id = pieces.id("[MASK]"),
                       .vocabulary = pieces.size(),
                       .lowest = pieces.id("[MASK]") + 1,
                       .never = {0, 1, 2, 3, 4},
                       .seed = 7},
                      epoch);
      return trainer.evaluate(batch).loss;
    };
    CHECK(curve[0]["loss"].get<double>() == doctest::Approx(loss(1)).epsilon(1e-6));
    CHECK(std::abs(loss(1) - loss(2)) > 1e-3);
  }

  TEST_CASE("a masked LM from text: trained, studied, pruned; what train_transformer refuses of it") {
    const temporary_folder folder;
    train_masked(folder);
    CHECK(names(folder / "masked") ==
          std::vector<std::string>{"config.json", "held_out.txt", "model.safetensors", "training.json", "vocab.txt"});
    // "never" does not occur, "cats" less than 15 times: it is spelled, as in "cat ##s"; and characters stay
    CHECK(read_text(folder / "masked" / "vocab.txt") ==
          "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\ndog\n##s\nsee\nc\n##a\n##t\nd\n##o\n##g\n.\n");
    const std::string held_out = read_text(folder / "masked" / "held_out.txt");
    CHECK(std::count(held_out.begin(), held_out.end(), '\n') == 25);
    CHECK(held_out.ends_with("[CLS] dog ##s see cat ##s [SEP]\n"));
    const json training = json::parse(read_text(folder / "masked" / "training.json"));
    CHECK(training["sentences"] == 55);
    CHECK(training["held_out_sentences"] == 25);
    CHECK(training["left_out"] == 1);
    CHECK(training["pieces"] == 17);
    CHECK(training["held_out_nll_per_token"] < training["held_out_nll_by_frequency"]);
    CHECK(training["held_out_nll_by_frequency"] < std::log(17.));

    succeed("zero_shot_pruning",
            {"--model", (folder / "masked").string(), "--data", (folder / "masked" / "held_out.txt").string(),
             "--ratios", "0.1:0.5:0.2", "--seeds", "1", "--random-plans", "2", "--sentences", "4", "--lengths", "3:8",
             "--updates", "2", "--out", (folder / "study").string()});
    const json study = json::parse(read_text(folder / "study" / "curves.json"));
    const double ratios[] = {.1, .3, .5};  // as typed, not .30000000000000004
    REQUIRE(study["points"].size() == 3);
    for (std::size_t i = 0; i < 3; ++i) CHECK(study["points"][i]["ratio"].get<double>() == ratios[i]);
    succeed("prune_model",
            {"--model", (folder / "masked").string(), "--plan",
             (folder / "study" / "plan_encoder_self_4.json").string(), "--out", (folder / "half").string()});
    CHECK(read_text(folder / "half" / "vocab.txt") == read_text(folder / "masked" / "vocab.txt"));
    hr::cpu be{{.threads = 1}};
    model_type whole = load(be, folder / "masked"), half = load(be, folder / "half");
    const hr::prune_plan plan = carried_plan(folder / "half");
    CHECK(plan.count() == 4);
    CHECK(largest_difference(logits(half), logits(whole, &plan)) < 2e-5);

    const std::string lines = (folder / "lines.txt").string(), pieces = (folder / "pieces.txt").string();
    write_text(folder / "long.txt", std::string(400, '.') + "\n");
    write_text(folder / "latin1.txt", "caf\xe9\n");
    write_text(folder / "tree.conllu", "1\tDogs\n");
    const word_list out = {"--out", (folder / "new").string()};
    const auto no = [&](int code, const word_list& words, const std::string& text) {
      refused("train_transformer", folder, code, with(words, out), text);
    };
    no(2, {"--text", lines}, "--text and --pieces need each other");
    no(2, {"--pieces", pieces}, "--text and --pieces need each other");
    no(2, {"--text", lines, "--pieces", pieces, "--data", "d"}, "--text is for a new masked LM");
    no(2, {"--text", lines, "--pieces", pieces, "--least", "0"}, "--least is '0'");
    no(2, {"--text", "--pieces", pieces}, "--text needs a value");
    no(1, {"--text", (folder / "none").string(), "--pieces", pieces}, "none");
    no(1, {"--text", lines, "--pieces", lines}, "lines.txt");
    no(1, {"--text", lines, "--pieces", (folder / "pairs.txt").string()}, "pairs.txt");
    no(1, {"--text", (folder / "long.txt").string(), "--pieces", pieces},
       "long.txt: has fewer than 2 sentences of at most 128 pieces");
    no(1, {"--text", (folder / "latin1.txt").string(), "--pieces", pieces}, "latin1.txt: line 1 ");
    no(1, {"--text", (folder / "tree.conllu").string(), "--pieces", pieces}, "tree.conllu: line 1 ");
  }
}
