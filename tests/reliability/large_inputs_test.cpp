// Sizes at the upper end of what models have, as far as seconds allow: 4096 tokens, a thousand heads. docs/testing.md
// says how to go further.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/random.hpp>
#include <headred/distance/cosine.hpp>
#include <headred/distance/jensen_shannon.hpp>
#include <headred/distance/pairwise.hpp>
#include <headred/distance/redundancy.hpp>
#include <headred/nn/op/attention.hpp>

#include "environment.hpp"

namespace hr = headred;
using hr::index_t;

namespace {

// By how many megabytes the process has grown at most since this was made; 0 where the system does not say, and under
// sanitizers, which keep what was freed.
class peak_memory {
 public:
  peak_memory() {
    std::ofstream("/proc/self/clear_refs") << "5";  // the peak is now what is in use
    before_ = peak();
  }
  double grown() const { return peak() - before_; }

 private:
  static double peak() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 0;
#endif
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
      if (double kilobytes = 0; word == "VmHWM:" && status >> kilobytes) return kilobytes / 1024;
    return 0;
  }
  double before_;
};

// (1,H,T,T), every row of another shape; the last head is the first once more.
std::vector<float> large_maps(index_t heads, index_t tokens) {
  std::vector<float> maps(static_cast<std::size_t>(heads * tokens * tokens));
  const std::uint64_t begin = headred_test::seed();
  for (index_t h = 0; h + 1 < heads; ++h)
    for (index_t t = 0; t < tokens; ++t) {
      float* const row = maps.data() + (h * tokens + t) * tokens;
      std::uint64_t state = begin + static_cast<std::uint64_t>(h * tokens + t) * 2654435761u + 1;
      double sum = 0;
      for (index_t s = 0; s < tokens; ++s) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        row[s] = static_cast<float>((state >> 40) + 1);
        sum += static_cast<double>(row[s]);
      }
      const auto factor = static_cast<float>(1 / sum);
      for (index_t s = 0; s < tokens; ++s) row[s] *= factor;
    }
  std::copy_n(maps.begin(), tokens * tokens, maps.end() - tokens * tokens);
  return maps;
}

}  // namespace

TEST_SUITE("reliability") {
  TEST_CASE("redundancy of a thousand heads: exact zeros, symmetry, bits of one thread, bounded memory") {
    constexpr index_t heads = 1000, tokens = 32;
    const auto maps = large_maps(heads, tokens);
    const hr::tensor_view<const float, 4> all(maps.data(), {4, heads / 4, tokens, tokens});
    hr::cpu one{{.threads = 1}}, two{{.threads = 2}};
    const peak_memory memory;
    hr::redundancy red{two, hr::head_layout{4, heads / 4}, hr::jensen_shannon{}};
    red.add(all);
    const hr::matrix d = red.matrix();
    CHECK(memory.grown() < 64);  // 8 MB a matrix of doubles, of which there are two, as much of sums, and the rows
    CHECK(d.rows() == heads);
    CHECK(d(0, heads - 1) == 0);
    bool right = true;
    for (index_t i = 0; i < heads; ++i)
      for (index_t j = 0; j < heads; ++j)
        right = right && d(i, j) == d(j, i) && (i == j ? d(i, j) == 0 : d(i, j) >= 0 && d(i, j) <= 1);
    CHECK(right);
    // a corner of it alone
    const hr::matrix corner = hr::pairwise(one, all.narrow(1, 0, 10), hr::jensen_shannon{});
    bool same = true;
    for (index_t i = 0; i < 40; ++i)
      for (index_t j = 0; j < 40; ++j) {
        const auto head = [](index_t k) { return k / 10 * (heads / 4) + k % 10; };
        same = same && corner(i, j) == d(head(i), head(j));
      }
    CHECK(same);
  }

  TEST_CASE("maps of 4096 tokens: distances against long double, memory that does not grow with the map") {
    constexpr index_t heads = 3, tokens = 4096;
    const auto maps = large_maps(heads, tokens);
    hr::cpu be{{.threads = 2}};
    const peak_memory memory;
    const hr::matrix d =
        hr::pairwise(be, hr::tensor_view<const float, 4>(maps.data(), {1, heads, tokens, tokens}), hr::cosine{});
    CHECK(memory.grown() < 32);
    CHECK(d(0, 2) == 0);
    CHECK(d(1, 2) == d(0, 1));
    long double sum = 0;
    for (index_t t = 0; t < tokens; ++t) {
      const float *const p = maps.data() + t * tokens, *const q = p + tokens * tokens;
      long double pp = 0, qq = 0, pq = 0;
      for (index_t s = 0; s < tokens; ++s) {
        const auto x = static_cast<long double>(p[s]), y = static_cast<long double>(q[s]);
        pp += x * x, qq += y * y, pq += x * y;
      }
      sum += 1 - pq / std::sqrt(pp * qq);
    }
    CHECK(d(0, 1) == doctest::Approx(static_cast<double>(sum / tokens)).epsilon(1e-6));
  }

  TEST_CASE("attention over 4096 tokens: rows against long double, no matrix of all pairs") {
    constexpr index_t tokens = 4096, size = 16;
    const hr::random_stream random(headred_test::seed());
    std::vector<float> q(tokens * size), k(q.size()), v(q.size()), out(q.size());
    std::uint64_t drawn = 0;
    for (auto* m : {&q, &k, &v})
      for (float& x : *m) x = static_cast<float>(4 * random.uniform(drawn++) - 2);
    const hr::sequence whole{0, tokens};
    hr::attention_inputs<float> in;
    in.shape = {1, 1, size};
    in.options.causal = true;
    in.queries = in.keys = std::span(&whole, 1);
    in.q = {q.data(), {tokens, size}};
    in.k = {k.data(), {tokens, size}};
    in.v = {v.data(), {tokens, size}};
    hr::cpu be{{.threads = 2}};
    hr::attention_workspace<float> workspace;
    const peak_memory memory;
    hr::attention_forward(be, in, hr::tensor_view<float, 2>(out.data(), {tokens, size}), nullptr, {}, workspace);
    CHECK(memory.grown() < 16);  // all pairs would be 64 MB
    double worst = 0;
    for (const index_t t :
         {index_t{0}, index_t{1}, index_t{31}, index_t{32}, index_t{2047}, index_t{3000}, tokens - 1}) {
      std::vector<long double> p(static_cast<std::size_t>(t + 1));
      long double most = -INFINITY, sum = 0;
      for (index_t s = 0; s <= t; ++s) {
        long double score = 0;
        for (index_t i = 0; i < size; ++i)
          score += static_cast<long double>(in.q(t, i)) * static_cast<long double>(in.k(s, i));
        most = std::max(most, p[static_cast<std::size_t>(s)] = score / 4);
      }
      for (long double& x : p) sum += x = std::exp(x - most);
      for (index_t i = 0; i < size; ++i) {
        long double expected = 0;
        for (index_t s = 0; s <= t; ++s)
          expected += p[static_cast<std::size_t>(s)] / sum * static_cast<long double>(in.v(s, i));
        worst = std::max(worst, std::abs(static_cast<double>(expected) -
                                         static_cast<double>(out[static_cast<std::size_t>(t * size + i)])));
      }
    }
    CHECK(worst < 2e-6);
  }
}
