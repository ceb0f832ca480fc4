// How long the device takes for the distances of a sentence's heads: best and median of 50, after 5 to warm up.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <vector>

#include <headred/core/random.hpp>
#include <headred/cuda.hpp>

namespace hr = headred;

namespace {

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
  std::vector<double> times;
  for (int i = 0; i < 55; ++i) {
    const auto start = std::chrono::steady_clock::now();
    hr::device::pairwise(be, view, Rule{}, out.view());
    be.synchronize();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (i >= 5) times.push_back(took.count());
  }
  std::sort(times.begin(), times.end());
  std::printf("%-16s %-7s 144 heads, 128 tokens: best %8.3f ms, median %8.3f ms\n", Rule::name, type, times.front(),
              times[times.size() / 2]);
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
} catch (const hr::error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
