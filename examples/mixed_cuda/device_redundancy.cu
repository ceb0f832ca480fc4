// The one file of the program that nvcc compiles.
#include "device_redundancy.hpp"

#include <headred/cuda.hpp>
#include <headred/distance/jensen_shannon.hpp>

namespace hr = headred;

hr::matrix device_redundancy(std::span<const hr::tensor_view<const float, 4>> sentences) {
  if (sentences.empty()) throw hr::argument_error("device_redundancy: no sentence");
  hr::cuda be;
  const auto& first = sentences.front();
  hr::redundancy<hr::jensen_shannon, hr::cuda> redundancy(be, {first.extent(0), first.extent(1)});
  for (const auto& maps : sentences) {
    if (!maps.contiguous()) throw hr::shape_error("device_redundancy: maps are not densely packed");
    hr::tensor<float, 4, hr::cuda> attention(be, maps.shape());
    be.upload(attention.data(), maps.data(), attention.bytes());
    redundancy.add(attention);
  }
  return redundancy.matrix();
}
