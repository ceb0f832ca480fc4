// How long the device takes for the distances of a sentence's heads, for attention, and for relevance: best and median
// of 50 runs between two events on the stream, after 5 to warm up.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <headred/core/random.hpp>
#include <headred/cuda.hpp>
#include <headred/lrp/rule_policies.hpp>

namespace hr = headred;

namespace {

// Best and median in milliseconds.
struct timing {
  double best, median;
};
template <class F>
timing time_of(hr::cuda& be, const F& f) {
  const auto check = [](cudaError_t result, const char* call) { hr::detail::check_cuda(result, call); };
  cudaEvent_t start{}, stop{};
  check(cudaEventCreate(&start), "cudaEventCreate");
  check(cudaEventCreate(&stop), "cudaEventCreate");
  std::vector<double> times;
  for (int i = 0; i < 55; ++i) {
    check(cudaEventRecord(start, be.stream()), "cudaEventRecord");
    f();
    check(cudaEventRecord(stop, be.stream()), "cudaEventRecord");
    be.synchronize();
    float took = 0;
    check(cudaEventElapsedTime(&took, start, stop), "cudaEventElapsedTime");
    if (i >= 5) times.push_back(static_cast<double>(took));
  }
  check(cudaEventDestroy(start), "cudaEventDestroy");
  check(cudaEventDestroy(stop), "cudaEventDestroy");
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2]};
}
void report(const char* what, const char* type, const char* shape, const timing& took) {
  std::printf("%-16s %-7s %s: best %8.3f ms, median %8.3f ms\n", what, type, shape, took.best, took.median);
}

template <class T, class Rule>
void time_pairs(hr::cuda& be, const char* type) {
  const hr::index_t layers = 12, heads = 12, tokens = 128, n = layers * heads;
  std::vector<T> maps(static_cast<std::size_t>(n * tokens * tokens));
  const hr::random_stream random(1);
  for (std::size_t row = 0; row < maps.size(); row += static_cast<std::size_t>(tokens)) {
    double sum = 0;
    std::vector<double> x(static_cast<std::size_t>(tokens));
    for (std::size_t k = 0; k < x.size(); ++k) sum += x[k] = std::exp(6 * random.uniform(row + k));
    for (std::size_t k = 0; k < x.size(); ++k) maps[row + k] = static_cast<T>(x[k] / sum);
  }
  hr::tensor<T, 4, hr::cuda> attention(be, {layers, heads, tokens, tokens});
  be.upload(attention.data(), maps.data(), attention.bytes());
  hr::tensor<double, 2, hr::cuda> out(be, {n, n});
  const auto view = std::as_const(attention).view();
  report(Rule::name, type, "144 heads, 128 tokens",
         time_of(be, [&] { hr::device::pairwise(be, view, Rule{}, out.view()); }));
}

