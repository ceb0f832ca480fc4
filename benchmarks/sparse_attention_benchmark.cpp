// Attention by lists beside attention by products of matrices under the same mask, 12 heads of 64; --threads=N.
// Counters: density of the mask, whether lists pay for it, how many times faster than dense (best of rounds that take
// turns), FLOP/s of the ones alone, and their share of the FMA peak measured in the same run.
#include <headred/backend/cpu.hpp>
#include <headred/nn/op/sparse_attention.hpp>
#include <headred/sparsity/patterns.hpp>

#include "benchmark_support.hpp"

namespace hr = headred;
using namespace headred_benchmark;

namespace {

constexpr index_t heads = 12, size = 64;
int threads = 2;

/// |i-j| is one of some distances, drawn at random.
struct random_distances {
  std::vector<bool> kept;
  random_distances(index_t tokens, index_t count) : kept(static_cast<std::size_t>(tokens)) {
    const hr::random_stream draws(2);
    for (std::uint64_t n = 0; count > 0; ++n) {
      const auto at = draws.below(n, static_cast<std::uint64_t>(tokens));
      count -= !kept[at];
      kept[at] = true;
    }
  }
  bool operator()(index_t i, index_t j) const { return kept[static_cast<std::size_t>(i < j ? j - i : i - j)]; }
  void require_valid() const {}
};

/// Places drawn one by one.
struct random_places {
  double density;
  bool operator()(index_t i, index_t j) const {
    return hr::random_stream(3, static_cast<std::uint64_t>(i)).uniform(static_cast<std::uint64_t>(j)) < density;
  }
  void require_valid() const {}
};

/// One sentence, both ways, in memory of their own.
struct problem {
  hr::cpu be{{.threads = threads}};
  index_t tokens;
  std::vector<hr::sequence> sentences;
  std::vector<float> q, k, v, out, context, dout, dq, dk, dv, mask, probabilities;
  hr::sparse_mask lists;
  hr::attention_workspace<float> dense_memory;
  hr::sparse_attention_workspace<float> sparse_memory;

  template <class Pattern>
  problem(index_t tokens_, const Pattern& pattern) : tokens(tokens_), sentences{{0, tokens_}} {
    const hr::random_stream random(1);
    std::uint64_t n = 0;
    for (auto* m : {&q, &k, &v, &dout, &out, &context, &dq, &dk, &dv})
      for (index_t i = 0; i < tokens * heads * size; ++i) m->push_back(static_cast<float>(random.uniform(n++) - .5));
    mask.resize(static_cast<std::size_t>(tokens * tokens));
    hr::pattern_mask(be, pattern, hr::tensor_view<float, 2>(mask.data(), {tokens, tokens}));
    lists.assign(be, hr::tensor_view<float, 2>(mask.data(), {tokens, tokens}));
    probabilities.resize(static_cast<std::size_t>(heads * tokens * tokens));
  }
  hr::tensor_view<float, 2> rows(std::vector<float>& m) { return {m.data(), {tokens, heads * size}}; }
  hr::attention_inputs<float> inputs() {
    hr::attention_inputs<float> in;
    in.shape = {heads, heads, size};
    in.queries = in.keys = sentences;
    in.q = rows(q);
    in.k = rows(k);
    in.v = rows(v);
    return in;
  }
  void dense(bool train) {
    auto in = inputs();
    in.mask = hr::tensor_view<const float, 2>(mask.data(), {tokens, tokens});
    hr::attention_forward(be, in, rows(out), train ? probabilities.data() : nullptr, {}, dense_memory);
    if (!train) return;
    hr::attention_gradients<float> d;
    d.q = rows(dq);
    d.k = rows(dk);
    d.v = rows(dv);
    hr::attention_gradient(be, in, probabilities.data(), {}, rows(dout), d, dense_memory);
  }
  void sparse(bool train) {
    const auto in = inputs();
    hr::sparse_attention_forward(be, in, lists, rows(out), train ? probabilities.data() : nullptr, {}, sparse_memory);
    if (train)
      hr::sparse_attention_gradient(be, in, lists, probabilities.data(), {}, rows(dout),
                                    {rows(dq), rows(dk), rows(dv), {}}, sparse_memory);
  }
};

template <class F>
double seconds(const F& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

template <class Pattern>
void add_pattern(const std::string& name, index_t tokens, const Pattern& pattern) {
  for (const bool train : {false, true})
    add(std::string("sparse_attention/") + (train ? "with_gradient" : "forward") + "/f32/" + name + "/" +
            shape_name(heads, tokens, threads),
        [=](benchmark::State& state) {
          problem p(tokens, pattern);
          double dense = 1e9, sparse = 1e9;
          for (index_t round = 0; round < 4096 / tokens; ++round) {
            dense = std::min(dense, seconds([&] { p.dense(train); }));
            sparse = std::min(sparse, seconds([&] { p.sparse(train); }));
          }
          for (auto _ : state) p.sparse(train);
          const double flops = (train ? 12. : 4.) * heads * size * static_cast<double>(p.lists.ones());
          state.counters["density"] = p.lists.density();
          state.counters["pays"] = hr::sparse_attention_pays(p.inputs(), p.lists);
          state.counters["over_dense"] = dense / sparse;
          state.counters["dense_ms"] = 1e3 * dense;
          state.counters["FLOP/s"] = benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
          count_share(state, "share_of_peak", flops, 2 * multiply_add_limit<float>() * threads);
        });
}

}  // namespace

int main(int argc, char** argv) {
  threads = std::max(1, asked_shape::take(argc, argv).threads);
  for (const index_t tokens : {512, 128}) {
    // sparsity 91 %: a band, a learned Toeplitz mask; what logsparse has
    add_pattern("band", tokens, hr::longformer_pattern{.window = tokens * 23 / 512, .global = 0});
    add_pattern("logsparse", tokens, hr::logsparse_pattern{});
    add_pattern("random_distances", tokens, random_distances(tokens, tokens * 46 / 512));
    add_pattern("strided", tokens, hr::strided_pattern{});
    for (const double density : {.3, .4, .5})
      add_pattern("places_" + std::to_string(static_cast<int>(100 * density)), tokens, random_places{density});
  }
  multiply_add_limit<float>();  // now, not within what is timed
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
