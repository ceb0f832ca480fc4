// initialize: weights to begin training with.
#pragma once

#include <cmath>
#include <string_view>
#include <vector>

#include <headred/core/random.hpp>
#include <headred/nn/transformer_weights.hpp>

namespace headred {

/// Glorot and Bengio (2010): matrices uniform in +-sqrt(6/(in + out)); embedding tables uniform with deviation
/// width^-1/2; biases and shifts 0, scales 1. A pure function of the seed and of where a parameter stands among the
/// others, in any precision and on any backend.
template <class T, backend Backend>
void initialize(Backend& be, transformer_weights<T, Backend>& weights, std::uint64_t seed) {
  std::uint64_t number = 0;
  std::vector<T> values;
  visit_parameters(weights, [&](std::string_view name, auto& p) {
    const random_stream random(seed, number++);
    values.assign(static_cast<std::size_t>(p.value.size()), name.ends_with(".scale") ? T(1) : T(0));
    const auto& shape = p.value.shape();
    if (shape.size() == 2 && p.value.size() > 0) {
      const bool table = name.ends_with(".tokens") || name.ends_with(".positions") || name.ends_with(".types");
      const auto in = static_cast<double>(shape.back()), out = static_cast<double>(shape.front());
      const double limit = std::sqrt(table ? 3 / in : 6 / (in + out));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(limit * (2 * random.uniform(i) - 1));
    }
    if (!values.empty()) be.upload(p.value.data(), values.data(), p.value.bytes());
  });
  be.synchronize();
}

}  // namespace headred
