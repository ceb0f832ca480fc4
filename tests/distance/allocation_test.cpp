// From the second sentence of a length on, adding one allocates nothing.
#include <doctest/doctest.h>

#include "counting_new.hpp"
#include "distance/every_distance.hpp"
#include "environment.hpp"

namespace hr = headred;
using namespace headred_test;

namespace {

// Close pairs, zero rows and constant rows in every sentence.
attention_sample eventful(hr::index_t tokens, std::uint64_t seed) {
  auto sample = make_sample(sample_kind::random, 2, 5, tokens, tokens, seed);
  const auto twins = make_sample(sample_kind::twins_1e9, 1, 4, tokens, tokens, seed);
  std::copy(twins.values.begin(), twins.values.end(), sample.values.begin());
  const auto zeros = make_sample(sample_kind::zero_rows, 1, 1, tokens, tokens, seed);
  std::copy(zeros.values.begin(), zeros.values.end(), sample.row(9, 0));
  return sample;
}

}  // namespace

TEST_SUITE("distance") {
  TEST_CASE_TEMPLATE("adding a second sentence of one shape allocates nothing", Real, float, double) {
    for (const int threads : {1, 3}) {
      hr::cpu be{{.threads = threads}};
      std::vector<attention_sample> sentences;
      for (std::uint64_t s = 0; s < 3; ++s) sentences.push_back(eventful(12, seed() + s));
      for_every_distance([&](const auto& policy) {
        hr::redundancy<std::decay_t<decltype(policy)>, hr::cpu> red{be, {2, 5}};
        red.template add<Real>(sentences[0].view());
        const long before = allocations;
        counting = true;
        for (const auto& s : sentences) red.template add<Real>(s.view());
        counting = false;
        const long found = allocations - before;
        CHECK_MESSAGE(found == 0, name_of(policy), ": ", found, " allocations with ", threads, " threads");
      });
    }
  }

  TEST_CASE("a thousand small sentences in bounded memory") {
    hr::cpu be{{.threads = 1}};
    std::vector<attention_sample> sentences;
    for (hr::index_t t = 3; t < 13; ++t) sentences.push_back(eventful(t, seed()));
    for_every_distance([&](const auto& policy) {
      hr::redundancy<std::decay_t<decltype(policy)>, hr::cpu> red{be, {2, 5}};
      for (const auto& s : sentences) red.add(s.view());
      const long before = allocations;
      counting = true;
      for (int i = 0; i < 990; ++i) red.add(sentences[static_cast<std::size_t>(i % 10)].view());
      counting = false;
      CHECK(allocations - before == 0);
      CHECK(red.sentences() == 1000);
    });
  }
}