// A batch of 32 sentences of 128 tokens, 8 heads of 64: the forward pass that keeps nothing, and both ways.
void time_attention(hr::cuda& be) {
  const hr::index_t heads = 8, size = 64, sentences = 32, tokens = 128, rows = sentences * tokens;
  struct range {
    hr::index_t begin, length;
  };
  std::vector<range> batch_rows;
  for (hr::index_t b = 0; b < sentences; ++b) batch_rows.push_back({b * tokens, tokens});
  const hr::device::attention_batch batch(be, batch_rows, batch_rows);
  std::vector<float> values(static_cast<std::size_t>(rows * heads * size));
  const hr::random_stream random(2);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(2 * random.uniform(i) - 1);
  const auto filled = [&] {
    hr::tensor<float, 2, hr::cuda> x(be, {rows, heads * size});
    be.upload(x.data(), values.data(), x.bytes());
    return x;
  };
  auto q = filled(), k = filled(), v = filled(), dq = filled(), dk = filled(), dv = filled(), out = filled();
  hr::tensor<float, 1, hr::cuda> probabilities(be, {batch.probability_count(heads)});
  hr::device::attention_operands<float> in{heads, heads, size};
  in.q = q.view();
  in.k = k.view();
  in.v = v.view();
  hr::device::attention_gradients<float> gradients;
  gradients.q = dq.view();
  gradients.k = dk.view();
  gradients.v = dv.view();
  hr::tensor<float, 2, hr::cuda> context(be, {rows, heads * size});
  const char* const shape = "32 x 128 tokens, 8 heads of 64, relevance";
  hr::device::attention_forward(be, batch, in, context.view(), probabilities.data());
  const hr::device::attention_relevance_in<float> relevance{dq.view(), dk.view(), dv.view()};
  const auto back = [&](const auto& rule) {
    return time_of(be, [&] {
      hr::device::attention_relevance<float>(be, batch, in, probabilities.data(), context.view(), rule, out.view(),
                                             relevance);
    });
  };
  report("attn", "float", shape, back(hr::attn_rule{}));
  report("epsilon", "float", shape, back(hr::epsilon_rule{}));
  report("alpha_beta", "float", shape, back(hr::alpha_beta_rule{}));
  report("attention", "float", "32 x 128 tokens, 8 heads of 64, forward",
         time_of(be, [&] { hr::device::attention_forward(be, batch, in, out.view()); }));
  report("attention", "float", "32 x 128 tokens, 8 heads of 64, both ways", time_of(be, [&] {
           hr::device::attention_forward(be, batch, in, out.view(), probabilities.data());
           hr::device::attention_gradient(be, batch, in, probabilities.data(), {}, out.view(), gradients);
         }));
}

// A linear layer of 512 inputs and 2048 outputs on 4096 rows: forward, then relevance by sums and by sign.
void time_linear(hr::cuda& be) {
  const hr::index_t rows = 4096, in = 512, out = 2048;
  const hr::random_stream random(3);
  const auto filled = [&](hr::index_t n, hr::index_t m) {
    std::vector<float> values(static_cast<std::size_t>(n * m));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(2 * random.uniform(i) - 1);
    hr::tensor<float, 2, hr::cuda> x(be, {n, m});
    be.upload(x.data(), values.data(), x.bytes());
    return x;
  };
  auto x = filled(rows, in), w = filled(out, in), y = filled(rows, out), r = filled(rows, out), to = filled(rows, in),
       biases = filled(1, out);
  const auto bias = biases.view()[0];
  report("linear", "float", "4096 x 512 x 2048, forward",
         time_of(be, [&] { hr::device::linear_forward<float>(be, x.view(), w.view(), bias, y.view()); }));
  const auto back = [&](const auto& rule) {
    return time_of(be, [&] {
      hr::device::linear_relevance<float>(be, x.view(), w.view(), bias, y.view(), rule, r.view(), to.view());
    });
  };
  report("epsilon", "float", "4096 x 512 x 2048, relevance", back(hr::epsilon_rule{}));
  report("alpha_beta", "float", "4096 x 512 x 2048, relevance", back(hr::alpha_beta_rule{}));
}

}  // namespace

int main() try {
  hr::cuda be;
  cudaDeviceProp device{};
  hr::detail::check_cuda(cudaGetDeviceProperties(&device, be.device()), "cudaGetDeviceProperties");
  std::printf("%s, %d multiprocessors\n", device.name, device.multiProcessorCount);
  time_pairs<float, hr::device::jensen_shannon>(be, "float");
  time_pairs<float, hr::device::bhattacharyya>(be, "float");
  time_pairs<float, hr::device::cosine>(be, "float");
  time_pairs<float, hr::device::pearson>(be, "float");
  time_pairs<double, hr::device::jensen_shannon>(be, "double");
  time_pairs<float, hr::device::distance_correlation>(be, "float");
  time_attention(be);
  time_linear(be);
} catch (const hr::error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
