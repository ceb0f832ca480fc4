// A program of its own, since it counts every operator new: a batch like one before is decoded without an allocation,
// from its sources to its last step.
#include <cstdio>

#include "counting_new.hpp"
#include "nn/decoding_support.hpp"

namespace {

using namespace decoding_test;

/// Allocations of a batch with rows that are dropped and copied; the same batches ran before.
long allocations_of(const hr::transformer_config& config, int threads) {
  hr::cpu be{{.threads = threads}};
  auto model = random_model<float>(be, config, 1);
  decoder_type<float> decoder(model);
  const index_t sentences = 24;
  std::vector<index_t> lengths, parents;
  for (index_t b = 0; b < sentences; ++b) lengths.push_back(1 + b % 5);
  const auto source = random_batch(lengths, config.source.vocabulary, 2);
  std::vector<hr::token_id> tokens;
  const auto batch = [&] {
    if (config.has_cross())
      decoder.begin(source, 2);
    else
      decoder.begin(sentences, 2);
    for (index_t step = 0; step < 40; ++step) {
      tokens.assign(static_cast<std::size_t>(decoder.rows()), static_cast<hr::token_id>(step % 4));
      decoder.step(tokens);
      parents.clear();
      for (index_t r = 0; r < decoder.rows() && static_cast<index_t>(parents.size()) < 2 * sentences - step; ++r) {
        parents.push_back(r);
        if (step % 2 == 0) parents.push_back(r);
      }
      if (static_cast<index_t>(parents.size()) > 2 * sentences) parents.resize(static_cast<std::size_t>(2 * sentences));
      decoder.select(parents);
    }
  };
  // whichever thread takes a block, every lane has had its share after some rounds
  for (int round = 0; round < 20; ++round) batch();
  const long before = allocations;
  counting = true;
  batch();
  counting = false;
  return allocations - before;
}

}  // namespace

int main() {
  counting = true;
  const hr::token_batch seen = random_batch({1}, 5, 1);
  counting = false;
  if (allocations == 0 || seen.size() != 1) {
    std::printf("operator new is not counted\n");
    return 1;
  }
  int failed = 0;
  for (const auto& config : {uneven(), shared(), causal()}) {
    const long found = allocations_of(config, 1);
    if (found == 0) continue;
    std::printf("architecture %d: %ld allocations, expected 0\n", static_cast<int>(config.kind), found);
    failed = 1;
  }
  return failed;
}
