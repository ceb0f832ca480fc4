// Maps that a thrust::device_vector holds, and distances left in another one: nothing is copied between the libraries.
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

#include <headred/cuda.hpp>

namespace hr = headred;

int main() try {
  const hr::index_t heads = 6, tokens = 8;
  std::vector<float> maps;  // (1,H,T,T): head h looks back by h positions
  for (hr::index_t h = 0; h < heads; ++h)
    for (hr::index_t t = 0; t < tokens; ++t) {
      std::vector<float> row;
      float sum = 0;
      for (hr::index_t s = 0; s < tokens; ++s) {
        row.push_back(std::exp(-std::fabs(static_cast<float>(t - h - s))));
        sum += row.back();
      }
      for (const float x : row) maps.push_back(x / sum);
    }
  const thrust::device_vector<float> attention(maps.begin(), maps.end());
  thrust::device_vector<double> distances(static_cast<std::size_t>(heads * heads));

  hr::cuda be;
  hr::device::pairwise(be, hr::device_view(attention, {1, heads, tokens, tokens}), hr::device::jensen_shannon{},
                       hr::device_view(distances, {heads, heads}));
  be.synchronize();  // Thrust works on another stream
  const thrust::host_vector<double> on_host = distances;
  const auto at = std::max_element(on_host.begin(), on_host.end()) - on_host.begin();
  std::printf("farthest apart: heads %td and %td, %.3f\n", at / heads, at % heads, on_host[at]);
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
