// Trains a decoder of two layers on random tokens that repeat, and says which of its heads became induction heads,
// duplicate-token heads and previous-token heads.
// run: 40
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/importance/roles/positional_heads.hpp>
#include <headred/importance/roles/repeated_tokens.hpp>
#include <headred/importance/roles/target_heads.hpp>
#include <headred/nn/adam.hpp>
#include <headred/nn/for_each_attention.hpp>
#include <headred/nn/initialize.hpp>
#include <headred/nn/training_step.hpp>
#include <headred/nn/uniform_config.hpp>

namespace {

using headred::index_t;
constexpr std::int32_t first_token = 3, tokens = 24;

/// Sentence number `index`: 8 to 24 random tokens, twice. The length varies, so that no fixed offset will do.
std::vector<std::int32_t> sentence(std::uint64_t seed, std::uint64_t index) {
  const auto length = 8 + static_cast<index_t>(headred::random_stream(seed, index).below(1u << 20, 17));
  return headred::repeated_random_tokens(seed, index, length, first_token, tokens);
}

/// Each token of the second half is to be told from what stands before it.
void fill(headred::training_batch& batch, std::uint64_t seed, std::uint64_t begin, std::uint64_t count) {
  batch.clear();
  for (std::uint64_t i = begin; i < begin + count; ++i) {
    const auto s = sentence(seed, i);
    batch.source.add(s);
    for (std::size_t t = 0; t < s.size(); ++t)
      batch.labels.push_back(t >= s.size() / 2 && t + 1 < s.size() ? s[t + 1] : -1);
  }
}

void print(const char* name, const std::vector<headred::head_role>& roles) {
  for (const auto& role : roles)
    if (role.evidence.says == headred::verdict::yes)
      std::cout << "  " << name << ' ' << role.head << ": " << std::round(1000 * role.evidence.share) / 10 << " % of "
                << role.evidence.tokens << " tokens\n";
}

}  // namespace

int main(int count, char** words) {
  const int updates = count > 1 ? std::atoi(words[1]) : 1500;
  headred::cpu be;
  headred::transformer<float, headred::cpu> model(be,
                                                  headred::uniform_config({.kind = headred::architecture::decoder,
                                                                           .layers = 2,
                                                                           .width = 64,
                                                                           .heads = 4,
                                                                           .source_vocabulary = first_token + tokens,
                                                                           .max_positions = 64}));
  headred::initialize(be, model.weights(), 1);
  model.train();
  headred::adam<float, headred::cpu> optimizer(be, headred::parameter_list<float, headred::cpu>(model.weights()),
                                               {.beta2 = .98});
  headred::trainer<float, headred::cpu> trainer(
      model, optimizer, {.rate = headred::learning_rate::constant(.002, 100), .longest_gradient = 1});
  headred::training_batch batch;
  for (int i = 0; i < updates; ++i) {
    fill(batch, 1, static_cast<std::uint64_t>(i) * 32, 32);
    trainer.step(batch);
  }
  fill(batch, 2, 0, 64);
  std::cout << updates << " updates; " << trainer.evaluate(batch).loss << " nats per repeated token, guessing "
            << std::log(static_cast<double>(tokens)) << '\n';

  // The repeated tokens have no end token, and it is the second half that asks.
  headred::target_heads induction({2, 4}, "induction"), duplicate({2, 4}, "duplicate_token");
  headred::positional_heads positional({2, 4}, {.end = headred::end_token::included, .rule = {.threshold = .9}});
  headred::key_targets targets;
  headred::for_each_attention(model, batch.source, {}, [&](headred::attention_kind, index_t b, const auto& layers) {
    const auto s = sentence(2, static_cast<std::uint64_t>(b));
    headred::induction_targets(s, targets);
    induction.add(layers, targets);
    headred::duplicate_targets(s, targets);
    duplicate.add(layers, targets);
    positional.add(layers);
  });
  print("induction", induction.roles());
  print("duplicate token", duplicate.roles());
  print("positional", positional.roles());
  for (index_t layer = 0; layer < 2; ++layer)
    for (index_t head = 0; head < 4; ++head)
      std::cout << headred::head_id{layer, head} << ": prefix matching " << induction.mass({layer, head})
                << ", duplicates " << duplicate.mass({layer, head}) << ", offset "
                << positional.best_offset({layer, head}) << " at "
                << positional.evidence({layer, head}, positional.best_offset({layer, head})).share << '\n';
}
