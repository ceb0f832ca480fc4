// A program of which one file is CUDA: distances on the GPU, everything else in plain C++ with the rest of headred.
#include <cmath>
#include <cstdio>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/distance/jensen_shannon.hpp>
#include <headred/distance/redundancy.hpp>

#include "device_redundancy.hpp"

namespace hr = headred;

int main() try {
  // (2,2,T,T): head h looks back by h positions, layer 1 less sharply
  const hr::index_t layers = 2, heads = 2;
  std::vector<std::vector<float>> memory;
  std::vector<hr::tensor_view<const float, 4>> sentences;
  for (const hr::index_t tokens : {6, 9}) {
    std::vector<float> maps;
    for (hr::index_t head = 0; head < layers * heads; ++head)
      for (hr::index_t t = 0; t < tokens; ++t) {
        float sum = 0;
        for (const bool divide : {false, true})
          for (hr::index_t s = 0; s < tokens; ++s) {
            const auto away = static_cast<float>(t - head % heads - s);
            const float x = std::exp(-away * away / static_cast<float>(1 + head / heads));
            if (divide)
              maps.push_back(x / sum);
            else
              sum += x;
          }
      }
    memory.push_back(std::move(maps));
    sentences.push_back({memory.back().data(), {layers, heads, tokens, tokens}});
  }

  const hr::matrix on_device = device_redundancy(sentences);

  hr::cpu be;
  hr::redundancy<hr::jensen_shannon, hr::cpu> redundancy(be, {layers, heads});
  for (const auto& maps : sentences) redundancy.add(maps);
  const hr::matrix on_host = redundancy.matrix();

  double apart = 0;
  for (hr::index_t i = 0; i < on_host.rows(); ++i) {
    for (hr::index_t j = 0; j < on_host.cols(); ++j) {
      std::printf("%6.3f", on_device(i, j));
      apart = std::fmax(apart, std::fabs(on_device(i, j) - on_host(i, j)));
    }
    std::printf("\n");
  }
  std::printf("device and host agree to 2e-6: %s\n", apart < 2e-6 ? "yes" : "no");
} catch (const hr::error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
