// Which heads attend alike? The maps of two sentences, on a GPU: the redundancy matrix of their heads.
// Built with nvcc -std=c++20 --expt-relaxed-constexpr, or by linking headred::cuda in CMake.
#include <cmath>
#include <cstdio>
#include <vector>

#include <headred/cuda.hpp>
#include <headred/distance/jensen_shannon.hpp>

namespace hr = headred;

namespace {

// Maps (L,H,T,T) such as a model would leave on the device: head h looks back by h positions, more or less sharply.
std::vector<float> sentence(hr::index_t layers, hr::index_t heads, hr::index_t tokens) {
  std::vector<float> maps;
  for (hr::index_t l = 0; l < layers; ++l)
    for (hr::index_t h = 0; h < heads; ++h)
      for (hr::index_t t = 0; t < tokens; ++t) {
        std::vector<float> row;
        float sum = 0;
        for (hr::index_t s = 0; s < tokens; ++s) {
          const auto away = static_cast<float>(t - h - s);
          row.push_back(std::exp(-away * away / static_cast<float>(1 + l)));
          sum += row.back();
        }
        for (const float x : row) maps.push_back(x / sum);
      }
  return maps;
}

}  // namespace

int main() try {
  hr::cuda be;  // the current device, a stream of its own
  const hr::index_t layers = 2, heads = 3;
  hr::redundancy<hr::jensen_shannon, hr::cuda> redundancy(be, {layers, heads});
  for (const hr::index_t tokens : {6, 9}) {
    const auto maps = sentence(layers, heads, tokens);
    hr::tensor<float, 4, hr::cuda> attention(be, {layers, heads, tokens, tokens});
    be.upload(attention.data(), maps.data(), attention.bytes());
    redundancy.add(attention.view());
  }
  const auto d = redundancy.matrix();  // (L H, L H), 0: the same, 1: no key in common
  for (hr::index_t i = 0; i < d.rows(); ++i) {
    for (hr::index_t j = 0; j < d.cols(); ++j) std::printf("%6.3f", d(i, j));
    std::printf("\n");
  }
} catch (const hr::error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
