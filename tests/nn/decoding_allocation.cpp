// A program of its own, since it counts every operator new: a batch like one before is decoded without an allocation,
// from its sources to its last step.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "nn/decoding_support.hpp"

namespace {

std::atomic<bool> counting{false};
std::atomic<long> allocations{0};

void* obtain(std::size_t bytes, std::size_t alignment) {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
  if (bytes == 0) bytes = 1;
  void* p = alignment <= alignof(std::max_align_t)
                ? std::malloc(bytes)
                : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

}  // namespace

void* operator new(std::size_t n) { return obtain(n, 0); }
void* operator new[](std::size_t n) { return obtain(n, 0); }
void* operator new(std::size_t n, std::align_val_t a) { return obtain(n, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return obtain(n, static_cast<std::size_t>(a)); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

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
