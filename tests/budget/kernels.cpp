// One kernel on a small fixed input, named on the command line; without a name, lists them. An instruction counter watches
// headred_measured alone.
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/random.hpp>
#include <headred/distance.hpp>
#include <headred/nn/op/attention.hpp>

extern "C" __attribute__((noinline)) void headred_measured(const std::function<void()>& work) { work(); }

namespace {

namespace hr = headred;
using hr::index_t;

/// Rows of positive numbers that sum to 1, far from uniform.
std::vector<float> attention_maps(index_t heads, index_t tokens) {
  std::vector<float> maps(static_cast<std::size_t>(heads * tokens * tokens));
  const hr::random_stream draws(1);
  for (index_t row = 0; row < heads * tokens; ++row) {
    float* const p = maps.data() + row * tokens;
    float sum = 0;
    for (index_t k = 0; k < tokens; ++k) {
      p[k] = static_cast<float>(std::exp(4 * draws.uniform(static_cast<std::uint64_t>(row * tokens + k))));
      sum += p[k];
    }
    for (index_t k = 0; k < tokens; ++k) p[k] /= sum;
  }
  return maps;
}

std::vector<float> numbers(index_t count, std::uint64_t seed) {
  std::vector<float> all(static_cast<std::size_t>(count));
  const hr::random_stream draws(seed);
  for (index_t i = 0; i < count; ++i)
    all[static_cast<std::size_t>(i)] = static_cast<float>(draws.uniform(static_cast<std::uint64_t>(i)) - .5);
  return all;
}

struct kernel {
  std::string name;
  std::function<void()> run;
};

template <class Distance>
kernel pairs_of(index_t heads, index_t tokens) {
  return {std::string(Distance::name), [=] {
            hr::cpu be{{.threads = 1}};
            const auto maps = attention_maps(heads, tokens);
            const hr::tensor_view<const float, 4> view(maps.data(), {1, heads, tokens, tokens});
            hr::redundancy<Distance, hr::cpu> sums(be, hr::head_layout(1, heads));
            sums.add(view);  // what is set up once does not count
            headred_measured([&] { sums.add(view); });
          }};
}

void product() {
  constexpr index_t n = 96;
  hr::cpu be{{.threads = 1}};
  const auto a = numbers(n * n, 1), b = numbers(n * n, 2);
  std::vector<float> c(a.size());
  const hr::tensor_view<const float, 3> x(a.data(), {1, n, n}), y(b.data(), {1, n, n});
  const hr::tensor_view<float, 3> z(c.data(), {1, n, n});
  be.gemm(1.f, x, y, 0.f, z);
  headred_measured([&] { be.gemm(1.f, x, y, 0.f, z); });
}

void attend() {
  constexpr index_t heads = 8, size = 16, tokens = 64, width = heads * size;
  hr::cpu be{{.threads = 1}};
  const auto q = numbers(tokens * width, 1), k = numbers(tokens * width, 2), v = numbers(tokens * width, 3);
  std::vector<float> out(q.size());
  const hr::sequence sentence{0, tokens};
  hr::attention_inputs<float> in;
  in.shape = {.heads = heads, .kv_heads = heads, .head_size = size};
  in.queries = in.keys = std::span(&sentence, 1);
  in.q = {q.data(), {tokens, width}};
  in.k = {k.data(), {tokens, width}};
  in.v = {v.data(), {tokens, width}};
  const hr::tensor_view<float, 2> to(out.data(), {tokens, width});
  hr::attention_workspace<float> workspace;
  hr::attention_forward(be, in, to, nullptr, {}, workspace);
  headred_measured([&] { hr::attention_forward(be, in, to, nullptr, {}, workspace); });
}

std::vector<kernel> kernels() {
  return {pairs_of<hr::cosine>(24, 32),
          pairs_of<hr::pearson>(24, 32),
          pairs_of<hr::jensen_shannon>(24, 32),
          pairs_of<hr::bhattacharyya>(24, 32),
          pairs_of<hr::distance_correlation>(24, 32),
          pairs_of<hr::procrustes>(16, 32),
          pairs_of<hr::canonical_correlation>(16, 32),
          {"gemm", product},
          {"attention_forward", attend}};
}

}  // namespace

int main(int count, char** words) {
  for (const kernel& k : kernels()) {
    if (count < 2) {
      std::puts(k.name.c_str());
    } else if (k.name == words[1]) {
      k.run();
      return 0;
    }
  }
  return count < 2 ? 0 : 1;
}
