// The program train_transformer from outside: what it refuses, and that an earlier model stays whole.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tool/run_tool.hpp"

using namespace headred_test;

namespace {

/// Pairs of `letters` letters, each line another; one of them longer.
std::string pairs(int lines, int longer_line = -1, int longer = 0) {
  std::string text;
  for (int i = 0; i < lines; ++i) {
    std::string word;
    for (int n = i == longer_line ? longer : 3 + i % 4; n > 0; --n) word += static_cast<char>('a' + (i + n) % 5);
    text += word + "\t" + word + "\n";
  }
  return text;
}

}  // namespace

TEST_SUITE("tool") {
  TEST_CASE("train_transformer: what it cannot use is refused before anything is trained") {
    const temporary_folder folder;
    write_text(folder / "pairs.tsv", pairs(40));
    write_text(folder / "long.tsv", pairs(40, 38, 70));
    const std::vector<std::string> some = {
        "--data", (folder / "pairs.tsv").string(), "--layers", "1", "--width", "16", "--heads", "2", "--seed", "3"};
    const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
      words.insert(words.end(), more.begin(), more.end());
      return words;
    };
    const std::string model = (folder / "model").string();
    const outcome first = run_tool(with(some, {"--updates", "3", "--checkpoint-every", "2", "--out", model}));
    REQUIRE_MESSAGE(first.code == 0, first.err);
    const auto before = content(folder.path());
    CHECK(before.contains("model/model.safetensors"));
    CHECK(before.contains("model/training.json"));
    const auto refused = [&](int code, const std::vector<std::string>& words, const std::string& text) {
      const outcome o = run_tool(words);
      CAPTURE(words);
      CAPTURE(o.err);
      CHECK(o.code == code);
      CHECK(o.err.starts_with("train_transformer: "));
      CHECK(o.err.find(text) != std::string::npos);
      CHECK(std::count(o.err.begin(), o.err.end(), '\n') == 1);
      CHECK(content(folder.path()) == before);
    };
    const std::string out = (folder / "new" / "out").string();
    refused(2, with(some, {"--model", model, "--out", model}), "--out is the model's own folder, expected another");
    // no update is made where the last line does not fit: a million of them would not end
    refused(1, {"--data", (folder / "long.tsv").string(), "--model", model, "--updates", "1000000", "--out", out},
            "long.tsv: line 39: the source has 70 tokens, expected at most the model's 64 positions");
    refused(1, with(some, {"--updates", "1000000", "--out", (folder / "pairs.tsv").string()}),
            "pairs.tsv: cannot be written: it is not a folder");
    refused(1, with(some, {"--updates", "300", "--rate", "1e38", "--clip", "0", "--out", out}),
            "updates in a row were not finite, expected a lower --rate or other weights");
    // checkpoints: of longer training, of other sentences
    refused(1, with(some, {"--updates", "1", "--resume", "--out", model}),
            "checkpoint.safetensors: is after update 2, expected at most --updates, 1");
    std::string other = pairs(40);
    std::rotate(other.begin(), other.begin() + static_cast<std::ptrdiff_t>(other.find('\n')) + 1, other.end());
    write_text(folder / "pairs.tsv", other);
    const outcome o = run_tool(with(some, {"--updates", "9", "--resume", "--out", model}));
    CHECK(o.code == 1);
    CHECK(o.err.find("was trained on \"20 sentences in ") != std::string::npos);
  }

  TEST_CASE("train_transformer: resumed, it says whose options these are") {
    const temporary_folder folder;
    const std::vector<std::string> words = {
        "--sentences",        "40", "--layers", "1", "--width", "16", "--heads", "2", "--out", (folder / "m").string(),
        "--checkpoint-every", "2"};
    const auto run = [&](const std::vector<std::string>& more) {
      auto all = words;
      all.insert(all.end(), more.begin(), more.end());
      return run_tool(all);
    };
    CHECK(run({"--updates", "3", "--warm-up", "2"}).code == 0);
    const std::string says =
        "resumed: --rate, --warm-up, --clip, --label-smoothing and --seed are those of the "
        "checkpoint\n";
    CHECK(run({"--updates", "5", "--warm-up", "2", "--resume"}).out.find(says) == std::string::npos);
    CHECK(run({"--updates", "5", "--warm-up", "2", "--resume", "--rate", "9"}).out.starts_with(says));
  }
}
