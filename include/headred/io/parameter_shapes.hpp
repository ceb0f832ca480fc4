// parameter_shapes: names and shapes of a model's parameters, without a byte of memory for them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <headred/nn/transformer_weights.hpp>

namespace headred::detail {

/// A backend whose tensors have shapes and no elements.
struct shape_backend {
  using space = device_space;
  void* allocate(std::size_t) { return nullptr; }
  void deallocate(void*, std::size_t) {}
  void upload(void*, const void*, std::size_t) {}
  void download(void*, const void*, std::size_t) {}
  void synchronize() {}
  template <class F>
  void for_each(index_t, const F&) {}
  template <class T, class Term, class Combine, class Sink>
  void reduce(index_t, index_t, T, const Term&, const Combine&, const Sink&) {}
  template <class T, class A, class B, class C>
  void gemm(T, A, B, T, C) {}
};

struct parameter_shape {
  std::string name;  // as visit_parameters gives it
  std::vector<index_t> shape;
  friend bool operator==(const parameter_shape&, const parameter_shape&) = default;
};

template <class Weights>
std::vector<parameter_shape> shapes_of(Weights& weights) {
  std::vector<parameter_shape> all;
  visit_parameters(weights, [&](const std::string& name, auto& parameter) {
    const auto& shape = parameter.value.shape();
    all.push_back({name, {shape.begin(), shape.end()}});
  });
  return all;
}

/// In the order of visit_parameters. Throws argument_error for a configuration that no model can have.
inline std::vector<parameter_shape> parameter_shapes(const transformer_config& config) {
  shape_backend be;
  transformer_weights<float, shape_backend> weights(be, config);
  return shapes_of(weights);
}

}  // namespace headred::detail
